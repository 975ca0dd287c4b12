//! The account of one call: the bytes of its request and answer, from its headers until the client has taken the last byte.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::task::Context;
use std::time::Duration;

use super::connection::{ConnectionAccount, OpenCall};
use super::limits::{CALL_BYTES, OwnerKind, part_of_calls};
use super::refusals;
use super::state::{CallState, Unfinished};
use crate::common::log_limit::warn_once_a_second;
use crate::domain::{Rejection, Span};
use crate::identity::{ANONYMOUS, Identity, Right, Rpc};
use crate::metrics::{Full, Limited};

/// A connection with fewer unread bytes of answers than this reads them: they are some dozens of usual answers in transit.
const FEW_ANSWERS: usize = 64 * 1_024;

/// The owner of a call, before its account is known.
pub(crate) enum CallOwner<'a> {
    /// A caller with a credential, or `anonymous`.
    Known(&'a Arc<Identity>),
    /// A client without a credential, whose call needs none.
    Stranger,
    /// As a stranger, with a short call that other calls of the same address must not block.
    Probe,
}

impl CallOwner<'_> {
    /// The owner of a call that reads no entries. Where callers are not authenticated, it is charged to its address: `anonymous`
    /// owns nearly the whole server, which such calls must not take from claims.
    pub(crate) fn asks_for_no_data(identity: &Arc<Identity>) -> CallOwner<'_> {
        if &*identity.principal == ANONYMOUS { CallOwner::Stranger } else { CallOwner::Known(identity) }
    }
}

/// See the module.
pub(crate) struct CallAccount {
    connection: Arc<ConnectionAccount>,
    state: Arc<CallState>,
    #[expect(dead_code, reason = "the call is open for as long as this lives")]
    open: OpenCall,
    rpc: &'static str,
    settles: bool,
    /// Whether it counts among the calls that its owner may have.
    counts: bool,
    number: Option<usize>,
    resting: Resting,
}

/// The state of a call that waits for another verdict, and holds no bytes meanwhile.
#[derive(Default)]
struct Resting {
    rests: AtomicBool,
    /// The bytes that it held before.
    bytes: AtomicUsize,
    /// Start of the current wait, and duration of the earlier waits, in nanoseconds.
    since: AtomicU64,
    before: AtomicU64,
}

impl CallAccount {
    /// The account of a call, for which the server keeps this many bytes from the start, its headers included.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`: its principal may have no more calls or bytes. `OVERLOADED`: its connection or the server may have
    /// no more bytes.
    pub(crate) fn admit(
        connection: &Arc<ConnectionAccount>,
        open: OpenCall,
        who: &CallOwner<'_>,
        rpc: Option<Rpc>,
        kept_bytes: usize,
    ) -> Result<Arc<CallAccount>, Rejection> {
        let owner = match who {
            CallOwner::Known(identity) => connection.owner(identity),
            CallOwner::Stranger | CallOwner::Probe => connection.stranger(),
        };
        let settles = matches!(who, CallOwner::Probe) || rpc.is_some_and(|rpc| rpc.needs == Right::Settle);
        let mut call = CallAccount {
            connection: Arc::clone(connection),
            state: Arc::new(CallState::new(owner, settles)),
            open,
            rpc: rpc.map_or("", |rpc| rpc.name),
            settles,
            counts: false,
            number: None,
            resting: Resting::default(),
        };
        call.begin(kept_bytes).inspect_err(|refused| connection.refused(refused))?;
        call.number = Some(connection.admitted(&call.state));
        Ok(Arc::new(call))
    }

    fn begin(&mut self, kept_bytes: usize) -> Result<(), Rejection> {
        let limits = self.connection.server.limits;
        let principals = limits.principals;
        if self.state.owner.kind != OwnerKind::Stranger {
            let counts = principals.calls_max > 0;
            if counts && !self.state.owner.begin_call(part_of_calls(principals.calls_max, self.settles)) {
                return Err(self.limited(Limited::Calls, principals.calls_max, None));
            }
            // From here on dropping the call returns what it took.
            self.counts = counts;
            self.rate()?;
        }
        if !self.settles && self.answers_are_too_many(limits.answers_max()) {
            self.connection.server.metrics.full(Full::AnswerBytes);
            return Err(refusals::answers(limits.answers_max()));
        }
        self.try_take(CALL_BYTES + kept_bytes)
    }

    /// Whether one more answer is refused until the sweep has freed bytes. A client that reads its answers holds few bytes, and
    /// is refused last.
    fn answers_are_too_many(&self, max: usize) -> bool {
        let all = self.connection.server.answers.bytes();
        all > max && (self.connection.answers.bytes() > FEW_ANSWERS || all > max.saturating_mul(2))
    }

    pub(crate) fn connection(&self) -> &Arc<ConnectionAccount> {
        &self.connection
    }

    pub(super) fn rpc(&self) -> &'static str {
        self.rpc
    }

    pub(super) fn state(&self) -> &CallState {
        &self.state
    }

    pub(super) fn now(&self) -> u32 {
        self.connection.server.now()
    }

    /// Counts one more item of a batch.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`: the rate limit of its principal is reached.
    pub(crate) fn item(&self) -> Result<(), Rejection> {
        self.rate().inspect_err(|refused| self.connection.refused(refused))
    }

    fn rate(&self) -> Result<(), Rejection> {
        let per_second = self.connection.server.limits.principals.calls_per_second;
        if per_second == 0 {
            return Ok(());
        }
        let taken = self.state.owner.take_rate(per_second, self.settles, self.connection.server.owners.now());
        taken.map_err(|wait| self.limited(Limited::Rate, per_second, Some(wait)))
    }

    /// Takes bytes of the request. A call never waits for bytes: calls that wait for each other's bytes would deadlock.
    ///
    /// # Errors
    /// `OVERLOADED`, `QUOTA_EXCEEDED`.
    fn take(&self, bytes: usize) -> Result<(), Rejection> {
        self.try_take(bytes).inspect_err(|refused| self.connection.refused(refused))
    }

    fn try_take(&self, bytes: usize) -> Result<(), Rejection> {
        let (connection, server) = (&*self.connection, &*self.connection.server);
        let limits = &server.limits;
        // A trusted proxy's connection carries calls of many principals, each of which has a separate share.
        let of_connection = if connection.is_proxy() { usize::MAX } else { limits.connection_bytes_max };
        if !connection.requests.take(bytes, of_connection) {
            return Err(refusals::connection(of_connection));
        }
        let taken = self.leaves_room(bytes).and_then(|()| self.take_of_server(bytes)).and_then(|()| {
            let max = limits.request_bytes_max(self.state.owner.kind);
            if self.state.owner.requests.take(bytes, max, self.settles) {
                return Ok(());
            }
            self.put_back_to_server(bytes);
            Err(match self.state.owner.kind {
                OwnerKind::Stranger => refusals::strangers(max),
                OwnerKind::Principal | OwnerKind::Anonymous => self.limited(Limited::Bytes, max, None),
            })
        });
        match &taken {
            Ok(()) => drop(self.state.requests.fetch_add(bytes, Relaxed)),
            Err(_) => drop(connection.requests.put_back(bytes)),
        }
        taken
    }

    /// Dynamic thresholds (Choudhury and Hahne, 1998): an owner holds at most as many bytes as it leaves free. One owner leaves
    /// half of the server, four leave a fifth. With fixed shares alone, four principals, or three addresses without a
    /// credential, took everything, and every call of others was refused.
    fn leaves_room(&self, bytes: usize) -> Result<(), Rejection> {
        let (owner, server) = (&*self.state.owner, &*self.connection.server);
        let (pool, max) = match owner.kind {
            // The only owner, where callers are not authenticated.
            OwnerKind::Anonymous => return Ok(()),
            OwnerKind::Principal => (&server.requests, server.limits.server_bytes_max),
            OwnerKind::Stranger => (&server.strangers, server.limits.strangers_request_bytes_max()),
        };
        if owner.requests.held(self.settles).saturating_add(bytes) <= pool.free(max, self.settles) {
            return Ok(());
        }
        // Less is free than even a small owner holds: requests that have not arrived are refused to free bytes.
        if owner.kind == OwnerKind::Principal {
            server.requests_are_full();
        }
        Err(refusals::others(&owner.name))
    }

    fn take_of_server(&self, bytes: usize) -> Result<(), Rejection> {
        let server = &*self.connection.server;
        let limits = &server.limits;
        // A separate pool: a server that is full of claims must still answer health checks.
        if self.state.owner.kind == OwnerKind::Stranger {
            let max = limits.strangers_request_bytes_max();
            let taken = server.strangers.take(bytes, max, self.settles);
            return if taken { Ok(()) } else { Err(refusals::strangers(max)) };
        }
        if server.requests.take(bytes, limits.server_bytes_max, self.settles) {
            return Ok(());
        }
        server.requests_are_full();
        Err(refusals::server(limits.server_bytes_max))
    }

    fn put_back_to_server(&self, bytes: usize) {
        let server = &*self.connection.server;
        match self.state.owner.kind {
            OwnerKind::Stranger => server.strangers.put_back(bytes, self.settles),
            OwnerKind::Principal | OwnerKind::Anonymous => server.requests.put_back(bytes, self.settles),
        }
    }

    /// Takes bytes of the message that arrives.
    ///
    /// # Errors
    /// As [`CallAccount::take`].
    pub(super) fn take_message(&self, bytes: usize) -> Result<(), Rejection> {
        self.take(bytes)?;
        self.state.message.fetch_add(bytes, Relaxed);
        Ok(())
    }

    /// Takes the missing bytes up to a message of this size: a compressed message was unpacked.
    ///
    /// # Errors
    /// As [`CallAccount::take`].
    pub(super) fn take_up_to(&self, bytes: usize) -> Result<(), Rejection> {
        match bytes.checked_sub(self.state.message.load(Relaxed)) {
            None | Some(0) => Ok(()),
            Some(missing) => self.take_message(missing),
        }
    }

    /// The call has processed the last message.
    pub(crate) fn end_message(&self) {
        self.put_back(self.state.message.swap(0, Relaxed));
    }

    /// The call waits for another verdict: it returns what it holds until it looks again. Without this, waiting calls could keep
    /// the holder that they wait for, which often is the same principal, from completing.
    pub(crate) fn rest(&self) {
        if self.resting.rests.swap(true, Relaxed) {
            return;
        }
        let bytes = self.state.request_bytes();
        self.state.message.store(0, Relaxed);
        self.put_back(bytes);
        self.resting.bytes.store(bytes, Relaxed);
        self.resting.since.store(self.connection.server.owners.now(), Relaxed);
        if self.counts {
            self.state.owner.end_call();
        }
    }

    /// The call looks again: takes back what it held before.
    ///
    /// # Errors
    /// As [`CallAccount::admit`]; the call then goes on resting.
    pub(crate) fn resume(&self) -> Result<(), Rejection> {
        if !self.resting.rests.load(Relaxed) {
            return Ok(());
        }
        let calls_max = self.connection.server.limits.principals.calls_max;
        if self.counts && !self.state.owner.begin_call(part_of_calls(calls_max, self.settles)) {
            return Err(self.limited(Limited::Calls, calls_max, None));
        }
        let taken = self.try_take(self.resting.bytes.load(Relaxed));
        if taken.is_err() {
            if self.counts {
                self.state.owner.end_call();
            }
            return taken;
        }
        self.resting.before.store(self.rested_nanos(), Relaxed);
        self.resting.rests.store(false, Relaxed);
        Ok(())
    }

    /// How long it rested.
    pub(crate) fn rested(&self) -> Duration {
        Duration::from_nanos(self.rested_nanos())
    }

    fn rested_nanos(&self) -> u64 {
        let before = self.resting.before.load(Relaxed);
        if !self.resting.rests.load(Relaxed) {
            return before;
        }
        let now = self.connection.server.owners.now();
        before + now.saturating_sub(self.resting.since.load(Relaxed))
    }

    fn put_back(&self, bytes: usize) {
        self.state.requests.fetch_sub(bytes, Relaxed);
        self.connection.requests.put_back(bytes);
        self.state.owner.requests.put_back(bytes, self.settles);
        self.put_back_to_server(bytes);
    }

    /// Whether the server still waits for its request, of which no bytes are there now.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED`: it has not arrived in time. `OVERLOADED`: it was refused to free bytes.
    pub(super) fn goes_on(&self, context: &Context<'_>) -> Result<(), Rejection> {
        let limits = &self.connection.server.limits;
        match self.state.unfinished(context) {
            None => Ok(()),
            Some(Unfinished::Stalled) => Err(refusals::stalled(limits.stall_max)),
            Some(Unfinished::Reset) => Err(refusals::reset()),
            Some(Unfinished::Full) => Err(refusals::server(limits.server_bytes_max)),
        }
    }

    /// Counts bytes of its answer, until the client takes them.
    pub(super) fn answers(&self, bytes: usize) {
        if self.state.answers.load(Relaxed) == 0 {
            self.state.sending.begin(self.now());
        }
        // The sweep sees this start, or no answer.
        self.state.answers.fetch_add(bytes, Release);
        let server = &self.connection.server;
        let limits = &server.limits;
        let over = [
            server.answers.add(bytes) > limits.answers_max(),
            self.state.owner.answers.add(bytes) > limits.answer_bytes_max(self.state.owner.kind),
            // A trusted proxy's connection has no separate bound for answers either.
            self.connection.answers.add(bytes) > limits.connection_answer_bytes_max()
                && !self.connection.is_proxy(),
        ];
        if over.contains(&true) {
            server.answers_are_too_many();
        }
    }

    /// Counts headers or trailers of an answer that is an error.
    pub(crate) fn sends_headers(&self, bytes: usize) {
        self.connection.sends_headers(bytes);
    }

    /// The client took a part of its answer.
    pub(super) fn answer_moved(&self, bytes: usize) {
        self.state.sending.moved(bytes, self.now());
    }

    /// The client took the last of these bytes of its answer, or they were dropped.
    pub(super) fn answered(&self, bytes: usize) {
        self.state.answers.fetch_sub(bytes, Relaxed);
        self.connection.answers.put_back(bytes);
        self.state.owner.answers.put_back(bytes);
        self.connection.server.answers.put_back(bytes);
    }

    /// The refusal for a limit of its principal.
    fn limited(&self, limit: Limited, max: usize, wait: Option<Duration>) -> Rejection {
        let (principal, rpc, setting) = (&*self.state.owner.name, self.rpc, refusals::setting(limit));
        self.connection.server.metrics.limited(limit);
        warn_once_a_second!(principal, rpc, setting, max, "refused: a limit of the principal is reached");
        Rejection {
            retry_after: wait.map(|wait| Span::from_std(wait).max(Span(1))),
            ..refusals::limited(principal, limit, max, self.settles)
        }
    }
}

impl Drop for CallAccount {
    fn drop(&mut self) {
        self.put_back(self.state.request_bytes());
        if self.counts && !self.resting.rests.load(Relaxed) {
            self.state.owner.end_call();
        }
        if let Some(number) = self.number {
            self.connection.ended(number);
        }
    }
}

#[cfg(test)]
mod tests;
