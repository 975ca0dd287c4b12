//! Erases messages: those that were completed long enough ago, handouts of long ago, and messages whose entry is gone. It comes
//! before the purge, between its turns.

use std::time::Duration;

use crate::domain::{Span, StoreTime};
use crate::ledger::runtime::Instant;
use crate::metrics::Metrics;
use crate::store::{MessagePlace, ROWS_MAX, Session, StoreError};

/// Rows of one statement.
const BATCH: usize = 500;
/// How long a handout is kept: a repeat of its call is answered the same messages.
const HANDOUTS_KEPT_FOR: Span = Span::from_secs(3_600);
/// How often all messages are looked at for their entries.
const SWEEP_EVERY: Duration = Duration::from_hours(24);

/// Where the sweep of all messages is.
#[derive(Debug, Default)]
pub(super) struct Erasure {
    swept_at: Option<Instant>,
    place: MessagePlace,
}

impl Erasure {
    /// Carries out one batch of each; returns whether there is more to do.
    pub(super) async fn step(
        &mut self,
        session: &mut dyn Session,
        metrics: &Metrics,
        now: StoreTime,
    ) -> Result<bool, StoreError> {
        let erased = session.inbox().erase(BATCH).await?;
        let lag = erased.oldest_due.map_or(Span::ZERO, |due| erased.now - due);
        metrics.inbox().erase_lag(lag);
        let forgotten = session.inbox().forget_handouts(now - HANDOUTS_KEPT_FOR, ROWS_MAX).await?;
        let sweeps = self.sweep(session).await?;
        Ok(erased.count >= BATCH || forgotten >= ROWS_MAX || sweeps)
    }

    /// Looks at the next page of messages, where the daily sweep is due; returns whether it goes on.
    async fn sweep(&mut self, session: &mut dyn Session) -> Result<bool, StoreError> {
        if self.swept_at.is_some_and(|at| at.elapsed() < SWEEP_EVERY) {
            return Ok(false);
        }
        if let Some(place) = session.inbox().sweep_messages(self.place, BATCH).await? {
            self.place = place;
        } else {
            (self.place, self.swept_at) = (MessagePlace::default(), Some(Instant::now()));
        }
        Ok(self.swept_at.is_none_or(|at| at.elapsed() >= SWEEP_EVERY))
    }
}
