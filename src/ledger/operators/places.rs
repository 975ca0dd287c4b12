//! Places for work, shared fairly between principals: while several principals are at work or wait, each has its share
//! of the places, and waiting requests are served round robin by principal, not in the order of their arrival. A
//! principal with many requests delays another one by one piece of work of each principal, not by all of its requests.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::domain::{Reason, Rejection};
use crate::ledger::runtime::timeout;

/// The bounds of some places.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// What has its work there, for people.
    pub(super) what: &'static str,
    /// How many pieces of work are carried out at the same time.
    pub(super) places: usize,
    /// How many requests may wait for a place, those of all principals together.
    pub(super) waiting: usize,
    /// How long a request waits for a place.
    pub(super) wait: Duration,
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct Places {
    bounds: Bounds,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The principals at work: one name for each place that is taken.
    at_work: Vec<Box<str>>,
    /// One queue for each principal that waits.
    queues: Vec<Queue>,
    /// Counts the grants and the queues that were begun.
    turn: u64,
}

struct Queue {
    principal: Box<str>,
    /// When the principal was served last, or began to wait: the queue with the lowest one is served next.
    turn: u64,
    /// Never empty. A permit is sent, or the sender is dropped: the request gave way to a principal with fewer ones.
    requests: VecDeque<oneshot::Sender<Permit>>,
}

/// The right to one piece of work, until it is dropped.
pub(super) struct Permit {
    of: Places,
    principal: Box<str>,
}

impl Places {
    pub(super) fn new(bounds: Bounds) -> Places {
        Places { bounds, state: Arc::default() }
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

    /// What a permit is sent to.
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

    /// Gives free places to waiting requests.
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

    /// Requests whose caller waits no longer take no room.
    fn forget_those_that_are_gone(&mut self) {
        for queue in &mut self.queues {
            queue.requests.retain(|grant| !grant.is_closed());
        }
        self.queues.retain(|queue| !queue.requests.is_empty());
    }

    /// Takes room from the principal with the most requests, for one that has `own`, if that leaves it no fewer.
    fn make_room(&mut self, own: usize) -> bool {
        let most = self.queues.iter_mut().max_by_key(|queue| queue.requests.len());
        let Some(most) = most.filter(|queue| queue.requests.len() > own + 1) else { return false };
        drop(most.requests.pop_back());
        true
    }

    /// The request that is served next, which leaves its queue. `None` if none waits that may be.
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

    /// How many principals are at work or wait.
    fn principals(&self) -> usize {
        let waiting = self.queues.iter().map(|queue| &queue.principal);
        self.at_work.iter().chain(waiting).collect::<BTreeSet<_>>().len()
    }
}

/// How many places each of this number of principals may have.
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

    /// What was asked for in this order, by principal; who has a place by now.
    struct Asked(Places, Vec<(&'static str, oneshot::Receiver<Permit>)>, Vec<Permit>);

    impl Asked {
        fn new(principals: &[&'static str]) -> Asked {
            let mut all = Asked(Places::new(BOUNDS), Vec::new(), Vec::new());
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

        /// Who was given a place since this was last asked, by name.
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

        /// One piece of work of a principal ends; who is served then.
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
            assert_eq!(Asked::new(asked).served(), served, "{asked:?}");
        }
    }

    #[test]
    fn principals_are_served_round_robin() {
        let mut all = Asked::new(&["a"; 9]);
        assert_eq!(all.served(), "aaaaa");
        // Of two principals each has two places: b waits for the first that is free, a for its own third.
        all.ask("b").unwrap();
        assert_eq!(all.ends("a"), "b");
        all.ask("b").unwrap();
        assert_eq!((all.ends("a"), all.ends("a"), all.ends("a")), ("b".into(), String::new(), "a".into()));
        // A third one is not behind all that the first one has asked for before.
        all.ask("c").unwrap();
        assert_eq!(all.ends("b"), "c");
    }

    #[test]
    fn principal_that_waits_longest_since_it_was_served_is_next() {
        let mut all = Asked::new(&["a", "b", "c", "d", "e", "f", "a", "b"]);
        assert_eq!(all.served(), "abcde");
        for _ in 0..3 {
            all.ask("c").unwrap();
        }
        for (ends, served) in [("a", "f"), ("b", "a"), ("c", "b"), ("f", "c")] {
            assert_eq!(all.ends(ends), served, "{ends} ends");
        }
        // One that comes now has one piece of work of each other one before it.
        all.ask("g").unwrap();
        assert_eq!((all.ends("c"), all.ends("c")), ("c".into(), "g".into()));
    }

    #[test]
    fn waiting_is_bounded_and_few_requests_find_room() {
        let mut all = Asked::new(&["a"; 9]);
        assert_eq!(all.served(), "aaaaa");
        for principal in ["b", "c"] {
            for _ in 0..4 {
                all.ask(principal).unwrap();
            }
        }
        // Twelve wait. The newest of a principal with four gives way to the first of another one.
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
        // Who has gone waits no longer.
        all.1.retain(|(principal, _)| *principal != "b");
        all.ask("d").unwrap();
    }

    #[tokio::test]
    async fn wait_ends_and_leaves_nothing_behind() {
        let places = Places::new(BOUNDS);
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
