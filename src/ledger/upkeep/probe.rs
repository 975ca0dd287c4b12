//! The health of this server: a heartbeat each second, which is a real write that also reads the policies set by other
//! replicas, and the age of the oldest claim or settlement that the store has not answered.

use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::ledger::claims::shared::Shared;
use crate::ledger::runtime::{Instant, sleep, timeout};
use crate::store::{Fault, Purpose, Session, StoreError};

const EVERY: Duration = Duration::from_secs(1);
/// Longer than the store's own statement timeout, after which the outcome is certain.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How often the health is judged.
const JUDGE_EVERY: Duration = Duration::from_millis(250);
/// Greatest age of the last answered heartbeat: a stall of two seconds, and the second between two heartbeats.
const SILENT_MAX: Duration = Duration::from_secs(4);
/// How long claims and settlements may wait while none is answered: longer than a session is kept without an answer, so that a
/// new session that works shows first.
const UNANSWERED_MAX: Duration = Duration::from_millis(3_500);
/// Number of heartbeats in a row that make the service healthy again.
const SUCCESSES: u32 = 2;

/// The results of the heartbeat.
#[derive(Clone, Copy, Debug)]
struct Beats {
    /// Number of heartbeats answered in a row.
    good: u32,
    /// When the last one was answered.
    answered_at: Instant,
}

impl Beats {
    /// After a heartbeat that was answered at this instant.
    fn answered(self, now: Instant) -> Beats {
        Beats { good: self.good.saturating_add(1), answered_at: now }
    }

    /// After a heartbeat that failed.
    fn failed(self) -> Beats {
        Beats { good: 0, ..self }
    }
}

/// Whether the server is healthy now.
fn healthy(was: bool, beats: Beats, silent: Duration, unanswered: Duration) -> bool {
    let steady = if was { silent < SILENT_MAX } else { beats.good >= SUCCESSES && silent < SILENT_MAX };
    steady && unanswered < UNANSWERED_MAX
}

pub(crate) async fn run(shared: Shared, report: watch::Sender<bool>, stop: CancellationToken) {
    // At the start one answered heartbeat is enough.
    let beats = watch::Sender::new(Beats { good: SUCCESSES - 1, answered_at: Instant::now() });
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = beat_for_ever(&shared, &beats) => {}
        () = judge_for_ever(&shared, &beats, &report) => {}
    }
}

async fn judge_for_ever(shared: &Shared, beats: &watch::Sender<Beats>, report: &watch::Sender<bool>) {
    let mut seen = beats.subscribe();
    loop {
        let now = *seen.borrow_and_update();
        let silent = Instant::now().saturating_duration_since(now.answered_at);
        let unanswered = shared.last_response.unanswered_for();
        let was = *report.borrow();
        let is = healthy(was, now, silent, unanswered);
        if is && !was {
            tracing::info!("the store answers");
        } else if was && !is {
            tracing::error!(?silent, ?unanswered, "the store does not answer");
        }
        if is != was {
            shared.metrics.work().is_ready(is);
            report.send_replace(is);
        }
        // An answered heartbeat is judged immediately.
        let _changed = timeout(JUDGE_EVERY, seen.changed()).await;
    }
}

async fn beat_for_ever(shared: &Shared, beats: &watch::Sender<Beats>) {
    let mut session: Option<Box<dyn Session>> = None;
    loop {
        let due = Instant::now() + EVERY;
        match timeout(ANSWER_WITHIN, beat(shared, &mut session)).await {
            Ok(Ok(())) => {
                shared.live_workers.store_answered();
                beats.send_modify(|beats| *beats = beats.answered(Instant::now()));
            }
            failed => {
                if let Ok(Err(error)) = &failed {
                    shared.outdated.notice(error);
                }
                session = None;
                if beats.borrow().good > 0 {
                    let error = match failed {
                        Ok(Err(error)) => error.to_string(),
                        Ok(Ok(())) | Err(_) => format!("no answer within {ANSWER_WITHIN:?}"),
                    };
                    tracing::warn!(error, "the heartbeat failed");
                }
                beats.send_modify(|beats| *beats = beats.failed());
            }
        }
        sleep(due.saturating_duration_since(Instant::now())).await;
    }
}

async fn beat(shared: &Shared, session: &mut Option<Box<dyn Session>>) -> Result<(), StoreError> {
    // A statement may have noticed the schema fence before the heartbeat does.
    shared.outdated.check()?;
    if session.is_none() {
        *session = Some(shared.store.open(Purpose::Heartbeat).await?);
    }
    if let Some(session) = session {
        let reading = match session.upkeep().write_heartbeat(&shared.replica).await {
            Ok(reading) => reading,
            Err(error @ (StoreError::NotApplied(Fault::Outdated(_)) | StoreError::Unknown(_))) => {
                return Err(error);
            }
            // Whatever the fault of the write is, a hold may have been set.
            Err(error @ StoreError::NotApplied(_)) => {
                shared.policies.refresh(session.as_mut()).await?;
                return Err(error);
            }
        };
        shared.clock.note(&reading);
        shared.policies.refresh_as_of(session.as_mut(), reading.now).await?;
        shared.metrics.upkeep().clock_behind(reading.behind_by());
        shared.metrics.upkeep().clock_ahead(reading.ahead_by());
        if reading.behind() {
            tracing::error!(
                behind_micros = reading.behind_by(),
                "the store's clock is behind its mark, or behind the date of this release: no new grants until it has \
                 caught up, or is set right"
            );
        } else if reading.ahead() {
            tracing::error!(
                ahead_micros = reading.ahead_by(),
                "the store's clock is more than a year ahead of its mark: no new grants until it is set right, or accepted \
                 by `migrate --accept-clock`"
            );
        }
    }
    Ok(())
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn two_heartbeats_in_a_row_make_a_server_healthy_again() {
        let now = Instant::now();
        let mut beats = Beats { good: 5, answered_at: now };
        for (heartbeats, is) in [
            ("failed", false),
            ("answered", false),
            ("failed", false),
            ("answered", false),
            ("failed failed", false),
            ("answered answered", true),
            ("answered", true),
            ("failed", false),
        ] {
            for heartbeat in heartbeats.split(' ') {
                beats = if heartbeat == "answered" { beats.answered(now) } else { beats.failed() };
            }
            assert_eq!(
                healthy(false, beats, Duration::ZERO, Duration::ZERO),
                is,
                "{heartbeats}, then {beats:?}"
            );
        }
    }

    #[test]
    fn health_follows_the_heartbeat_and_the_oldest_unanswered_statement() {
        let secs = Duration::from_secs_f64;
        for (was, good, silent, unanswered, is) in [
            (false, 0, 0.0, 0.0, false),
            (false, 1, 0.0, 0.0, false),
            (false, 2, 0.0, 0.0, true),
            (false, 2, 0.0, 9.0, false),
            (true, 5, 3.0, 2.0, true),
            (true, 0, 3.9, 3.4, true),
            (true, 0, 4.0, 0.0, false),
            (true, 5, 1.0, 3.5, false),
        ] {
            let beats = Beats { good, answered_at: Instant::now() };
            let row = (was, good, silent, unanswered);
            assert_eq!(healthy(was, beats, secs(silent), secs(unanswered)), is, "{row:?}");
        }
    }
}
