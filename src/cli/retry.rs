//! Repeats the identical request after an unknown outcome, with a bound. Each change has its own id, so that
//! a repeat changes nothing that was done.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tonic::{Code, Response, Status};

use super::problem::reason;
use crate::common::random;
use crate::proto::ErrorReason;

const TIMES_MAX: u32 = 5;
const WAIT_FIRST: Duration = Duration::from_millis(100);
const TOTAL_MAX: Duration = Duration::from_mins(1);
/// The longest wait between two calls of which one must be confirmed, and the longest time of each.
const WAIT_MAX: Duration = Duration::from_secs(2);
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// An id for a request, if the operator named none.
pub(crate) fn id() -> String {
    random::id().to_string()
}

/// An answer after an unknown outcome was resolved.
pub(crate) struct ConfirmedAnswer<T> {
    pub(crate) answer: T,
    /// More than one call was needed.
    pub(crate) repeated: bool,
}

/// Calls, and repeats the call while its outcome is unknown.
pub(crate) async fn until_known<T, F>(mut call: impl FnMut() -> F) -> Result<ConfirmedAnswer<T>, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let (began, mut wait, mut times) = (Instant::now(), WAIT_FIRST, 1);
    loop {
        match call().await {
            Ok(response) => {
                return Ok(ConfirmedAnswer { answer: response.into_inner(), repeated: times > 1 });
            }
            Err(status) if !unknown(&status) || times == TIMES_MAX || began.elapsed() > TOTAL_MAX => {
                return Err(status);
            }
            Err(_) => {}
        }
        sleep(wait).await;
        wait *= 2;
        times += 1;
    }
}

/// Calls until the server confirms or refuses, or until the time is over.
pub(crate) async fn until_confirmed<T, F>(within: Duration, mut call: impl FnMut() -> F) -> Result<T, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let (began, mut wait) = (Instant::now(), WAIT_FIRST);
    let mut last = Status::deadline_exceeded(format!("no answer within {within:?}"));
    loop {
        let left = within.saturating_sub(began.elapsed());
        match timeout(left.min(ANSWER_MAX), call()).await {
            Ok(Ok(response)) => return Ok(response.into_inner()),
            Ok(Err(status)) if !unknown(&status) && !is_refused_for_load(&status) => return Err(status),
            Ok(Err(status)) => last = status,
            Err(_) => {}
        }
        if began.elapsed() + wait >= within {
            return Err(last);
        }
        sleep(wait).await;
        wait = (wait * 2).min(WAIT_MAX);
    }
}

/// Whether the server refused the call for load: the identical call helps later.
fn is_refused_for_load(status: &Status) -> bool {
    let load = [ErrorReason::Overloaded, ErrorReason::QuotaExceeded];
    reason(status).is_some_and(|(_, reason)| load.contains(&reason))
}

/// Whether the call may have been applied, or another server may be able to apply it.
pub(crate) fn unknown(status: &Status) -> bool {
    match reason(status) {
        Some((_, reason)) => {
            let elsewhere = [ErrorReason::StoreUnavailable, ErrorReason::Draining];
            reason.outcome_unknown() || elsewhere.contains(&reason)
        }
        // The connection, or a hop on the way, failed.
        None => matches!(
            status.code(),
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown | Code::Internal
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::collections::HashMap;

    use tonic_types::{ErrorDetails, StatusExt as _};

    use super::*;
    use crate::proto::ERROR_DOMAIN;

    async fn tried(code: Code, good_after: u32) -> (u32, bool) {
        let calls = Cell::new(0);
        let call = || {
            calls.set(calls.get() + 1);
            let good = calls.get() > good_after;
            async move { if good { Ok(Response::new(())) } else { Err(Status::new(code, "")) } }
        };
        let done = until_known(call).await.is_ok();
        (calls.get(), done)
    }

    #[tokio::test]
    async fn until_confirmed_ends_with_its_time() {
        let silent =
            until_confirmed(Duration::from_millis(50), std::future::pending::<Result<Response<()>, _>>);
        assert_eq!(silent.await.unwrap_err().code(), Code::DeadlineExceeded);
        let calls = Cell::new(0);
        let later = || {
            calls.set(calls.get() + 1);
            let good = calls.get() > 3;
            async move { if good { Ok(Response::new(())) } else { Err(Status::unavailable("")) } }
        };
        assert!(until_confirmed(Duration::from_mins(1), later).await.is_ok());
        let refused = || async { Err::<Response<()>, _>(Status::not_found("")) };
        assert_eq!(
            until_confirmed(Duration::from_mins(1), refused).await.unwrap_err().code(),
            Code::NotFound
        );
    }

    /// A refusal, as a server sends it.
    fn refused_for(reason: ErrorReason) -> Status {
        let word = reason.as_str_name().trim_start_matches("ERROR_REASON_");
        let details = ErrorDetails::with_error_info(word, ERROR_DOMAIN, HashMap::new());
        Status::with_error_details(Code::FailedPrecondition, "refused", details)
    }

    #[tokio::test]
    async fn until_confirmed_repeats_load_refusals_and_unknown_outcomes() {
        let repeated = [
            ErrorReason::Cancelled,
            ErrorReason::DeadlineExceeded,
            ErrorReason::Draining,
            ErrorReason::OutcomeUnknown,
            ErrorReason::Overloaded,
            ErrorReason::QuotaExceeded,
            ErrorReason::StoreUnavailable,
        ];
        for reason in (1..).map_while(|number| ErrorReason::try_from(number).ok()) {
            let calls = Cell::new(0);
            let call = || {
                calls.set(calls.get() + 1);
                let good = calls.get() > 1;
                async move { if good { Ok(Response::new(())) } else { Err(refused_for(reason)) } }
            };
            let confirmed = until_confirmed(Duration::from_mins(1), call).await.is_ok();
            assert_eq!(confirmed, repeated.contains(&reason), "{reason:?}");
        }
    }

    #[tokio::test]
    async fn only_unknown_outcomes_are_repeated_with_a_bound() {
        assert_eq!(tried(Code::Unavailable, 2).await, (3, true));
        assert_eq!(tried(Code::Unavailable, 99).await, (TIMES_MAX, false));
        assert_eq!(tried(Code::NotFound, 99).await, (1, false));
    }
}
