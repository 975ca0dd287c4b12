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
    renewing(held.lease, held.sent, |answered_by| renewed(held, wanted, answered_by)).await
}

/// `renewed` sends one renewal, and waits for its answer until the given instant.
async fn renewing<F>(mut lease: Duration, mut sent: Instant, mut renewed: impl FnMut(Instant) -> F) -> String
where
    F: Future<Output = Result<Duration, Status>>,
{
    let mut until = sent + lease;
    let mut next = sent + (lease / RENEWED_AT).max(WAIT_MIN);
    let mut why = "no renewal was confirmed".to_owned();
    loop {
        sleep_until(next.min(until)).await;
        sent = Instant::now();
        if sent >= until {
            return format!("the lease of {lease:?} is over: {why}");
        }
        match renewed(until.min(sent + (lease / RENEWED_AT).max(WAIT_MIN))).await {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn renewed_lease_is_counted_from_the_sending_of_its_renewal() {
        const LEASE: Duration = Duration::from_secs(3);
        let (mut first, mut waited_until) = (None, Vec::new());
        let why = renewing(LEASE, Instant::now(), |answered_by| {
            let is_first = first.is_none();
            let sent = *first.get_or_insert_with(Instant::now);
            waited_until.push(answered_by);
            async move {
                if is_first {
                    // The answer is slow.
                    sleep_until(sent + LEASE / 2).await;
                    return Ok(LEASE);
                }
                Err(Status::unavailable("the server is gone"))
            }
        })
        .await;
        assert!(why.contains("is over: "), "{why}");
        let lease_ends = first.unwrap() + LEASE;
        assert!(
            waited_until.iter().all(|until| *until <= lease_ends),
            "no answer is waited for after the lease"
        );
        assert!(waited_until.len() > 1, "a renewal that fails is repeated");
    }
}
