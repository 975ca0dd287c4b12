//! What a state of the model consists of: the rows of the store, the calls under way, the work in the background, and what the
//! checks remember.

use std::sync::Arc;

use idempotency_ledger::domain::{Entry, StoreTime};

use super::promises::Memory;

/// Calls of Store. Where their messages do not differ, the others are repeats, or other deliveries.
pub(super) const STORES: usize = 3;
/// Calls of `ClaimNext`.
pub(super) const LOOKS: usize = 3;
/// Claims: two of `ClaimNext`, and a plain one, which is the last.
pub(super) const CLAIMS: usize = 3;
/// The number of the plain claim.
pub(super) const PLAIN: usize = CLAIMS - 1;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// The store's clock.
    pub(super) now: StoreTime,
    /// The row of `entries`.
    pub(super) row: Option<Arc<Entry>>,
    /// The row of `messages`.
    pub(super) message: Option<Message>,
    /// Which claims have a row in `handouts`.
    pub(super) handouts: [bool; CLAIMS],
    pub(super) stores: [StoreCall; STORES],
    pub(super) looks: [Look; LOOKS],
    pub(super) workers: [Worker; CLAIMS],
    /// The erasure has marked the row, as this version, and has not deleted the message yet.
    pub(super) erasing: Option<i64>,
    /// The collector has found this generation of the message without an entry that keeps it, and has not deleted it yet.
    pub(super) collecting: Option<i64>,
    /// The purge has judged the row, by its version, and has not deleted it yet.
    pub(super) purging: Option<i64>,
    pub(super) spent: Spent,
    pub(super) memory: Memory,
}

/// The row of `messages`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Message {
    /// The version of the entry that was written with it.
    pub(super) generation: i64,
    /// Which message it is, from 1 on.
    pub(super) payload: u8,
}

/// What was used of each bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Spent {
    pub(super) ticks: u8,
    pub(super) leaps: u8,
    pub(super) changes: u8,
    pub(super) erasures: u8,
    pub(super) collections: u8,
    pub(super) purges: u8,
}

/// A call of Store, as a server works on it. A call that never moves on is a server that crashed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum StoreCall {
    /// Not looked at, or to be looked at again after a lost race.
    #[default]
    Ahead,
    /// Decided on an absent key, at this instant. Only a seeded bug inserts what was decided then.
    Insert(StoreTime),
    /// Decided on the row of this version.
    Attach { base: i64, next: Arc<Entry> },
    /// The message is kept already; when it was stored is not read yet.
    Kept,
    /// The entry is written, and its message is not, of this generation. Only a seeded bug writes them apart.
    Half(i64),
    /// Answered.
    Done,
}

/// A call of `ClaimNext`, as a server works on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Look {
    #[default]
    Ahead,
    /// The message was read, and its row not yet. Only a seeded bug reads it so early.
    Peeked(Option<u8>),
    /// The row is read, locked unless this is a repeat, and decided on.
    Decided(Decided),
    /// Committed with this token, while this message was kept. Only a seeded bug reads it so late.
    Unread { token: i64, kept: Option<u8> },
    /// Answered, or the answer was lost.
    Done,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Decided {
    /// It answers an earlier handout of the claim.
    pub(super) again: bool,
    /// The version that was read.
    pub(super) base: i64,
    /// `None` if the claim holds the row already.
    pub(super) next: Option<Arc<Entry>>,
    /// `None` if the entry is parked in place of a grant.
    pub(super) token: Option<i64>,
    /// The message that was kept when the row was read.
    pub(super) kept: Option<u8>,
    /// The message as a seeded bug has read it before.
    pub(super) peeked: Option<u8>,
}

/// The client of a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Worker {
    #[default]
    Waits,
    /// It was answered this token.
    Holds(i64),
    /// It has settled.
    Gone,
}

/// What a worker calls with its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    /// Renew with `effect_started`.
    Announce,
    Complete,
    /// Fail, retryable.
    Retry,
    /// Fail, terminal.
    GiveUp,
    Release,
}

/// What an operator does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Redrive,
    /// A Redrive that drops the fingerprint, and with it the message.
    RedriveWithoutMessage,
    /// Resolve(RECEIVED).
    NotDone,
    Park,
    Delete,
}

/// One step. Numbers are those of Stores, looks or claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// A server inserts the entry of a key that has no entry, with its message.
    Insert(usize),
    /// A server loads the row for a Store, and decides.
    Load(usize),
    /// It writes what it has decided, unless the row has changed.
    Attach(usize),
    /// It reads when the kept message was stored, and answers.
    ReadStoredAt(usize),
    /// It writes the message of the entry that it has written: a seeded bug.
    KeepLate(usize),
    /// A look reads the message without its row: a seeded bug.
    Peek(usize),
    /// A look reads the row, and decides.
    Take(usize),
    /// It commits what it has decided, and reads the message.
    Commit(usize),
    /// The same, but the worker does not get the answer.
    CommitUnanswered(usize),
    /// A look reads the message after its commit: a seeded bug.
    ReadLate(usize),
    /// The plain claim.
    Claim,
    /// A worker calls with its token.
    Settle(usize, Op),
    Change(Change),
    /// The store's clock goes on by a lease.
    Tick,
    /// It goes on by longer than everything is retained.
    Leap,
    /// The erasure marks what is due.
    Mark,
    /// It deletes the message of what it has marked.
    Erase,
    /// It stops before that.
    StopErasing,
    /// The collector finds a message that no entry keeps.
    Find,
    /// It deletes what it has found.
    Collect,
    /// The purge judges the row.
    Judge,
    /// It deletes what it has judged.
    Purge,
}
