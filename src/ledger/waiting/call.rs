//! A waiting call: it looks, rests until something happens to its key, and looks again, until its verdict is not one that calls
//! wait for, or its maximum wait is reached. Each look is the same command as one that arrives now.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::line::{Looked, Seat};
use super::room::{LookOrder, Room, Waiter};
use super::together::Together;
use crate::common::random;
use crate::domain::{
    Answer, Awaited, Command, Key, Rejection, Span, Submission, answered_after, answered_to_repeat, awaited,
    failed_again, is_repeated,
};
use crate::metrics::{Metrics, WaitEnd};

/// A call with less time left than this does not look again: the answer would not arrive.
pub(crate) const LEFT_MIN: Duration = Duration::from_millis(200);
/// A wait that ends looks again if its last look is older than this.
const FRESH: Duration = Duration::from_millis(100);
/// Retry-after of a call that another server would let wait, in milliseconds.
const REPEATED_MIN: u32 = 50;
const REPEATED_MAX: u32 = 1_000;
/// Longer than any backoff.
const LONG: Span = Span(i64::MAX);

/// How long a call may wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WaitEnds {
    /// When its maximum wait is reached.
    pub(crate) at: Instant,
    /// The deadline of the call.
    pub(crate) deadline: Instant,
}

/// The caller of a waiting call, as the rpc layer knows it.
pub(crate) trait WaitingCaller: Send + Sync {
    /// What the caller's connection counts for a waiting call, until it is dropped.
    type Permit: Send;

    /// Its principal. `None` if all callers are the same one.
    fn principal(&self) -> Option<&str>;

    /// A place for one more waiting call of its connection. `None` if its connection has as many as it may have.
    fn place(&self) -> Option<Self::Permit>;

    /// The call rests: what it held while it was in flight is free for others.
    fn rests(&self);

    /// Checks its credential and its right, as they are now, before it looks.
    ///
    /// # Errors
    /// `UNAUTHENTICATED`, `CONSUMER_NOT_ALLOWED`.
    fn judged(&self) -> Result<(), Rejection>;

    /// The call is in flight again.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`, `OVERLOADED`: it finds no space now.
    fn looks(&self) -> Result<(), Rejection>;
}

/// How a waiting call looks: alone, or together with others.
pub(in crate::ledger) trait Looks: Send + Sync {
    /// Looks again; the quota counted the first look.
    fn look(&self, together: Option<Arc<Together>>) -> impl Future<Output = Answer> + Send;
}

/// A place in the waiting room, until this is dropped.
struct Seated<'a> {
    room: &'a Room,
    key: &'a Key,
    principal: Option<&'a str>,
    seat: Seat,
    called: mpsc::Receiver<LookOrder>,
}

impl Drop for Seated<'_> {
    fn drop(&mut self) {
        self.room.leave(self.key, self.principal, self.seat);
    }
}

/// Why a resting call goes on.
enum Woken {
    Looks(Option<Arc<Together>>),
    Over,
    Draining,
}

impl Seated<'_> {
    fn looked(&self, found: Looked, due: Option<Span>) {
        self.room.looked(self.key.hash(), self.seat, found, due);
    }

    async fn woken(&mut self, until: Instant) -> Woken {
        tokio::select! {
            biased;
            () = self.room.drained() => Woken::Draining,
            () = sleep_until(until) => Woken::Over,
            // The room keeps the sender for as long as the seat.
            called = self.called.recv() => Woken::Looks(called.flatten()),
        }
    }
}

/// The result of a look that was answered with a verdict that calls wait for, and how long until the key may be granted: `None`
/// if only a change of the entry ends the wait.
fn found(awaited: Awaited) -> (Looked, Option<Span>) {
    match awaited {
        Awaited::Holder(span) => (Looked::Held, Some(span)),
        Awaited::Due(span) => (Looked::Nothing, Some(span)),
        Awaited::Settled => (Looked::Nothing, None),
    }
}

/// The answer to a call that does not wait on this server, with a short random retry-after: another server may let the repeat
/// wait.
fn repeated(answer: Answer) -> Answer {
    let millis = REPEATED_MIN + random::below(REPEATED_MAX - REPEATED_MIN);
    answered_to_repeat(answer, Span::from_millis(millis.into()))
}

/// The final answer to a call whose maximum wait is reached, and the outcome to count: `WaitEnd::Over` if the answer is a verdict
/// that calls wait for, else the outcome of the answer, since the last look may have granted the claim.
fn over(answer: Answer) -> (Answer, WaitEnd) {
    let is_awaited = awaited(&answer, LONG).is_some();
    let end = if is_awaited { WaitEnd::Over } else { WaitEnd::of(&answer) };
    (answer, end)
}

/// Lets a call with this answer to its first look wait, and answers it.
pub(in crate::ledger) async fn answered_later<C: WaitingCaller>(
    room: &Room,
    metrics: &Metrics,
    submission: &Submission,
    first: Answer,
    ends: WaitEnds,
    (looks, caller): (&impl Looks, &C),
) -> Answer {
    let began = Instant::now();
    let left = |now: Instant| Span::from_std(ends.at.saturating_duration_since(now));
    let Some(waits) = awaited(&first, left(began)) else { return first };
    let claimant = match &submission.command {
        Command::Claim(claim) => Some(&claim.claimant),
        Command::Settle(..) | Command::Lookup => None,
    };
    if room.is_draining() {
        return repeated(first);
    }
    let waiter = Waiter { key: &submission.key, claimant, principal: caller.principal(), until: ends.at };
    let place = caller.place();
    let entered = if place.is_some() { room.enter(&waiter) } else { None };
    let Some((seat, orders)) = entered else {
        metrics.waits().ended(WaitEnd::NoPlace, Duration::ZERO);
        return repeated(first);
    };
    let mut timed = metrics.waits().begin();
    let mut seated = Seated { room, key: waiter.key, principal: waiter.principal, seat, called: orders };
    let (answer, end) = wait(&mut seated, first, waits, ends, looks, caller).await;
    timed.ends(end);
    drop((seated, place));
    answer
}

async fn wait(
    seated: &mut Seated<'_>,
    first: Answer,
    waits: Awaited,
    ends: WaitEnds,
    looks: &impl Looks,
    caller: &impl WaitingCaller,
) -> (Answer, WaitEnd) {
    let (mut last, mut looked_at) = (first, Instant::now());
    // `None` if the last look succeeded. Its error is the answer, since `last` is older; after OUTCOME_UNKNOWN the look may even
    // have been granted the claim.
    let mut failed: Option<Rejection> = None;
    if let (_, Some(due)) = found(waits) {
        seated.room.is_due_after(seated.key.hash(), due);
    }
    loop {
        caller.rests();
        let woken = seated.woken(ends.at).await;
        let now = Instant::now();
        let later =
            |last: Answer| answered_after(last, Span::from_std(now.saturating_duration_since(looked_at)));
        let (together, is_last) = match woken {
            Woken::Draining => {
                return (failed.map_or_else(|| repeated(later(last)), Err), WaitEnd::Draining);
            }
            Woken::Looks(together) => (together, false),
            Woken::Over if now.saturating_duration_since(looked_at) <= FRESH => {
                return over(failed.map_or_else(|| later(last), Err));
            }
            // The room may have woken this call meanwhile, together with others: these wait for its look.
            Woken::Over => (seated.called.try_recv().ok().flatten(), true),
        };
        if ends.deadline.saturating_duration_since(now) < LEFT_MIN {
            return over(failed.map_or_else(|| later(last), Err));
        }
        if is_last {
            seated.room.looks(seated.key.hash(), seated.seat);
        }
        if let Err(refused) = caller.judged() {
            return (Err(refused), WaitEnd::Refused);
        }
        let answer = match caller.looks() {
            Ok(()) => looks.look(together).await,
            // It finds no space now: answered like a look that finds the queue full.
            Err(refused) => {
                drop(together);
                if is_last {
                    return over(Err(failed_again(failed, refused)));
                }
                seated.looked(Looked::Failed, None);
                failed = Some(failed_again(failed.take(), refused));
                continue;
            }
        };
        looked_at = now;
        match answer {
            Err(refused) if is_repeated(refused.reason) && !is_last => {
                seated.looked(Looked::Failed, None);
                failed = Some(failed_again(failed.take(), refused));
            }
            answer => {
                let answer = answer.map_err(|refused| failed_again(failed.take(), refused));
                let left = Span::from_std(ends.at.saturating_duration_since(Instant::now()));
                let Some(waits) = awaited(&answer, left).filter(|_| !is_last) else {
                    let end = WaitEnd::of(&answer);
                    return if is_last { over(answer) } else { (answer, end) };
                };
                let (looked, due) = found(waits);
                seated.looked(looked, due);
                (failed, last) = (None, answer);
            }
        }
    }
}
