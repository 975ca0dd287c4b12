//! Where connections wait that have more to read than one turn takes. Addresses have their turns one after the other, and so
//! have the connections of an address: a flood on many connections of one address delays others by little.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::accounts::network;
use crate::listener::fairness::adaptive_budget::Pace;

/// For each thread of the runtime, so many connections of the line have their turn at a time.
pub(in crate::listener) const AT_ONCE: usize = 4;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(in crate::listener) struct Line(Arc<Shared>);

struct Shared {
    pace: Pace,
    waiting: Mutex<Waiting>,
}

struct Waiting {
    /// How many turns can be taken now. While there are any, nobody waits.
    free: usize,
    by_address: HashMap<IpAddr, VecDeque<oneshot::Sender<Place>>>,
    /// Of whom somebody waits, in the order of their turns.
    order: VecDeque<IpAddr>,
}

impl Waiting {
    /// Whose turn it is. Whoever is gone takes no turn of its address.
    fn next(&mut self) -> Option<oneshot::Sender<Place>> {
        while let Some(address) = self.order.pop_front() {
            let waits = self.by_address.get_mut(&address)?;
            let next = std::iter::from_fn(|| waits.pop_front()).find(|call| !call.is_closed());
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

impl Line {
    /// Of the runtime on which it is called.
    pub(in crate::listener) fn new() -> Line {
        let free = AT_ONCE * Handle::current().metrics().num_workers();
        let waiting = Waiting { free, by_address: HashMap::new(), order: VecDeque::new() };
        Line(Arc::new(Shared { pace: Pace::new(), waiting: Mutex::new(waiting) }))
    }

    pub(in crate::listener) fn pace(&self) -> &Pace {
        &self.0.pace
    }

    /// A connection of this address has more to read: it is told when its turn has come.
    pub(in crate::listener) fn enter(&self, address: IpAddr) -> oneshot::Receiver<Place> {
        let (call, called) = oneshot::channel();
        let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.free > 0 {
            waiting.free -= 1;
            drop(waiting);
            let _called = call.send(Place(Some(self.clone())));
        } else {
            let Waiting { by_address, order, .. } = &mut *waiting;
            let address = network(address);
            by_address
                .entry(address)
                .or_insert_with(|| {
                    order.push_back(address);
                    VecDeque::new()
                })
                .push_back(call);
        }
        called
    }

    fn leave(&self) {
        loop {
            let mut waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(next) = waiting.next() else {
                waiting.free += 1;
                return;
            };
            drop(waiting);
            match next.send(Place(Some(self.clone()))) {
                Ok(()) => return,
                // Its connection is gone. Nothing is given back twice.
                Err(mut place) => place.0 = None,
            }
        }
    }
}

/// A connection has its turn until this is dropped.
pub(in crate::listener) struct Place(Option<Line>);

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(line) = self.0.take() {
            line.leave();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many turns may be taken at a time on the runtime of a test.
    const FREE: usize = AT_ONCE;

    #[tokio::test]
    async fn addresses_take_turns_and_so_do_the_connections_of_each() {
        let line = Line::new();
        let mut places: VecDeque<Place> =
            (0..FREE).map(|_| come(&line, "192.0.2.1").try_recv().expect("free")).collect();
        // A network of IPv6 counts as one address.
        let from = ["192.0.2.1", "192.0.2.1", "192.0.2.1", "2001:db8::1", "2001:db8::2", "192.0.2.3"];
        let mut wait: Vec<(usize, oneshot::Receiver<Place>)> =
            from.iter().map(|from| come(&line, from)).enumerate().collect();
        let mut order = Vec::new();
        while !wait.is_empty() {
            places.pop_front();
            let before = order.len();
            wait.retain_mut(|(number, called)| match called.try_recv() {
                Ok(place) => {
                    order.push(*number);
                    places.push_back(place);
                    false
                }
                Err(_) => true,
            });
            assert_eq!(order.len(), before + 1, "one is called for each turn that ends");
        }
        assert_eq!(order, [0, 3, 5, 1, 4, 2]);
        drop(places);
        assert!(is_empty(&line), "nothing is kept");
    }

    #[tokio::test]
    async fn whoever_is_gone_takes_no_turn_of_its_address() {
        let line = Line::new();
        let places: Vec<Place> =
            (0..FREE).map(|_| come(&line, "192.0.2.1").try_recv().expect("free")).collect();
        let gone: Vec<_> = (0..10).map(|_| come(&line, "192.0.2.2")).collect();
        let (mut behind, mut other) = (come(&line, "192.0.2.2"), come(&line, "192.0.2.3"));
        drop(gone);
        let mut places = places.into_iter();
        drop(places.next());
        let place = behind.try_recv().expect("it is the turn of its address");
        assert!(other.try_recv().is_err(), "it comes next");
        drop(place);
        drop(other.try_recv().expect("it is called"));
        drop(places);
        assert!(is_empty(&line), "nothing is kept");
    }

    #[tokio::test]
    async fn whoever_is_gone_is_not_waited_for() {
        let line = Line::new();
        let places: Vec<Place> =
            (0..FREE).map(|_| come(&line, "192.0.2.1").try_recv().expect("free")).collect();
        let gone: Vec<_> = (0..100_000).map(|_| come(&line, "192.0.2.1")).collect();
        let mut last = come(&line, "192.0.2.2");
        drop(gone);
        drop(places);
        let place = last.try_recv().expect("it is called");
        drop(place);
        // It is gone after it was called.
        drop(come(&line, "192.0.2.3"));
        assert!(is_empty(&line), "nothing is kept");
    }

    fn come(line: &Line, address: &str) -> oneshot::Receiver<Place> {
        line.enter(address.parse().expect("an address"))
    }

    fn is_empty(line: &Line) -> bool {
        let waiting = line.0.waiting.lock().expect("no panic");
        waiting.free == FREE && waiting.by_address.is_empty() && waiting.order.is_empty()
    }
}
