//! Accounting of the memory that clients hold in this process. Each call has an account, from its headers until the client has
//! taken the last byte of its answer: the bytes of its request, counted as they arrive, and those of its answer. Accounts are
//! summed by connection, by principal, and for the whole server. Three rules bound them:
//!
//! 1. **Progress**: a message that does not arrive, or an answer that is not taken, within `stall_max` and at 1 KiB a second
//!    after that, ends: the request is refused, or the stream is reset. A connection on which more than 16 streams end like
//!    this, or by the second rule, within a minute is closed, and so is one whose socket takes too few bytes by the same rate.
//!    Only time in which the server waits for the client counts.
//! 2. **Shares**: a principal has a quarter of the server; clients without a credential have an eighth in addition, of which
//!    an address has half; an owner holds at most as many bytes as it leaves free (dynamic thresholds). Of the server and of
//!    these shares, three eighths are reserved for settlements and an eighth for all other calls. A connection has
//!    `connection_bytes_max`.
//! 3. **The heaviest first**: where all together hold too much, the calls of the owner who holds most end first. No
//!    flow-control window bounds the headers and trailers of errors: where sockets take too few of them, connections are
//!    closed, the one with most of them first.
//!
//! A request that finds no space is refused, and its bytes are returned: it never waits. Without the account of answers, 200
//! connections that asked for 16 KiB each and read nothing ended a process of 1 GiB within 46 s; without counting requests as
//! they arrive, 140 connections that announced messages and sent none had all other calls refused (`tests/prove floods`).

mod answer;
mod balance;
mod call;
mod codec;
mod connection;
mod fields;
#[cfg(test)]
pub(crate) mod for_tests;
mod heaviest;
mod limits;
mod open;
mod owner;
mod progress;
mod refusals;
mod request_body;
mod state;
mod sweep;
mod tasks;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use slab::Slab;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use self::balance::{Balance, Requests};
use self::owner::Owners;
use crate::common::still_counted::StillCounted;
use crate::domain::Rejection;
use crate::metrics::Metrics;

pub(crate) use self::answer::{AnswerBody, header_bytes, kept_bytes};
pub(crate) use self::call::{CallAccount, CallOwner};
pub(crate) use self::codec::{Codec, Within, within};
pub(crate) use self::connection::{ConnectionAccount, OpenCall};
pub use self::limits::PrincipalLimits;
pub(crate) use self::limits::{
    AccountLimits, CALL_OVERHEAD_MAX, HEADER_BYTES_MAX, REFLECTION_BYTES, STREAM_BYTES, STREAM_WINDOW,
};
pub(crate) use self::open::{OpenCalls, STREAMS_MAX};
pub(crate) use self::refusals::{headers as headers_too_large, refusal, too_large};
pub(crate) use self::request_body::{BodyDrain, Readable, RequestBody, Shape};
pub(crate) use self::tasks::CallTasks;

/// Length of an IPv6 prefix that a provider gives to one customer, who has 2^64 addresses in it.
const NETWORK_BITS: u32 = 64;

/// The network that counts as one address.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() >> NETWORK_BITS << NETWORK_BITS).into()),
        address @ IpAddr::V4(_) => address,
    }
}

/// All accounts of a server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Accounts(Arc<Server>);

/// Refuses this many claims if the queue has no space for them, whichever consumers they are of.
pub(crate) type RoomForClaims = Box<dyn Fn(usize) -> Result<(), Rejection> + Send + Sync>;

struct Server {
    limits: AccountLimits,
    metrics: Metrics,
    room_for_claims: RoomForClaims,
    owners: Owners,
    connections: Mutex<Slab<Weak<ConnectionAccount>>>,
    requests: Requests,
    /// Requests of clients without a credential, which `requests` does not include.
    strangers: Requests,
    answers: Balance,
    /// The headers and trailers of errors, on all connections.
    headers: Balance,
    /// Number of periodic sweeps so far.
    ticks: AtomicU32,
    /// What the next sweep must look at; set while a sweep is requested.
    answers_full: AtomicBool,
    requests_full: AtomicBool,
    full: Arc<Notify>,
    /// What was still counted of connections that have ended.
    still_counted: Mutex<StillCounted>,
}

impl Accounts {
    pub(crate) fn new(limits: AccountLimits, metrics: Metrics, room_for_claims: RoomForClaims) -> Accounts {
        Accounts(Arc::new(Server {
            limits,
            metrics,
            room_for_claims,
            owners: Owners::new(),
            connections: Mutex::default(),
            requests: Requests::default(),
            strangers: Requests::default(),
            answers: Balance::default(),
            headers: Balance::default(),
            ticks: AtomicU32::new(0),
            answers_full: AtomicBool::new(false),
            requests_full: AtomicBool::new(false),
            full: Arc::default(),
            still_counted: Mutex::default(),
        }))
    }

    /// A function that returns how many bytes of requests are held.
    pub(crate) fn request_bytes(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let server = Arc::downgrade(&self.0);
        move || server.upgrade().map_or(0, |server| server.requests.bytes() + server.strangers.bytes())
    }

    /// A function that returns how many bytes of answers are held, headers and trailers of errors included.
    pub(crate) fn answer_bytes(&self) -> impl Fn() -> usize + Send + Sync + 'static {
        let server = Arc::downgrade(&self.0);
        move || server.upgrade().map_or(0, |server| server.answers.bytes() + server.headers.bytes())
    }

    /// Returns the counts of clients that are not zero, after all connections have ended.
    pub(crate) fn still_counted(&self) -> StillCounted {
        let mut left = self.0.still_counted().clone();
        left.note("connections with an account", self.0.connections().len());
        self.0.requests.still_counted(&mut left, "in all");
        self.0.strangers.still_counted(&mut left, "of clients without a credential");
        left.note("bytes of answers in all", self.0.answers.bytes());
        left.note("bytes of headers in all", self.0.headers.bytes());
        self.0.owners.still_counted(&mut left);
        left
    }

    /// Enforces the rules until the accounts are gone.
    pub(crate) fn enforce(&self) -> JoinHandle<()> {
        tokio::spawn(sweep::run(Arc::downgrade(&self.0)))
    }
}

impl Server {
    fn now(&self) -> u32 {
        self.ticks.load(Relaxed)
    }

    fn connections(&self) -> MutexGuard<'_, Slab<Weak<ConnectionAccount>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn still_counted(&self) -> MutexGuard<'_, StillCounted> {
        self.still_counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn all_connections(&self) -> Vec<Arc<ConnectionAccount>> {
        self.connections().iter().filter_map(|(_, connection)| connection.upgrade()).collect()
    }

    /// Requests a sweep: too many bytes of answers are held.
    fn answers_are_too_many(&self) {
        if !self.answers_full.swap(true, Relaxed) {
            self.full.notify_one();
        }
    }

    /// Requests a sweep: a request found no space in the server.
    fn requests_are_full(&self) {
        if !self.requests_full.swap(true, Relaxed) {
            self.full.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
