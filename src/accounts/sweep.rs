//! The sweep checks all accounts, each half second and as soon as all together hold too much, and ends what breaks a rule.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::Server;
use super::connection::ConnectionAccount;
use super::heaviest::{Held, RECENT, heaviest};
use super::progress::{TICK, ticks};
use super::state::{CallState, Unfinished};
use crate::common::log_limit::warn_once_a_second;
use crate::metrics::{Closed, Ended, Full};

/// Streams of a connection that may be ended within [`STALLS_WITHIN`] ticks because they make no progress or hold too much:
/// more of them close the connection.
const STALLS_MAX: u32 = 16;
const STALLS_WITHIN: u32 = 120;
/// Shortest time between sweeps that were requested because too much is held: each looks at all calls.
const SWEEP_AGAIN: Duration = Duration::from_millis(50);
/// What remains of a bound after a sweep, in eighths: at the bound itself each further byte would request a sweep.
const LEFT_EIGHTHS: usize = 7;

/// Runs the sweep until the task is dropped, or the server ends.
pub(super) async fn run(server: Weak<Server>) {
    let mut tick = interval(TICK);
    let mut again = Instant::now();
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let Some(full) = server.upgrade().map(|server| Arc::clone(&server.full)) else { return };
        let ticked = tokio::select! {
            _ = tick.tick() => true,
            () = async { sleep_until(again).await; full.notified().await } => false,
        };
        again = Instant::now() + SWEEP_AGAIN;
        let Some(server) = server.upgrade() else { return };
        if ticked {
            server.ticks.fetch_add(1, Relaxed);
        }
        server.sweep();
    }
}

impl Server {
    /// One sweep over everything.
    pub(super) fn sweep(&self) {
        let (now, stall) = (self.now(), ticks(self.limits.stall_max));
        let mut calls = Vec::new();
        for connection in self.all_connections() {
            if connection.is_blocked(now, stall) {
                self.close(&connection, "the client takes none of the bytes that are sent");
                continue;
            }
            if connection.open.is_none() {
                continue;
            }
            // Streams first: their errors are sent before the connection is closed.
            if connection.had_too_many_stalls(now) && !connection.is_proxy() {
                self.close(&connection, "the client leaves too many answers and requests without progress");
                continue;
            }
            for (number, state) in connection.all_calls() {
                let call = Swept { connection: Arc::clone(&connection), number, state };
                call.state.receiving.look(now);
                call.state.sending.look(now);
                self.end_if_stalled(&call, now, stall);
                calls.push(call);
            }
        }
        if self.answers_full.swap(false, Relaxed) {
            self.too_many_headers(now);
            self.too_many_answers(&calls, now);
        }
        if self.requests_full.swap(false, Relaxed) {
            self.too_many_requests(&calls, now);
        }
    }

    /// Ends the call if it makes no progress.
    fn end_if_stalled(&self, call: &Swept, now: u32, stall: u32) {
        let (principal, address) = (call.principal(), call.connection.address());
        if call.state.request_is_stalled(now, stall) {
            call.state.end_request(Unfinished::Stalled);
            call.connection.sweep_state.stalls.fetch_add(1, Relaxed);
            self.metrics.ended(Ended::RequestStalled);
            warn_once_a_second!(principal, %address, "a request did not arrive in time: it was refused");
        } else if call.state.answer_is_stalled(now, stall) {
            self.reset(call, Ended::AnswerStalled);
            warn_once_a_second!(principal, %address, "an answer was not read in time: its stream was reset");
        }
    }

    /// Resets the stream of a call, and fails the read of its request. Closes the connection if the stream cannot be reset.
    fn reset(&self, call: &Swept, why: Ended) {
        call.state.set_reset();
        call.state.end_request(Unfinished::Reset);
        self.metrics.ended(why);
        if why != Ended::Full {
            call.connection.sweep_state.stalls.fetch_add(1, Relaxed);
        }
        if !call.connection.reset(call.number) && !call.connection.is_proxy() {
            self.close(&call.connection, "the client does not take the last bytes of an answer");
        }
    }

    fn close(&self, connection: &ConnectionAccount, why: &str) {
        if connection.is_closed() {
            return;
        }
        let address = connection.address();
        connection.close();
        self.metrics.closed(Closed::Stalled);
        warn_once_a_second!(%address, why, "a connection without progress was closed");
    }

    /// Resets the streams of owners and connections whose answers exceed their share, and of the heaviest owner if all together
    /// exceed the bound.
    fn too_many_answers(&self, calls: &[Swept], now: u32) {
        let limits = &self.limits;
        let held: Vec<&Swept> =
            calls.iter().filter(|call| call.state.answer_bytes() > 0 && !call.state.was_reset()).collect();
        // Only what can be reset: a stream that was reset just now is about to return its bytes.
        let over = |calls: &[&Swept], max: usize| {
            let sum: usize = calls.iter().map(|call| call.state.answer_bytes()).sum();
            if sum > max { sum - max / 8 * LEFT_EIGHTHS } else { 0 }
        };
        let mut ended = 0;
        for calls in by(&held, Swept::owner) {
            let excess = over(&calls, limits.answer_bytes_max(calls[0].state.owner.kind));
            ended += self.reset_heaviest(&calls, excess, now, Ended::Share);
        }
        for calls in by(&held, Swept::place) {
            if !calls[0].connection.is_proxy() {
                let excess = over(&calls, limits.connection_answer_bytes_max());
                ended += self.reset_heaviest(&calls, excess, now, Ended::Share);
            }
        }
        let excess = over(&held, limits.answers_max());
        if excess > 0 && ended == 0 {
            self.metrics.full(Full::AnswerBytes);
            self.reset_heaviest(&held, excess, now, Ended::Full);
        }
    }

    /// If all together exceed the bound: closes the connections whose sockets do not take the headers and trailers of errors,
    /// the heaviest first.
    fn too_many_headers(&self, now: u32) {
        let max = self.limits.headers_max();
        if self.headers.bytes() <= max {
            return;
        }
        let may_go = |connection: &Arc<ConnectionAccount>| {
            connection.header_bytes() > 0 && !connection.is_closed() && !connection.is_proxy()
        };
        let waiting: Vec<_> = self.all_connections().into_iter().filter(may_go).collect();
        let held = |(place, connection): (usize, &Arc<ConnectionAccount>)| Held {
            owner: place,
            connection: place,
            bytes: connection.header_bytes(),
            idle: connection.blocked_for(now),
        };
        let held: Vec<Held> = waiting.iter().enumerate().map(held).collect();
        // Of connections that go on: those that were closed just now return their bytes when they end.
        let sum: usize = held.iter().map(|one| one.bytes).sum();
        if sum <= max {
            return;
        }
        self.metrics.full(Full::AnswerBytes);
        for place in heaviest(&held, sum - max / 8 * LEFT_EIGHTHS) {
            self.close(&waiting[place], "the client does not take errors, and holds most of them");
        }
    }

    fn reset_heaviest(&self, calls: &[&Swept], excess: usize, now: u32, why: Ended) -> usize {
        let held = |call: &&Swept| call.held(call.state.answer_bytes(), call.state.sending.idle(now));
        let places = heaviest(&calls.iter().map(held).collect::<Vec<_>>(), excess);
        for call in places.iter().map(|place| calls[*place]) {
            let (principal, address) = (call.principal(), call.connection.address());
            self.reset(call, why);
            warn_once_a_second!(principal, %address, ?why, "too many bytes of answers were not read: a stream was reset");
        }
        places.len()
    }

    /// Refuses requests that have not arrived, those of the heaviest owner first, because all together have too many bytes.
    fn too_many_requests(&self, calls: &[Swept], now: u32) {
        self.metrics.full(Full::RequestBytes);
        // Settlements are refused last, and those of the heaviest owner first.
        if !self.make_room(calls, false, now) {
            self.make_room(calls, true, now);
        }
    }

    /// Returns whether there was a call to refuse.
    fn make_room(&self, calls: &[Swept], settles: bool, now: u32) -> bool {
        // A message that makes progress is not refused.
        let may_go = |call: &&Swept| {
            let receiving = &call.state.receiving;
            call.state.settles == settles && receiving.waits() && receiving.idle(now) >= RECENT
        };
        let waiting: Vec<&Swept> = calls.iter().filter(may_go).collect();
        let excess = self.requests.excess(self.limits.server_bytes_max, self.limits.room(), settles);
        let held = |call: &&Swept| call.held(call.state.request_bytes(), call.state.receiving.idle(now));
        let places = heaviest(&waiting.iter().map(held).collect::<Vec<_>>(), excess);
        for call in places.iter().map(|place| waiting[*place]) {
            let (principal, address) = (call.principal(), call.connection.address());
            call.state.end_request(Unfinished::Full);
            self.metrics.ended(Ended::Full);
            warn_once_a_second!(principal, %address, "the requests under way have too many bytes: one was refused");
        }
        !places.is_empty()
    }
}

/// A call that the sweep checks.
struct Swept {
    connection: Arc<ConnectionAccount>,
    number: usize,
    state: Arc<CallState>,
}

impl Swept {
    fn principal(&self) -> &str {
        &self.state.owner.name
    }

    /// Identifies its owner.
    fn owner(&self) -> usize {
        Arc::as_ptr(&self.state.owner) as usize
    }

    /// Identifies its connection.
    fn place(&self) -> usize {
        Arc::as_ptr(&self.connection) as usize
    }

    fn held(&self, bytes: usize, idle: u32) -> Held {
        Held { owner: self.owner(), connection: self.place(), bytes, idle }
    }
}

/// Groups calls.
fn by<'a>(calls: &[&'a Swept], of: impl Fn(&Swept) -> usize) -> Vec<Vec<&'a Swept>> {
    let mut groups: HashMap<usize, Vec<&Swept>> = HashMap::new();
    for call in calls {
        groups.entry(of(call)).or_default().push(call);
    }
    groups.into_values().collect()
}

impl ConnectionAccount {
    /// Whether too many of its streams made no progress within the last minute.
    fn had_too_many_stalls(&self, now: u32) -> bool {
        let sweep_state = &self.sweep_state;
        let too_many = sweep_state.stalls.load(Relaxed) > STALLS_MAX;
        if now.wrapping_sub(sweep_state.stalls_since.load(Relaxed)) > STALLS_WITHIN {
            sweep_state.stalls_since.store(now, Relaxed);
            sweep_state.stalls.store(0, Relaxed);
        }
        too_many
    }
}
