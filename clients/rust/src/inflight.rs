//! Counts the deliveries that are under way, so that a close can wait for them.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::timeout};

#[derive(Clone, Copy, Debug, Default)]
struct State {
    closing: bool,
    count: usize,
}

/// How many deliveries run, and whether new ones are still taken.
#[derive(Debug, Default)]
pub(crate) struct Inflight(watch::Sender<State>);

impl Inflight {
    pub(crate) fn closing(&self) -> bool {
        self.0.borrow().closing
    }

    /// A delivery begins, until what is returned is dropped. `None` where no delivery is taken any more.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Entered> {
        let mut taken = false;
        self.0.send_if_modified(|state| {
            taken = !state.closing;
            state.count += usize::from(taken);
            false // No task waits for more deliveries.
        });
        taken.then(|| Entered(Arc::clone(self)))
    }

    /// A delivery that was taken before the client closes is counted, until what is returned is dropped.
    pub(crate) fn join(self: &Arc<Self>) -> Entered {
        self.0.send_modify(|state| state.count += 1);
        Entered(Arc::clone(self))
    }

    /// Waits until no new delivery is taken any more.
    pub(crate) async fn stopped(&self) {
        let mut changes = self.0.subscribe();
        drop(changes.wait_for(|state| state.closing).await);
    }

    /// Refuses new deliveries.
    pub(crate) fn stop(&self) {
        self.0.send_modify(|state| state.closing = true);
    }

    /// Waits for the deliveries that run. False where some still run after `grace`.
    pub(crate) async fn ended(&self, grace: Duration) -> bool {
        let mut changes = self.0.subscribe();
        timeout(grace, changes.wait_for(|state| state.count == 0)).await.is_ok()
    }
}

/// A delivery that is under way.
#[derive(Debug)]
pub(crate) struct Entered(Arc<Inflight>);

impl Drop for Entered {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.count -= 1);
    }
}
