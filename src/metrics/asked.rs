//! A command on its way, and what its answer counts.

use std::sync::Arc;

use super::answers::{found, is_doubled, outcome, parked, place, replay_verdict, verdict};
use super::consumer::Consumer;
use super::event_type::{EventType, Later};
use super::labels::{FOUND, OUTCOMES, REPLAY_VERDICTS, VERDICTS};
use crate::domain::{Answer, Command, Key, Reply, Settle, Verdict};

/// The last places.
const UNANSWERED: (usize, usize) = (VERDICTS.len() - 1, OUTCOMES.len() - 1);
/// The place of a claim in a replay run that has no verdict.
pub(super) const REPLAY_OTHER: usize = REPLAY_VERDICTS.len() - 1;
/// Places of operations.
const COMPLETE: usize = 0;
const FAIL: usize = 1;
const RELEASE: usize = 2;
const RENEW: usize = 3;

/// What a command asks for, without what it carries.
#[derive(Clone, Copy)]
pub(super) enum Kind {
    Claim,
    Lookup,
    /// A claim in a replay run.
    Replay,
    Settle {
        operation: usize,
        token: i64,
        /// The place of a failure's kind.
        failed: Option<usize>,
    },
}

/// Whose command it is: its consumer and its event type, as far as they have series of their own.
pub(super) struct Who {
    pub(super) key: Key,
    /// As the caller has it.
    pub(super) event_type_name: Box<str>,
    pub(super) consumer: Arc<Consumer>,
    pub(super) event_type: Arc<EventType>,
    /// Both have series of their own.
    pub(super) named: bool,
}

/// What was answered.
pub(crate) struct Answered<'a> {
    pub(crate) answer: &'a Answer,
    /// Of a settlement, what the store's clock made a token of by now: a token tells when it was granted.
    pub(crate) token_clock: Option<i64>,
    /// Whether the consumer has a policy of its own.
    pub(crate) has_policy: &'a dyn Fn() -> bool,
}

/// A command that is not answered yet. One that is dropped as such counts as unanswered.
pub(crate) struct Asked {
    /// None: it is not counted.
    pub(super) who: Option<Arc<Who>>,
    pub(super) kind: Kind,
    pub(super) minute: u32,
    pub(super) answered: bool,
}

impl Asked {
    /// Whether it is a settlement that is counted.
    pub(crate) fn settles(&self) -> bool {
        self.who.is_some() && matches!(self.kind, Kind::Settle { .. })
    }

    /// The word by which an answer to it is counted, behind the name of the label.
    pub(crate) fn word(&self, answer: &Answer) -> (&'static str, &'static str) {
        match self.kind {
            Kind::Claim => ("verdict", VERDICTS[verdict(answer)]),
            Kind::Lookup => ("state", FOUND[found(answer)]),
            Kind::Replay => ("verdict", REPLAY_VERDICTS[replay_verdict(answer)]),
            Kind::Settle { .. } => ("outcome", OUTCOMES[outcome(answer)]),
        }
    }
}

/// What a command asks for.
pub(super) fn kind(of_run: bool, command: &Command) -> Kind {
    let settle = |operation, token, failed| Kind::Settle { operation, token, failed };
    match command {
        Command::Claim(_) if of_run => Kind::Replay,
        Command::Claim(_) => Kind::Claim,
        Command::Lookup => Kind::Lookup,
        Command::Settle(token, Settle::Complete { .. }) => settle(COMPLETE, *token, None),
        Command::Settle(token, Settle::Fail { kind, .. }) => settle(FAIL, *token, Some(place(*kind))),
        Command::Settle(token, Settle::Release { .. }) => settle(RELEASE, *token, None),
        Command::Settle(token, Settle::Renew { .. }) => settle(RENEW, *token, None),
    }
}

impl Asked {
    /// Counts an answer, and for a settlement the figures of its claim, the first time. Returns the value that must be counted
    /// by event type in series that may not exist yet.
    pub(super) fn told(
        &self,
        consumer: &Consumer,
        event_type: &EventType,
        answered: &Answered<'_>,
    ) -> Option<Later> {
        let answer = answered.answer;
        if let Some(cause) = parked(answer) {
            consumer.parked(cause);
        }
        if matches!(self.kind, Kind::Replay) {
            consumer.see(self.minute);
            event_type.see(self.minute);
            return Some(Later::Replay(replay_verdict(answer)));
        }
        if is_doubled(answer) {
            consumer.doubled();
        }
        self.count(consumer, event_type, verdict(answer), outcome(answer));
        if let Ok(Reply::Verdict(Verdict::Acquired { reclaimed: true, .. })) = answer {
            consumer.reclaimed();
        }
        let (Ok(reply), Kind::Settle { operation, token, failed }) = (answer, self.kind) else { return None };
        match reply {
            Reply::Completed { replayed: false, attempt, .. } => consumer.took(*attempt),
            Reply::Failed { replayed: false, .. } => {
                if let Some(kind) = failed {
                    event_type.failed(kind);
                }
            }
            Reply::Released { replayed: false, in_a_row, .. } => consumer.released(*in_a_row),
            Reply::Completed { .. }
            | Reply::Failed { .. }
            | Reply::Released { .. }
            | Reply::Renewed { .. }
            | Reply::Found(_)
            | Reply::Verdict(_) => return None,
        }
        event_type.see(self.minute);
        answered.token_clock.map(|clock| Later::Held(operation, clock - token))
    }

    pub(super) fn count(&self, consumer: &Consumer, event_type: &EventType, verdict: usize, outcome: usize) {
        consumer.see(self.minute);
        match self.kind {
            Kind::Claim => {
                event_type.see(self.minute);
                event_type.claimed(verdict);
            }
            Kind::Replay => consumer.count(event_type, Later::Replay(REPLAY_OTHER)),
            Kind::Lookup => consumer.looked(FOUND.len() - 1),
            Kind::Settle { operation, .. } => consumer.settled(operation, outcome),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(who) = self.who.as_ref().filter(|_| !self.answered) {
            self.count(&who.consumer, &who.event_type, UNANSWERED.0, UNANSWERED.1);
        }
    }
}
