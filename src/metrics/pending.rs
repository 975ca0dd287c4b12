//! Commands in progress, and what their answers count.

use std::sync::Arc;

use super::answers::{found, is_doubled, outcome, parked, place, replay_verdict, verdict};
use super::consumer::Consumer;
use super::event_type::{EventType, Later};
use super::labels::{FOUND, OUTCOMES, REPLAY_VERDICTS, VERDICTS};
use crate::domain::{Answer, Command, Key, Reply, Settle, Verdict};

/// The last indexes.
const UNANSWERED: (usize, usize) = (VERDICTS.len() - 1, OUTCOMES.len() - 1);
/// The index of a claim in a replay run that has no verdict.
pub(super) const REPLAY_OTHER: usize = REPLAY_VERDICTS.len() - 1;
/// Indexes of operations.
const COMPLETE: usize = 0;
const FAIL: usize = 1;
const RELEASE: usize = 2;
const RENEW: usize = 3;

/// The kind of a command, without its payload.
#[derive(Clone, Copy)]
pub(super) enum CommandKind {
    Claim,
    Lookup,
    /// A claim in a replay run.
    Replay,
    Settle {
        operation: usize,
        token: i64,
        /// The index of the failure's kind.
        failed: Option<usize>,
    },
}

/// Whose command it is: its consumer and its event type, as far as these have their own series.
pub(super) struct SeriesOwner {
    pub(super) key: Key,
    /// As the caller names it.
    pub(super) event_type_name: Box<str>,
    pub(super) consumer: Arc<Consumer>,
    pub(super) event_type: Arc<EventType>,
    /// Whether both the consumer and the event type have their own series.
    pub(super) named: bool,
}

/// An answer, with what is needed to count it.
pub(crate) struct Answered<'a> {
    pub(crate) answer: &'a Answer,
    /// For a settlement: the store's clock, plus the offset, as a token. A token is the time of its grant.
    pub(crate) token_clock: Option<i64>,
    /// Whether the consumer has its own policy.
    pub(crate) has_policy: &'a dyn Fn() -> bool,
}

/// A command that is not answered yet. If it is dropped before that, it counts as unanswered.
pub(crate) struct PendingCommand {
    /// `None` if the command is not counted.
    pub(super) who: Option<Arc<SeriesOwner>>,
    pub(super) kind: CommandKind,
    pub(super) minute: u32,
    pub(super) answered: bool,
}

impl PendingCommand {
    /// Whether the command is a settlement that is counted.
    pub(crate) fn settles(&self) -> bool {
        self.who.is_some() && matches!(self.kind, CommandKind::Settle { .. })
    }

    /// The label name and value under which an answer to it is counted.
    pub(crate) fn word(&self, answer: &Answer) -> (&'static str, &'static str) {
        match self.kind {
            CommandKind::Claim => ("verdict", VERDICTS[verdict(answer)]),
            CommandKind::Lookup => ("state", FOUND[found(answer)]),
            CommandKind::Replay => ("verdict", REPLAY_VERDICTS[replay_verdict(answer)]),
            CommandKind::Settle { .. } => ("outcome", OUTCOMES[outcome(answer)]),
        }
    }
}

/// The kind of a command.
pub(super) fn kind(of_run: bool, command: &Command) -> CommandKind {
    let settle = |operation, token, failed| CommandKind::Settle { operation, token, failed };
    match command {
        Command::Claim(_) if of_run => CommandKind::Replay,
        Command::Claim(_) => CommandKind::Claim,
        Command::Lookup => CommandKind::Lookup,
        Command::Settle(token, Settle::Complete { .. }) => settle(COMPLETE, *token, None),
        Command::Settle(token, Settle::Fail { kind, .. }) => settle(FAIL, *token, Some(place(*kind))),
        Command::Settle(token, Settle::Release { .. }) => settle(RELEASE, *token, None),
        Command::Settle(token, Settle::Renew { .. }) => settle(RENEW, *token, None),
    }
}

impl PendingCommand {
    /// Counts an answer and, for the first answer to a settlement, the figures of its claim. Returns the
    /// value that must be counted by event type in series that may not exist yet.
    pub(super) fn count_answer(
        &self,
        consumer: &Consumer,
        event_type: &EventType,
        answered: &Answered<'_>,
    ) -> Option<Later> {
        let answer = answered.answer;
        if let Some(cause) = parked(answer) {
            consumer.parked(cause);
        }
        if matches!(self.kind, CommandKind::Replay) {
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
        let (Ok(reply), CommandKind::Settle { operation, token, failed }) = (answer, self.kind) else {
            return None;
        };
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
            CommandKind::Claim => {
                event_type.see(self.minute);
                event_type.claimed(verdict);
            }
            CommandKind::Replay => consumer.count(event_type, Later::Replay(REPLAY_OTHER)),
            CommandKind::Lookup => consumer.count_lookup(FOUND.len() - 1),
            CommandKind::Settle { operation, .. } => consumer.settled(operation, outcome),
        }
    }
}

impl Drop for PendingCommand {
    fn drop(&mut self) {
        if let Some(who) = self.who.as_ref().filter(|_| !self.answered) {
            self.count(&who.consumer, &who.event_type, UNANSWERED.0, UNANSWERED.1);
        }
    }
}
