//! What happens in the model: a search that never comes across it proves nothing of it.

use std::sync::atomic::Ordering;

use super::one_inbox::OneInbox;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// A Store inserts an entry.
    Inserted,
    /// A Store attaches its message to an entry.
    Attached,
    /// The row has changed since a Store has loaded it.
    AttachLost,
    AlreadyStored,
    /// The message that was kept is gone before its instant is read: the Store looks again.
    StoredAgain,
    AnsweredCompleted,
    AnsweredFailed,
    Mismatch,
    /// A message is written over one of an earlier life of the key.
    WrittenOver,
    HandedOut,
    /// The row has changed since a look has read it.
    CommitLost,
    /// A look takes a row whose lease and grace are over.
    Reclaimed,
    /// A look parks the row instead.
    Parked,
    /// A repeat is answered the handout.
    Repeated,
    /// A repeat gets the lease back.
    Rearmed,
    /// A repeat is refused: its handout has ended.
    RepeatClosed,
    /// A repeat finds its handout, and its message is gone before it is read.
    RepeatEmpty,
    /// A plain claim takes an entry that keeps a message.
    ClaimedStored,
    /// A claim that was superseded settles, and is refused.
    LeaseLost,
    Redriven,
    MessageDropped,
    Deleted,
    Erased,
    /// The erasure leaves the message of another life.
    ErasureSpared,
    Collected,
    /// The collector leaves a message that was stored meanwhile.
    CollectorSpared,
    Purged,
    /// A message is stored under a key whose entry was purged.
    StoredAfterPurge,
}

impl OneInbox {
    pub(super) fn note(&self, event: Event) {
        self.seen.fetch_or(1 << event as u32, Ordering::Relaxed);
    }

    /// What it must come across, and has not.
    pub(super) fn missed(&self) -> Vec<Event> {
        let seen = self.seen.load(Ordering::Relaxed);
        self.scenario.sees.iter().copied().filter(|event| seen & 1 << *event as u32 == 0).collect()
    }
}
