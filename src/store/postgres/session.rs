//! One connection to Postgres, and what belongs to it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::{PgArguments, PgRow};
use sqlx::query::Query;
use sqlx::{Postgres, Row as _};
use tokio::time::timeout;

use super::acknowledged::Acknowledged;
use super::backend::{AtWork, Backend};
use super::errors::of_sqlx;
use super::left_behind::LeftBehind;
use super::link::Link;
use super::quiet::Quiet;
use crate::domain::{ClockLimits, KeyHash, Reading, StoreTime};
use crate::store::dictionary::Dictionary;
use crate::store::{
    Entries, HoldBook, Mark, Operators, PolicyBook, Purpose, ReplayBook, Session, StoreError, Upkeep,
};

/// How long a server may take to hear that a session ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// One connection.
pub(super) struct PgSession {
    pub(super) connection: Link,
    /// When its server was started, which tells servers apart.
    pub(super) server_started: i64,
    pub(super) leaves: Leaves,
    pub(super) persistent: bool,
    pub(super) mark: Arc<Mark>,
    pub(super) clock_limits: ClockLimits,
    pub(super) quiet: Arc<Quiet>,
    pub(super) acknowledged: Arc<Acknowledged>,
    pub(super) dictionary: Dictionary,
    /// The last consumer whose open claims were marked; 0: all were.
    pub(super) marked_last: i32,
    /// Where the rows lay that the purge has read last.
    pub(super) places: HashMap<KeyHash, String>,
}

/// What a session leaves behind when it is dropped: a backend that may still be at work.
pub(super) struct Leaves {
    left_behind: Arc<LeftBehind>,
    pub(super) purpose: Purpose,
    /// The one that opened it.
    pub(super) backend: Backend,
    at_work: AtWork,
}

impl Leaves {
    pub(super) fn new(
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
    pub(super) fn query(&self, statement: &'static str) -> Query<'static, Postgres, PgArguments> {
        sqlx::query(statement).persistent(self.persistent)
    }

    pub(super) fn reading(&self, row: &PgRow, mark: i64) -> Result<Reading, StoreError> {
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
    pub(super) async fn say_goodbye(self) {
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
