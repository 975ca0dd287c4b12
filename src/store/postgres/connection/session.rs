//! A session: one connection to Postgres with its state.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};
use tokio::time::timeout;

use crate::domain::{ClockLimits, KeyHash, Reading, StoreTime};
use crate::store::dictionary::Dictionary;
use crate::store::postgres::connection::backend::{ActiveBackend, Backend};
use crate::store::postgres::connection::link::Link;
use crate::store::postgres::connection::lost_commits::LostCommitDetector;
use crate::store::postgres::connection::orphans::OrphanedBackends;
use crate::store::postgres::errors::of_sqlx;
use crate::store::postgres::recent_duplicates::RecentDuplicates;
use crate::store::{
    Entries, HoldBook, Inbox, Mark, Operators, PolicyBook, Purpose, ReplayBook, Session, StoreError, Upkeep,
};

/// Bounds a graceful close.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// One connection.
pub(in crate::store::postgres) struct PgSession {
    pub(in crate::store::postgres) connection: Link,
    /// When its server was started, which identifies the server.
    pub(in crate::store::postgres) server_started: i64,
    pub(in crate::store::postgres) orphan_guard: OrphanGuard,
    pub(in crate::store::postgres) persistent: bool,
    pub(in crate::store::postgres) mark: Arc<Mark>,
    pub(in crate::store::postgres) clock_limits: ClockLimits,
    pub(in crate::store::postgres) recent_duplicates: Arc<RecentDuplicates>,
    pub(in crate::store::postgres) lost_commits: Arc<LostCommitDetector>,
    pub(in crate::store::postgres) dictionary: Dictionary,
    /// The last consumer whose open claims were marked; 0: all were.
    pub(in crate::store::postgres) marked_last: i32,
    /// The physical positions (`ctid`) of the rows that the purge read last.
    pub(in crate::store::postgres) places: HashMap<KeyHash, String>,
}

/// Drop guard of a session: its backend, which may still be running a statement, becomes an orphan.
pub(in crate::store::postgres) struct OrphanGuard {
    orphans: Arc<OrphanedBackends>,
    pub(in crate::store::postgres) purpose: Purpose,
    /// The backend that opened the session.
    pub(in crate::store::postgres) backend: Backend,
    active: ActiveBackend,
}

impl OrphanGuard {
    pub(in crate::store::postgres) fn new(
        orphans: Arc<OrphanedBackends>,
        purpose: Purpose,
        backend: Backend,
        link: &Link,
    ) -> OrphanGuard {
        OrphanGuard { orphans, purpose, backend, active: link.active_backend().clone() }
    }
}

impl Drop for OrphanGuard {
    /// The connection is dropped without a message to the server, so that a statement in flight is not cancelled.
    fn drop(&mut self) {
        if let Some(backend) = self.active.get() {
            self.orphans.add(self.purpose, backend);
        }
    }
}

impl PgSession {
    pub(in crate::store::postgres) fn query(
        &self,
        statement: &'static str,
    ) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(statement).persistent(self.persistent)
    }

    pub(in crate::store::postgres) fn reading(&self, row: &PgRow, mark: i64) -> Result<Reading, StoreError> {
        let reading = Reading {
            now: StoreTime(row.try_get("clock_now").map_err(of_sqlx)?),
            token_offset: row.try_get("token_offset").map_err(of_sqlx)?,
            mark: mark.max(row.try_get("clock_mark").map_err(of_sqlx)?),
            limits: self.clock_limits,
        };
        self.mark.raise(&reading);
        Ok(reading)
    }

    /// Closes a session without a statement in flight gracefully: there is nothing that could be cancelled.
    pub(in crate::store::postgres) async fn close(self) {
        let PgSession { connection, orphan_guard: _leaves, .. } = self;
        let _closed = timeout(CLOSE_WITHIN, connection.close()).await;
    }
}

impl Session for PgSession {
    fn entries(&mut self) -> &mut dyn Entries {
        self
    }

    fn upkeep(&mut self) -> &mut dyn Upkeep {
        self
    }

    fn operators(&mut self) -> &mut dyn Operators {
        self
    }

    fn policy_book(&mut self) -> &mut dyn PolicyBook {
        self
    }

    fn replay_book(&mut self) -> &mut dyn ReplayBook {
        self
    }

    fn hold_book(&mut self) -> &mut dyn HoldBook {
        self
    }

    fn inbox(&mut self) -> &mut dyn Inbox {
        self
    }
}
