//! What the log says of answers: a line for what a person may want to know of a message, bounded so that no flood of
//! one consumer fills the log. No payload, and no text of a consumer unless that is asked for.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Level;

use crate::common::log_limit::{Suppressed, Lines, SECOND};
use crate::domain::{Answer, Command, Key, Reason, Reply, Settle, State, TraceId, Verdict, Violation};

/// So many lines a second are written of all consumers and kinds; duplicates, which are no news, have half of them.
const LINES_MAX: u32 = 50;
/// How many consumers are told apart, for each kind. Beyond them only the bound for all lines holds.
const CONSUMERS_MAX: usize = 1_000;
/// For how long a silent consumer is remembered for the lines that were held back, where others need its place.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(1);

/// Whom an answer is about.
pub(super) struct Subject {
    pub(super) key: Key,
    /// Empty: untold.
    pub(super) event_type: String,
    pub(super) trace_id: Option<TraceId>,
    /// The error that a consumer reports, where the log may tell it.
    pub(super) error: Option<String>,
}

/// What the lines are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Duplicate,
    Reclaimed,
    Parked,
    FingerprintMismatch,
    OutsideWindow,
    Late,
    LostHolder,
    Doubled,
    Suppressed,
    ReplayRefused,
    Invalid,
    Corrected,
}

impl Kind {
    /// As metrics and dashboards call it.
    fn name(self) -> &'static str {
        match self {
            Kind::Duplicate => "duplicate",
            Kind::Reclaimed => "reclaimed",
            Kind::Parked => "parked",
            Kind::FingerprintMismatch => "fingerprint_mismatch",
            Kind::OutsideWindow => "outside_window",
            Kind::Late => "late",
            Kind::LostHolder => "lost_holder",
            Kind::Doubled => "doubled",
            Kind::Suppressed => "suppressed",
            Kind::ReplayRefused => "replay_refused",
            Kind::Invalid => "invalid",
            Kind::Corrected => "corrected",
        }
    }

    fn is_logged(self) -> bool {
        if self == Kind::Duplicate { tracing::enabled!(Level::INFO) } else { tracing::enabled!(Level::WARN) }
    }

    fn text(self) -> &'static str {
        match self {
            Kind::Duplicate => "a message came again, and is done",
            Kind::Reclaimed => {
                "a claim expired, and another one has its message: was its holder lost, or is the lease too short?"
            }
            Kind::Parked => "a message waits for a person",
            Kind::FingerprintMismatch => "an id came again with another payload: is it unique?",
            Kind::OutsideWindow => "a message is older than what the ledger remembers",
            Kind::Late => {
                "a message was completed after its lease, or after its claim had been closed: is the lease too short?"
            }
            Kind::LostHolder => {
                "a holder settled a claim that is no longer its own: was it paused, is the lease too short, or did an \
                 operator change the entry?"
            }
            Kind::Doubled => {
                "two claims of one message have reported its effect as done: it may have happened twice"
            }
            Kind::Suppressed => {
                "a replayed message is not processed: effects must not happen again in its run"
            }
            Kind::ReplayRefused => "a replay is refused: is its run created, and still open?",
            Kind::Invalid => "a request is refused for its fields, and will be again: correct the consumer",
            Kind::Corrected => {
                "what a request carries is beyond its bound, and was left out, cut or clamped; the rest is done"
            }
        }
    }

    /// None: nobody need know of it.
    fn of(answer: &Answer) -> Option<Kind> {
        match answer {
            Ok(Reply::Verdict(verdict)) => match verdict {
                Verdict::Completed { by_this_claim: false, .. } => Some(Kind::Duplicate),
                Verdict::Acquired { reclaimed: true, .. } => Some(Kind::Reclaimed),
                Verdict::Parked { .. } => Some(Kind::Parked),
                Verdict::FingerprintMismatch { .. } => Some(Kind::FingerprintMismatch),
                Verdict::OutsideWindow { .. } => Some(Kind::OutsideWindow),
                Verdict::Suppressed { .. } => Some(Kind::Suppressed),
                Verdict::Acquired { .. }
                | Verdict::Completed { .. }
                | Verdict::InProgress { .. }
                | Verdict::Backoff { .. }
                | Verdict::Failed { .. } => None,
            },
            Ok(Reply::Failed { state: State::Parked(_), replayed: false, .. }) => Some(Kind::Parked),
            Ok(Reply::Completed { doubled: true, .. }) => Some(Kind::Doubled),
            Ok(Reply::Completed { late: true, replayed: false, .. }) => Some(Kind::Late),
            Ok(Reply::Completed { result_dropped: true, replayed: false, .. }) => Some(Kind::Corrected),
            Ok(
                Reply::Renewed { .. }
                | Reply::Completed { .. }
                | Reply::Failed { .. }
                | Reply::Released { .. }
                | Reply::Found(_),
            ) => None,
            Err(rejection) if rejection.doubled => Some(Kind::Doubled),
            Err(rejection) if rejection.reason.is_of_a_run() => Some(Kind::ReplayRefused),
            Err(rejection) => (rejection.reason == Reason::LeaseLost).then_some(Kind::LostHolder),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct AnswerLog {
    written: Mutex<Written>,
    /// Whether error texts of consumers are told.
    error_texts: bool,
}

impl AnswerLog {
    pub(super) fn new(error_texts: bool) -> AnswerLog {
        AnswerLog { written: Mutex::default(), error_texts }
    }

    /// The error that a command reports, where it may be told.
    pub(super) fn error_of(&self, command: &Command) -> Option<String> {
        match command {
            Command::Settle(_, Settle::Fail { error, .. }) if self.error_texts => Some(error.clone()),
            Command::Settle(..) | Command::Claim(_) | Command::Lookup => None,
        }
    }

    /// A request was refused for these fields. The consumer is empty where its caller has no right on it.
    pub(super) fn malformed(&self, consumer: &str, violations: &[Violation]) {
        self.fields(Kind::Invalid, consumer, violations);
    }

    /// These fields of a request were left out, cut or clamped.
    pub(super) fn corrected(&self, consumer: &str, corrected: &[Violation]) {
        self.fields(Kind::Corrected, consumer, corrected);
    }

    /// The first field stands for all of them: its description has the bound, and nothing that the caller sent but sizes
    /// and numbers.
    fn fields(&self, kind: Kind, consumer: &str, fields: &[Violation]) {
        let Some(first) = fields.first().filter(|_| kind.is_logged()) else { return };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = written.turn(consumer, kind, Instant::now());
        drop(written);
        let Some(held_back) = turn.map(Suppressed::logged) else { return };
        let (event, text, field, bound) = (kind.name(), kind.text(), &*first.field, &*first.description);
        let consumer = Some(consumer).filter(|name| !name.is_empty());
        tracing::warn!(event, consumer, field, bound, fields = fields.len(), held_back, "{text}");
    }

    /// A command for this key was answered.
    pub(super) fn note(&self, subject: &Subject, answer: &Answer) {
        let Subject { key, event_type, trace_id, .. } = subject;
        let Some(kind) = Kind::of(answer).filter(|kind| kind.is_logged()) else { return };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let turn = written.turn(key.consumer(), kind, Instant::now());
        drop(written);
        let Some(held_back) = turn.map(Suppressed::logged) else { return };
        let (event, text, attempt) = (kind.name(), kind.text(), attempt(answer));
        let replay_run = Some(key.replay_run()).filter(|run| !run.is_empty());
        let (consumer, key) = (key.consumer(), key.hash());
        let event_type = Some(event_type.as_str()).filter(|name| !name.is_empty());
        let trace_id = trace_id.map(tracing::field::display);
        let is_told = self.error_texts && kind == Kind::Parked;
        let error = is_told.then(|| error(subject, answer)).flatten();
        let cause = cause(answer);
        match kind {
            Kind::Duplicate => {
                tracing::info!(event, consumer, replay_run, event_type, %key, attempt, trace_id, held_back, "{text}");
            }
            Kind::Doubled => {
                tracing::error!(event, consumer, replay_run, event_type, %key, attempt, trace_id, held_back, "{text}");
            }
            Kind::Reclaimed
            | Kind::Parked
            | Kind::FingerprintMismatch
            | Kind::OutsideWindow
            | Kind::Late
            | Kind::LostHolder
            | Kind::Suppressed
            | Kind::ReplayRefused
            | Kind::Invalid
            | Kind::Corrected => {
                tracing::warn!(event, consumer, replay_run, event_type, %key, attempt, cause, trace_id, error, held_back, "{text}");
            }
        }
    }
}

/// Why a message is parked, as the contract calls it.
fn cause(answer: &Answer) -> Option<&'static str> {
    let cause = match answer {
        Ok(
            Reply::Verdict(Verdict::Parked { cause, .. }) | Reply::Failed { state: State::Parked(cause), .. },
        ) => *cause,
        Ok(_) | Err(_) => return None,
    };
    State::Parked(cause).words().1
}

/// Why a message waits for a person, in its consumer's words.
fn error<'a>(subject: &'a Subject, answer: &'a Answer) -> Option<&'a str> {
    let text = match answer {
        Ok(Reply::Verdict(Verdict::Parked { error, .. })) => Some(error.as_str()),
        Ok(_) | Err(_) => subject.error.as_deref(),
    };
    text.filter(|text| !text.is_empty())
}

/// At which attempt of the message.
pub(super) fn attempt(answer: &Answer) -> Option<i32> {
    match answer {
        Ok(Reply::Verdict(Verdict::Acquired { attempt, .. } | Verdict::Completed { attempt, .. })) => {
            Some(*attempt)
        }
        Ok(Reply::Found(found)) => found.state.map(|_| found.attempt),
        Ok(
            Reply::Verdict(_)
            | Reply::Renewed { .. }
            | Reply::Completed { .. }
            | Reply::Failed { .. }
            | Reply::Released { .. },
        )
        | Err(_) => None,
    }
}

/// Which lines were written of late.
#[derive(Debug, Default)]
struct Written {
    kinds: HashMap<Kind, HashMap<Box<str>, Told>>,
    /// When the present second began, and how many lines it has.
    began: Option<Instant>,
    lines: u32,
}

/// What was told of one consumer, of one kind.
#[derive(Debug)]
struct Told {
    lines: Lines,
    noted: Instant,
}

impl Written {
    /// Whether a line may be written now, and how many of its kind were held back since the one before. None: this
    /// one is held back, too.
    fn turn(&mut self, consumer: &str, kind: Kind, now: Instant) -> Option<Suppressed> {
        let age = |since: Instant| now.saturating_duration_since(since);
        if self.began.is_none_or(|began| age(began) >= SECOND) {
            (self.began, self.lines) = (Some(now), 0);
            for consumers in self.kinds.values_mut().filter(|consumers| consumers.len() >= CONSUMERS_MAX) {
                let kept = |told: &Told| if told.lines.has_none_suppressed() { SECOND } else { FORGOTTEN_AFTER };
                consumers.retain(|_, told| age(told.noted) < kept(told));
            }
        }
        let most = if kind == Kind::Duplicate { LINES_MAX / 2 } else { LINES_MAX };
        let allowed = self.lines < most;
        let consumers = self.kinds.entry(kind).or_default();
        if !consumers.contains_key(consumer) && consumers.len() < CONSUMERS_MAX {
            consumers.insert(consumer.into(), Told { lines: Lines::default(), noted: now });
        }
        let turn = match consumers.get_mut(consumer) {
            Some(told) => {
                told.noted = now;
                told.lines.permit(now, allowed)
            }
            None => allowed.then(Suppressed::default),
        };
        self.lines += u32::from(turn.is_some());
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many were held back before the line, if it is written.
    fn turn(written: &mut Written, consumer: &str, kind: Kind, now: Instant) -> Option<u64> {
        written.turn(consumer, kind, now).map(|held_back| held_back.logged().unwrap_or(0))
    }

    #[test]
    fn a_consumer_has_a_line_of_each_kind_a_second() {
        let (mut lines, start) = (Written::default(), Instant::now());
        // When, whose, of which kind; and how many were held back before the line, if it is written.
        for (millis, consumer, kind, written) in [
            (0, "a", Kind::Duplicate, Some(0)),
            (1, "a", Kind::Duplicate, None),
            (2, "a", Kind::Late, Some(0)),
            (3, "b", Kind::Duplicate, Some(0)),
            (999, "a", Kind::Duplicate, None),
            (1_000, "a", Kind::Duplicate, Some(2)),
            (1_001, "a", Kind::Duplicate, None),
            (1_003, "b", Kind::Duplicate, Some(0)),
            (9_000, "a", Kind::Duplicate, Some(1)),
            (9_001, "a", Kind::Late, Some(0)),
        ] {
            let now = start + Duration::from_millis(millis);
            assert_eq!(
                turn(&mut lines, consumer, kind, now),
                written,
                "{consumer} {kind:?} after {millis} ms"
            );
        }
    }

    #[test]
    fn no_flood_writes_more_than_fifty_lines_a_second_or_fills_memory() {
        let (mut lines, start) = (Written::default(), Instant::now());
        for second in 0..3 {
            let now = start + SECOND * second;
            let written = (0..10_000).filter(|consumer| {
                turn(&mut lines, &format!("{second}-{consumer}"), Kind::Duplicate, now).is_some()
            });
            assert_eq!(written.count(), 25, "in second {second}");
            let written = (0..10_000).filter(|consumer| {
                turn(&mut lines, &format!("{second}-{consumer}"), Kind::LostHolder, now).is_some()
            });
            assert_eq!(written.count(), 25, "in second {second}, of what is worse");
            assert_eq!(lines.kinds[&Kind::Duplicate].len(), CONSUMERS_MAX);
        }
        let after = turn(&mut lines, "0-51", Kind::Duplicate, start + SECOND * 3);
        assert_eq!(after, Some(1), "what the bound for all held back is told, too");
        // Fewer than fifty a second, but of many consumers: they are forgotten.
        for second in 4..200 {
            for consumer in 0..40 {
                let now = start + SECOND * second;
                assert_eq!(turn(&mut lines, &format!("{second}-{consumer}"), Kind::Late, now), Some(0));
            }
        }
        assert!(
            lines.kinds[&Kind::Late].len() <= CONSUMERS_MAX,
            "{} consumers",
            lines.kinds[&Kind::Late].len()
        );
    }
}
