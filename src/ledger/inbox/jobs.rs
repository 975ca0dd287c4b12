//! What waits for a session of the inbox: Stores, which are carried out in batches, and looks for `ClaimNext`. The two take turns.

use std::collections::VecDeque;
use std::sync::PoisonError;

use tokio::sync::{Notify, oneshot};

use super::look::LookJob;
use crate::common::still_counted::StillCounted;
use crate::domain::{Reason, Rejection, StoreRequest, Stored};
use crate::ledger::refusals::{draining, store_unavailable};
use crate::ledger::runtime::{Mutex, MutexGuard};

/// The bounds of one batch of Stores.
const BATCH_MAX: usize = 1_000;
const BATCH_BYTES_MAX: usize = 4 << 20;

/// A Store that waits, and where its answer is sent.
pub(super) struct StoreJob {
    pub(super) request: StoreRequest,
    pub(super) answer: oneshot::Sender<Stored>,
}

/// The next work of a session.
pub(super) enum Job {
    Store(Vec<StoreJob>),
    Look(Box<LookJob>),
}

#[derive(Default)]
struct Waiting {
    stores: VecDeque<StoreJob>,
    bytes: usize,
    looks: VecDeque<LookJob>,
    looked_last: bool,
    closed: bool,
    outdated: bool,
}

/// See the module.
pub(super) struct Jobs {
    waiting: Mutex<Waiting>,
    stirred: Notify,
    stores_max: usize,
    bytes_max: usize,
}

impl Jobs {
    pub(super) fn new(stores_max: usize, bytes_max: usize) -> Jobs {
        Jobs { waiting: Mutex::default(), stirred: Notify::new(), stores_max, bytes_max }
    }

    /// Adds Stores of one call: all or none.
    ///
    /// # Errors
    /// `OVERLOADED`, `DRAINING`, `STORE_UNAVAILABLE`.
    pub(super) fn push(&self, jobs: Vec<StoreJob>) -> Result<(), Rejection> {
        let bytes: usize = jobs.iter().map(|job| job.request.bytes()).sum();
        let mut waiting = self.waiting();
        waiting.accepts()?;
        let has_room = waiting.stores.is_empty()
            || (waiting.stores.len() + jobs.len() <= self.stores_max
                && waiting.bytes.saturating_add(bytes) <= self.bytes_max);
        if !has_room {
            return Err(full());
        }
        waiting.bytes += bytes;
        waiting.stores.extend(jobs);
        drop(waiting);
        self.stirred.notify_one();
        Ok(())
    }

    /// Adds a look. Each consumer has at most one at a time.
    ///
    /// # Errors
    /// `DRAINING`, `STORE_UNAVAILABLE`.
    pub(super) fn look(&self, job: LookJob) -> Result<(), Rejection> {
        let mut waiting = self.waiting();
        waiting.accepts()?;
        waiting.looks.push_back(job);
        drop(waiting);
        self.stirred.notify_one();
        Ok(())
    }

    /// The next work; `None` once nothing more is accepted and nothing waits.
    pub(super) async fn next(&self) -> Option<Job> {
        loop {
            let stirred = self.stirred.notified();
            {
                let mut waiting = self.waiting();
                if let Some(job) = waiting.take() {
                    if !waiting.is_empty() {
                        self.stirred.notify_one();
                    }
                    return Some(job);
                }
                if waiting.closed {
                    self.stirred.notify_one();
                    return None;
                }
            }
            stirred.await;
        }
    }

    /// Accepts nothing more.
    pub(super) fn close(&self) {
        self.waiting().closed = true;
        self.stirred.notify_one();
    }

    /// Accepts nothing more, and refuses what waits, since this server is behind the schema fence: its sessions have ended.
    pub(super) fn outdated(&self) {
        let mut waiting = self.waiting();
        waiting.outdated = true;
        waiting.bytes = 0;
        let (stores, looks) = (std::mem::take(&mut waiting.stores), std::mem::take(&mut waiting.looks));
        drop(waiting);
        for job in stores {
            let _gone = job.answer.send(Err(store_unavailable()));
        }
        for job in looks {
            let _gone = job.answer.send(Err(store_unavailable()));
        }
    }

    pub(super) fn still_counted(&self, left: &mut StillCounted) {
        let waiting = self.waiting();
        left.note("Stores that wait", waiting.stores.len());
        left.note("bytes of Stores that wait", waiting.bytes);
        left.note("looks that wait", waiting.looks.len());
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn accepts(&self) -> Result<(), Rejection> {
        if self.outdated {
            return Err(store_unavailable());
        }
        if self.closed { Err(draining()) } else { Ok(()) }
    }

    fn is_empty(&self) -> bool {
        self.stores.is_empty() && self.looks.is_empty()
    }

    fn take(&mut self) -> Option<Job> {
        if !self.looks.is_empty() && (self.stores.is_empty() || !self.looked_last) {
            self.looked_last = true;
            return self.looks.pop_front().map(|look| Job::Look(Box::new(look)));
        }
        self.looked_last = false;
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while let Some(job) = self.stores.front() {
            let more = job.request.bytes();
            if batch.len() >= BATCH_MAX || (!batch.is_empty() && bytes + more > BATCH_BYTES_MAX) {
                break;
            }
            bytes += more;
            batch.extend(self.stores.pop_front());
        }
        self.bytes -= bytes;
        (!batch.is_empty()).then_some(Job::Store(batch))
    }
}

fn full() -> Rejection {
    Rejection::new(
        Reason::Overloaded,
        "too many messages wait to be stored on this server; nothing was changed: try again later",
    )
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::domain::{Key, Store};

    fn store(id: &str, bytes: usize) -> StoreJob {
        let store = Store { fingerprint: Bytes::new(), occurred_at: None, traceparent: String::new() };
        let request = StoreRequest {
            key: Key::new("c", "s", id),
            store,
            message: vec![0; bytes].into(),
            event_type: String::new(),
        };
        StoreJob { request, answer: oneshot::channel().0 }
    }

    #[tokio::test]
    async fn next_batch_is_bounded_by_number_and_bytes() {
        // The bytes of each message, their number, and the sizes of the batches.
        for (bytes, count, batches) in
            [(10, 2_500, &[1_000, 1_000, 500][..]), (1 << 20, 5, &[3, 2]), (5 << 20, 2, &[1, 1])]
        {
            let jobs = Jobs::new(10_000, 1 << 30);
            jobs.push((0..count).map(|id| store(&id.to_string(), bytes)).collect()).unwrap();
            for size in batches {
                let Some(Job::Store(batch)) = jobs.next().await else { panic!("no batch") };
                assert_eq!(batch.len(), *size, "{bytes}");
            }
            jobs.close();
            assert!(jobs.next().await.is_none());
            let mut left = StillCounted::default();
            jobs.still_counted(&mut left);
            assert!(left.is_empty(), "{left:?}");
        }
    }

    #[test]
    fn jobs_that_accept_nothing_refuse_stores() {
        type Ends = fn(&Jobs);
        let ends: [(Ends, Reason, bool); 2] =
            [(Jobs::close, Reason::Draining, false), (Jobs::outdated, Reason::StoreUnavailable, true)];
        for (end, reason, refuses_waiting) in ends {
            let jobs = Jobs::new(9, 1_000);
            let (answer, mut arrives) = oneshot::channel();
            jobs.push(vec![StoreJob { answer, ..store("waits", 10) }]).unwrap();
            end(&jobs);
            let refused = arrives.try_recv().ok().map(|answer| answer.unwrap_err().reason);
            assert_eq!(
                refused,
                refuses_waiting.then_some(reason),
                "what was accepted before is carried out, or refused"
            );
            assert_eq!(jobs.push(vec![store("late", 10)]).unwrap_err().reason, reason);
            let mut left = StillCounted::default();
            jobs.still_counted(&mut left);
            assert_eq!(left.is_empty(), refuses_waiting, "{left:?}");
        }
    }

    #[tokio::test]
    async fn push_beyond_bounds_is_overloaded_and_counts_nothing() {
        for (stores_max, bytes_max, first, second, fits) in [
            (3, 1_000, 1, 2, true),
            (2, 1_000, 1, 2, false),
            (9, 250, 1, 1, true),
            (9, 150, 1, 1, false),
            // A call that is larger than the bound fits where nothing else waits.
            (1, 10, 2, 1, false),
        ] {
            let jobs = Jobs::new(stores_max, bytes_max);
            let of = |count: usize| (0..count).map(|id| store(&id.to_string(), 100)).collect();
            jobs.push(of(first)).unwrap();
            let pushed = jobs.push(of(second));
            assert_eq!(pushed.is_ok(), fits, "{stores_max} {bytes_max}");
            if let Err(rejection) = pushed {
                assert_eq!(rejection.reason, Reason::Overloaded);
            }
            jobs.close();
            while jobs.next().await.is_some() {}
            let mut left = StillCounted::default();
            jobs.still_counted(&mut left);
            assert!(left.is_empty(), "{left:?}");
        }
    }
}
