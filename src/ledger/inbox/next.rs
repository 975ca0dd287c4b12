//! A `ClaimNext`, from its arrival to its answer.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::line::{Line, Poll};
use super::look::{LookJob, refused_without_messages};
use crate::common::random;
use crate::domain::{
    Claim, Claimant, HandOutBounds, Handed, NextAnswer, NextRequest, Rejection, Span, failed_again,
    is_repeated,
};
use crate::ledger::Ledger;
use crate::ledger::refusals::lost;
use crate::ledger::runtime::{call_clock, sleep_until, timeout_at};
use crate::ledger::waiting::{WaitEnds, WaitingCaller};
use crate::metrics::{HandoutEnd, WaitEnd};
use crate::store::Choice;

/// Nothing is granted with less than this left of the call's deadline.
const LEFT_MIN: Duration = Duration::from_secs(1);
/// A wait that ends looks again if its last look is older than this.
const FRESH: Duration = Duration::from_millis(100);
/// Retry-after of a call that found nothing, where it is not known when the next message is due.
const RETRY_AFTER: Span = Span::from_secs(1);
/// Retry-after of a call that another server would let wait, in milliseconds.
const REPEATED_MIN: u32 = 50;
const REPEATED_MAX: u32 = 1_000;

/// What one look of a call found.
struct LookResult {
    answer: NextAnswer,
    /// When the next message is due, by the store's clock, after this time.
    due_after: Option<Duration>,
    /// How many entries it parked: there may be messages behind them.
    passed_some: bool,
}

impl Ledger {
    /// Hands out messages of a consumer, or waits for one.
    ///
    /// # Errors
    /// `CLAIM_CLOSED`, `CONSUMER_DISABLED`, `UNKNOWN_CONSUMER`, `QUOTA_EXCEEDED`, and those of the store.
    pub(crate) async fn claim_next<C: WaitingCaller>(
        &self,
        request: &NextRequest,
        ends: WaitEnds,
        caller: &C,
    ) -> Result<NextAnswer, Rejection> {
        self.registered(&request.consumer, &std::sync::OnceLock::new())?;
        let inbox = &self.inner.inbox;
        let line = inbox.lines.of(&request.consumer);
        let first = self.look_for(request, &line, ends).await?;
        if !first.answer.messages.is_empty() || ends.at <= call_clock() {
            return Ok(first.answer);
        }
        let lines = &inbox.lines;
        let place = caller.place();
        let entered = if place.is_some() && !lines.is_draining() {
            lines.enter(&request.consumer, caller.principal())
        } else {
            None
        };
        let Some(entered) = entered else {
            self.inner.metrics.waits().ended(WaitEnd::NoPlace, Duration::ZERO);
            return Ok(repeated());
        };
        let mut timed = self.inner.metrics.waits().begin();
        let (answer, end) = self.wait_for(request, &line, first, ends, caller).await;
        timed.ends(end);
        drop((entered, place));
        answer
    }

    async fn wait_for<C: WaitingCaller>(
        &self,
        request: &NextRequest,
        line: &Line,
        first: LookResult,
        ends: WaitEnds,
        caller: &C,
    ) -> (Result<NextAnswer, Rejection>, WaitEnd) {
        let lines = &self.inner.inbox.lines;
        let (mut last, mut looked_at, mut failed) = (first, call_clock(), None);
        caller.rests();
        let leads = tokio::select! {
            biased;
            () = lines.drained() => return (Ok(repeated()), WaitEnd::Draining),
            () = sleep_until(ends.at) => None,
            poll = line.leader.lock() => Some(poll),
        };
        let Some(mut poll) = leads else { return (Ok(last.answer), WaitEnd::Over) };
        soonest(&mut poll, last.due_after);
        loop {
            let is_last = tokio::select! {
                biased;
                () = lines.drained() => {
                    return (failed.map_or_else(|| Ok(repeated()), Err), WaitEnd::Draining);
                }
                () = sleep_until(ends.at) => true,
                () = line.stirred.notified() => false,
                () = sleep_until(poll.at) => false,
            };
            let now = call_clock();
            if !is_last {
                // The wake-up is spent. If this call goes away before its look, the next leader looks immediately.
                poll.at = now;
            }
            let is_fresh = now.saturating_duration_since(looked_at) <= FRESH;
            if is_last && is_fresh || ends.deadline.saturating_duration_since(now) < LEFT_MIN {
                return (failed.map_or(Ok(last.answer), Err), WaitEnd::Over);
            }
            if let Err(refused) = caller.judged() {
                return (Err(refused), WaitEnd::Refused);
            }
            looked_at = call_clock();
            // A call that finds no space now is answered like a look that is refused.
            let (looked, has_space) = match caller.looks() {
                Ok(()) => (self.look_for(request, line, ends).await, true),
                Err(refused) => (Err(refused), false),
            };
            match looked {
                Err(refused) if !is_last && (!has_space || is_repeated(refused.reason)) => {
                    poll.found_nothing(None, call_clock());
                    failed = Some(failed_again(failed.take(), refused));
                }
                Err(refused) => return (Err(failed_again(failed, refused)), WaitEnd::Refused),
                Ok(found) if !found.answer.messages.is_empty() => {
                    poll.found_some(call_clock());
                    return (Ok(found.answer), WaitEnd::Granted);
                }
                Ok(found) => {
                    if found.passed_some {
                        poll.found_some(call_clock());
                    } else {
                        poll.found_nothing(found.due_after, call_clock());
                    }
                    (last, failed) = (found, None);
                }
            }
            if is_last {
                return (Ok(last.answer), WaitEnd::Over);
            }
            caller.rests();
        }
    }

    /// Looks once. One look of a consumer is under way at a time.
    async fn look_for(
        &self,
        request: &NextRequest,
        line: &Line,
        ends: WaitEnds,
    ) -> Result<LookResult, Rejection> {
        let until = ends.deadline.checked_sub(LEFT_MIN).unwrap_or(ends.deadline);
        let Ok(turn) = timeout_at(until, line.gate.lock()).await else { return Ok(nothing(None)) };
        if call_clock() >= until {
            return Ok(nothing(None));
        }
        let policy = self.inner.policies.of(&request.consumer);
        let wanted = request.bounds.messages;
        let admitted = self.inner.quotas.admit_some(&request.consumer, &policy, wanted)?;
        let (answer, answered) = oneshot::channel();
        let job = LookJob {
            claim: crate::store::Handout {
                claim_id: request.claim_id,
                consumer: request.consumer.clone(),
                principal: request.principal.clone(),
                owner: request.owner.clone(),
                keys: Vec::new(),
            },
            command: command(request),
            bounds: HandOutBounds { messages: admitted, ..request.bounds },
            until,
            answer,
            cursor: Arc::clone(&line.cursor),
        };
        let looked = match self.inner.inbox.jobs.look(job) {
            Ok(()) => answered.await.unwrap_or_else(|_| Err(lost())),
            Err(rejection) => Err(rejection),
        };
        let used = looked.as_ref().map_or(0, |looked| looked.choice.chosen.len());
        self.inner.quotas.put_back(&request.consumer, &policy, admitted.saturating_sub(used));
        drop(turn);
        let handed_out = refused_without_messages(looked?);
        self.count(&handed_out.choice);
        if let Some(rejection) = handed_out.choice.refused {
            return Err(rejection);
        }
        let due_after = handed_out.next_due.map(|due| (due - handed_out.reading.now).to_std());
        if handed_out.choice.chosen.is_empty() {
            let passed_some = handed_out.choice.cursor.is_some() && handed_out.full;
            return Ok(LookResult { passed_some, ..nothing(due_after) });
        }
        let messages = handed_out.choice.chosen.into_iter().zip(handed_out.messages);
        let handed = messages.filter_map(|(chosen, kept)| {
            let kept = kept?;
            let (message, stored_at) = (kept.message, kept.stored_at);
            Some(Handed { key: chosen.key, verdict: chosen.verdict, message, stored_at })
        });
        let answer = NextAnswer { messages: handed.collect(), retry_after: None };
        Ok(LookResult { answer, due_after: None, passed_some: true })
    }
}

impl Ledger {
    fn count(&self, choice: &Choice) {
        let end = match choice {
            Choice { refused: Some(_), .. } => HandoutEnd::Refused,
            Choice { repeated: true, .. } => HandoutEnd::Repeated,
            Choice { chosen, .. } if chosen.is_empty() => HandoutEnd::Nothing,
            Choice { .. } => HandoutEnd::HandedOut,
        };
        self.inner.metrics.inbox().handed_out(end, choice.chosen.len(), choice.unreadable > 0);
    }
}

/// The leader takes over when what this call knows is due.
fn soonest(poll: &mut Poll, due_after: Option<Duration>) {
    if let Some(due) = due_after {
        poll.at = poll.at.min(call_clock() + due);
    }
}

/// How each message is claimed.
fn command(request: &NextRequest) -> Claim {
    Claim {
        claimant: Claimant {
            claim_id: request.claim_id,
            principal: request.principal.clone(),
            owner: request.owner.clone(),
        },
        lease: request.lease,
        fingerprint: Bytes::new(),
        occurred_at: None,
        traceparent: request.traceparent.clone(),
        handed_out: true,
    }
}

fn nothing(due_after: Option<Duration>) -> LookResult {
    let retry_after =
        due_after.map_or(RETRY_AFTER, |due| Span::from_std(due).max(Span::from_millis(10)).min(RETRY_AFTER));
    let answer = NextAnswer { messages: Vec::new(), retry_after: Some(retry_after) };
    LookResult { answer, due_after, passed_some: false }
}

/// The answer to a call that does not wait on this server: another one may let it.
fn repeated() -> NextAnswer {
    let millis = REPEATED_MIN + random::below(REPEATED_MAX - REPEATED_MIN);
    NextAnswer { messages: Vec::new(), retry_after: Some(Span::from_millis(millis.into())) }
}
