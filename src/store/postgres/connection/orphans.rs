//! Backends of sessions that were given up. A commit that waits for a standby ends only with that wait:
//! nobody may cancel or terminate it, since that would show a commit which no standby has. So a server
//! remembers what it left behind, and opens no further sessions beside as many of those as it works with.

use std::sync::{Mutex, PoisonError};

use sqlx::Row as _;

use crate::store::postgres::connection::backend::Backend;
use crate::store::postgres::connection::link::Link;
use crate::store::postgres::errors::of_sqlx;
use crate::store::{Fault, Purpose, StoreError};

/// Which of the backends still carry out a statement. Those that only wait for their client hold nothing. A backend of a
/// pooler's may have gone on to the transaction of somebody else.
pub(in crate::store::postgres) const LEFT_BEHIND: &str = "\
-- ledger.left_behind
SELECT a.pid, (extract(epoch FROM a.backend_start) * 1000000)::bigint AS started,
       coalesce((extract(epoch FROM a.xact_start) * 1000000)::bigint, 0) AS begun
FROM pg_stat_activity a
WHERE a.pid = ANY ($1::int[]) AND a.state = 'active'";

/// So many are remembered for each purpose; those beyond have most likely ended long ago.
const REMEMBERED_MAX: usize = 64;

/// What one server left behind.
#[derive(Debug, Default)]
pub(in crate::store::postgres) struct LeftBehind(Mutex<Vec<Left>>);

/// A backend whose session is gone.
#[derive(Clone, Copy, Debug)]
struct Left {
    purpose: Purpose,
    backend: Backend,
    /// It was still at work when somebody looked.
    at_work: bool,
}

impl LeftBehind {
    /// A session is gone; its backend may be not.
    pub(in crate::store::postgres) fn add(&self, purpose: Purpose, backend: Backend) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.iter().filter(|left| left.purpose == purpose).count() >= REMEMBERED_MAX
            && let Some(oldest) = all.iter().position(|left| left.purpose == purpose)
        {
            all.remove(oldest);
        }
        all.push(Left { purpose, backend, at_work: false });
    }

    /// How many were still at work when somebody looked: whoever opens the next session for the same purpose.
    pub(in crate::store::postgres) fn at_work(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter(|left| left.at_work).count()
    }

    /// Looks which are still at work, and forgets the others. Refuses where there are `max` of them: then the
    /// connection is closed, so that it is none too many.
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
        let query = sqlx::query(LEFT_BEHIND).persistent(false).bind(pids);
        let rows = query.fetch_all(&mut connection).await.map_err(of_sqlx)?;
        let mut at_work = Vec::with_capacity(2 * rows.len());
        for row in &rows {
            let pid = row.try_get("pid").map_err(of_sqlx)?;
            for started in ["started", "begun"] {
                at_work.push(Backend { pid, started: row.try_get(started).map_err(of_sqlx)? });
            }
        }
        let left = mine.iter().filter(|backend| at_work.contains(backend)).count();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain_mut(|left| {
            if left.purpose == purpose && mine.contains(&left.backend) {
                left.at_work = at_work.contains(&left.backend);
                return left.at_work;
            }
            true
        });
        if left < max {
            return Ok(connection);
        }
        let _closed = connection.close().await;
        Err(StoreError::NotApplied(Fault::Unavailable(format!(
            "{left} statements that this server gave up are still under way in the database, most likely \
             waiting for a standby; no further connection is opened until they end"
        ))))
    }

    fn of(&self, purpose: Purpose) -> Vec<Backend> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|left| left.purpose == purpose).map(|left| left.backend).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_remembered_for_each_purpose() {
        let left = LeftBehind::default();
        let backend = |pid| Backend { pid, started: 1 };
        left.add(Purpose::Purge, backend(7));
        for pid in 0..100 {
            left.add(Purpose::Claims, backend(pid));
        }
        assert_eq!(left.of(Purpose::Purge), [backend(7)]);
        let claims = left.of(Purpose::Claims);
        assert_eq!((claims.len(), claims[0], claims[63]), (64, backend(36), backend(99)));
    }
}
