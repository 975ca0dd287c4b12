//! The errors of calls that exceed a limit.

use std::time::Duration;

use tonic::Status;
use tonic_types::StatusExt as _;

use crate::domain::{Reason, Rejection, Violation};
use crate::metrics::Limited;
use crate::proto::{ERROR_DOMAIN, ErrorReason};

fn requests(text: &str) -> Rejection {
    Rejection::new(
        Reason::Overloaded,
        format!("{text}; nothing was changed: try again later, with fewer or smaller concurrent calls"),
    )
}

pub(super) fn connection(max: usize) -> Rejection {
    requests(&format!(
        "the requests under way of this connection would take more than {max} bytes (connection_bytes_max)"
    ))
}

pub(super) fn server(max: usize) -> Rejection {
    requests(&format!(
        "the requests under way of this server would take more than {max} bytes (server_bytes_max), of which three eighths \
         are kept for settlements and an eighth for all other calls"
    ))
}

/// The refusal of a request whose owner holds as many bytes as it leaves free for all others.
pub(super) fn others(owner: &str) -> Rejection {
    requests(&format!(
        "the requests under way of {owner} would leave less room (server_bytes_max) for others than they take"
    ))
}

/// The refusal of a call whose stream was reset, while a separate task still reads the request.
pub(super) fn reset() -> Rejection {
    Rejection::new(
        Reason::Cancelled,
        "the stream was reset since its answers were not read; what was answered is done: go on from there",
    )
}

pub(super) fn answers(max: usize) -> Rejection {
    Rejection::new(
        Reason::Overloaded,
        format!(
            "clients have not read {max} bytes of this server's answers (half of server_bytes_max); nothing was changed: try again \
             later"
        ),
    )
}

pub(super) fn strangers(max: usize) -> Rejection {
    Rejection::new(
        Reason::Overloaded,
        format!(
            "calls without a credential would take more than {max} bytes, a part of server_bytes_max; nothing was changed: \
             try again later"
        ),
    )
}

pub(super) fn stalled(stall_max: Duration) -> Rejection {
    Rejection::new(
        Reason::DeadlineExceeded,
        format!(
            "the request did not arrive in time: a message may take {} (stall_max), and longer only at 1 KiB a second or \
             more; the identical request may be repeated",
            humantime::format_duration(stall_max)
        ),
    )
}

/// The refusal of a unary call with more than one message.
pub(super) fn second_message() -> Rejection {
    let description =
        "has more than one message, and the call takes one; nothing was changed: send one call for each";
    Rejection::invalid(vec![Violation { field: "request".to_owned(), description: description.to_owned() }])
}

/// The refusal of a message that is too large.
pub(crate) fn too_large(bytes_max: usize) -> Rejection {
    Rejection::new(
        Reason::TooLarge,
        format!(
            "the request is larger than {bytes_max} bytes; nothing was changed: send a batch in halves; repeat a settlement \
             without its result (with result_left_out), checkpoint or error text"
        ),
    )
}

/// The refusal of a call whose headers are too large.
pub(crate) fn headers(bytes: usize, max: usize) -> Rejection {
    Rejection::new(
        Reason::TooLarge,
        format!(
            "the call's metadata has {bytes} bytes, as HTTP/2 counts them (32 more for each header); at most {max} are \
             taken; nothing was changed: send less metadata"
        ),
    )
}

/// The setting of a principal's limit.
pub(super) fn setting(limit: Limited) -> &'static str {
    match limit {
        Limited::Calls => "principal_calls_max",
        Limited::Rate => "principal_calls_per_second",
        Limited::Bytes => "principal_bytes_max",
    }
}

pub(super) fn limited(principal: &str, limit: Limited, max: usize, settles: bool) -> Rejection {
    let what = match limit {
        Limited::Calls => "calls under way",
        Limited::Rate => "calls a second",
        Limited::Bytes => "bytes of requests under way",
    };
    let kept = if settles { "" } else { ", of which three eighths are kept for settlements" };
    let setting = setting(limit);
    Rejection::new(
        Reason::QuotaExceeded,
        format!(
            "{principal} may have {max} {what} on this server ({setting}){kept}; nothing was changed: try again later"
        ),
    )
}

/// The account's refusal that is contained in the status of a request's reader; `None` if it is another error.
pub(crate) fn refusal(status: &Status) -> Option<Rejection> {
    let info = status.get_details_error_info().filter(|info| info.domain == ERROR_DOMAIN)?;
    let said = ErrorReason::from_word(&info.reason)?;
    let own = [
        (ErrorReason::Overloaded, Reason::Overloaded),
        (ErrorReason::QuotaExceeded, Reason::QuotaExceeded),
        (ErrorReason::TooManyItems, Reason::TooManyItems),
        (ErrorReason::DeadlineExceeded, Reason::DeadlineExceeded),
        (ErrorReason::Cancelled, Reason::Cancelled),
    ];
    let (_, reason) = own.into_iter().find(|(published, _)| *published == said)?;
    Some(Rejection::new(reason, status.message()))
}
