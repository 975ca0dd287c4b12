//! Opens the sessions of a store, and holds the state that they share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::Mutex;

use crate::domain::ClockLimits;
use crate::store::dictionary::Dictionary;
use crate::store::postgres::connection::connect::{self, SessionSettings};
use crate::store::postgres::connection::lost_commits::LostCommitDetector;
use crate::store::postgres::connection::orphans::OrphanedBackends;
use crate::store::postgres::connection::rotation_counts::RotationCounts;
use crate::store::postgres::connection::servers::Servers;
use crate::store::postgres::connection::session::{OrphanGuard, PgSession};
use crate::store::postgres::recent_duplicates::RecentDuplicates;
use crate::store::postgres::schema_name::SchemaName;
use crate::store::{Mark, Purpose, StoreError};

/// See the module.
#[derive(Debug)]
pub(in crate::store::postgres) struct Opener {
    servers: Servers,
    sessions: usize,
    settings: SessionSettings,
    persistent: bool,
    mark: Arc<Mark>,
    clock_limits: ClockLimits,
    recent_duplicates: Arc<RecentDuplicates>,
    orphans: Arc<OrphanedBackends>,
    lost_commits: Arc<LostCommitDetector>,
    /// Sessions for claims are opened one at a time: two concurrent openings would both pass the bound on orphaned
    /// backends, and could each add one.
    opening: Mutex<()>,
    rotation_counts: RotationCounts,
}

impl Opener {
    pub(in crate::store::postgres) fn new(
        servers: Servers,
        (sessions, clock_limits): (usize, ClockLimits),
        settings: SessionSettings,
        persistent: bool,
    ) -> Opener {
        Opener {
            servers,
            sessions,
            settings,
            persistent,
            mark: Arc::default(),
            clock_limits,
            recent_duplicates: Arc::default(),
            orphans: Arc::default(),
            lost_commits: Arc::default(),
            opening: Mutex::default(),
            rotation_counts: RotationCounts::default(),
        }
    }

    pub(in crate::store::postgres) fn servers(&self) -> &Servers {
        &self.servers
    }

    pub(in crate::store::postgres) fn schema(&self) -> &SchemaName {
        &self.settings.schema
    }

    /// The bounds on readings of the database's clock.
    pub(in crate::store::postgres) fn clock_limits(&self) -> ClockLimits {
        self.clock_limits
    }

    /// The number of sessions for claims.
    pub(in crate::store::postgres) fn sessions(&self) -> usize {
        self.sessions
    }

    /// See [`OrphanedBackends::active`].
    pub(in crate::store::postgres) fn orphaned_backends(&self) -> usize {
        self.orphans.active()
    }

    /// See [`LostCommitDetector::losses`].
    pub(in crate::store::postgres) fn losses(&self) -> u64 {
        self.lost_commits.losses()
    }

    /// Reports attempts to rotate sessions.
    pub(in crate::store::postgres) fn rotation_counts(&self) -> &RotationCounts {
        &self.rotation_counts
    }

    /// Opens and checks a session. With `same_server`, only the server that was started then is accepted.
    pub(in crate::store::postgres) async fn open(
        &self,
        purpose: Purpose,
        same_server: Option<i64>,
    ) -> Result<PgSession, StoreError> {
        let claims = purpose == Purpose::Claims;
        let _one_at_a_time = if claims { Some(self.opening.lock().await) } else { None };
        let (connection, peer) = connect::open(&self.servers, purpose, &self.settings, same_server).await?;
        let orphans_max = if claims { self.sessions } else { 1 };
        let connection = self.orphans.admit(connection, purpose, orphans_max).await?;
        let mut session = PgSession {
            orphan_guard: OrphanGuard::new(Arc::clone(&self.orphans), purpose, peer.backend, &connection),
            connection,
            server_started: peer.server_started,
            persistent: self.persistent,
            mark: Arc::clone(&self.mark),
            clock_limits: self.clock_limits,
            recent_duplicates: Arc::clone(&self.recent_duplicates),
            lost_commits: Arc::clone(&self.lost_commits),
            dictionary: Dictionary::default(),
            marked_last: 0,
            places: HashMap::default(),
        };
        // A promoted database may have lost commits: read its clock mark, and look for the last writes.
        let writes = self.lost_commits.take_writes_to_check(peer.server_started);
        let (reading, rows) = session.rows_of(writes.keys()).await?;
        writes.check(&rows);
        if claims {
            connect::prove(&mut session.connection).await?;
        }
        self.mark.0.fetch_max(reading.mark, Ordering::SeqCst);
        Ok(session)
    }
}
