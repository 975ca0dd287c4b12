//! Session rotation: replaces a session at the end of its lifetime, between two statements. The new session is opened before
//! the old one is closed, and the task that owns the session does not notice.
//!
//! So rotated credentials go out of use: each new session reads the files of user and password again.
//!
//! Rotation stays on the same server. Another server that answers at the same address may have other entries and other
//! numbers than those that the owner has read, so only a session that broke moves to another server.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::common::log_limit::warn_once_a_second;
use crate::domain::{
    AuditEvent, AuditListing, Entry, EntryFilter, Hold, ImportedEntry, Key, KeyHash, Listed, Listing,
    OpenConsumers, OpenRange, OpenRow, PolicyVersion, PurgeStatus, PurgeWorker, Reading, ReplayRun, Span,
    StoreTime, Summary,
};
use crate::store::postgres::connection::opener::Opener;
use crate::store::postgres::connection::session::PgSession;
use crate::store::{
    Choose, Completion, Created, Done, DueCounts, DueLook, EffectiveRetention, Entries, EntryWithMessage,
    Erased, EventDigests, Found, HandedOut, HoldBook, Inbox, Inserted, KeptMessage, LeftAlone, Loaded,
    MessagePlace, OffsetRaise, Operators, PartDigests, PolicyBook, PurgeTurn, Purpose, ReplayBook, Replica,
    Session, StoreError, Upkeep, Write, WriteResult,
};

/// Bounds the opening of the new session, whatever the store does meanwhile.
const OPEN_WITHIN: Duration = Duration::from_secs(12);
/// Delay before the next attempt after a failure: a tenth of the lifetime, within these bounds.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How far the time between two rotations is from the lifetime at most, as a share of it.
const JITTER: f64 = 0.1;

/// See the module.
pub(in crate::store::postgres) struct RotatedSession {
    current: Arc<Mutex<CurrentSession>>,
    rotation: AbortHandle,
}

/// The session in use. A statement holds the lock until it is answered.
struct CurrentSession {
    session: PgSession,
    /// Whether a statement is in flight, or was given up.
    in_use: bool,
}

impl RotatedSession {
    /// Spawns the task that rotates the session. Must be called within a Tokio runtime.
    pub(in crate::store::postgres) fn new(
        session: PgSession,
        opener: &Arc<Opener>,
        lifetime: Duration,
    ) -> RotatedSession {
        let (purpose, pid, server) =
            (session.orphan_guard.purpose, session.orphan_guard.backend.pid, session.server_started);
        let current = Arc::new(Mutex::new(CurrentSession { session, in_use: false }));
        // A weak reference: the session must be dropped together with its owner.
        let rotation = rotate(Arc::downgrade(&current), Arc::clone(opener), purpose, (server, pid), lifetime);
        RotatedSession { current, rotation: tokio::spawn(rotation).abort_handle() }
    }
}

impl Drop for RotatedSession {
    fn drop(&mut self) {
        self.rotation.abort();
    }
}

async fn rotate(
    current: Weak<Mutex<CurrentSession>>,
    opener: Arc<Opener>,
    purpose: Purpose,
    (server, mut pid): (i64, i32),
    lifetime: Duration,
) {
    let retry_after = (lifetime / 10).clamp(RETRY_MIN, RETRY_MAX);
    loop {
        sleep(jittered(lifetime, pid)).await;
        let fresh = loop {
            match timeout(OPEN_WITHIN, opener.open(purpose, Some(server))).await {
                Ok(Ok(fresh)) => break fresh,
                Ok(Err(error)) => warn_once_a_second!(
                    %error,
                    purpose = purpose.name(),
                    "a session is due for rotation, but no new one can be opened: the old one stays in use"
                ),
                Err(_) => warn_once_a_second!(
                    within = ?OPEN_WITHIN,
                    purpose = purpose.name(),
                    "a session is due for rotation, but the store does not answer: the old one stays in use"
                ),
            }
            opener.rotation_counts().record(purpose, false);
            sleep(retry_after).await;
        };
        let Some(current) = current.upgrade() else { return };
        let mut current = current.lock().await;
        if current.in_use {
            // The owner gave up a statement, and will drop the session.
            return;
        }
        pid = fresh.orphan_guard.backend.pid;
        let old = std::mem::replace(&mut current.session, fresh);
        drop(current);
        opener.rotation_counts().record(purpose, true);
        tracing::debug!(purpose = purpose.name(), "a session was replaced, since its time was over");
        old.close().await;
    }
}

/// The lifetime with jitter, so that sessions that were opened together are not rotated together. Their backends
/// have consecutive process ids; multiplication by the golden ratio (Fibonacci hashing) spreads consecutive numbers evenly.
fn jittered(lifetime: Duration, pid: i32) -> Duration {
    const GOLDEN: u32 = 2_654_435_769;
    let share = f64::from(pid.unsigned_abs().wrapping_mul(GOLDEN)) / f64::from(u32::MAX);
    lifetime.mul_f64(1.0 - JITTER + 2.0 * JITTER * share)
}

impl Session for RotatedSession {
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

/// Delegates each call to the session in use, which is not rotated until the call is answered.
macro_rules! delegate {
    ($($part:ident { $(fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)* })*) => {$(
        #[async_trait]
        impl $part for RotatedSession {
            $(async fn $name(&mut self, $($arg: $kind),*) -> Result<$answer, StoreError> {
                let mut current = self.current.lock().await;
                current.in_use = true;
                let answer = $part::$name(&mut current.session, $($arg),*).await;
                current.in_use = false;
                answer
            })*
        }
    )*};
}

delegate! {
    Entries {
        fn load(keys: &[Key]) -> Loaded;
        fn insert(rows: &[Entry], until: StoreTime) -> Inserted;
        fn complete(completions: &[Completion]) -> Vec<Option<Done>>;
        fn replace_until(entries: &[Entry], until: &[StoreTime]) -> Vec<bool>;
        fn locked(keys: &[Key]) -> Vec<KeyHash>;
    }
    Upkeep {
        fn write_heartbeat(replica: &Replica) -> Reading;
        fn index_open_claims(limit: usize) -> usize;
        fn take_purge_turn(hold: Span) -> Option<PurgeTurn>;
        fn end_purge_turn(turn: &PurgeTurn, due: StoreTime) -> ();
        fn created_between(turn: &PurgeTurn, after: StoreTime, until: StoreTime, limit: usize) -> Created;
        fn first_created_after(turn: &PurgeTurn, after: StoreTime) -> Option<StoreTime>;
        fn purge(entries: &[(KeyHash, i64)], policy_epoch: i64) -> usize;
        fn report_purge(worker: &PurgeWorker) -> ();
        fn purge_audit(before: StoreTime, limit: usize) -> usize;
    }
    Operators {
        fn load_by_hash(hash: KeyHash) -> (Reading, Found);
        fn list(listing: &Listing) -> Listed;
        fn open_consumers(after: &str, states: &[i16], doubled: bool, names: usize) -> OpenConsumers;
        fn open_rows(range: &OpenRange, filter: &EntryFilter) -> (Reading, Vec<OpenRow>);
        fn consumers(after: &str, limit: usize) -> Vec<String>;
        fn summary(consumers: &[(String, Option<i32>)], most: i64) -> Summary;
        fn purge_status(left_alone: &LeftAlone, due_max: usize) -> (Reading, PurgeStatus);
        fn change(write: &Write, event: &AuditEvent) -> WriteResult;
        fn raise_token_offset(raise: OffsetRaise, event: &AuditEvent) -> WriteResult;
        fn write_entries(fresh: &[ImportedEntry], changed: &[Entry], events: &[AuditEvent]) -> WriteResult;
        fn count_changed(consumer: &str, operation_id: &str, action: &str) -> i64;
        fn part_digests(consumers: &[String], id: &str) -> PartDigests;
        fn event_digests(stored_ids: &[String]) -> EventDigests;
        fn audited(consumer: &str, request_id: &str) -> Option<AuditEvent>;
        fn audit(listing: &AuditListing) -> Vec<AuditEvent>;
    }
    PolicyBook {
        fn policy_epoch() -> i64;
        fn policies() -> Vec<PolicyVersion>;
        fn policy_versions(consumer: &str, before: i32, limit: usize) -> Vec<PolicyVersion>;
        fn add_policy(policy: &PolicyVersion, in_force: &EffectiveRetention, event: &AuditEvent) -> WriteResult;
        fn effective_retentions() -> (Reading, Vec<EffectiveRetention>);
        fn put_in_force(all: &[EffectiveRetention], seen: Option<&[EffectiveRetention]>) -> usize;
        fn replicas_below(format: i32, heard_since: StoreTime, limit: usize) -> Vec<Replica>;
    }
    ReplayBook {
        fn replay_runs() -> Vec<ReplayRun>;
        fn replay_run(consumer: &str, name: &str) -> Option<ReplayRun>;
        fn replay_runs_of(consumer: &str, after: &str, limit: usize) -> Vec<ReplayRun>;
        fn add_replay_run(run: &ReplayRun, policy_epoch: i64, event: &AuditEvent) -> WriteResult;
        fn close_replay_run(consumer: &str, name: &str, event: &AuditEvent) -> WriteResult;
        fn sweep_replay_run(consumer: &str, name: &str, at: StoreTime) -> ();
        fn sweep_empty_runs(ended_before: StoreTime, at: StoreTime) -> usize;
    }
    HoldBook {
        fn holds() -> Vec<Hold>;
        fn add_hold(hold: &Hold, policy_epoch: i64, event: &AuditEvent) -> WriteResult;
        fn lift_hold(prefix: &str, event: &AuditEvent) -> WriteResult;
    }
    Inbox {
        fn store_new(rows: &[EntryWithMessage], until: StoreTime) -> Inserted;
        fn attach(rows: &[EntryWithMessage], until: &[StoreTime]) -> Vec<bool>;
        fn hand_out(look: &DueLook, choose: &Choose) -> HandedOut;
        fn message(key: KeyHash) -> Option<KeptMessage>;
        fn stored_at(keys: &[KeyHash]) -> Vec<Option<StoreTime>>;
        fn oldest_due(consumer: &str) -> (Reading, Option<StoreTime>);
        fn count_due(consumer: &str, most: i64) -> DueCounts;
        fn message_bytes() -> i64;
        fn erase(limit: usize) -> Erased;
        fn forget_handouts(before: StoreTime, limit: usize) -> usize;
        fn sweep_messages(after: MessagePlace, limit: usize) -> Option<MessagePlace>;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jittered_lifetimes_of_sessions_opened_together_are_spread() {
        let lifetime = Duration::from_secs(1_000);
        let mut lifetimes: Vec<u64> = (4_242..4_252).map(|pid| jittered(lifetime, pid).as_secs()).collect();
        lifetimes.sort_unstable();
        assert!(lifetimes[0] >= 900 && lifetimes[9] <= 1_100, "{lifetimes:?}");
        assert!(lifetimes.windows(2).all(|two| two[1] - two[0] >= 5), "{lifetimes:?}");
    }
}
