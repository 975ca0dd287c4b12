//! Permits for connections to the observe listener. A half request (a connection without a complete request, idle ones included)
//! keeps its permit only until another connection needs it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::rpc::network;

/// How long a half request keeps its permit in any case. A client sends its request a moment after it has connected; with
/// 128 permits and without this bound, 400 connections opened without a pause evicted a probe that was about to send
/// (`tests/prove floods`). With it, 256 permits serve 12,800 connections a second, and the backlog of 4,096 connections takes a
/// third of a second.
const HALF_MIN: Duration = Duration::from_millis(20);
/// How long a new connection waits for a permit while all others are being answered. A response is ready within milliseconds;
/// without this bound a bug there would stop the listener.
const FULL_WAIT: Duration = Duration::from_secs(1);

/// Dropped by a connection when it has decided whether it keeps its permit.
type Decided = oneshot::Sender<()>;
/// Asks a connection to close, unless its request is complete by now.
pub(super) type Eviction = oneshot::Receiver<Decided>;

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct Permits(Arc<PermitState>);

struct PermitState {
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
    /// Asks the connection to give up its permit; `None` once its request is complete, or once it was asked.
    half: Option<oneshot::Sender<Decided>>,
}

/// The result of a search for a permit.
enum FreePermit {
    Permit(Permit, Eviction),
    /// All permits are taken: evict this half request.
    Half(oneshot::Sender<Decided>),
    /// All permits are taken, and the half request that will be evicted keeps its permit until then.
    Until(Instant),
    /// All permits are taken, and all requests are complete.
    Whole,
}

impl Permits {
    /// At most `max` connections at a time.
    pub(super) fn new(max: usize) -> Permits {
        Permits(Arc::new(PermitState { max, open: Mutex::default(), freed: Notify::new() }))
    }

    /// A permit for a new connection. If all permits are taken, the address with most half requests loses its oldest one: so an
    /// address with one connection keeps it while another address has two that are older than [`HALF_MIN`]. `None` if every
    /// connection is being answered, and none ended in time.
    pub(super) async fn enter(&self, address: IpAddr) -> Option<(Permit, Eviction)> {
        loop {
            match self.find(network(address)) {
                FreePermit::Permit(permit, eviction) => return Some((permit, eviction)),
                FreePermit::Half(half) => {
                    let (decided, is_decided) = oneshot::channel();
                    drop(half.send(decided));
                    // An error also means that the connection has decided.
                    let _decided = is_decided.await;
                }
                FreePermit::Until(at) => drop(timeout_at(at, self.0.freed.notified()).await),
                FreePermit::Whole => timeout(FULL_WAIT, self.0.freed.notified()).await.ok()?,
            }
        }
    }

    fn find(&self, network: IpAddr) -> FreePermit {
        let mut open = self.open();
        if open.by_age.len() >= self.0.max {
            let mut halves = open.by_age.values().filter(|connection| connection.half.is_some());
            let Some(until) = halves.next().map(|oldest| oldest.since + HALF_MIN) else {
                return FreePermit::Whole;
            };
            let oldest = open.oldest_of_most(Instant::now());
            let half = oldest.and_then(|age| open.by_age.get_mut(&age)?.half.take());
            return half.map_or(FreePermit::Until(until), FreePermit::Half);
        }
        let (half, eviction) = oneshot::channel();
        let age = open.next;
        open.next += 1;
        open.by_age.insert(age, Connection { network, since: Instant::now(), half: Some(half) });
        FreePermit::Permit(Permit { permits: self.clone(), age }, eviction)
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.0.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// Among the half requests older than [`HALF_MIN`], the oldest one of the address with most of them; of two such addresses,
    /// the older request. `None` if all are younger.
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

/// The permit of a connection, which is released on drop.
pub(super) struct Permit {
    permits: Permits,
    age: u64,
}

impl Permit {
    /// Protects the permit from eviction: the request is complete.
    pub(super) fn keep(&self) {
        if let Some(connection) = self.permits.open().by_age.get_mut(&self.age) {
            connection.half = None;
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.open().by_age.remove(&self.age);
        self.permits.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: usize = 32;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// Takes all permits: connection `number` comes from the address `of(number)`.
    async fn full(of: impl Fn(usize) -> String) -> (Permits, Vec<Option<(Permit, Eviction)>>) {
        let (permits, mut all) = (Permits::new(PLACES), Vec::new());
        for number in 0..PLACES {
            all.push(permits.enter(address(&of(number))).await);
        }
        // All are as old as a half request must be: on a busy machine only the first of them would be.
        tokio::time::sleep(HALF_MIN).await;
        (permits, all)
    }

    /// Connects from this address while all permits are taken. Returns the new connection's permit, and the index of the half
    /// request (a connection without a complete request) that was evicted for it.
    async fn evicts(
        permits: &Permits,
        all: &mut [Option<(Permit, Eviction)>],
        from: &str,
    ) -> ((Permit, Eviction), usize) {
        let entered = tokio::spawn({
            let (permits, from) = (permits.clone(), address(from));
            async move { permits.enter(from).await }
        });
        let asked = loop {
            tokio::task::yield_now().await;
            let asked = all
                .iter_mut()
                .position(|one| one.as_mut().is_some_and(|(_, eviction)| eviction.try_recv().is_ok()));
            if let Some(asked) = asked {
                break asked;
            }
        };
        all[asked] = None;
        (entered.await.expect("no panic").expect("a place"), asked)
    }

    #[tokio::test]
    async fn enter_full_evicts_oldest_half_request_of_address_with_most() {
        for (of, new, evicted) in [
            // All from one address; the new one's address does not matter.
            ((|_| "192.0.2.1".into()) as fn(usize) -> String, "192.0.2.1", 0),
            (|_| "192.0.2.1".into(), "192.0.2.2", 0),
            // The first ten are from an address with fewer half requests.
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
            let (permits, mut all) = full(of).await;
            let (_new, asked) = evicts(&permits, &mut all, new).await;
            assert_eq!(asked, evicted, "{new}");
        }
    }

    #[tokio::test]
    async fn enter_does_not_evict_complete_requests() {
        let (permits, mut all) = full(|_| "192.0.2.1".into()).await;
        for (permit, _) in all[..5].iter().flatten() {
            permit.keep();
        }
        assert_eq!(evicts(&permits, &mut all, "192.0.2.1").await.1, 5);
    }

    #[tokio::test]
    async fn enter_waits_while_all_requests_are_complete() {
        let (permits, mut all) = full(|_| "192.0.2.1".into()).await;
        for (permit, _) in all.iter().flatten() {
            permit.keep();
        }
        let from = address("192.0.2.1");
        assert!(matches!(permits.find(from), FreePermit::Whole), "every request is whole");
        let (entered, ()) = tokio::join!(permits.enter(from), async { all[7] = None });
        assert!(entered.is_some(), "one was answered");
        drop((entered, all));
        assert!(permits.open().by_age.is_empty(), "nothing is kept");
    }
}
