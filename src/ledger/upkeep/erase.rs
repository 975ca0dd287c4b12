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

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::domain::{KeyHash, Reading};
    use crate::store::{
        Choose, DueCounts, DueLook, Entries, EntryWithMessage, Erased, HandedOut, HoldBook, Inbox, Inserted,
        KeptMessage, Operators, PolicyBook, ReplayBook, Upkeep,
    };

    const NOW: StoreTime = StoreTime(1_780_000_000_000_000);

    /// A session that nothing but an erasure uses. A page of its messages is one message.
    struct ErasureSession {
        messages: Vec<MessagePlace>,
        swept: Vec<MessagePlace>,
    }

    impl Session for ErasureSession {
        fn entries(&mut self) -> &mut dyn Entries {
            unreachable!("an erasure uses the inbox alone")
        }

        fn upkeep(&mut self) -> &mut dyn Upkeep {
            unreachable!("an erasure uses the inbox alone")
        }

        fn operators(&mut self) -> &mut dyn Operators {
            unreachable!("an erasure uses the inbox alone")
        }

        fn policy_book(&mut self) -> &mut dyn PolicyBook {
            unreachable!("an erasure uses the inbox alone")
        }

        fn replay_book(&mut self) -> &mut dyn ReplayBook {
            unreachable!("an erasure uses the inbox alone")
        }

        fn hold_book(&mut self) -> &mut dyn HoldBook {
            unreachable!("an erasure uses the inbox alone")
        }

        fn inbox(&mut self) -> &mut dyn Inbox {
            self
        }
    }

    #[async_trait]
    impl Inbox for ErasureSession {
        async fn store_new(&mut self, _: &[EntryWithMessage], _: StoreTime) -> Result<Inserted, StoreError> {
            unreachable!("no message is stored")
        }

        async fn attach(&mut self, _: &[EntryWithMessage], _: &[StoreTime]) -> Result<Vec<bool>, StoreError> {
            unreachable!("no message is stored")
        }

        async fn hand_out(&mut self, _: &DueLook, _: &Choose) -> Result<HandedOut, StoreError> {
            unreachable!("no message is handed out")
        }

        async fn message(&mut self, _: KeyHash) -> Result<Option<KeptMessage>, StoreError> {
            unreachable!("no message is read")
        }

        async fn stored_at(&mut self, _: &[KeyHash]) -> Result<Vec<Option<StoreTime>>, StoreError> {
            unreachable!("no message is read")
        }

        async fn oldest_due(&mut self, _: &str) -> Result<(Reading, Option<StoreTime>), StoreError> {
            unreachable!("no message is counted")
        }

        async fn count_due(&mut self, _: &str, _: i64) -> Result<DueCounts, StoreError> {
            unreachable!("no message is counted")
        }

        async fn message_bytes(&mut self) -> Result<i64, StoreError> {
            unreachable!("no message is counted")
        }

        async fn erase(&mut self, _: usize) -> Result<Erased, StoreError> {
            Ok(Erased { now: NOW, ..Erased::default() })
        }

        async fn forget_handouts(&mut self, _: StoreTime, _: usize) -> Result<usize, StoreError> {
            Ok(0)
        }

        async fn sweep_messages(
            &mut self,
            after: MessagePlace,
            _: usize,
        ) -> Result<Option<MessagePlace>, StoreError> {
            let next = self.messages.iter().copied().find(|place| *place > after);
            self.swept.extend(next);
            Ok(next)
        }
    }

    /// A message can lose its entry at any time: each sweep looks also at the messages that the sweeps before it have left.
    #[tokio::test]
    async fn each_daily_sweep_looks_at_all_messages() {
        let metrics = Metrics::new().expect("metrics");
        let place = |seconds: i64| MessagePlace { at: NOW + Span::from_secs(seconds), key: KeyHash::nil() };
        let mut session = ErasureSession { messages: vec![place(1), place(2)], swept: Vec::new() };
        let mut erasure = Erasure::default();
        for day in 0..3 {
            // Whether each step leaves more to do, and the messages that it has looked at.
            for (more, swept) in
                [(true, vec![place(1)]), (true, vec![place(2)]), (false, vec![]), (false, vec![])]
            {
                let found = erasure.step(&mut session, &metrics, NOW).await.expect("the session works");
                assert_eq!((found, std::mem::take(&mut session.swept)), (more, swept), "day {day}");
            }
            // The next sweep is due.
            erasure.swept_at = Instant::now().checked_sub(SWEEP_EVERY);
        }
    }
}
