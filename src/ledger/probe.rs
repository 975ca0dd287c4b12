//! The probe of the store, each second: a real write, and the policies that other replicas have set. With
//! hysteresis.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::Shared;
use super::rt::{Instant, sleep, timeout};
use crate::store::{Session, StoreError};

const EVERY: Duration = Duration::from_secs(1);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// How many failures in a row make the service unhealthy.
const FAILURES: u32 = 3;
/// How many successes in a row make it healthy again.
const SUCCESSES: u32 = 2;

pub(super) async fn run(shared: Shared, report: watch::Sender<bool>, stop: CancellationToken) {
    let mut session: Option<Box<dyn Session>> = None;
    let mut due = Instant::now();
    // At the start one success is enough.
    let (mut good, mut bad) = (SUCCESSES - 1, 0);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = sleep(due.saturating_duration_since(Instant::now())) => {}
        }
        due = Instant::now() + EVERY;
        match timeout(ANSWER_WITHIN, beat(&shared, &mut session)).await {
            Ok(Ok(())) => (good, bad) = (good + 1, 0),
            failed => {
                (good, bad) = (0, bad + 1);
                session = None;
                if bad == 1 {
                    let error = match failed {
                        Ok(Err(error)) => error.to_string(),
                        Ok(Ok(())) | Err(_) => format!("no answer within {ANSWER_WITHIN:?}"),
                    };
                    tracing::warn!(error, "the store's probe failed");
                }
            }
        }
        let healthy = *report.borrow();
        if !healthy && good >= SUCCESSES {
            tracing::info!("the store answers");
            report.send_replace(true);
        } else if healthy && bad >= FAILURES {
            tracing::error!(failures = bad, "the store does not answer");
            report.send_replace(false);
        }
    }
}

async fn beat(shared: &Shared, session: &mut Option<Box<dyn Session>>) -> Result<(), StoreError> {
    if session.is_none() {
        *session = Some(shared.store.open().await?);
    }
    if let Some(session) = session {
        let reading = session.beat().await?;
        shared.clock.note(&reading);
        shared.policies.refresh(session.as_mut()).await?;
        if reading.behind() {
            tracing::error!(
                behind_micros = reading.mark - reading.token_clock(),
                "the store's clock is behind its mark: no new grants until it has caught up"
            );
        }
    }
    Ok(())
}
