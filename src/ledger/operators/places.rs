//! Places for work, shared fairly between principals: while several principals work or wait, each has its share of the places,
//! and waiting requests are served round robin by principal, not in the order of their arrival. A principal with many
//! requests delays another one by one piece of work of each principal, not by all of its requests.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::common::still_counted::StillCounted;
use crate::domain::{Reason, Rejection};
use crate::ledger::runtime::timeout;

/// The bounds of a kind of work.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The name of the work, for people.
    pub(super) what: &'static str,
    /// Pieces of work that are carried out concurrently.
    pub(super) places: usize,
    /// Requests that may wait for a place, of all principals together.
    pub(super) waiting: usize,
    /// How long a request waits for a place.
    pub(super) wait: Duration,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct FairPlaces {
    bounds: Bounds,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The principals at work: one name for each place that is taken.
    at_work: Vec<Box<str>>,
    /// One queue for each principal that waits.
    queues: Vec<Queue>,
    /// Number of grants and of queues that were begun.
    turn: u64,
}

struct Queue {
    principal: Box<str>,
    /// When the principal was last served, or began to wait: the queue with the lowest number is served next.
    turn: u64,
    /// Never empty. A permit is sent, or the sender is dropped: the request was displaced by a principal with fewer requests.
    requests: VecDeque<oneshot::Sender<Permit>>,
}

/// The right to one piece of work, until it is dropped.
pub(super) struct Permit {
    of: FairPlaces,
    principal: Box<str>,
}

impl FairPlaces {
    pub(super) fn new(bounds: Bounds) -> FairPlaces {
        FairPlaces { bounds, state: Arc::default() }
    }

    /// Takes a place for a principal, or waits for one.
    ///
    /// # Errors
    /// `OVERLOADED`: too many requests wait, or the wait was too long.
    pub(super) async fn take(&self, principal: &str) -> Result<Permit, Rejection> {
        let granted = self.ask(principal)?;
        match timeout(self.bounds.wait, granted).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(self.too_many()),
            Err(_) => Err(self.refused(&format!("no place was free for {} s", self.bounds.wait.as_secs()))),
        }
    }

    /// Notes the places that are taken, and the requests that wait for one.
    pub(super) fn still_counted(&self, left: &mut StillCounted) {
        let mut state = self.lock();
        state.forget_those_that_are_gone();
        let waiting = state.queues.iter().map(|queue| queue.requests.len()).sum();
        left.note(format_args!("places of {}", self.bounds.what), state.at_work.len());
        left.note(format_args!("requests for places of {}", self.bounds.what), waiting);
    }

    /// The receiver of a permit.
    fn ask(&self, principal: &str) -> Result<oneshot::Receiver<Permit>, Rejection> {
        let (grant, granted) = oneshot::channel();
        let mut state = self.lock();
        state.forget_those_that_are_gone();
        let own = state.queues.iter().find(|queue| *queue.principal == *principal);
        let own = own.map_or(0, |queue| queue.requests.len());
        let waiting: usize = state.queues.iter().map(|queue| queue.requests.len()).sum();
        if waiting >= self.bounds.waiting && !state.make_room(own) {
            return Err(self.too_many());
        }
        state.enqueue(principal, grant);
        self.serve(state);
        Ok(granted)
    }

    /// Grants free places to waiting requests.
    fn serve(&self, mut state: MutexGuard<'_, State>) {
        let mut gone = Vec::new();
        while let Some((principal, grant)) = state.next(self.bounds.places) {
            let permit = Permit { of: self.clone(), principal: principal.clone() };
            match grant.send(permit) {
                Ok(()) => {}
                // Dropping the permit would wait for this lock.
                Err(permit) => gone.push(permit),
            }
            state.at_work.push(principal);
        }
        drop(state);
        drop(gone);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn too_many(&self) -> Rejection {
        self.refused(&format!("{} requests of all principals wait for a place already", self.bounds.waiting))
    }

    fn refused(&self, why: &str) -> Rejection {
        let Bounds { what, places, .. } = self.bounds;
        let text = format!(
            "{why}: a server carries out {places} {what} at the same time, shared fairly between principals; nothing \
             was changed: try again later"
        );
        Rejection::new(Reason::Overloaded, text)
    }
}

impl State {
    fn enqueue(&mut self, principal: &str, grant: oneshot::Sender<Permit>) {
        if let Some(queue) = self.queues.iter_mut().find(|queue| *queue.principal == *principal) {
            queue.requests.push_back(grant);
            return;
        }
        self.turn += 1;
        let (principal, requests) = (principal.into(), VecDeque::from([grant]));
        self.queues.push(Queue { principal, turn: self.turn, requests });
    }

    /// Removes requests whose caller no longer waits: they take no space.
    fn forget_those_that_are_gone(&mut self) {
        for queue in &mut self.queues {
            queue.requests.retain(|grant| !grant.is_closed());
        }
        self.queues.retain(|queue| !queue.requests.is_empty());
    }

    /// Displaces a request of the principal with the most requests, for one that has `own`, if that leaves it no fewer.
    fn make_room(&mut self, own: usize) -> bool {
        let most = self.queues.iter_mut().max_by_key(|queue| queue.requests.len());
        let Some(most) = most.filter(|queue| queue.requests.len() > own + 1) else { return false };
        drop(most.requests.pop_back());
        true
    }

    /// Removes the request that is served next. `None` if no waiting request may be served.
    fn next(&mut self, places: usize) -> Option<(Box<str>, oneshot::Sender<Permit>)> {
        if self.at_work.len() >= places {
            return None;
        }
        let share = share(places, self.principals());
        let at_work = &self.at_work;
        let own = |queue: &Queue| at_work.iter().filter(|one| **one == queue.principal).count();
        let may = self.queues.iter_mut().filter(|queue| own(queue) < share);
        let queue = may.min_by_key(|queue| queue.turn)?;
        self.turn += 1;
        queue.turn = self.turn;
        let served = (queue.principal.clone(), queue.requests.pop_front()?);
        self.queues.retain(|queue| !queue.requests.is_empty());
        Some(served)
    }

    /// Number of principals that work or wait.
    fn principals(&self) -> usize {
        let waiting = self.queues.iter().map(|queue| &queue.principal);
        self.at_work.iter().chain(waiting).collect::<BTreeSet<_>>().len()
    }
}

/// Number of places that each of this number of principals may have.
fn share(places: usize, principals: usize) -> usize {
    (places / principals.max(1)).max(1)
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.of.lock();
        if let Some(place) = state.at_work.iter().position(|one| *one == self.principal) {
            state.at_work.swap_remove(place);
        }
        self.of.serve(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds =
        Bounds { what: "pieces of work", places: 5, waiting: 12, wait: Duration::from_millis(20) };

    /// Requests in this order, by principal; and the permits that were granted.
    struct Requests(FairPlaces, Vec<(&'static str, oneshot::Receiver<Permit>)>, Vec<Permit>);

    impl Requests {
        fn new(principals: &[&'static str]) -> Requests {
            let mut all = Requests(FairPlaces::new(BOUNDS), Vec::new(), Vec::new());
            for principal in principals {
                all.ask(principal).unwrap();
            }
            all
        }

        fn ask(&mut self, principal: &'static str) -> Result<(), String> {
            let granted = self.0.ask(principal).map_err(|refused| refused.message)?;
            self.1.push((principal, granted));
            Ok(())
        }

        /// The principals that were granted a place since the last call, by name.
        fn served(&mut self) -> String {
            let mut served = Vec::new();
            for (principal, granted) in &mut self.1 {
                if let Ok(permit) = granted.try_recv() {
                    served.push(*principal);
                    self.2.push(permit);
                }
            }
            served.sort_unstable();
            served.concat()
        }

        /// Ends one piece of work of a principal; returns who is served then.
        fn ends(&mut self, principal: &str) -> String {
            let at = self.2.iter().position(|permit| *permit.principal == *principal).unwrap();
            drop(self.2.swap_remove(at));
            self.served()
        }
    }

    #[test]
    fn share_shrinks_with_the_principals() {
        for (principals, each) in [(0, 5), (1, 5), (2, 2), (3, 1), (5, 1), (50, 1)] {
            assert_eq!(share(5, principals), each, "{principals}");
        }
        for (asked, served) in [
            (&["a"; 7][..], "aaaaa"),
            (&["a", "a", "a", "b", "b", "b"], "aaabb"),
            (&["a", "b", "a", "b", "a", "b"], "aabb"),
            (&["a", "b", "c", "a", "b", "c"], "abc"),
            (&["a", "b", "c", "d", "e", "f"], "abcde"),
        ] {
            assert_eq!(Requests::new(asked).served(), served, "{asked:?}");
        }
    }

    #[test]
    fn principals_are_served_round_robin() {
        let mut all = Requests::new(&["a"; 9]);
        assert_eq!(all.served(), "aaaaa");
        // Of two principals each has two places: b gets the first free one, a waits for one of its places.
        all.ask("b").unwrap();
        assert_eq!(all.ends("a"), "b");
        all.ask("b").unwrap();
        assert_eq!((all.ends("a"), all.ends("a"), all.ends("a")), ("b".into(), String::new(), "a".into()));
        // A third principal is not behind all earlier requests of the first one.
        all.ask("c").unwrap();
        assert_eq!(all.ends("b"), "c");
    }

    #[test]
    fn principal_that_waits_longest_since_it_was_served_is_next() {
        let mut all = Requests::new(&["a", "b", "c", "d", "e", "f", "a", "b"]);
        assert_eq!(all.served(), "abcde");
        for _ in 0..3 {
            all.ask("c").unwrap();
        }
        for (ends, served) in [("a", "f"), ("b", "a"), ("c", "b"), ("f", "c")] {
            assert_eq!(all.ends(ends), served, "{ends} ends");
        }
        // A new principal has one piece of work of each other one before it.
        all.ask("g").unwrap();
        assert_eq!((all.ends("c"), all.ends("c")), ("c".into(), "g".into()));
    }

    #[test]
    fn waiting_is_bounded_and_few_requests_find_room() {
        let mut all = Requests::new(&["a"; 9]);
        assert_eq!(all.served(), "aaaaa");
        for principal in ["b", "c"] {
            for _ in 0..4 {
                all.ask(principal).unwrap();
            }
        }
        // Twelve wait. The newest request of a principal with four is displaced by the first of another principal.
        all.ask("d").unwrap();
        let lost = all.1.iter_mut().filter_map(|(principal, granted)| {
            (granted.try_recv().err()? == oneshot::error::TryRecvError::Closed).then_some(*principal)
        });
        assert_eq!(
            lost.filter(|principal| *principal != "d").count(),
            5 + 1,
            "five were served, one gave way"
        );
        let said = all.ask("c").unwrap_err();
        assert!(said.starts_with("12 requests of all principals wait for a place already"), "{said}");
        // A caller that is gone does not wait.
        all.1.retain(|(principal, _)| *principal != "b");
        all.ask("d").unwrap();
    }

    #[tokio::test]
    async fn wait_ends_and_leaves_nothing_behind() {
        let places = FairPlaces::new(BOUNDS);
        let mut held = Vec::new();
        for _ in 0..5 {
            held.push(places.take("a").await.unwrap());
        }
        let refused = places.take("b").await.err().unwrap();
        assert_eq!(refused.reason, Reason::Overloaded);
        assert!(refused.message.contains("5 pieces of work at the same time"), "{}", refused.message);
        drop(held);
        assert!(places.lock().at_work.is_empty(), "a request that is gone has no place");
        places.take("b").await.unwrap();
    }
}
