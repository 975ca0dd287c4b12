//! The read scheduler: connections with more to read than one poll budget wait here for a permit. Permits are granted round
//! robin between addresses, and round robin between the connections of an address: a flood on many connections of one
//! address delays others little.
//!
//! Without it each connection with more to read woke itself. Next to a thousand flooding connections thousands of tasks were
//! ready, more than a thread's queue holds, and the tasks of the store waited behind them: one healthy call took 385 s, and
//! answers were `OUTCOME_UNKNOWN` or `DEADLINE_EXCEEDED` (`edge::floods`, which reports the slowest call).

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::accounts::network;
use crate::listener::fairness::adaptive_budget::AdaptiveBudget;

/// Permits for each thread of the runtime.
pub(in crate::listener) const PERMITS_PER_THREAD: usize = 4;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(in crate::listener) struct ReadScheduler(Arc<SchedulerState>);

struct SchedulerState {
    budget: AdaptiveBudget,
    waiting: Mutex<WaitingConnections>,
}

struct WaitingConnections {
    /// Number of free permits. While there is one, no connection waits.
    free: usize,
    by_address: HashMap<IpAddr, VecDeque<oneshot::Sender<ReadPermit>>>,
    /// The addresses with waiting connections, in the order of their turns.
    order: VecDeque<IpAddr>,
}

impl WaitingConnections {
    /// The connection whose turn it is. A connection that is gone does not use up the turn of its address.
    fn next(&mut self) -> Option<oneshot::Sender<ReadPermit>> {
        while let Some(address) = self.order.pop_front() {
            let waits = self.by_address.get_mut(&address)?;
            let next = std::iter::from_fn(|| waits.pop_front()).find(|grant| !grant.is_closed());
            if waits.is_empty() {
                self.by_address.remove(&address);
            } else {
                self.order.push_back(address);
            }
            if next.is_some() {
                return next;
            }
        }
        None
    }
}

impl ReadScheduler {
    /// Must be called on the runtime of the connections, whose threads it counts.
    pub(in crate::listener) fn new() -> ReadScheduler {
        let free = PERMITS_PER_THREAD * Handle::current().metrics().num_workers();
        let waiting = WaitingConnections { free, by_address: HashMap::new(), order: VecDeque::new() };
        ReadScheduler(Arc::new(SchedulerState {
            budget: AdaptiveBudget::new(),
            waiting: Mutex::new(waiting),
        }))
    }

    pub(in crate::listener) fn adaptive_budget(&self) -> &AdaptiveBudget {
        &self.0.budget
    }

    /// Requests a permit for a connection of this address, which has more to read.
    pub(in crate::listener) fn request(&self, address: IpAddr) -> oneshot::Receiver<ReadPermit> {
        let (grant, granted) = oneshot::channel();
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.free > 0 {
            waiting.free -= 1;
            drop(waiting);
            let _granted = grant.send(ReadPermit(Some(self.clone())));
        } else {
            let WaitingConnections { by_address, order, .. } = &mut *waiting;
            let address = network(address);
            by_address
                .entry(address)
                .or_insert_with(|| {
                    order.push_back(address);
                    VecDeque::new()
                })
                .push_back(grant);
        }
        granted
    }

    fn release(&self) {
        loop {
            let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(next) = waiting.next() else {
                waiting.free += 1;
                return;
            };
            drop(waiting);
            match next.send(ReadPermit(Some(self.clone()))) {
                Ok(()) => return,
                // Its connection is gone. The permit is not released twice.
                Err(mut permit) => permit.0 = None,
            }
        }
    }
}

/// A permit to read one budget, until this is dropped.
pub(in crate::listener) struct ReadPermit(Option<ReadScheduler>);

impl Drop for ReadPermit {
    fn drop(&mut self) {
        if let Some(scheduler) = self.0.take() {
            scheduler.release();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of permits on the runtime of a test.
    const FREE: usize = PERMITS_PER_THREAD;

    #[tokio::test]
    async fn permits_are_granted_in_turn_to_addresses_and_to_the_connections_of_each() {
        let scheduler = ReadScheduler::new();
        let mut permits: VecDeque<ReadPermit> =
            (0..FREE).map(|_| request(&scheduler, "192.0.2.1").try_recv().expect("free")).collect();
        // A network of IPv6 counts as one address.
        let from = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::2", "192.0.2.3"];
        let mut wait: Vec<(usize, oneshot::Receiver<ReadPermit>)> =
            from.iter().map(|from| request(&scheduler, from)).enumerate().collect();
        let mut order = Vec::new();
        while !wait.is_empty() {
            permits.pop_front();
            let before = order.len();
            wait.retain_mut(|(number, granted)| match granted.try_recv() {
                Ok(permit) => {
                    order.push(*number);
                    permits.push_back(permit);
                    false
                }
                Err(_) => true,
            });
            assert_eq!(order.len(), before + 1, "one permit is granted for each that is released");
        }
        assert_eq!(order, [0, 3, 5, 1, 4, 2]);
        drop(permits);
        assert!(is_empty(&scheduler), "nothing is kept");
    }

    #[tokio::test]
    async fn a_connection_that_is_gone_does_not_use_up_the_turn_of_its_address() {
        let scheduler = ReadScheduler::new();
        let permits: Vec<ReadPermit> =
            (0..FREE).map(|_| request(&scheduler, "192.0.2.1").try_recv().expect("free")).collect();
        let gone: Vec<_> = (0..10).map(|_| request(&scheduler, "192.0.2.2")).collect();
        let (mut behind, mut other) = (request(&scheduler, "192.0.2.2"), request(&scheduler, "192.0.2.3"));
        drop(gone);
        let mut permits = permits.into_iter();
        drop(permits.next());
        let permit = behind.try_recv().expect("it is the turn of its address");
        assert!(other.try_recv().is_err(), "it comes next");
        drop(permit);
        drop(other.try_recv().expect("it is granted"));
        drop(permits);
        assert!(is_empty(&scheduler), "nothing is kept");
    }

    #[tokio::test]
    async fn a_connection_that_is_gone_is_not_waited_for() {
        let scheduler = ReadScheduler::new();
        let permits: Vec<ReadPermit> =
            (0..FREE).map(|_| request(&scheduler, "192.0.2.1").try_recv().expect("free")).collect();
        let gone: Vec<_> = (0..100_000).map(|_| request(&scheduler, "192.0.2.1")).collect();
        let mut last = request(&scheduler, "192.0.2.2");
        drop(gone);
        drop(permits);
        let permit = last.try_recv().expect("it has a permit");
        drop(permit);
        // It is gone after it was granted a permit.
        drop(request(&scheduler, "192.0.2.3"));
        assert!(is_empty(&scheduler), "nothing is kept");
    }

    fn request(scheduler: &ReadScheduler, address: &str) -> oneshot::Receiver<ReadPermit> {
        scheduler.request(address.parse().expect("an address"))
    }

    fn is_empty(scheduler: &ReadScheduler) -> bool {
        let waiting = scheduler.0.waiting.lock().expect("no panic");
        waiting.free == FREE && waiting.by_address.is_empty() && waiting.order.is_empty()
    }
}
