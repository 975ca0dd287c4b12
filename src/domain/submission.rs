//! Submissions: a command for a key, with what only counts and logs use of it. No decision depends on the
//! latter.

use std::fmt;

use super::{Command, Key, Rejection, Span, Violation};

/// A command for a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Submission {
    /// The key.
    pub key: Key,
    /// The command.
    pub command: Command,
    /// What its caller calls this kind of message; empty if it does not say. For counts and logs alone; never
    /// stored.
    pub event_type: String,
    /// The trace of the call that carried it.
    pub trace_id: Option<TraceId>,
    /// How long its caller waits for another verdict. Zero if the first look is answered.
    pub wait: Span,
    /// Fields beyond their bounds that were left out, cut or clamped, and what was done with each.
    pub corrected: Vec<Violation>,
}

/// A request that is refused for its fields, and what counts and logs report of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Malformed {
    /// The refusal.
    pub rejection: Rejection,
    /// The consumer that the request names; empty where that cannot be a consumer's name.
    pub consumer: String,
    /// The request names a replay run.
    pub of_run: bool,
    /// The command, with placeholders for the fields at fault.
    pub command: Command,
}

impl Submission {
    /// A command without anything for counts and logs.
    #[must_use]
    pub fn new(key: Key, command: Command) -> Submission {
        let (event_type, corrected) = (String::new(), Vec::new());
        Submission { key, command, event_type, trace_id: None, wait: Span::ZERO, corrected }
    }
}

/// The id of a trace, by which its spans are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceId(u128);

impl TraceId {
    /// The trace id of a W3C `traceparent`: `VERSION-TRACE-PARENT-FLAGS`, in lowercase hexadecimal digits.
    /// `None` if the text is not a valid one.
    #[must_use]
    pub fn of(traceparent: &str) -> Option<TraceId> {
        let mut parts = traceparent.split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let lowercase = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let well_formed = version.len() == 2
            && version != "ff"
            && trace.len() == 32
            && lowercase(version)
            && lowercase(trace)
            && parts.next().is_some_and(|parent| parent.len() == 16);
        let id = u128::from_str_radix(trace, 16).ok().filter(|&id| id > 0)?;
        well_formed.then_some(TraceId(id))
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trace_id_is_read_from_a_valid_traceparent() {
        let id = "0bf92f3577b34da6a3ce929d0e0e4736";
        for (traceparent, has) in [
            (format!("00-{id}-00f067aa0ba902b7-01"), true),
            (format!("cc-{id}-00f067aa0ba902b7-01-what-comes-later"), true),
            (format!("ff-{id}-00f067aa0ba902b7-01"), false),
            (format!("00-{}-00f067aa0ba902b7-01", id.to_uppercase()), false),
            (format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)), false),
            (format!("00-{id}1-00f067aa0ba902b7-01"), false),
            (format!("00-+{}-00f067aa0ba902b7-01", &id[1..]), false),
            (format!("0-{id}-00f067aa0ba902b7-01"), false),
            (format!("0A-{id}-00f067aa0ba902b7-01"), false),
            (format!("00-{id}-00f067aa0ba902b-01"), false),
            (format!("00-{id}"), false),
            (String::new(), false),
        ] {
            let found = TraceId::of(&traceparent).map(|id| id.to_string());
            assert_eq!(found, has.then(|| id.to_owned()), "{traceparent}");
        }
    }
}
