//! Opens the sessions of a store, and knows what they share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::Mutex;

use crate::domain::ClockLimits;
use crate::store::dictionary::Dictionary;
use crate::store::postgres::connection::connect::{self, How};
use crate::store::postgres::connection::lost_commits::Acknowledged;
use crate::store::postgres::connection::orphans::LeftBehind;
use crate::store::postgres::connection::rotation_counts::Replaced;
use crate::store::postgres::connection::servers::Servers;
use crate::store::postgres::connection::session::{Leaves, PgSession};
use crate::store::postgres::quiet::Quiet;
use crate::store::postgres::schema_name::SchemaName;
use crate::store::{Mark, Purpose, StoreError};

/// See the module.
#[derive(Debug)]
pub(in crate::store::postgres) struct Opener {
    servers: Servers,
    sessions: usize,
    how: How,
    persistent: bool,
    mark: Arc<Mark>,
    clock_limits: ClockLimits,
    quiet: Arc<Quiet>,
    left_behind: Arc<LeftBehind>,
    acknowledged: Arc<Acknowledged>,
    /// Sessions for claims are opened one after the other: two that looked at the same moment would each
    /// leave a backend behind.
    opening: Mutex<()>,
    replaced: Replaced,
}

impl Opener {
    pub(in crate::store::postgres) fn new(
        servers: Servers,
        (sessions, clock_limits): (usize, ClockLimits),
        how: How,
        persistent: bool,
    ) -> Opener {
        Opener {
            servers,
            sessions,
            how,
            persistent,
            mark: Arc::default(),
            clock_limits,
            quiet: Arc::default(),
            left_behind: Arc::default(),
            acknowledged: Arc::default(),
            opening: Mutex::default(),
            replaced: Replaced::default(),
        }
    }

    pub(in crate::store::postgres) fn servers(&self) -> &Servers {
        &self.servers
    }

    pub(in crate::store::postgres) fn schema(&self) -> &SchemaName {
        &self.how.schema
    }

    /// What the database's clock may show.
    pub(in crate::store::postgres) fn clock_limits(&self) -> ClockLimits {
        self.clock_limits
    }

    /// How many sessions carry claims.
    pub(in crate::store::postgres) fn sessions(&self) -> usize {
        self.sessions
    }

    /// See [`LeftBehind::at_work`].
    pub(in crate::store::postgres) fn left_behind(&self) -> usize {
        self.left_behind.at_work()
    }

    /// See [`Acknowledged::losses`].
    pub(in crate::store::postgres) fn losses(&self) -> u64 {
        self.acknowledged.losses()
    }

    /// Who is told of sessions that were replaced.
    pub(in crate::store::postgres) fn replaced(&self) -> &Replaced {
        &self.replaced
    }

    /// A session, after all that a new one has to show; with any server, or with the one that was started then.
    pub(in crate::store::postgres) async fn open(
        &self,
        purpose: Purpose,
        stays_with: Option<i64>,
    ) -> Result<PgSession, StoreError> {
        let claims = purpose == Purpose::Claims;
        let _one_at_a_time = if claims { Some(self.opening.lock().await) } else { None };
        let (connection, peer) = connect::open(&self.servers, purpose, &self.how, stays_with).await?;
        let left_max = if claims { self.sessions } else { 1 };
        let connection = self.left_behind.admit(connection, purpose, left_max).await?;
        let mut session = PgSession {
            leaves: Leaves::new(Arc::clone(&self.left_behind), purpose, peer.backend, &connection),
            connection,
            server_started: peer.server_started,
            persistent: self.persistent,
            mark: Arc::clone(&self.mark),
            clock_limits: self.clock_limits,
            quiet: Arc::clone(&self.quiet),
            acknowledged: Arc::clone(&self.acknowledged),
            dictionary: Dictionary::default(),
            marked_last: 0,
            places: HashMap::default(),
        };
        // A promoted database may have lost commits: take over what it has written down, and look for the last ones.
        let sought = self.acknowledged.sought_on(peer.server_started);
        let (reading, rows) = session.rows_of(sought.keys()).await?;
        sought.judge(&rows);
        if claims {
            connect::prove(&mut session.connection).await?;
        }
        self.mark.0.fetch_max(reading.mark, Ordering::SeqCst);
        Ok(session)
    }
}
