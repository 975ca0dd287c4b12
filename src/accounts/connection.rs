//! The account of one connection: its open calls, the bytes they hold, and the progress of its socket.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use slab::Slab;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::balance::Balance;
use super::open::{OpenCalls, STREAMS_MAX};
use super::owner::Owner;
use super::progress::BYTES_A_TICK;
use super::state::CallState;
use super::{Accounts, Server};
use crate::common::still_counted::StillCounted;
use crate::domain::Rejection;
use crate::identity::Identity;

/// How many calls of one connection may wait for a verdict: the other streams are for calls that do not wait, such as the
/// Complete that these wait for.
const WAITING_MAX: usize = STREAMS_MAX as usize / 2;

/// See the module.
pub(crate) struct ConnectionAccount {
    pub(super) server: Arc<Server>,
    pub(super) open: OpenCalls,
    pub(super) requests: Balance,
    pub(super) answers: Balance,
    /// How many of its calls wait.
    waiting: AtomicUsize,
    address: IpAddr,
    /// Whether the peer is a trusted proxy, whose calls are those of many principals.
    proxy: AtomicBool,
    /// Bytes that went through the socket in both directions, and bytes that the socket has taken.
    moved: AtomicU64,
    sent: AtomicU64,
    /// The bytes of the write buffer that the socket has not taken.
    unsent: AtomicUsize,
    /// Headers and trailers of errors that HTTP/2 keeps while the socket takes nothing: no flow-control window of the client
    /// bounds them.
    headers: Balance,
    /// Closes the connection.
    cut: CancellationToken,
    calls: Mutex<AdmittedCalls>,
    /// The last principal: most connections have only one, whose account then needs no look-up.
    last: Mutex<Option<(Arc<Identity>, Arc<Owner>)>>,
    stranger: OnceLock<Arc<Owner>>,
    pub(super) sweep_state: SweepState,
    number: OnceLock<usize>,
}

/// State of a connection between two sweeps.
#[derive(Default)]
pub(super) struct SweepState {
    /// Bytes that the socket had taken when it last had no unsent bytes, and the tick of that.
    sent: AtomicU64,
    since: AtomicU32,
    /// Bytes that the socket had taken at the last sweep that saw progress, and the tick of that.
    moved: AtomicU64,
    moved_at: AtomicU32,
    /// Number of its streams that were ended because they made no progress or held too much, and since which tick.
    pub(super) stalls: AtomicU32,
    pub(super) stalls_since: AtomicU32,
}

/// The calls with an account.
#[derive(Default)]
struct AdmittedCalls {
    all: Slab<AdmittedCall>,
    /// The call that was admitted last, and has no task yet.
    admitted: Option<usize>,
}

struct AdmittedCall {
    call: Arc<CallState>,
    task: Option<AbortHandle>,
}

impl ConnectionAccount {
    /// The account of a new connection from this address; `cut` closes it.
    pub(crate) fn new(
        accounts: &Accounts,
        address: IpAddr,
        cut: CancellationToken,
    ) -> Arc<ConnectionAccount> {
        let server = Arc::clone(&accounts.0);
        let account = Arc::new(ConnectionAccount {
            server: Arc::clone(&server),
            open: OpenCalls::default(),
            requests: Balance::default(),
            answers: Balance::default(),
            waiting: AtomicUsize::new(0),
            address,
            proxy: AtomicBool::new(false),
            moved: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            unsent: AtomicUsize::new(0),
            headers: Balance::default(),
            cut,
            calls: Mutex::default(),
            last: Mutex::default(),
            stranger: OnceLock::new(),
            sweep_state: SweepState {
                since: server.now().into(),
                moved_at: server.now().into(),
                ..SweepState::default()
            },
            number: OnceLock::new(),
        });
        account.number.get_or_init(|| server.connections().insert(Arc::downgrade(&account)));
        account
    }

    pub(crate) fn open(&self) -> &OpenCalls {
        &self.open
    }

    /// Counts one more waiting call; returns whether it may wait.
    pub(crate) fn begin_wait(&self) -> bool {
        let room = |waiting: usize| (waiting < WAITING_MAX).then_some(waiting + 1);
        self.waiting.fetch_update(Relaxed, Relaxed, room).is_ok()
    }

    pub(crate) fn end_wait(&self) {
        self.waiting.fetch_sub(1, Relaxed);
    }

    pub(crate) fn address(&self) -> IpAddr {
        self.address
    }

    /// Sets whether the peer is a trusted proxy: then the bytes of one principal never close the connection.
    pub(crate) fn set_proxy(&self, proxy: bool) {
        self.proxy.store(proxy, Relaxed);
    }

    pub(super) fn is_proxy(&self) -> bool {
        self.proxy.load(Relaxed)
    }

    /// Counts bytes that went through the socket.
    pub(crate) fn moved(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Relaxed);
    }

    /// Counts bytes that the socket has taken.
    pub(crate) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Relaxed);
        self.moved(bytes);
    }

    /// Number of bytes that the socket has read and sent so far.
    pub(crate) fn moved_bytes(&self) -> u64 {
        self.moved.load(Relaxed)
    }

    /// Sets how many bytes of the write buffer the socket has not taken.
    pub(crate) fn set_unsent(&self, bytes: usize) {
        self.unsent.store(bytes, Relaxed);
    }

    #[cfg(test)]
    pub(crate) fn unsent(&self) -> usize {
        self.unsent.load(Relaxed)
    }

    /// Counts headers or trailers of an error, which are given to HTTP/2.
    pub(crate) fn sends_headers(&self, bytes: usize) {
        self.headers.add(bytes);
        if self.server.headers.add(bytes) > self.server.limits.headers_max() {
            self.server.answers_are_too_many();
        }
    }

    /// Bytes of headers and trailers that HTTP/2 was given, and may still keep.
    pub(crate) fn header_bytes(&self) -> usize {
        self.headers.bytes()
    }

    /// The socket has taken this many bytes of headers and trailers.
    pub(crate) fn headers_sent(&self, bytes: usize) {
        self.headers.put_back(bytes);
        self.server.headers.put_back(bytes);
    }

    /// For how many ticks bytes have waited for the socket. Called by the sweep only.
    pub(super) fn blocked_for(&self, now: u32) -> u32 {
        if self.unsent.load(Relaxed) == 0 {
            0
        } else {
            now.wrapping_sub(self.sweep_state.since.load(Relaxed))
        }
    }

    /// Counts what was refused to a call of this connection.
    pub(crate) fn refused(&self, rejection: &Rejection) {
        self.server.metrics.refused(rejection);
    }

    /// Closes the connection.
    pub(super) fn close(&self) {
        self.cut.cancel();
    }

    pub(super) fn owner(&self, who: &Arc<Identity>) -> Arc<Owner> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, owner)) = &*last
            && Arc::ptr_eq(known, who)
        {
            return Arc::clone(owner);
        }
        let owner = self.server.owners.principal(&who.principal);
        *last = Some((Arc::clone(who), Arc::clone(&owner)));
        owner
    }

    /// The account of the address, for calls without a credential.
    pub(super) fn stranger(&self) -> Arc<Owner> {
        let of = || self.server.owners.stranger(&super::network(self.address).to_string());
        Arc::clone(self.stranger.get_or_init(of))
    }

    fn calls(&self) -> MutexGuard<'_, AdmittedCalls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Registers an admitted call; returns its number.
    pub(super) fn admitted(&self, call: &Arc<CallState>) -> usize {
        let mut calls = self.calls();
        let number = calls.all.insert(AdmittedCall { call: Arc::clone(call), task: None });
        calls.admitted = Some(number);
        number
    }

    /// The task that carries out the call which was admitted last.
    pub(super) fn runs(&self, task: AbortHandle) {
        let mut calls = self.calls();
        if let Some(number) = calls.admitted.take()
            && let Some(entry) = calls.all.get_mut(number)
        {
            entry.task = Some(task);
        }
    }

    /// Removes a call that has ended, and whose client has taken all of the answer.
    pub(super) fn ended(&self, number: usize) {
        let mut calls = self.calls();
        calls.all.try_remove(number);
        if calls.admitted == Some(number) {
            calls.admitted = None;
        }
    }

    /// Aborts the task of a call: HTTP/2 resets its stream, and drops unsent bytes of its answer. Returns `false` if the task
    /// has ended: then HTTP/2 has the last piece of the answer, sends it once the client's window has space, and can no longer
    /// reset the stream.
    pub(super) fn reset(&self, number: usize) -> bool {
        let task = self.calls().all.get(number).and_then(|entry| entry.task.clone());
        match task {
            Some(task) if !task.is_finished() => {
                task.abort();
                true
            }
            Some(_) | None => false,
        }
    }

    /// The calls that have an account now, with their numbers.
    pub(super) fn all_calls(&self) -> Vec<(usize, Arc<CallState>)> {
        self.calls().all.iter().map(|(number, entry)| (number, Arc::clone(&entry.call))).collect()
    }

    /// Whether bytes wait for a socket that has taken none for more than `stall` ticks, or too few at the same lowest rate as
    /// for calls. What the kernel took into its send buffer earns time by that rate: without the first rule a client that read
    /// nothing kept its connection for 78 s instead of 10. Called by the sweep only.
    pub(super) fn is_blocked(&self, now: u32, stall: u32) -> bool {
        let (sent, sweep_state) = (self.sent.load(Relaxed), &self.sweep_state);
        if self.unsent.load(Relaxed) == 0 {
            sweep_state.sent.store(sent, Relaxed);
            sweep_state.since.store(now, Relaxed);
            sweep_state.moved_at.store(now, Relaxed);
            return false;
        }
        if sweep_state.moved.swap(sent, Relaxed) != sent {
            sweep_state.moved_at.store(now, Relaxed);
        }
        if now.wrapping_sub(sweep_state.moved_at.load(Relaxed)) > stall {
            return true;
        }
        let bytes = sent.wrapping_sub(sweep_state.sent.load(Relaxed));
        let earned = u32::try_from(bytes / BYTES_A_TICK as u64).unwrap_or(u32::MAX);
        now.wrapping_sub(sweep_state.since.load(Relaxed)) > stall.saturating_add(earned)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.cut.is_cancelled()
    }

    /// Returns the counts of the connection that are not zero, without those of headers: headers that the socket has not taken end with
    /// the connection.
    fn still_counted(&self) -> StillCounted {
        let mut left = StillCounted::default();
        left.note("open calls of a connection", self.open.calls());
        left.note("waiting calls of a connection", self.waiting.load(Relaxed));
        left.note("calls with an account of a connection", self.calls().all.len());
        left.note("bytes of requests of a connection", self.requests.bytes());
        left.note("bytes of answers of a connection", self.answers.bytes());
        left
    }
}

impl Drop for ConnectionAccount {
    fn drop(&mut self) {
        self.headers_sent(self.header_bytes());
        let left = self.still_counted();
        if !left.is_empty() {
            self.server.still_counted().extend(left);
        }
        if let Some(number) = self.number.get() {
            self.server.connections().try_remove(*number);
        }
    }
}

/// Counts one open call of its connection, until this is dropped.
pub(crate) struct OpenCall(Arc<ConnectionAccount>);

impl OpenCall {
    /// A call begins.
    pub(crate) fn begin(connection: &Arc<ConnectionAccount>) -> OpenCall {
        connection.open.begin();
        OpenCall(Arc::clone(connection))
    }

    /// Counts a part of a call that goes on after the call.
    pub(crate) fn hold(connection: &Arc<ConnectionAccount>) -> OpenCall {
        connection.open.hold();
        OpenCall(Arc::clone(connection))
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.open.end();
    }
}
