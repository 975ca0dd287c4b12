//! The part of a store that keeps messages, and hands them out: docs/contract.md, section 15.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use uuid::Uuid;

use super::{Inserted, StoreError};
use crate::domain::{Entry, Key, KeyHash, Reading, StoreTime, UnreadableEntry, Verdict};

/// The level of a store with a policy that keeps messages: an older server would not hand them out.
pub const INBOX_LEVEL: i32 = 6;

/// Messages, and handouts of them. Slices hold at most [`ROWS_MAX`](super::ROWS_MAX) rows, each key once, sorted by key.
#[async_trait]
pub trait Inbox: Send {
    /// Inserts the entries of messages under keys that do not have an entry, with their messages: all or nothing for each key.
    /// They were decided as of instant zero. If the clock has passed `until`, nothing is inserted. Conflicting entries are not
    /// returned: they must be loaded.
    async fn store_new(
        &mut self,
        rows: &[EntryWithMessage],
        until: StoreTime,
    ) -> Result<Inserted, StoreError>;

    /// Replaces entries whose version is still the expected one, each with its message, and only if the store's clock has not
    /// passed the instant given for it. Returns for each whether it was replaced.
    async fn attach(
        &mut self,
        rows: &[EntryWithMessage],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError>;

    /// Looks once for messages to hand out, within one transaction: reads the handout of this claim and the due entries behind
    /// the cursor, lets `choose` choose, writes its entries and the handout, and reads the messages that are handed out. Rows
    /// that another transaction has locked are skipped.
    async fn hand_out(&mut self, look: &DueLook, choose: &Choose) -> Result<HandedOut, StoreError>;

    /// Reads the message of a key; `None` if none is kept.
    async fn message(&mut self, key: KeyHash) -> Result<Option<KeptMessage>, StoreError>;

    /// When the messages of these keys were stored, in the same order; `None` for a key without a message.
    async fn stored_at(&mut self, keys: &[KeyHash]) -> Result<Vec<Option<StoreTime>>, StoreError>;

    /// When the message of this consumer that waits for the longest time was due: of those that can be read, and of the first
    /// ten. `None` if none is due.
    async fn oldest_due(&mut self, consumer: &str) -> Result<(Reading, Option<StoreTime>), StoreError>;

    /// Counts the messages of this consumer that are due, up to `most`, and the others that will be.
    async fn count_due(&mut self, consumer: &str, most: i64) -> Result<DueCounts, StoreError>;

    /// The bytes of all messages.
    async fn message_bytes(&mut self) -> Result<i64, StoreError>;

    /// Erases messages that are due for it, the oldest first; returns their number, and when the oldest was due.
    async fn erase(&mut self, limit: usize) -> Result<Erased, StoreError>;

    /// Deletes handouts from before this instant; returns their number.
    async fn forget_handouts(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError>;

    /// Deletes messages whose entry is gone, or does not keep a message any more, among the next `limit` messages after this
    /// place in the order in which they were stored. Returns the place of the last one, or `None` at the end.
    async fn sweep_messages(
        &mut self,
        after: MessagePlace,
        limit: usize,
    ) -> Result<Option<MessagePlace>, StoreError>;
}

/// An entry that keeps a message, and the message, encoded.
#[derive(Clone, Debug)]
pub struct EntryWithMessage {
    /// The entry, as it must stand.
    pub entry: Entry,
    /// The message.
    pub message: Bytes,
}

/// A message that is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptMessage {
    /// The encoded message.
    pub message: Bytes,
    /// When it was stored.
    pub stored_at: StoreTime,
}

/// The place of an entry in the queue of its consumer: when it is due, and the hash of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct DuePlace {
    /// When it is due.
    pub at: StoreTime,
    /// The hash of its key.
    pub key: KeyHash,
}

/// The place of a message in the order in which messages were stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessagePlace {
    /// When it was stored.
    pub at: StoreTime,
    /// The hash of its key.
    pub key: KeyHash,
}

/// The handout of one `ClaimNext`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handout {
    /// The claim's id.
    pub claim_id: Uuid,
    /// The consumer.
    pub consumer: String,
    /// The authenticated identity.
    pub principal: String,
    /// The name that the caller gave itself.
    pub owner: String,
    /// The hashes of the keys that were handed out. Empty in a request.
    pub keys: Vec<KeyHash>,
}

/// A look for due messages.
#[derive(Clone, Debug)]
pub struct DueLook {
    /// The claim: its handout is answered if there is one.
    pub claim: Handout,
    /// The cursor: only entries behind it are read.
    pub after: DuePlace,
    /// The maximum number of entries.
    pub limit: usize,
}

/// An entry that is due, or is part of an earlier handout.
#[derive(Debug)]
pub struct Candidate {
    /// Its place in the queue.
    pub place: DuePlace,
    /// The entry, or why it cannot be read.
    pub entry: Result<Entry, UnreadableEntry>,
    /// Bytes of its message. `None` if the message is missing, although the entry has it as KEPT.
    pub bytes: Option<usize>,
}

/// The result of a look.
#[derive(Debug)]
pub struct Due {
    /// The clock.
    pub reading: Reading,
    /// The earlier handout of this claim; the candidates are then its entries. `None` if there is none; they are then the due
    /// entries, in their order.
    pub before: Option<Handout>,
    /// The entries.
    pub candidates: Vec<Candidate>,
}

/// A message that is handed out.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// The key.
    pub key: Key,
    /// The version of its entry once the choice is written. A message of a later version is one that was stored meanwhile.
    pub version: i64,
    /// `acquired`.
    pub verdict: Verdict,
}

/// The writes of a handout, and its answer.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// The entries to write where the version is still the one that was read, each up to an instant.
    pub writes: Vec<(Entry, StoreTime)>,
    /// The messages that are handed out.
    pub chosen: Vec<Chosen>,
    /// The new place of the cursor; `None` if it stays.
    pub cursor: Option<DuePlace>,
    /// The number of entries that could not be read, or have lost their message.
    pub unreadable: usize,
    /// The number of entries that were parked.
    pub parked: usize,
    /// Why nothing is handed out, where that is an error.
    pub refused: Option<crate::domain::Rejection>,
    /// Whether this is the answer to a repeated call.
    pub repeated: bool,
}

/// Chooses from what a look found. Must not wait: rows are locked meanwhile.
pub type Choose = Arc<dyn Fn(&Due) -> Choice + Send + Sync>;

/// A handout. It is durable once this is returned.
#[derive(Debug)]
pub struct HandedOut {
    /// The clock.
    pub reading: Reading,
    /// The chosen and written messages.
    pub choice: Choice,
    /// The message of each that was handed out. `None` if it was erased meanwhile, also where another one was stored since.
    pub messages: Vec<Option<KeptMessage>>,
    /// Whether the look found as many candidates as it may read: there may be more.
    pub full: bool,
    /// When the next message of the consumer is due, where nothing is due now; `None` if that is not known.
    pub next_due: Option<StoreTime>,
}

/// The messages that one batch has erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Erased {
    /// The number of messages.
    pub count: usize,
    /// When the first of them was due; `None` if there was none.
    pub oldest_due: Option<StoreTime>,
    /// The clock.
    pub now: StoreTime,
}

/// The number of messages of a consumer that are handed out now or later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DueCounts {
    /// Those that are due.
    pub due: i64,
    /// Those that are held, or whose next attempt is not due.
    pub later: i64,
}
