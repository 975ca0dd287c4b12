//! The inbox of the disk: no call stores a message. Only the purge looks at it.

use async_trait::async_trait;

use super::session::DiskSession;
use crate::domain::{KeyHash, Reading, StoreTime};
use crate::store::{
    Choose, DueCounts, DueLook, EntryWithMessage, Erased, HandedOut, Inbox, Inserted, KeptMessage,
    MessagePlace, StoreError,
};

#[async_trait]
impl Inbox for DiskSession {
    async fn store_new(&mut self, _: &[EntryWithMessage], _: StoreTime) -> Result<Inserted, StoreError> {
        unreachable!("no call stores a message")
    }

    async fn attach(&mut self, _: &[EntryWithMessage], _: &[StoreTime]) -> Result<Vec<bool>, StoreError> {
        unreachable!("no call stores a message")
    }

    async fn hand_out(&mut self, _: &DueLook, _: &Choose) -> Result<HandedOut, StoreError> {
        unreachable!("no call takes a message")
    }

    async fn message(&mut self, _: KeyHash) -> Result<Option<KeptMessage>, StoreError> {
        Ok(None)
    }

    async fn stored_at(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<StoreTime>>, StoreError> {
        Ok(vec![None; keys.len()])
    }

    async fn oldest_due(&mut self, _: &str) -> Result<(Reading, Option<StoreTime>), StoreError> {
        unreachable!("no call stores a message")
    }

    async fn count_due(&mut self, _: &str, _: i64) -> Result<DueCounts, StoreError> {
        Ok(DueCounts::default())
    }

    async fn message_bytes(&mut self) -> Result<i64, StoreError> {
        Ok(0)
    }

    async fn erase(&mut self, _: usize) -> Result<Erased, StoreError> {
        Ok(Erased::default())
    }

    async fn forget_handouts(&mut self, _: StoreTime, _: usize) -> Result<usize, StoreError> {
        Ok(0)
    }

    async fn sweep_messages(
        &mut self,
        _: MessagePlace,
        _: usize,
    ) -> Result<Option<MessagePlace>, StoreError> {
        Ok(None)
    }
}
