//! Problems, for people: what is wrong, why, what to do next, and the exit code.

use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::process::ExitCode;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use super::stderr::print_stderr;
use super::text::clean;
use crate::proto::{self, ErrorReason};

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It is done.
    Done = 0,
    /// It failed or was refused, or it found what it was asked to warn about.
    Failed = 1,
    /// It was called wrongly, or not confirmed.
    Usage = 2,
    /// The entry or policy does not exist.
    NotFound = 3,
    /// It was changed meanwhile, or its state does not allow the change.
    Conflict = 4,
    /// The server does not answer or cannot serve, or the outcome is not known.
    Unavailable = 5,
    /// A part is done; the rest was refused or is still to be done.
    Partly = 6,
    /// A dry run has found a difference.
    Differs = 7,
}

/// The exit codes, for `--help`.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed or refused; policy lint --strict: there are warnings; retention status: falling behind;
     tokens show: the clock is behind, or has jumped ahead; rights check: no; rights lint --strict: there are warnings;
     bench: --max-p99 is exceeded, or a wrong answer was seen
  2  called wrongly, or not confirmed
  3  no such entry or policy
  4  it was changed meanwhile (VERSION_MISMATCH), or its state does not allow it
  5  the server cannot be reached or cannot serve, or it is unknown whether it was done
  6  partly done: some were refused, or the rest is still to do; entries list, entries next: the search was not finished
  7  policy apply --dry-run: the policies differ from the file; 0: they are equal
  8  serve, migrate: the store needs a newer version of this program";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Why a command ends early.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) exit: Exit,
    /// The error; empty if nothing must be printed.
    pub(crate) text: String,
    /// What to do next.
    pub(crate) next: Option<String>,
    /// The reason of a refusal.
    pub(crate) reason: Option<ErrorReason>,
}

impl Problem {
    pub(crate) fn new(exit: Exit, text: impl Into<String>) -> Problem {
        Problem { exit, text: text.into(), next: None, reason: None }
    }

    pub(crate) fn failed(text: impl Into<String>) -> Problem {
        Problem::new(Exit::Failed, text)
    }

    pub(crate) fn usage(text: impl Into<String>) -> Problem {
        Problem::new(Exit::Usage, text)
    }

    pub(crate) fn next(self, next: impl Into<String>) -> Problem {
        Problem { next: Some(next.into()), ..self }
    }

    /// Suggests `--force` if the problem is a refusal that it would have avoided.
    pub(crate) fn forcible(self) -> Problem {
        if self.reason != Some(ErrorReason::StateNotAllowed) {
            return self;
        }
        self.next(
            "look at the entry with `entries get`. If what the error warns of does no harm, repeat the command with --force",
        )
    }

    /// Prints it, and returns the exit code.
    pub(crate) fn print(self) -> Exit {
        if !self.text.is_empty() {
            print_stderr(&format!("error: {}", self.text));
        }
        if let Some(next) = self.next {
            print_stderr(&format!("  next: {next}"));
        }
        self.exit
    }

    /// A refusal of the server.
    pub(crate) fn of(status: &Status) -> Problem {
        let Some((word, reason)) = reason(status) else { return without_details(status) };
        let mut text = format!("{word}: {}", clean(status.message()));
        let details = status.get_error_details();
        for violation in details.bad_request().map(|bad| &bad.field_violations[..]).unwrap_or_default() {
            let _written = write!(text, "\n  {}: {}", clean(&violation.field), clean(&violation.description));
        }
        Problem { exit: exit(reason), text, next: hint(reason).map(str::to_owned), reason: Some(reason) }
    }
}

/// Standard output was closed: its reader needs no more.
impl From<io::Error> for Problem {
    fn from(error: io::Error) -> Problem {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Problem::new(Exit::Done, "");
        }
        Problem::failed(format!("standard output: {error}"))
    }
}

/// The fields of a policy that the server refuses, each with its fault, under their names in a file.
pub(crate) fn violations(status: &Status) -> Vec<String> {
    let details = status.get_error_details();
    let all = details.bad_request().map(|bad| &bad.field_violations[..]).unwrap_or_default();
    let of_policy = all.iter().filter_map(|one| Some((one.field.strip_prefix("policy.")?, &one.description)));
    of_policy.map(|(field, description)| clean(&format!("{field}: {description}"))).collect()
}

/// The reason of an error: its bare word, and its enum value, which is `Unspecified` if only a newer server
/// knows the word.
pub(crate) fn reason(status: &Status) -> Option<(String, ErrorReason)> {
    let details = status.get_error_details();
    let word = &details.error_info().filter(|info| info.domain == proto::ERROR_DOMAIN)?.reason;
    Some((clean(word), ErrorReason::from_word(word).unwrap_or_default()))
}

/// Why one entry of many was refused, in one line.
pub(crate) fn rejected(rejected: &proto::Rejected) -> String {
    let word = rejected.reason().as_str_name().trim_start_matches("ERROR_REASON_");
    let mut text = format!("{word}: {}", clean(&rejected.message));
    for violation in &rejected.field_violations {
        let _written = write!(text, "; {}: {}", clean(&violation.field), clean(&violation.description));
    }
    text
}

/// An error with all its causes, which are more specific than the error itself.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            let _written = write!(text, ": {said}");
        }
        cause = inner.source();
    }
    clean(&text)
}

fn without_details(status: &Status) -> Problem {
    let code = status.code();
    let said = status.source().map_or_else(|| clean(status.message()), chain);
    let text = format!("{code:?}: {said}");
    if matches!(code, Code::DeadlineExceeded | Code::Cancelled) {
        return Problem::new(Exit::Unavailable, text).next(TIMED_OUT);
    }
    if matches!(code, Code::Unavailable | Code::Unknown) {
        let next = "is the server running, and reachable? Name another with --endpoint or --context, or wait longer \
                    with --timeout";
        return Problem::new(Exit::Unavailable, text).next(next);
    }
    if said.contains(TLS_ALERT) {
        let next = "does the server have TLS at this port? Name it with https:// instead of http://";
        return Problem::new(Exit::Unavailable, text).next(next);
    }
    if code == Code::Unimplemented {
        return Problem::failed(text).next("the server is older than this command line, or no ledger at all");
    }
    Problem::failed(text)
}

fn exit(reason: ErrorReason) -> Exit {
    match reason {
        ErrorReason::EntryNotFound | ErrorReason::PolicyNotFound | ErrorReason::ReplayRunUnknown => {
            Exit::NotFound
        }
        ErrorReason::VersionMismatch
        | ErrorReason::StateNotAllowed
        | ErrorReason::TooRecent
        | ErrorReason::ReplayRunClosed
        | ErrorReason::ReplayForbidden
        | ErrorReason::InboxOff => Exit::Conflict,
        ErrorReason::Overloaded
        | ErrorReason::QuotaExceeded
        | ErrorReason::StoreUnavailable
        | ErrorReason::StoreClockBehind
        | ErrorReason::StoreClockAhead
        | ErrorReason::Draining
        | ErrorReason::OutcomeUnknown
        | ErrorReason::DeadlineExceeded
        | ErrorReason::Cancelled
        | ErrorReason::BacklogFull => Exit::Unavailable,
        ErrorReason::Unspecified
        | ErrorReason::InvalidField
        | ErrorReason::TooManyItems
        | ErrorReason::TooLarge
        | ErrorReason::ClaimClosed
        | ErrorReason::EffectStarted
        | ErrorReason::LeaseLimitReached
        | ErrorReason::TokenFromFuture
        | ErrorReason::ConsumerDisabled
        | ErrorReason::UnknownConsumer
        | ErrorReason::RetentionTooShort
        | ErrorReason::LeaseLost
        | ErrorReason::Unauthenticated
        | ErrorReason::ConsumerNotAllowed
        | ErrorReason::KeyCollision
        | ErrorReason::EntryUnreadable
        | ErrorReason::PolicyUnreadable
        | ErrorReason::Internal
        | ErrorReason::Unimplemented => Exit::Failed,
    }
}

/// What h2 reports of the alert by which a server with TLS refuses plain HTTP/2: its first bytes would be a frame of 1.3 MiB.
const TLS_ALERT: &str = "frame with invalid size";
const TIMED_OUT: &str = "timed out; nothing was changed; raise --timeout";

fn hint(reason: ErrorReason) -> Option<&'static str> {
    Some(match reason {
        ErrorReason::VersionMismatch => "it was changed: look again with `get`, then decide again",
        ErrorReason::StateNotAllowed => "look at it with `entries get`",
        ErrorReason::TooRecent => "try again in a minute",
        ErrorReason::EntryNotFound => {
            "check consumer, source and id; find it with `entries list --consumer C --id-prefix P`"
        }
        ErrorReason::ReplayRunUnknown => "see the consumer's runs with `replay list`",
        ErrorReason::ReplayRunClosed => "create another run with `replay create`",
        ErrorReason::ReplayForbidden => {
            "allow replays with `policy set --replay SUPPRESS` or `--replay REBUILD`"
        }
        ErrorReason::PolicyNotFound => "see where the policy comes from with `policy get`",
        ErrorReason::RetentionTooShort => {
            "lengthen retention, or accept the risk with --accepted-risk (in a file: accepted_risk) and why"
        }
        ErrorReason::Unauthenticated => {
            "name your token with --token-file, or IDEMPOTENCY_LEDGER_TOKEN, or in a context; what --endpoint names is \
             never sent a context's token"
        }
        ErrorReason::ConsumerNotAllowed => "your token does not allow this; ask who hands out the tokens",
        ErrorReason::Draining => "another server answers: try again",
        ErrorReason::Overloaded | ErrorReason::QuotaExceeded | ErrorReason::StoreUnavailable => {
            "try again in a moment"
        }
        ErrorReason::StoreClockBehind => {
            "wait until the database's clock has caught up, and try again; `tokens show` reports by how much it is behind, \
             and whether it must be set right"
        }
        ErrorReason::StoreClockAhead => {
            "set the database's clock right; if it is right, accept it with `migrate --accept-clock`"
        }
        // For a call that only reads. Each change explains how to repeat it.
        ErrorReason::OutcomeUnknown => "nothing was changed: try again",
        ErrorReason::DeadlineExceeded | ErrorReason::Cancelled => TIMED_OUT,
        ErrorReason::InboxOff => "switch the inbox on with `policy set --inbox`",
        ErrorReason::BacklogFull => "start workers that call ClaimNext, or raise the bound that is reached",
        ErrorReason::Unimplemented => "the server is older than this command line",
        ErrorReason::Internal
        | ErrorReason::KeyCollision
        | ErrorReason::EntryUnreadable
        | ErrorReason::PolicyUnreadable => "tell who runs the server: its log says more",
        ErrorReason::Unspecified
        | ErrorReason::InvalidField
        | ErrorReason::TooManyItems
        | ErrorReason::TooLarge
        | ErrorReason::ClaimClosed
        | ErrorReason::EffectStarted
        | ErrorReason::LeaseLimitReached
        | ErrorReason::TokenFromFuture
        | ErrorReason::ConsumerDisabled
        | ErrorReason::UnknownConsumer
        | ErrorReason::LeaseLost => return None,
    })
}

#[cfg(test)]
pub(crate) mod tests;
