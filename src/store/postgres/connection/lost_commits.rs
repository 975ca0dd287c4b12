//! Detects commits that the database acknowledged and then lost.
//!
//! Commits are lost from the last one backwards: by a failover to a standby that lagged, by a restore, or by a disk that
//! acknowledges flushes without doing them. So it is enough to remember the last few writes, and to look for them when a
//! session is opened to another server, or to the same one after a restart.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::KeyHash;
use crate::store::columns::Row;
use crate::store::numbers::IN_PROGRESS;
use crate::store::row::Raw;

/// The number of writes that are remembered. One key may be changed again before the check, which would hide its loss; that
/// all of sixteen are changed is unlikely.
const REMEMBERED_MAX: usize = 16;
/// An entry that is absent this soon after its last write cannot have been purged: no retention is shorter than an hour.
const PURGE_EXCLUDED: Duration = Duration::from_mins(50);

/// What a write left in the row of its entry.
#[derive(Clone, Copy, Debug)]
enum Effect {
    /// A row of this version, of an entry created at this instant.
    Row { version: i64, created_at: i64 },
    /// A first grant, made at this instant.
    Grant { created_at: i64 },
    /// An entry that is no longer in progress.
    Completed,
}

/// The row of an entry as it is now.
#[derive(Clone, Copy, Debug)]
struct CurrentRow {
    version: i64,
    token: i64,
    created_at: i64,
    in_progress: bool,
}

impl CurrentRow {
    fn of(row: &Row) -> CurrentRow {
        let in_progress = row.state == IN_PROGRESS;
        CurrentRow { version: row.version, token: row.token, created_at: row.created_at, in_progress }
    }
}

/// A write whose commit was acknowledged.
#[derive(Clone, Copy, Debug)]
struct AcknowledgedWrite {
    /// When the server that committed it was started.
    server: i64,
    key: KeyHash,
    token: i64,
    effect: Effect,
    at: Instant,
}

impl AcknowledgedWrite {
    /// Whether the current row (`None` if it is absent) proves that the write was lost. A row that was changed since then
    /// proves nothing.
    fn is_lost(&self, current: Option<CurrentRow>, now: Instant) -> bool {
        let Some(current) = current else { return now.saturating_duration_since(self.at) < PURGE_EXCLUDED };
        current.token < self.token
            || match self.effect {
                Effect::Row { version, created_at } => {
                    current.version < version || current.created_at > created_at
                }
                Effect::Grant { created_at } => current.created_at > created_at,
                Effect::Completed => current.token == self.token && current.in_progress,
            }
    }
}

/// See the module. All sessions of a store share one detector.
#[derive(Debug, Default)]
pub(in crate::store::postgres) struct LostCommitDetector {
    last: Mutex<VecDeque<AcknowledgedWrite>>,
    losses: AtomicU64,
}

impl LostCommitDetector {
    /// Records that an entry was replaced, or that a claim other than the first one was granted.
    pub(in crate::store::postgres) fn record_replace(&self, server: i64, row: &Row) {
        let effect = Effect::Row { version: row.version, created_at: row.created_at };
        self.remember(AcknowledgedWrite {
            server,
            key: row.key,
            token: row.token,
            effect,
            at: Instant::now(),
        });
    }

    /// Records a first grant.
    pub(in crate::store::postgres) fn record_grant(
        &self,
        server: i64,
        key: KeyHash,
        token: i64,
        created_at: i64,
    ) {
        let effect = Effect::Grant { created_at };
        self.remember(AcknowledgedWrite { server, key, token, effect, at: Instant::now() });
    }

    /// Records a completion.
    pub(in crate::store::postgres) fn record_completion(&self, server: i64, key: KeyHash, token: i64) {
        self.remember(AcknowledgedWrite {
            server,
            key,
            token,
            effect: Effect::Completed,
            at: Instant::now(),
        });
    }

    fn remember(&self, written: AcknowledgedWrite) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == REMEMBERED_MAX {
            last.pop_front();
        }
        last.push_back(written);
    }

    /// Takes the writes that other servers acknowledged, to be checked on this one. No other session checks them meanwhile.
    pub(in crate::store::postgres) fn take_writes_to_check(self: &Arc<Self>, server: i64) -> WritesToCheck {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (same, others) = last.drain(..).partition(|written| written.server == server);
        *last = same;
        WritesToCheck { all: Arc::clone(self), writes: Vec::from(others) }
    }

    /// The number of checks that found lost commits.
    pub(in crate::store::postgres) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }
}

/// The last writes that other servers acknowledged. If it is dropped before [`check`](Self::check), the writes return to the
/// detector, so that the next session checks them.
#[derive(Debug)]
pub(in crate::store::postgres) struct WritesToCheck {
    all: Arc<LostCommitDetector>,
    writes: Vec<AcknowledgedWrite>,
}

impl WritesToCheck {
    /// The keys of the writes, each once.
    pub(in crate::store::postgres) fn keys(&self) -> Vec<KeyHash> {
        let mut keys: Vec<KeyHash> = self.writes.iter().map(|written| written.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Counts and logs a loss if a write is lost. `rows` are the rows of [`keys`](Self::keys), in the same order.
    pub(in crate::store::postgres) fn check(mut self, rows: &[Option<Raw>]) {
        // A row that cannot be read proves nothing.
        let readable = |raw: &Option<Raw>| match raw {
            None => Some(None),
            Some(raw) => raw.row().map(CurrentRow::of).map(Some),
        };
        let current = self.keys().into_iter().zip(rows).filter_map(|(key, raw)| Some((key, readable(raw)?)));
        let current: HashMap<KeyHash, Option<CurrentRow>> = current.collect();
        let now = Instant::now();
        let writes = std::mem::take(&mut self.writes);
        let is_lost = |written: &&AcknowledgedWrite| {
            current.get(&written.key).is_some_and(|current| written.is_lost(*current, now))
        };
        let lost: Vec<&AcknowledgedWrite> = writes.iter().filter(is_lost).collect();
        let Some(first) = lost.iter().map(|written| written.at).min() else { return };
        self.all.losses.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            lost = lost.len(),
            of = writes.len(),
            first_acknowledged_ago = ?now.saturating_duration_since(first),
            "the database has lost commits that it had acknowledged, or entries were deleted since: what this \
             server granted or recorded shortly before may be granted again"
        );
    }
}

impl Drop for WritesToCheck {
    fn drop(&mut self) {
        for written in self.writes.drain(..) {
            self.all.remember(written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNCHANGED: CurrentRow = CurrentRow { version: 7, token: 70, created_at: 5, in_progress: true };

    #[test]
    fn is_lost_after_rollback_or_later_change() {
        let row = Effect::Row { version: 7, created_at: 5 };
        let grant = Effect::Grant { created_at: 5 };
        let done = CurrentRow { in_progress: false, ..UNCHANGED };
        #[rustfmt::skip]
        let rows = [
            ("as it was left", row, Some(UNCHANGED), false),
            ("changed since", row, Some(CurrentRow { version: 8, ..UNCHANGED }), false),
            ("granted since", row, Some(CurrentRow { version: 8, token: 71, ..UNCHANGED }), false),
            ("an older version", row, Some(CurrentRow { version: 6, ..UNCHANGED }), true),
            ("an older token", row, Some(CurrentRow { version: 9, token: 69, ..UNCHANGED }), true),
            ("created again", row, Some(CurrentRow { version: 9, token: 90, created_at: 6, ..UNCHANGED }), true),
            ("nothing", row, None, true),
            ("the grant", grant, Some(UNCHANGED), false),
            ("completed since", grant, Some(done), false),
            ("granted again from nothing", grant, Some(CurrentRow { token: 90, created_at: 6, ..UNCHANGED }), true),
            ("no grant", grant, None, true),
            ("the completion", Effect::Completed, Some(done), false),
            ("in progress again", Effect::Completed, Some(UNCHANGED), true),
            ("redriven since", Effect::Completed, Some(CurrentRow { token: 71, ..UNCHANGED }), false),
            ("granted, and no completion", Effect::Completed, Some(CurrentRow { token: 69, ..done }), true),
            ("no completion", Effect::Completed, None, true),
        ];
        let at = Instant::now();
        for (what, effect, current, lost) in rows {
            let written = AcknowledgedWrite { server: 1, key: KeyHash::from_u128(1), token: 70, effect, at };
            assert_eq!(written.is_lost(current, at + Duration::from_mins(49)), lost, "{what}");
            let purged = lost && current.is_some();
            assert_eq!(written.is_lost(current, at + Duration::from_mins(50)), purged, "{what}, later");
        }
    }

    #[test]
    fn take_writes_of_other_servers_returns_each_once() {
        let all = Arc::new(LostCommitDetector::default());
        for number in 0..20 {
            all.record_grant(number / 19, KeyHash::from_u128(number.unsigned_abs().into()), number, 0);
        }
        let writes = all.take_writes_to_check(1);
        // The last sixteen, except the one that this server acknowledged.
        assert_eq!(writes.keys().len(), REMEMBERED_MAX - 1);
        assert_eq!(all.take_writes_to_check(1).keys(), Vec::<KeyHash>::new());
        // Dropped without a check: the next session takes them.
        drop(writes);
        assert_eq!(all.take_writes_to_check(1).keys().len(), REMEMBERED_MAX - 1);
        let writes = all.take_writes_to_check(2);
        let nothing: Vec<Option<Raw>> = writes.keys().iter().map(|_| None).collect();
        writes.check(&nothing);
        assert_eq!(all.losses(), 1);
        assert_eq!(all.take_writes_to_check(2).keys(), Vec::<KeyHash>::new());
    }
}
