//! The log of answers: one line for what an operator may want to know about a message, rate limited so that a flood of one
//! consumer does not fill the log. It has no payload, and no text of a consumer unless that is configured.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Level;

use crate::common::log_limit::{Lines, SECOND, Suppressed};
use crate::domain::{Answer, Command, Key, Reason, Reply, Settle, State, TraceId, Verdict, Violation};

/// Lines a second of all consumers and kinds; duplicates, which are not news, have half of them.
const LINES_MAX: u32 = 50;
/// Consumers that are limited separately for each kind. Beyond them only the limit of all lines holds.
const CONSUMERS_MAX: usize = 1_000;
/// How long the number of suppressed lines of a silent consumer is remembered, where others need its place.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(1);

/// The message that an answer is about.
pub(super) struct Subject {
    pub(super) key: Key,
    /// Empty: not logged.
    pub(super) event_type: String,
    pub(super) trace_id: Option<TraceId>,
    /// The error that a consumer reports, where it may be logged.
    pub(super) error: Option<String>,
}

/// The event of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum LogEvent {
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

impl LogEvent {
    /// The name in metrics and dashboards.
    fn name(self) -> &'static str {
        match self {
            LogEvent::Duplicate => "duplicate",
            LogEvent::Reclaimed => "reclaimed",
            LogEvent::Parked => "parked",
            LogEvent::FingerprintMismatch => "fingerprint_mismatch",
            LogEvent::OutsideWindow => "outside_window",
            LogEvent::Late => "late",
            LogEvent::LostHolder => "lost_holder",
            LogEvent::Doubled => "doubled",
            LogEvent::Suppressed => "suppressed",
            LogEvent::ReplayRefused => "replay_refused",
            LogEvent::Invalid => "invalid",
            LogEvent::Corrected => "corrected",
        }
    }

    fn is_logged(self) -> bool {
        if self == LogEvent::Duplicate {
            tracing::enabled!(Level::INFO)
        } else {
            tracing::enabled!(Level::WARN)
        }
    }

    fn text(self) -> &'static str {
        match self {
            LogEvent::Duplicate => "a message came again, and is done",
            LogEvent::Reclaimed => {
                "a claim expired, and another one has its message: was its holder lost, or is the lease too short?"
            }
            LogEvent::Parked => "a message waits for a person",
            LogEvent::FingerprintMismatch => "an id came again with another payload: is it unique?",
            LogEvent::OutsideWindow => "a message is older than what the ledger remembers",
            LogEvent::Late => {
                "a message was completed after its lease, or after its claim had been closed: is the lease too short?"
            }
            LogEvent::LostHolder => {
                "a holder settled a claim that is no longer its own: was it paused, is the lease too short, or did an \
                 operator change the entry?"
            }
            LogEvent::Doubled => {
                "two claims of one message have reported its effect as done: it may have happened twice"
            }
            LogEvent::Suppressed => {
                "a replayed message is not processed: effects must not happen again in its run"
            }
            LogEvent::ReplayRefused => "a replay is refused: is its run created, and still open?",
            LogEvent::Invalid => {
                "a request is refused for its fields, and will be again: correct the consumer"
            }
            LogEvent::Corrected => {
                "what a request carries is beyond its bound, and was left out, cut or clamped; the rest is done"
            }
        }
    }

    /// `None` if the answer is not logged.
    fn of(answer: &Answer) -> Option<LogEvent> {
        match answer {
            Ok(Reply::Verdict(verdict)) => match verdict {
                Verdict::Completed { by_this_claim: false, .. } => Some(LogEvent::Duplicate),
                Verdict::Acquired { reclaimed: true, .. } => Some(LogEvent::Reclaimed),
                Verdict::Parked { .. } => Some(LogEvent::Parked),
                Verdict::FingerprintMismatch { .. } => Some(LogEvent::FingerprintMismatch),
                Verdict::OutsideWindow { .. } => Some(LogEvent::OutsideWindow),
                Verdict::Suppressed { .. } => Some(LogEvent::Suppressed),
                Verdict::Acquired { .. }
                | Verdict::Completed { .. }
                | Verdict::InProgress { .. }
                | Verdict::Backoff { .. }
                | Verdict::Failed { .. } => None,
            },
            Ok(Reply::Failed { state: State::Parked(_), replayed: false, .. }) => Some(LogEvent::Parked),
            Ok(Reply::Completed { doubled: true, .. }) => Some(LogEvent::Doubled),
            Ok(Reply::Completed { late: true, replayed: false, .. }) => Some(LogEvent::Late),
            Ok(Reply::Completed { result_dropped: true, replayed: false, .. }) => Some(LogEvent::Corrected),
            Ok(
                Reply::Renewed { .. }
                | Reply::Completed { .. }
                | Reply::Failed { .. }
                | Reply::Released { .. }
                | Reply::Found(_),
            ) => None,
            Err(rejection) if rejection.doubled => Some(LogEvent::Doubled),
            Err(rejection) if rejection.reason.is_of_a_run() => Some(LogEvent::ReplayRefused),
            Err(rejection) => (rejection.reason == Reason::LeaseLost).then_some(LogEvent::LostHolder),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct AnswerLog {
    written: Mutex<Written>,
    /// Whether error texts of consumers are logged.
    error_texts: bool,
}

impl AnswerLog {
    pub(super) fn new(error_texts: bool) -> AnswerLog {
        AnswerLog { written: Mutex::default(), error_texts }
    }

    /// The error that a command reports, where it may be logged.
    pub(super) fn error_of(&self, command: &Command) -> Option<String> {
        match command {
            Command::Settle(_, Settle::Fail { error, .. }) if self.error_texts => Some(error.clone()),
            Command::Settle(..) | Command::Claim(_) | Command::Lookup => None,
        }
    }

    /// Logs that a request was refused for these fields. The consumer is empty if its caller has no right on it.
    pub(super) fn malformed(&self, consumer: &str, violations: &[Violation]) {
        self.fields(LogEvent::Invalid, consumer, violations);
    }

    /// Logs that these fields of a request were left out, cut or clamped.
    pub(super) fn corrected(&self, consumer: &str, corrected: &[Violation]) {
        self.fields(LogEvent::Corrected, consumer, corrected);
    }

    /// The first field stands for all of them: its description has the bound, and only sizes and numbers of what the caller
    /// sent.
    fn fields(&self, kind: LogEvent, consumer: &str, fields: &[Violation]) {
        let Some(first) = fields.first().filter(|_| kind.is_logged()) else { return };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let permit = written.permit(consumer, kind, Instant::now());
        drop(written);
        let Some(held_back) = permit.map(Suppressed::logged) else { return };
        let (event, text, field, bound) = (kind.name(), kind.text(), &*first.field, &*first.description);
        let consumer = Some(consumer).filter(|name| !name.is_empty());
        tracing::warn!(event, consumer, field, bound, fields = fields.len(), held_back, "{text}");
    }

    /// Logs the answer to a command for this key.
    pub(super) fn note(&self, subject: &Subject, answer: &Answer) {
        let Subject { key, event_type, trace_id, .. } = subject;
        let Some(kind) = LogEvent::of(answer).filter(|kind| kind.is_logged()) else { return };
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        let permit = written.permit(key.consumer(), kind, Instant::now());
        drop(written);
        let Some(held_back) = permit.map(Suppressed::logged) else { return };
        let (event, text, attempt) = (kind.name(), kind.text(), attempt(answer));
        let replay_run = Some(key.replay_run()).filter(|run| !run.is_empty());
        let (consumer, key) = (key.consumer(), key.hash());
        let event_type = Some(event_type.as_str()).filter(|name| !name.is_empty());
        let trace_id = trace_id.map(tracing::field::display);
        let is_logged_text = self.error_texts && kind == LogEvent::Parked;
        let error = is_logged_text.then(|| error(subject, answer)).flatten();
        let cause = cause(answer);
        match kind {
            LogEvent::Duplicate => {
                tracing::info!(event, consumer, replay_run, event_type, %key, attempt, trace_id, held_back, "{text}");
            }
            LogEvent::Doubled => {
                tracing::error!(event, consumer, replay_run, event_type, %key, attempt, trace_id, held_back, "{text}");
            }
            LogEvent::Reclaimed
            | LogEvent::Parked
            | LogEvent::FingerprintMismatch
            | LogEvent::OutsideWindow
            | LogEvent::Late
            | LogEvent::LostHolder
            | LogEvent::Suppressed
            | LogEvent::ReplayRefused
            | LogEvent::Invalid
            | LogEvent::Corrected => {
                tracing::warn!(event, consumer, replay_run, event_type, %key, attempt, cause, trace_id, error, held_back, "{text}");
            }
        }
    }
}

/// The cause for which the message is parked, by that cause's name in the contract. `None` if the answer does not report a
/// parked message.
fn cause(answer: &Answer) -> Option<&'static str> {
    let cause = match answer {
        Ok(
            Reply::Verdict(Verdict::Parked { cause, .. }) | Reply::Failed { state: State::Parked(cause), .. },
        ) => *cause,
        Ok(_) | Err(_) => return None,
    };
    State::Parked(cause).words().1
}

/// The error text of a parked message: that of the verdict, else the one that the command brought. `None` if it is empty.
fn error<'a>(subject: &'a Subject, answer: &'a Answer) -> Option<&'a str> {
    let text = match answer {
        Ok(Reply::Verdict(Verdict::Parked { error, .. })) => Some(error.as_str()),
        Ok(_) | Err(_) => subject.error.as_deref(),
    };
    text.filter(|text| !text.is_empty())
}

/// The attempt of the message.
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

/// The lines that were written recently.
#[derive(Debug, Default)]
struct Written {
    kinds: HashMap<LogEvent, HashMap<Box<str>, ConsumerLimit>>,
    /// Start of the current second, and its number of lines.
    began: Option<Instant>,
    lines: u32,
}

/// The log limit of one consumer and kind.
#[derive(Debug)]
struct ConsumerLimit {
    lines: Lines,
    noted: Instant,
}

impl Written {
    /// Permits a line now, with the number of suppressed lines of its kind since the last one. `None` if this one is suppressed
    /// too.
    fn permit(&mut self, consumer: &str, kind: LogEvent, now: Instant) -> Option<Suppressed> {
        let age = |since: Instant| now.saturating_duration_since(since);
        if self.began.is_none_or(|began| age(began) >= SECOND) {
            (self.began, self.lines) = (Some(now), 0);
            for consumers in self.kinds.values_mut().filter(|consumers| consumers.len() >= CONSUMERS_MAX) {
                let kept = |limit: &ConsumerLimit| {
                    if limit.lines.has_none_suppressed() { SECOND } else { FORGOTTEN_AFTER }
                };
                consumers.retain(|_, limit| age(limit.noted) < kept(limit));
            }
        }
        let most = if kind == LogEvent::Duplicate { LINES_MAX / 2 } else { LINES_MAX };
        let allowed = self.lines < most;
        let consumers = self.kinds.entry(kind).or_default();
        if !consumers.contains_key(consumer) && consumers.len() < CONSUMERS_MAX {
            consumers.insert(consumer.into(), ConsumerLimit { lines: Lines::default(), noted: now });
        }
        let permit = match consumers.get_mut(consumer) {
            Some(limit) => {
                limit.noted = now;
                limit.lines.permit(now, allowed)
            }
            None => allowed.then(Suppressed::default),
        };
        self.lines += u32::from(permit.is_some());
        permit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Span, StoreTime};

    /// The number of lines suppressed before the line, if it is written.
    fn permit(written: &mut Written, consumer: &str, kind: LogEvent, now: Instant) -> Option<u64> {
        written.permit(consumer, kind, now).map(|held_back| held_back.logged().unwrap_or(0))
    }

    #[test]
    fn answer_is_logged_as_its_event() {
        let completed = |late, doubled, result_dropped, replayed| {
            Ok(Reply::Completed { replayed, late, attempt: 1, result_dropped, doubled })
        };
        let refused = |reason| Err(crate::domain::Rejection::new(reason, "no"));
        let outside = Verdict::OutsideWindow { window: Span::from_secs(60), occurred_at: StoreTime(0) };
        let suppressed = Verdict::Suppressed { replay_run: "r".into() };
        for (answer, name, text) in [
            (Ok(Reply::Verdict(suppressed)), Some("suppressed"), "is not processed"),
            (Ok(Reply::Verdict(outside)), Some("outside_window"), "older than what the ledger remembers"),
            (completed(false, false, false, false), None, ""),
            (completed(true, false, false, false), Some("late"), "after its lease"),
            (completed(true, true, true, false), Some("doubled"), "may have happened twice"),
            (completed(false, false, true, false), Some("corrected"), "left out, cut or clamped"),
            (refused(Reason::ReplayRunUnknown), Some("replay_refused"), "is its run created"),
            (refused(Reason::Overloaded), None, ""),
        ] {
            let event = LogEvent::of(&answer);
            assert_eq!(event.map(LogEvent::name), name, "{answer:?}");
            assert!(event.is_none_or(|event| event.text().contains(text)), "{answer:?}");
        }
    }

    #[test]
    fn a_consumer_has_one_line_of_each_kind_a_second() {
        let (mut lines, start) = (Written::default(), Instant::now());
        // When, which consumer, which kind; and how many lines were suppressed before the line, if it is written.
        for (millis, consumer, kind, written) in [
            (0, "a", LogEvent::Duplicate, Some(0)),
            (1, "a", LogEvent::Duplicate, None),
            (2, "a", LogEvent::Late, Some(0)),
            (3, "b", LogEvent::Duplicate, Some(0)),
            (999, "a", LogEvent::Duplicate, None),
            (1_000, "a", LogEvent::Duplicate, Some(2)),
            (1_001, "a", LogEvent::Duplicate, None),
            (1_003, "b", LogEvent::Duplicate, Some(0)),
            (9_000, "a", LogEvent::Duplicate, Some(1)),
            (9_001, "a", LogEvent::Late, Some(0)),
        ] {
            let now = start + Duration::from_millis(millis);
            assert_eq!(
                permit(&mut lines, consumer, kind, now),
                written,
                "{consumer} {kind:?} after {millis} ms"
            );
        }
    }

    #[test]
    fn a_flood_writes_at_most_fifty_lines_a_second_and_fills_no_memory() {
        let (mut lines, start) = (Written::default(), Instant::now());
        for second in 0..3 {
            let now = start + SECOND * second;
            let written = (0..10_000).filter(|consumer| {
                permit(&mut lines, &format!("{second}-{consumer}"), LogEvent::Duplicate, now).is_some()
            });
            assert_eq!(written.count(), 25, "in second {second}");
            let written = (0..10_000).filter(|consumer| {
                permit(&mut lines, &format!("{second}-{consumer}"), LogEvent::LostHolder, now).is_some()
            });
            assert_eq!(written.count(), 25, "in second {second}, of what is worse");
            assert_eq!(lines.kinds[&LogEvent::Duplicate].len(), CONSUMERS_MAX);
        }
        let after = permit(&mut lines, "0-51", LogEvent::Duplicate, start + SECOND * 3);
        assert_eq!(after, Some(1), "lines suppressed by the limit of all lines are counted, too");
        // Fewer than fifty a second, but of many consumers: they are forgotten.
        for second in 4..200 {
            for consumer in 0..40 {
                let now = start + SECOND * second;
                assert_eq!(permit(&mut lines, &format!("{second}-{consumer}"), LogEvent::Late, now), Some(0));
            }
        }
        assert!(
            lines.kinds[&LogEvent::Late].len() <= CONSUMERS_MAX,
            "{} consumers",
            lines.kinds[&LogEvent::Late].len()
        );
    }
}
