//! Orphaned backends: those of sessions that were given up. A commit that waits for a standby ends only with that wait:
//! it must not be cancelled or terminated, since that would make a commit visible which no standby has. So a server
//! remembers its orphaned backends, and opens no further session while as many of them are active as it has sessions.

use std::sync::{Mutex, PoisonError};

use sqlx::Row as _;

use crate::store::postgres::connection::backend::Backend;
use crate::store::postgres::connection::link::Link;
use crate::store::postgres::errors::of_sqlx;
use crate::store::{Fault, Purpose, StoreError};

/// The backends of a list that still run a statement. A backend that waits for its client holds locks only until its lost
/// connection is noticed. A pooler's
/// backend may meanwhile run the transaction of another client: `begun` tells the transactions apart.
pub(in crate::store::postgres) const ORPHANS: &str = "\
-- ledger.left_behind
SELECT a.pid, (extract(epoch FROM a.backend_start) * 1000000)::bigint AS started,
       coalesce((extract(epoch FROM a.xact_start) * 1000000)::bigint, 0) AS begun
FROM pg_stat_activity a
WHERE a.pid = ANY ($1::int[]) AND a.state = 'active'";

/// The number of orphans remembered for each purpose; older ones have most likely ended.
const REMEMBERED_MAX: usize = 64;

/// The orphaned backends of one server of the ledger.
#[derive(Debug, Default)]
pub(in crate::store::postgres) struct OrphanedBackends(Mutex<Vec<Orphan>>);

/// A backend whose session was given up.
#[derive(Clone, Copy, Debug)]
struct Orphan {
    purpose: Purpose,
    backend: Backend,
    /// Whether it was still running a statement at the last look.
    active: bool,
}

impl OrphanedBackends {
    /// Adds the backend of a session that was given up.
    pub(in crate::store::postgres) fn add(&self, purpose: Purpose, backend: Backend) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.iter().filter(|orphan| orphan.purpose == purpose).count() >= REMEMBERED_MAX
            && let Some(oldest) = all.iter().position(|orphan| orphan.purpose == purpose)
        {
            all.remove(oldest);
        }
        all.push(Orphan { purpose, backend, active: false });
    }

    /// The number of orphans that were active at the last look, which each opening of a session for the same purpose takes.
    pub(in crate::store::postgres) fn active(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|orphan| orphan.active).count()
    }

    /// Looks which orphans of this purpose are still active, and forgets the others. If `max` or more are active, the new
    /// connection is refused and closed, so that the number of backends stays bounded.
    pub(in crate::store::postgres) async fn admit(
        &self,
        mut connection: Link,
        purpose: Purpose,
        max: usize,
    ) -> Result<Link, StoreError> {
        let mine = self.of(purpose);
        if mine.is_empty() {
            return Ok(connection);
        }
        let pids: Vec<i32> = mine.iter().map(|backend| backend.pid).collect();
        let query = sqlx::query(ORPHANS).persistent(false).bind(pids);
        let rows = query.fetch_all(&mut connection).await.map_err(of_sqlx)?;
        let mut active = Vec::with_capacity(2 * rows.len());
        for row in &rows {
            let pid = row.try_get("pid").map_err(of_sqlx)?;
            for started in ["started", "begun"] {
                active.push(Backend { pid, started: row.try_get(started).map_err(of_sqlx)? });
            }
        }
        let count = mine.iter().filter(|backend| active.contains(backend)).count();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|orphan| {
            if orphan.purpose == purpose && mine.contains(&orphan.backend) {
                orphan.active = active.contains(&orphan.backend);
                return orphan.active;
            }
            true
        });
        if count < max {
            return Ok(connection);
        }
        let _closed = connection.close().await;
        Err(StoreError::NotApplied(Fault::Unavailable(format!(
            "{count} statements that this server gave up are still under way in the database, most likely \
             waiting for a standby; no further connection is opened until they end"
        ))))
    }

    fn of(&self, purpose: Purpose) -> Vec<Backend> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|orphan| orphan.purpose == purpose).map(|orphan| orphan.backend).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn add_beyond_the_bound_forgets_the_oldest_of_that_purpose() {
        let orphans = OrphanedBackends::default();
        let backend = |pid| Backend { pid, started: 1 };
        orphans.add(Purpose::Purge, backend(7));
        for pid in 0..100 {
            orphans.add(Purpose::Claims, backend(pid));
        }
        assert_eq!(orphans.of(Purpose::Purge), [backend(7)]);
        let claims = orphans.of(Purpose::Claims);
        assert_eq!((claims.len(), claims[0], claims[63]), (64, backend(36), backend(99)));
    }
}
