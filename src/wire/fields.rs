//! Validates fields: collects every violation, each with its path and its limit.

use std::fmt;

use uuid::{Uuid, Variant};

use super::errors::{DESCRIPTION_MAX, VIOLATIONS_MAX};
use super::fit::cut;
use crate::domain::{
    Command, Key, KeyHash, Malformed, Namespace, Rejection, Span, StoreTime, Submission, TOKEN_MAX, Violation,
};
use crate::proto;

/// The limits of fields and batches; sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the fields are")]
pub struct Limits {
    pub consumer: usize,
    pub source: usize,
    pub id: usize,
    pub owner: usize,
    pub fingerprint: usize,
    pub error: usize,
    pub result: usize,
    pub checkpoint: usize,
    pub batch_items: usize,
    pub batch_bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            consumer: 128,
            source: 256,
            id: 512,
            owner: 128,
            fingerprint: 64,
            error: 2_048,
            result: 16_384,
            checkpoint: 16_384,
            batch_items: 1_000,
            batch_bytes: 3_670_016,
        }
    }
}

/// The longest name of a replay run, in bytes.
pub(crate) const REPLAY_RUN_MAX: usize = 64;
/// The bounds of `google.protobuf.Duration` and `Timestamp`, in seconds.
const DURATION_MAX_SECS: i64 = 315_576_000_000;
const TIMESTAMP_SECS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The part of a request that the validated fields belong to. Displayed, it is the prefix of their paths; it
/// is formatted only for violations.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldScope {
    /// The request itself.
    Whole,
    /// An item of one of its lists.
    Item { list: &'static str, index: usize },
    /// One alternative of a `oneof` of an item.
    Choice { list: &'static str, index: usize, choice: &'static str },
}

impl fmt::Display for FieldScope {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldScope::Whole => Ok(()),
            FieldScope::Item { list, index } => write!(to, "{list}[{index}]."),
            FieldScope::Choice { list, index, choice } => write!(to, "{list}[{index}].{choice}."),
        }
    }
}

/// A UUID in its canonical text form, the one that has 36 characters.
pub(crate) fn canonical(value: &str) -> Option<Uuid> {
    Uuid::try_parse(value).ok().filter(|_| value.len() == 36)
}

/// Whether a text has nothing but printable ASCII, as most texts have: it then need not be decoded into
/// characters.
pub(super) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Collects the violations of a request's fields; their paths begin with the scope's.
pub(crate) struct FieldChecks<'a> {
    pub(super) limits: &'a Limits,
    part: FieldScope,
    violations: Vec<Violation>,
    /// The number of violations beyond those that are kept.
    left_out: usize,
    /// The fields beyond their bounds that were corrected instead of refused.
    pub(super) corrected: Vec<Violation>,
    /// The consumer of a key with a violation in another field, and whether the key is of a run.
    consumer: String,
    of_run: bool,
}

impl<'a> FieldChecks<'a> {
    /// For a request as a whole.
    pub(crate) fn new(limits: &'a Limits) -> FieldChecks<'a> {
        FieldChecks::of(limits, FieldScope::Whole)
    }

    /// For a part of a request.
    pub(crate) fn of(limits: &'a Limits, part: FieldScope) -> FieldChecks<'a> {
        FieldChecks {
            limits,
            part,
            violations: Vec::new(),
            left_out: 0,
            corrected: Vec::new(),
            consumer: String::new(),
            of_run: false,
        }
    }

    pub(crate) fn limits(&self) -> &'a Limits {
        self.limits
    }

    pub(crate) fn wrong(&mut self, field: &str, description: impl Into<String>) {
        self.wrong_as(field, || description.into());
    }

    /// Like `wrong`, for lists that may be long: the description is only made for a violation that is kept.
    pub(crate) fn wrong_as(&mut self, field: &str, description: impl FnOnce() -> String) {
        if self.violations.len() >= VIOLATIONS_MAX {
            self.left_out += 1;
            return;
        }
        let description = cut(&description(), DESCRIPTION_MAX);
        self.violations.push(Violation { field: format!("{}{field}", self.part), description });
    }

    /// The command of a consumer, if its fields have no violation.
    pub(super) fn submission(self, key: Option<Key>, command: Command) -> Result<Submission, Box<Malformed>> {
        match key {
            Some(key) if self.violations.is_empty() => {
                Ok(Submission { corrected: self.corrected, ..Submission::new(key, command) })
            }
            key => {
                let (consumer, of_run) = match &key {
                    Some(key) => (key.consumer().to_owned(), key.is_of_run()),
                    None => (self.consumer, self.of_run),
                };
                let rejection = Rejection { left_out: self.left_out, ..Rejection::invalid(self.violations) };
                Err(Box::new(Malformed { rejection, consumer, of_run, command }))
            }
        }
    }

    /// The value, if there was no violation; otherwise all violations.
    pub(crate) fn finish<T>(self, value: impl FnOnce() -> T) -> Result<T, Rejection> {
        if self.violations.is_empty() {
            return Ok(value());
        }
        Err(Rejection { left_out: self.left_out, ..Rejection::invalid(self.violations) })
    }

    pub(crate) fn key(&mut self, key: Option<&proto::EntryKey>) -> Option<Key> {
        self.own_key(key.cloned())
    }

    /// Checks a key that need not be copied.
    pub(super) fn own_key(&mut self, key: Option<proto::EntryKey>) -> Option<Key> {
        let Some(proto::EntryKey { consumer, source, id, replay_run }) = key else {
            self.wrong("key", "is missing: set consumer, source and id");
            return None;
        };
        let before = self.violations.len();
        self.name("key.consumer", &consumer, self.limits.consumer);
        let is_name = self.violations.len() == before;
        self.name("key.source", &source, self.limits.source);
        self.name("key.id", &id, self.limits.id);
        self.replay_run("key.replay_run", &replay_run);
        if self.violations.len() == before {
            let namespace = if replay_run.is_empty() {
                Namespace::live(consumer)
            } else {
                Namespace::new(&consumer, &replay_run)
            };
            return Some(Key::of(namespace, source, id));
        }
        self.of_run = !replay_run.is_empty();
        if is_name {
            self.consumer = consumer;
        }
        None
    }

    /// The name of a replay run; empty if the key is live.
    pub(crate) fn replay_run(&mut self, field: &str, value: &str) {
        self.bytes(field, value.as_bytes(), REPLAY_RUN_MAX);
        let named = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if !value.bytes().all(named) {
            self.wrong(field, "has other characters than A-Z, a-z, 0-9, `.`, `_` and `-`");
        }
    }

    /// A text that names something: not empty, bounded, without control characters.
    pub(crate) fn name(&mut self, field: &str, value: &str, max: usize) {
        if value.is_empty() {
            self.wrong(field, format!("is empty, must be 1 to {max} bytes"));
        }
        self.text(field, value, max);
    }

    /// The id of an operator's request. An id with a slash is a part of an operation on many entries, which
    /// no other request may use in advance.
    pub(crate) fn request_id(&mut self, field: &str, value: &str, max: usize) {
        self.name(field, value, max);
        self.no_slash(field, value);
    }

    /// Checks the id of an operator's request that may be empty. A slash is not allowed, as in
    /// [`Self::request_id`].
    pub(crate) fn spare_request_id(&mut self, field: &str, value: &str, max: usize) {
        self.text(field, value, max);
        self.no_slash(field, value);
    }

    fn no_slash(&mut self, field: &str, value: &str) {
        if value.contains('/') {
            self.wrong(field, "contains a slash; none is allowed");
        }
    }

    /// A text that may be empty.
    pub(crate) fn text(&mut self, field: &str, value: &str, max: usize) {
        self.bytes(field, value.as_bytes(), max);
        if !is_plain(value) && value.chars().any(char::is_control) {
            self.wrong(field, "contains a control character; none is allowed");
        }
    }

    pub(crate) fn bytes(&mut self, field: &str, value: &[u8], max: usize) {
        if value.len() > max {
            self.wrong(field, format!("has {} bytes, must be at most {max} bytes", value.len()));
        }
    }

    /// A random UUID in its canonical text form; `None` if the field is empty.
    pub(super) fn claim_id(&mut self, value: &str) -> Option<Uuid> {
        if value.is_empty() {
            return None;
        }
        match canonical(value) {
            Some(id) if matches!(id.get_version_num(), 4 | 7) && id.get_variant() == Variant::RFC4122 => {
                Some(id)
            }
            Some(id) if id.get_variant() != Variant::RFC4122 => {
                let given = id.get_variant();
                self.wrong(
                    "claim_id",
                    format!("is a UUID of the variant {given}, must be one of RFC 9562: its 17th digit is 8, 9, a or b"),
                );
                None
            }
            Some(id) => {
                let version = id.get_version_num();
                self.wrong(
                    "claim_id",
                    format!("is a UUID of version {version}, must be a random one: version 4 or 7"),
                );
                None
            }
            None => {
                self.wrong("claim_id", "is not a UUID in its 36-character text form");
                None
            }
        }
    }

    pub(super) fn token(&mut self, token: i64) {
        if !(1..=TOKEN_MAX).contains(&token) {
            self.wrong(
                "token",
                format!("is {token}, must be the token that `acquired` carried: 1 to {TOKEN_MAX}"),
            );
        }
    }

    /// A lease: a negative one is refused, others are clamped by the policy.
    pub(super) fn lease(&mut self, value: Option<&prost_types::Duration>) -> Option<Span> {
        self.span("lease", value?)
    }

    /// How long a call waits for another verdict. The items of a batch do not wait: the slowest one would
    /// delay all answers (head-of-line blocking).
    pub(super) fn wait(&mut self, value: Option<&prost_types::Duration>, part: FieldScope) -> Span {
        match (value, part) {
            (None, _) => Span::ZERO,
            (Some(value), FieldScope::Whole) => self.span("wait", value).unwrap_or_default(),
            (Some(_), FieldScope::Item { .. } | FieldScope::Choice { .. }) => {
                self.wrong(
                    "wait",
                    "is set, and the items of a batch do not wait: send the calls that wait one by one",
                );
                Span::ZERO
            }
        }
    }

    /// A duration of zero or more, which is stored as it is, without rounding.
    pub(crate) fn span(&mut self, field: &str, value: &prost_types::Duration) -> Option<Span> {
        let malformed = value.nanos.unsigned_abs() > 999_999_999
            || value.seconds.unsigned_abs() > DURATION_MAX_SECS.unsigned_abs()
            || (value.seconds > 0 && value.nanos < 0)
            || (value.seconds < 0 && value.nanos > 0);
        if malformed {
            self.wrong(field, "is not a valid google.protobuf.Duration");
            return None;
        }
        if value.seconds < 0 || value.nanos < 0 {
            self.wrong(field, "is negative, must be zero or more");
            return None;
        }
        if value.nanos % 1_000 != 0 {
            self.wrong(field, "is not in whole microseconds, which the ledger counts in: round it");
            return None;
        }
        Some(Span(value.seconds * 1_000_000 + i64::from(value.nanos) / 1_000))
    }

    pub(crate) fn instant(
        &mut self,
        field: &str,
        value: Option<&prost_types::Timestamp>,
    ) -> Option<StoreTime> {
        let value = value?;
        if !TIMESTAMP_SECS.contains(&value.seconds) || !(0..=999_999_999).contains(&value.nanos) {
            self.wrong(
                field,
                "is not a valid google.protobuf.Timestamp: years 1 to 9999, nanos 0 to 999999999",
            );
            return None;
        }
        Some(StoreTime(value.seconds * 1_000_000 + i64::from(value.nanos) / 1_000))
    }

    /// The hash of a key.
    pub(crate) fn key_hash(&mut self, field: &str, value: &str) -> Option<KeyHash> {
        let hash = Uuid::try_parse(value).ok();
        if hash.is_none() {
            self.wrong(field, "is not a hash of a key: logs and audit events show it as a UUID");
        }
        hash
    }

    /// The maximum number of items on a page; 0 for the default.
    pub(crate) fn page_size(&mut self, asked: i32, default: usize, max: usize) -> usize {
        match usize::try_from(asked) {
            Ok(0) => default,
            Ok(size) if size <= max => size,
            Ok(_) | Err(_) => {
                self.wrong("page_size", format!("is {asked}, must be 1 to {max}, or 0 for {default}"));
                default
            }
        }
    }

    /// An error's text: never refused, truncated with a mark.
    pub(crate) fn error(&self, value: &str) -> String {
        cut(&value.replace('\0', "\u{fffd}"), self.limits.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_claim_id_names_its_variant_or_version() {
        for (given, says) in [
            ("6ba7b810-9dad-11d1-80b4-00c04fd430c8", "of version 1,"),
            ("6ba7b810-9dad-41d1-00b4-00c04fd430c8", "of the variant NCS,"),
            ("6ba7b810-9dad-11d1-c0b4-00c04fd430c8", "of the variant Microsoft,"),
            ("6ba7b810", "not a UUID"),
        ] {
            let limits = Limits::default();
            let mut fields = FieldChecks::new(&limits);
            assert_eq!(fields.claim_id(given), None, "{given}");
            assert!(fields.violations[0].description.contains(says), "{:?}", fields.violations);
        }
    }

    #[test]
    fn hash_of_a_key_is_a_uuid() {
        let hash = crate::domain::Key::new("c", "s", "1").hash();
        for (given, read) in [(hash.to_string(), Some(hash)), ("order-2".into(), None), (String::new(), None)]
        {
            let limits = Limits::default();
            let mut fields = FieldChecks::new(&limits);
            assert_eq!(fields.key_hash("key_hash", &given), read, "{given}");
            assert_eq!(fields.violations.len(), usize::from(read.is_none()), "{given}");
        }
    }
}
