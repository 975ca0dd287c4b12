//! Renews the lease while the command runs, and detects its loss.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Status;

use super::grant::Held;
use crate::cli::problem::{Problem, reason};
use crate::proto::{ErrorReason, RenewRequest};

/// The lease is renewed after this fraction of it; an unconfirmed renewal is repeated after a tenth.
const RENEWED_AT: u32 = 3;
const REPEATED_AT: u32 = 10;
const WAIT_MIN: Duration = Duration::from_millis(50);
const WAIT_MAX: Duration = Duration::from_secs(1);

/// Renews until the claim is lost, and returns why. All times are counted from the sending of a call, on this machine's
/// monotonic clock: the server's lease begins later, so it also ends later.
pub(super) async fn keep(held: &Held, wanted: Option<Duration>) -> String {
    let (mut lease, mut sent) = (held.lease, held.sent);
    let mut until = sent + lease;
    let mut next = sent + (lease / RENEWED_AT).max(WAIT_MIN);
    let mut why = "no renewal was confirmed".to_owned();
    loop {
        sleep_until(next.min(until)).await;
        sent = Instant::now();
        if sent >= until {
            return format!("the lease of {lease:?} is over: {why}");
        }
        match renewed(held, wanted, until.min(sent + (lease / RENEWED_AT).max(WAIT_MIN))).await {
            Ok(granted) => {
                lease = granted;
                until = sent + lease;
                next = sent + (lease / RENEWED_AT).max(WAIT_MIN);
            }
            Err(status) => {
                why = Problem::of(&status).text;
                if is_lost(&status) {
                    return why;
                }
                next = Instant::now() + (lease / REPEATED_AT).clamp(WAIT_MIN, WAIT_MAX);
            }
        }
    }
}

async fn renewed(held: &Held, wanted: Option<Duration>, answered_by: Instant) -> Result<Duration, Status> {
    let lease = wanted.and_then(|lease| prost_types::Duration::try_from(lease).ok());
    let request =
        RenewRequest { key: Some(held.key.clone()), token: held.token, lease, ..RenewRequest::default() };
    let mut ledger = held.ledger.clone();
    let answer = timeout_at(answered_by, ledger.renew(held.client.request(request))).await;
    let answer = answer.map_err(|_| Status::deadline_exceeded("a renewal had no answer"))??.into_inner();
    Ok(answer.lease.and_then(|lease| Duration::try_from(lease).ok()).unwrap_or_default())
}

/// Whether the claim belongs to another holder, is closed or was deleted: no repeat changes that.
fn is_lost(status: &Status) -> bool {
    let lost = [
        ErrorReason::LeaseLost,
        ErrorReason::ClaimClosed,
        ErrorReason::EntryNotFound,
        ErrorReason::TokenFromFuture,
    ];
    reason(status).is_some_and(|(_, reason)| lost.contains(&reason))
}
