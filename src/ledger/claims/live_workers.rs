//! How many workers have a session. One that has none leaves the work to the others; only where none has one
//! are callers refused.

use std::time::Duration;

use tokio::sync::{Notify, watch};

use crate::ledger::runtime::pause;

/// The workers that have a session.
#[derive(Debug)]
pub(crate) struct Crew {
    at_work: watch::Sender<usize>,
    /// The store answered somebody: it is worth while to try again.
    answers: Notify,
}

impl Default for Crew {
    fn default() -> Crew {
        Crew { at_work: watch::Sender::new(0), answers: Notify::new() }
    }
}

/// A worker that has a session, for as long as it has it.
pub(super) struct AtWork<'a>(&'a Crew);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.at_work.send_modify(|number| *number -= 1);
    }
}

impl Crew {
    pub(super) fn at_work(&self) -> AtWork<'_> {
        self.at_work.send_modify(|number| *number += 1);
        AtWork(self)
    }

    /// How many workers have a session.
    pub(crate) fn at_work_now(&self) -> usize {
        *self.at_work.borrow()
    }

    /// Resolves once some worker has a session.
    pub(super) async fn any(&self) {
        // It lives as long as its sender, which is here.
        let _some = self.at_work.subscribe().wait_for(|number| *number > 0).await.is_ok();
    }

    /// Resolves once no worker has had a session for so long.
    pub(super) async fn none_for(&self, time: Duration) {
        loop {
            let _none = self.at_work.subscribe().wait_for(|number| *number == 0).await.is_ok();
            let any = self.any();
            tokio::select! {
                biased;
                () = any => {}
                () = pause(time) => return,
            }
        }
    }

    /// Somebody else was answered by the store.
    pub(crate) fn store_answers(&self) {
        self.answers.notify_waiters();
    }

    /// Rests before the next try; for less where the store answers somebody meanwhile.
    pub(super) async fn rest(&self, time: Duration) {
        tokio::select! {
            biased;
            () = self.answers.notified() => {}
            () = pause(time) => {}
        }
    }
}
