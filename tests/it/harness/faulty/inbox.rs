//! Messages and handouts of the store that fails on demand: what writes them waits at the gate.

use idempotency_ledger::store::{
    Choose, DueCounts, DueLook, EntryWithMessage, Erased, HandedOut, KeptMessage, MessagePlace,
};

use super::*;

#[async_trait]
impl Inbox for FaultySession {
    async fn store_new(
        &mut self,
        rows: &[EntryWithMessage],
        until: StoreTime,
    ) -> Result<Inserted, StoreError> {
        carried_out!(self, false, self.inner.inbox().store_new(rows, until))
    }

    async fn attach(
        &mut self,
        rows: &[EntryWithMessage],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        carried_out!(self, false, self.inner.inbox().attach(rows, until))
    }

    async fn hand_out(&mut self, look: &DueLook, choose: &Choose) -> Result<HandedOut, StoreError> {
        carried_out!(self, false, self.inner.inbox().hand_out(look, choose))
    }

    async fn message(&mut self, key: KeyHash) -> Result<Option<KeptMessage>, StoreError> {
        self.read()?;
        self.inner.inbox().message(key).await
    }

    async fn stored_at(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<StoreTime>>, StoreError> {
        self.read()?;
        self.inner.inbox().stored_at(keys).await
    }

    async fn oldest_due(&mut self, consumer: &str) -> Result<(Reading, Option<StoreTime>), StoreError> {
        self.inner.inbox().oldest_due(consumer).await
    }

    async fn count_due(&mut self, consumer: &str, most: i64) -> Result<DueCounts, StoreError> {
        if self.plan.no_due_counts.load(Ordering::SeqCst) {
            return Err(refused());
        }
        self.inner.inbox().count_due(consumer, most).await
    }

    async fn message_bytes(&mut self) -> Result<i64, StoreError> {
        self.inner.inbox().message_bytes().await
    }

    async fn erase(&mut self, limit: usize) -> Result<Erased, StoreError> {
        self.inner.inbox().erase(limit).await
    }

    async fn forget_handouts(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError> {
        self.inner.inbox().forget_handouts(before, limit).await
    }

    async fn sweep_messages(
        &mut self,
        after: MessagePlace,
        limit: usize,
    ) -> Result<Option<MessagePlace>, StoreError> {
        self.inner.inbox().sweep_messages(after, limit).await
    }
}
