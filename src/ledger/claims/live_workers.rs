//! How many workers have a session. A worker without one leaves the work to the others; callers are refused only while no
//! worker has a session.

use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::ledger::runtime::pause;

/// The workers that have a session.
#[derive(Debug)]
pub(crate) struct LiveWorkers {
    live: watch::Sender<usize>,
    /// The store answered another session: an attempt to connect is worthwhile again.
    answers: Notify,
}

impl Default for LiveWorkers {
    fn default() -> LiveWorkers {
        LiveWorkers { live: watch::Sender::new(0), answers: Notify::new() }
    }
}

/// Counts one worker as live until this is dropped.
pub(super) struct LiveWorker<'a>(&'a LiveWorkers);

impl Drop for LiveWorker<'_> {
    fn drop(&mut self) {
        self.0.live.send_modify(|number| *number -= 1);
    }
}

impl LiveWorkers {
    pub(super) fn add(&self) -> LiveWorker<'_> {
        self.live.send_modify(|number| *number += 1);
        LiveWorker(self)
    }

    /// Number of workers that have a session.
    pub(crate) fn count(&self) -> usize {
        *self.live.borrow()
    }

    /// Resolves once a worker has a session.
    pub(super) async fn any(&self) {
        // Never fails: the sender lives as long as `self`.
        let _some = self.live.subscribe().wait_for(|number| *number > 0).await.is_ok();
    }

    /// Resolves once no worker has had a session for this long.
    pub(super) async fn none_for(&self, time: Duration) {
        loop {
            let _none = self.live.subscribe().wait_for(|number| *number == 0).await.is_ok();
            let any = self.any();
            tokio::select! {
                biased;
                () = any => {}
                () = pause(time) => return,
            }
        }
    }

    /// Notes that the store answered another session.
    pub(crate) fn store_answered(&self) {
        self.answers.notify_waiters();
    }

    /// Waits before the next attempt to connect; shorter if the store answers another session meanwhile.
    pub(super) async fn back_off(&self, time: Duration) {
        tokio::select! {
            biased;
            () = self.answers.notified() => {}
            () = pause(time) => {}
        }
    }
}
