//! Reports changes of entries that this server has written to the calls that wait for them. Where no call waits, the
//! change of an entry costs one relaxed atomic read.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use crate::domain::{Entry, Key, StoreTime};

/// Receives the changes.
pub(super) trait Listener: Send + Sync {
    /// The entry was written as it stands here, at this instant of the store's clock.
    fn written(&self, entry: &Entry, now: StoreTime);

    /// The entry of this key is COMPLETED.
    fn completed(&self, key: &Key);

    /// The entry of this key may have changed.
    fn changed(&self, key: &Key);
}

/// See the module.
#[derive(Default)]
pub(super) struct Changes {
    waiting: AtomicUsize,
    listener: OnceLock<Box<dyn Listener>>,
}

impl Changes {
    /// Reports to this listener from now on. The first one stays.
    pub(super) fn report_to(&self, listener: Box<dyn Listener>) {
        self.listener.get_or_init(|| listener);
    }

    /// One more call begins to wait.
    pub(super) fn begin_wait(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    /// A call ends its wait.
    pub(super) fn end_wait(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    /// How many calls wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// The write of this entry, decided at this instant of the store's clock, is durable. A mark does not change the instant of
    /// the entry's last change.
    pub(super) fn written(&self, entry: &Entry, now: StoreTime) {
        if let Some(listener) = self.listener() {
            listener.written(entry, now);
        }
    }

    /// The completion of this key's entry is durable.
    pub(super) fn completed(&self, key: &Key) {
        if let Some(listener) = self.listener() {
            listener.completed(key);
        }
    }

    /// The entry of this key may have changed.
    pub(super) fn changed(&self, key: &Key) {
        if let Some(listener) = self.listener() {
            listener.changed(key);
        }
    }

    /// Reports these keys when the report is dropped.
    pub(super) fn report_at_end(self: &Arc<Self>, keys: Vec<Key>) -> ReportAtEnd {
        ReportAtEnd { changes: Arc::clone(self), keys }
    }

    /// `None` if no call waits. A call that begins to wait concurrently is answered by the next poll.
    fn listener(&self) -> Option<&dyn Listener> {
        if self.waiting() == 0 { None } else { self.listener.get().map(|listener| &**listener) }
    }
}

/// Reports, when it is dropped, that the entries of these keys may have changed. The job that changes them owns it: the call that
/// asked for the change may end before the job does.
pub(super) struct ReportAtEnd {
    changes: Arc<Changes>,
    keys: Vec<Key>,
}

impl Drop for ReportAtEnd {
    fn drop(&mut self) {
        for key in &self.keys {
            self.changes.changed(key);
        }
    }
}
