//! One connection to Postgres, and what belongs to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};
use tokio::time::timeout;

use crate::domain::{ClockLimits, KeyHash, Reading, StoreTime};
use crate::store::dictionary::Dictionary;
use crate::store::postgres::connection::backend::{AtWork, Backend};
use crate::store::postgres::connection::link::Link;
use crate::store::postgres::connection::lost_commits::Acknowledged;
use crate::store::postgres::connection::orphans::LeftBehind;
use crate::store::postgres::errors::of_sqlx;
use crate::store::postgres::quiet::Quiet;
use crate::store::{
    Entries, HoldBook, Mark, Operators, PolicyBook, Purpose, ReplayBook, Session, StoreError, Upkeep,
};

/// How long a server may take to hear that a session ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// One connection.
pub(in crate::store::postgres) struct PgSession {
    pub(in crate::store::postgres) connection: Link,
    /// When its server was started, which tells servers apart.
    pub(in crate::store::postgres) server_started: i64,
    pub(in crate::store::postgres) leaves: Leaves,
    pub(in crate::store::postgres) persistent: bool,
    pub(in crate::store::postgres) mark: Arc<Mark>,
    pub(in crate::store::postgres) clock_limits: ClockLimits,
    pub(in crate::store::postgres) quiet: Arc<Quiet>,
    pub(in crate::store::postgres) acknowledged: Arc<Acknowledged>,
    pub(in crate::store::postgres) dictionary: Dictionary,
    /// The last consumer whose open claims were marked; 0: all were.
    pub(in crate::store::postgres) marked_last: i32,
    /// Where the rows lay that the purge has read last.
    pub(in crate::store::postgres) places: HashMap<KeyHash, String>,
}

/// What a session leaves behind when it is dropped: a backend that may still be at work.
pub(in crate::store::postgres) struct Leaves {
    left_behind: Arc<LeftBehind>,
    pub(in crate::store::postgres) purpose: Purpose,
    /// The one that opened it.
    pub(in crate::store::postgres) backend: Backend,
    at_work: AtWork,
}

impl Leaves {
    pub(in crate::store::postgres) fn new(
        left_behind: Arc<LeftBehind>,
        purpose: Purpose,
        backend: Backend,
        link: &Link,
    ) -> Leaves {
        Leaves { left_behind, purpose, backend, at_work: link.at_work().clone() }
    }
}

impl Drop for Leaves {
    /// The connection closes without a word, so that nothing is cancelled.
    fn drop(&mut self) {
        if let Some(backend) = self.at_work.get() {
            self.left_behind.add(self.purpose, backend);
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

    /// Ends a session that no statement uses: it can say so, since there is nothing to cancel.
    pub(in crate::store::postgres) async fn say_goodbye(self) {
        let PgSession { connection, leaves: _leaves, .. } = self;
        let _said = timeout(FAREWELL, connection.close()).await;
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
}
