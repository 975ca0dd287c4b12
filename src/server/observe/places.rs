//! The places of the connections to the plain HTTP port. A half request (a connection without a whole request, idle ones
//! included) keeps its place only while no other connection needs that place.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::rpc::network;

/// How long a half request keeps its place in any case. A client sends its request a moment after it has connected; with
/// 128 places and without this bound, 400 connections opened without a pause evicted a probe that had been about to send
/// (`tests/prove floods`). 256 places are so taken 12,800 times a second, and the operating system's queue of 4,096
/// connections takes a third of a second.
const HALF_MIN: Duration = Duration::from_millis(20);
/// How long a new connection waits for a place while all others are being answered. An answer is ready within
/// milliseconds; without this bound a bug there would stop the port.
const FULL_WAIT: Duration = Duration::from_secs(1);

/// Dropped by a connection that has decided whether it keeps its place.
type Decided = oneshot::Sender<()>;
/// Asks a connection to leave unless its request is whole by now.
pub(super) type Leave = oneshot::Receiver<Decided>;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct Places(Arc<Shared>);

struct Shared {
    /// Maximum number of open connections.
    max: usize,
    open: Mutex<Open>,
    freed: Notify,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// Oldest first.
    by_age: BTreeMap<u64, Connection>,
}

struct Connection {
    /// The address, or the /64 network of IPv6.
    network: IpAddr,
    since: Instant,
    /// `None` once its request is whole, or once it was asked to leave.
    half: Option<oneshot::Sender<Decided>>,
}

/// What a new connection finds.
enum Found {
    Place(Place, Leave),
    /// All places are taken: this half request is asked to leave.
    Half(oneshot::Sender<Decided>),
    /// All places are taken, and the half request that is to leave has its place until then.
    Until(Instant),
    /// All places are taken, and all requests are whole.
    Whole,
}

impl Places {
    /// At most `max` connections at a time.
    pub(super) fn new(max: usize) -> Places {
        Places(Arc::new(Shared { max, open: Mutex::default(), freed: Notify::new() }))
    }

    /// A place for a new connection. All places taken: the address with most half requests loses its oldest one. So an
    /// address with one connection keeps it while another address has two that have had their time. `None` if every connection is being answered,
    /// and none ended in time.
    pub(super) async fn enter(&self, address: IpAddr) -> Option<(Place, Leave)> {
        loop {
            match self.find(network(address)) {
                Found::Place(place, leave) => return Some((place, leave)),
                Found::Half(half) => {
                    let (decided, is_decided) = oneshot::channel();
                    drop(half.send(decided));
                    // An error, too, says that the connection has decided.
                    let _decided = is_decided.await;
                }
                Found::Until(at) => drop(timeout_at(at, self.0.freed.notified()).await),
                Found::Whole => timeout(FULL_WAIT, self.0.freed.notified()).await.ok()?,
            }
        }
    }

    fn find(&self, network: IpAddr) -> Found {
        let mut open = self.open();
        if open.by_age.len() >= self.0.max {
            let mut halves = open.by_age.values().filter(|connection| connection.half.is_some());
            let Some(until) = halves.next().map(|oldest| oldest.since + HALF_MIN) else {
                return Found::Whole;
            };
            let oldest = open.oldest_of_most(Instant::now());
            let half = oldest.and_then(|age| open.by_age.get_mut(&age)?.half.take());
            return half.map_or(Found::Until(until), Found::Half);
        }
        let (half, leave) = oneshot::channel();
        let age = open.next;
        open.next += 1;
        open.by_age.insert(age, Connection { network, since: Instant::now(), half: Some(half) });
        Found::Place(Place { places: self.clone(), age }, leave)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Of the half requests that have had their time, the oldest one of the address with most of them; of two such
    /// addresses, the older one. `None` if each is younger.
    fn oldest_of_most(&self, now: Instant) -> Option<u64> {
        let mut halves: HashMap<IpAddr, (usize, Reverse<u64>)> = HashMap::new();
        for (age, connection) in &self.by_age {
            if connection.half.is_some() && connection.since + HALF_MIN <= now {
                halves.entry(connection.network).or_insert((0, Reverse(*age))).0 += 1;
            }
        }
        halves.into_values().max().map(|(_, Reverse(oldest))| oldest)
    }
}

/// A connection has its place until this is dropped.
pub(super) struct Place {
    places: Places,
    age: u64,
}

impl Place {
    /// Its request is whole: no other connection takes the place any more.
    pub(super) fn keep(&self) {
        if let Some(connection) = self.places.open().by_age.get_mut(&self.age) {
            connection.half = None;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.open().by_age.remove(&self.age);
        self.places.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: usize = 32;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Fills all places, each from the address of its number.
    async fn full(of: impl Fn(usize) -> String) -> (Places, Vec<Option<(Place, Leave)>>) {
        let (places, mut all) = (Places::new(PLACES), Vec::new());
        for number in 0..PLACES {
            all.push(places.enter(address(&of(number))).await);
        }
        (places, all)
    }

    /// A new connection, and the number of the half request that was asked to leave, and left.
    async fn evicts(
        places: &Places,
        all: &mut [Option<(Place, Leave)>],
        from: &str,
    ) -> ((Place, Leave), usize) {
        let entered = tokio::spawn({
            let (places, from) = (places.clone(), address(from));
            async move { places.enter(from).await }
        });
        let asked = loop {
            tokio::task::yield_now().await;
            let asked = all
                .iter_mut()
                .position(|one| one.as_mut().is_some_and(|(_, leave)| leave.try_recv().is_ok()));
            if let Some(asked) = asked {
                break asked;
            }
        };
        all[asked] = None;
        (entered.await.expect("no panic").expect("a place"), asked)
    }

    #[tokio::test]
    async fn full_places_evict_the_oldest_half_request_of_the_address_with_most() {
        for (of, new, evicted) in [
            // One address, whatever the new one's is.
            ((|_| "192.0.2.1".into()) as fn(usize) -> String, "192.0.2.1", 0),
            (|_| "192.0.2.1".into(), "192.0.2.2", 0),
            // The first ten are of an address with fewer.
            (|number| (if number < 10 { "192.0.2.1" } else { "192.0.2.2" }).into(), "192.0.2.1", 10),
            // A network of IPv6 counts as one address.
            (
                |number| if number < 10 { "192.0.2.1".into() } else { format!("2001:db8::{number}") },
                "192.0.2.3",
                10,
            ),
            // As many of each.
            (|number| format!("192.0.2.{}", number % 2), "192.0.2.9", 0),
        ] {
            let (places, mut all) = full(of).await;
            let (_new, asked) = evicts(&places, &mut all, new).await;
            assert_eq!(asked, evicted, "{new}");
        }
    }

    #[tokio::test]
    async fn whole_requests_keep_their_places() {
        let (places, mut all) = full(|_| "192.0.2.1".into()).await;
        for (place, _) in all[..5].iter().flatten() {
            place.keep();
        }
        assert_eq!(evicts(&places, &mut all, "192.0.2.1").await.1, 5);
    }

    #[tokio::test]
    async fn a_new_connection_waits_for_an_answer_while_every_request_is_whole() {
        let (places, mut all) = full(|_| "192.0.2.1".into()).await;
        for (place, _) in all.iter().flatten() {
            place.keep();
        }
        let from = address("192.0.2.1");
        assert!(matches!(places.find(from), Found::Whole), "every request is whole");
        let (entered, ()) = tokio::join!(places.enter(from), async { all[7] = None });
        assert!(entered.is_some(), "one was answered");
        drop((entered, all));
        assert!(places.open().by_age.is_empty(), "nothing is kept");
    }
}
