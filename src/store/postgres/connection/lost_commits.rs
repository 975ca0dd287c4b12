//! Whether the database still has what it has acknowledged.
//!
//! Commits are lost from the last one backwards: by a failover to a standby that was behind, by a restore, by a disk
//! that lies. So it is enough to remember the last few writes, and to look for them when a session is opened to a server
//! that was started since: another one, or the same after a restart.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::KeyHash;
use crate::store::columns::Row;
use crate::store::numbers::IN_PROGRESS;
use crate::store::row::Raw;

/// So many writes are remembered: a key may be changed again before anybody looks, sixteen hardly are.
const KEPT: usize = 16;
/// An entry that is absent for so long after its last write may have been purged: no retention is shorter than an hour.
const YOUNG: Duration = Duration::from_mins(50);

/// What a write has left behind.
#[derive(Clone, Copy, Debug)]
enum Left {
    /// The row of this version, of an entry that was created then.
    Row { version: i64, created_at: i64 },
    /// A first grant, which was made then.
    Grant { created_at: i64 },
    /// An entry in progress no more.
    Completed,
}

/// What the row of an entry says now.
#[derive(Clone, Copy, Debug)]
struct There {
    version: i64,
    token: i64,
    created_at: i64,
    in_progress: bool,
}

impl There {
    fn of(row: &Row) -> There {
        let in_progress = row.state == IN_PROGRESS;
        There { version: row.version, token: row.token, created_at: row.created_at, in_progress }
    }
}

/// A write that was acknowledged.
#[derive(Clone, Copy, Debug)]
struct Written {
    /// When the server that did it was started.
    server: i64,
    key: KeyHash,
    token: i64,
    left: Left,
    at: Instant,
}

impl Written {
    /// Whether what is there now proves that the write was lost. What has been changed since proves nothing.
    fn is_lost(&self, there: Option<There>, now: Instant) -> bool {
        let Some(there) = there else { return now.saturating_duration_since(self.at) < YOUNG };
        there.token < self.token
            || match self.left {
                Left::Row { version, created_at } => there.version < version || there.created_at > created_at,
                Left::Grant { created_at } => there.created_at > created_at,
                Left::Completed => there.token == self.token && there.in_progress,
            }
    }
}

/// See the module. Shared by all sessions of a store.
#[derive(Debug, Default)]
pub(in crate::store::postgres) struct Acknowledged {
    last: Mutex<VecDeque<Written>>,
    losses: AtomicU64,
}

impl Acknowledged {
    /// An entry was replaced, or a claim granted that is not the first one.
    pub(in crate::store::postgres) fn replaced(&self, server: i64, row: &Row) {
        let left = Left::Row { version: row.version, created_at: row.created_at };
        self.remember(Written { server, key: row.key, token: row.token, left, at: Instant::now() });
    }

    /// A first claim was granted.
    pub(in crate::store::postgres) fn granted(&self, server: i64, key: KeyHash, token: i64, created_at: i64) {
        let left = Left::Grant { created_at };
        self.remember(Written { server, key, token, left, at: Instant::now() });
    }

    /// A claim was completed.
    pub(in crate::store::postgres) fn completed(&self, server: i64, key: KeyHash, token: i64) {
        self.remember(Written { server, key, token, left: Left::Completed, at: Instant::now() });
    }

    fn remember(&self, written: Written) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == KEPT {
            last.pop_front();
        }
        last.push_back(written);
    }

    /// What to look for on this server: what others have acknowledged. Nobody else looks for it then.
    pub(in crate::store::postgres) fn sought_on(self: &Arc<Self>, server: i64) -> Sought {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (same, others) = last.drain(..).partition(|written| written.server == server);
        *last = same;
        Sought { all: Arc::clone(self), writes: Vec::from(others) }
    }

    /// How often commits were lost.
    pub(in crate::store::postgres) fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }
}

/// The last writes that another server had acknowledged. Until they are judged, they go back when this is dropped:
/// somebody else must look then.
#[derive(Debug)]
pub(in crate::store::postgres) struct Sought {
    all: Arc<Acknowledged>,
    writes: Vec<Written>,
}

impl Sought {
    /// Their keys, each once.
    pub(in crate::store::postgres) fn keys(&self) -> Vec<KeyHash> {
        let mut keys: Vec<KeyHash> = self.writes.iter().map(|written| written.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Says so where something is lost. `rows` are those of the keys, in their order.
    pub(in crate::store::postgres) fn judge(mut self, rows: &[Option<Raw>]) {
        // A row that cannot be read proves nothing.
        let readable = |raw: &Option<Raw>| match raw {
            None => Some(None),
            Some(raw) => raw.row().map(There::of).map(Some),
        };
        let there = self.keys().into_iter().zip(rows).filter_map(|(key, raw)| Some((key, readable(raw)?)));
        let there: HashMap<KeyHash, Option<There>> = there.collect();
        let now = Instant::now();
        let writes = std::mem::take(&mut self.writes);
        let is_lost =
            |written: &&Written| there.get(&written.key).is_some_and(|there| written.is_lost(*there, now));
        let lost: Vec<&Written> = writes.iter().filter(is_lost).collect();
        let Some(first) = lost.iter().map(|written| written.at).min() else { return };
        self.all.losses.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            lost = lost.len(),
            of = writes.len(),
            first_acknowledged_ago = ?now.saturating_duration_since(first),
            "the database has lost commits that it had acknowledged, or somebody deleted entries since: what this \
             server granted or recorded shortly before may be granted again"
        );
    }
}

impl Drop for Sought {
    fn drop(&mut self) {
        for written in self.writes.drain(..) {
            self.all.remember(written);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THERE: There = There { version: 7, token: 70, created_at: 5, in_progress: true };

    #[test]
    fn what_is_lost_is_told_from_what_has_changed() {
        let row = Left::Row { version: 7, created_at: 5 };
        let grant = Left::Grant { created_at: 5 };
        let done = There { in_progress: false, ..THERE };
        #[rustfmt::skip]
        let rows = [
            ("as it was left", row, Some(THERE), false),
            ("changed since", row, Some(There { version: 8, ..THERE }), false),
            ("granted since", row, Some(There { version: 8, token: 71, ..THERE }), false),
            ("an older version", row, Some(There { version: 6, ..THERE }), true),
            ("an older token", row, Some(There { version: 9, token: 69, ..THERE }), true),
            ("created anew", row, Some(There { version: 9, token: 90, created_at: 6, ..THERE }), true),
            ("nothing", row, None, true),
            ("the grant", grant, Some(THERE), false),
            ("completed since", grant, Some(done), false),
            ("granted again from nothing", grant, Some(There { token: 90, created_at: 6, ..THERE }), true),
            ("no grant", grant, None, true),
            ("the completion", Left::Completed, Some(done), false),
            ("in progress again", Left::Completed, Some(THERE), true),
            ("redriven since", Left::Completed, Some(There { token: 71, ..THERE }), false),
            ("granted, and no completion", Left::Completed, Some(There { token: 69, ..done }), true),
            ("no completion", Left::Completed, None, true),
        ];
        let at = Instant::now();
        for (what, left, there, lost) in rows {
            let written = Written { server: 1, key: KeyHash::from_u128(1), token: 70, left, at };
            assert_eq!(written.is_lost(there, at + Duration::from_mins(49)), lost, "{what}");
            let purged = lost && there.is_some();
            assert_eq!(written.is_lost(there, at + Duration::from_mins(50)), purged, "{what}, later");
        }
    }

    #[test]
    fn the_last_writes_of_other_servers_are_sought_once() {
        let all = Arc::new(Acknowledged::default());
        for number in 0..20 {
            all.granted(number / 19, KeyHash::from_u128(number.unsigned_abs().into()), number, 0);
        }
        let sought = all.sought_on(1);
        // The last sixteen, but for the one of this very server.
        assert_eq!(sought.keys().len(), KEPT - 1);
        assert_eq!(all.sought_on(1).keys(), Vec::<KeyHash>::new());
        // Nobody has looked: they are sought again.
        drop(sought);
        assert_eq!(all.sought_on(1).keys().len(), KEPT - 1);
        let sought = all.sought_on(2);
        let nothing: Vec<Option<Raw>> = sought.keys().iter().map(|_| None).collect();
        sought.judge(&nothing);
        assert_eq!(all.losses(), 1);
        assert_eq!(all.sought_on(2).keys(), Vec::<KeyHash>::new());
    }
}
