//! How a call is repeated: the identical request, with jittered back-off, within a budget.

use std::{future::Future, pin::Pin, time::Duration};

use bytes::Bytes;
use prost::Message;
use tokio::time::{Instant, sleep};

use crate::outcome::Advice;

pub(crate) type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// How long one try of a call may take.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
const SHORTEST_TRY: Duration = Duration::from_millis(50);
/// Characters of an error's text, for people.
pub(crate) const TEXT_LENGTH: usize = 500;
/// The shortest delay that is handed to a broker.
pub(crate) const SHORTEST_DELAY: Duration = Duration::from_millis(50);
/// The delay where the ledger names no time.
pub(crate) const DEFAULT_DELAY: Duration = Duration::from_secs(1);

/// A method of `LedgerService`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Claim,
    ClaimNext,
    Store,
    Renew,
    Complete,
    Fail,
    Release,
}

/// One try of a call.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// The request as it is sent: a repeat is the same bytes.
    pub(crate) request: Bytes,
    pub(crate) timeout: Duration,
}

/// Sends calls. Dropping the future gives the answer up.
pub(crate) trait Transport: Send + Sync {
    fn send(&self, call: Call) -> Boxed<'_, Result<Bytes, Failure>>;

    /// The endpoint as the option or the variable names it, for people.
    fn endpoint(&self) -> &str;
}

/// A call that ended with an error. `reason` is `None` where the ledger did not make the error.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure {
    pub(crate) code: &'static str,
    pub(crate) reason: Option<String>,
    pub(crate) advice: Option<String>,
    pub(crate) retry_after: Option<Duration>,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn local(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into(), ..Self::default() }
    }

    /// The same; where the ledger did not make the error, its text names the endpoint: gRPC's own often does not.
    fn of(self, endpoint: &str) -> Self {
        if self.reason.is_some() {
            return self;
        }
        let named =
            format!("no answer from {endpoint} (Connection::to, else LEDGER_ENDPOINT): {}", self.text);
        Self { text: named.chars().take(TEXT_LENGTH).collect(), ..self }
    }

    /// It is unknown whether the call was applied: only its repeat finds out (rules 3 and 4).
    pub(crate) fn unknown(&self) -> bool {
        match self.reason.as_deref() {
            None => true,
            Some(reason) => ["OUTCOME_UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED"].contains(&reason),
        }
    }

    /// The identical request may be answered otherwise.
    fn repeatable(&self) -> bool {
        self.unknown() || self.retry_after.is_some()
    }

    /// The ledger could not be reached, or could not serve. Any other error is an answer.
    pub(crate) fn away(&self) -> bool {
        ["UNAVAILABLE", "DEADLINE_EXCEEDED"].contains(&self.code)
    }

    /// The advice of the error (rule 5). `RETRY_LATER` without one, and for one that this version does not know.
    pub(crate) fn advised(&self) -> Advice {
        match (&self.reason, self.advice.as_deref()) {
            (Some(_), Some("ACK")) => Advice::Ack,
            (Some(_), Some("DEAD_LETTER")) => Advice::DeadLetter,
            _ => Advice::RetryLater {
                after: self.retry_after.map_or(DEFAULT_DELAY, |after| after.max(SHORTEST_DELAY)),
            },
        }
    }

    /// The reason, for people.
    pub(crate) fn name(&self) -> String {
        self.reason.clone().unwrap_or_else(|| format!("NO_ANSWER ({})", self.code))
    }
}

/// Sends the identical request until an answer decides, for `budget`; each try has `timeout`.
///
/// Returns the answer and the instant at which its try was sent; a [`Failure`] that no repeat changes, or where the budget
/// does not leave time for one more try.
pub(crate) async fn repeated<A: Message + Default>(
    transport: &dyn Transport,
    method: Method,
    request: &impl Message,
    budget: Duration,
    timeout: Duration,
) -> Result<(A, Instant), Failure> {
    let request = Bytes::from(request.encode_to_vec());
    let until = Instant::now() + budget;
    let mut pause = FIRST_PAUSE;
    loop {
        let sent = Instant::now();
        let left = until.saturating_duration_since(sent).min(timeout).max(SHORTEST_TRY);
        let answer = transport.send(Call { method, request: request.clone(), timeout: left }).await;
        let failure = match answer.map(A::decode) {
            Ok(Ok(answer)) => return Ok((answer, sent)),
            Ok(Err(error)) => Failure::local("INTERNAL", format!("the answer cannot be read: {error}")),
            Err(failure) => failure,
        };
        // With jitter: clients that were refused together, and repeated together, would only be refused again.
        let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
        let wait = failure.retry_after.unwrap_or_default().max(jittered);
        if !failure.repeatable() || Instant::now() + wait >= until {
            return Err(failure.of(transport.endpoint()));
        }
        sleep(wait).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A duration of a message. Zero where it is unset or negative.
pub(crate) fn span(duration: Option<&prost_types::Duration>) -> Duration {
    duration.and_then(|known| Duration::try_from(*known).ok()).unwrap_or_default()
}

/// A duration as messages have it, cut to whole microseconds: the ledger refuses a part of one. The bounds of all options
/// are far below what such a message can hold.
pub(crate) fn message(duration: Duration) -> prost_types::Duration {
    let whole = Duration::new(duration.as_secs(), duration.subsec_micros() * 1000);
    prost_types::Duration::try_from(whole).unwrap_or_default()
}
