//! A session that is replaced when its time is over: by one that was opened before the old one is closed, between two
//! statements, and without a word to whoever owns it.
//!
//! It stays with its server. Another one that answers at the same address may know other entries and other numbers than
//! those that its owner has read, so only a session that broke goes over to another server.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::common::log_limit::warn_once_a_second;
use crate::domain::{
    AuditEvent, AuditListing, Entry, Hold, ImportedEntry, Key, KeyHash, Listed, Listing, PolicyVersion,
    PurgeStatus, PurgeWorker, Reading, ReplayRun, Span, StoreTime, Summary,
};
use crate::store::postgres::connection::opener::Opener;
use crate::store::postgres::connection::session::PgSession;
use crate::store::{
    Completion, Created, Done, EffectiveRetention, Entries, Found, HoldBook, Inserted, LeftAlone, Loaded,
    OffsetRaise, Operators, PartDigests, PolicyBook, PurgeTurn, Purpose, ReplayBook, Replica, Session,
    StoreError, Upkeep, Write, WriteResult,
};

/// How long opening the new one may take, whatever the store does meanwhile.
const OPEN_WITHIN: Duration = Duration::from_secs(12);
/// How long after a failure the next try comes: a tenth of the lifetime, and within these bounds.
const AGAIN_MIN: Duration = Duration::from_millis(100);
const AGAIN_MAX: Duration = Duration::from_secs(30);

/// See the module.
pub(in crate::store::postgres) struct Renewed {
    held: Arc<Mutex<Held>>,
    renewal: AbortHandle,
}

/// The session of now. Whoever uses it has the lock.
struct Held {
    session: PgSession,
    /// A statement is under way, or was given up.
    in_use: bool,
}

impl Renewed {
    /// Must be called within a runtime.
    pub(in crate::store::postgres) fn new(
        session: PgSession,
        opener: &Arc<Opener>,
        lifetime: Duration,
    ) -> Renewed {
        let (purpose, pid, server) =
            (session.leaves.purpose, session.leaves.backend.pid, session.server_started);
        let held = Arc::new(Mutex::new(Held { session, in_use: false }));
        // Only its owner keeps it alive, so that it ends with him.
        let renewal = renew(Arc::downgrade(&held), Arc::clone(opener), purpose, (server, pid), lifetime);
        Renewed { held, renewal: tokio::spawn(renewal).abort_handle() }
    }
}

impl Drop for Renewed {
    fn drop(&mut self) {
        self.renewal.abort();
    }
}

async fn renew(
    held: Weak<Mutex<Held>>,
    opener: Arc<Opener>,
    purpose: Purpose,
    (server, mut pid): (i64, i32),
    lifetime: Duration,
) {
    let again = (lifetime / 10).clamp(AGAIN_MIN, AGAIN_MAX);
    loop {
        sleep(life(lifetime, pid)).await;
        let fresh = loop {
            match timeout(OPEN_WITHIN, opener.open(purpose, Some(server))).await {
                Ok(Ok(fresh)) => break fresh,
                Ok(Err(error)) => warn_once_a_second!(
                    %error,
                    purpose = purpose.name(),
                    "a session shall be replaced, and no new one can be opened: the old one goes on"
                ),
                Err(_) => warn_once_a_second!(
                    within = ?OPEN_WITHIN,
                    purpose = purpose.name(),
                    "a session shall be replaced, and the store does not answer: the old one goes on"
                ),
            }
            opener.replaced().note(purpose, false);
            sleep(again).await;
        };
        let Some(held) = held.upgrade() else { return };
        let mut held = held.lock().await;
        if held.in_use {
            // Its owner has given up a statement, and gives up the session.
            return;
        }
        pid = fresh.leaves.backend.pid;
        let old = std::mem::replace(&mut held.session, fresh);
        drop(held);
        opener.replaced().note(purpose, true);
        tracing::debug!(purpose = purpose.name(), "a session was replaced, since its time was over");
        old.say_goodbye().await;
    }
}

/// How long a session lives: give or take a tenth, so that those which were opened together do not go together. The
/// numbers of their backends are neighbours; this spreads neighbours most evenly.
fn life(lifetime: Duration, pid: i32) -> Duration {
    const GOLDEN: u32 = 2_654_435_769;
    let share = f64::from(pid.unsigned_abs().wrapping_mul(GOLDEN)) / f64::from(u32::MAX);
    lifetime.mul_f64(0.9 + 0.2 * share)
}

impl Session for Renewed {
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

/// Hands each call to the session of now, which stays the same until it is answered.
macro_rules! handed_on {
    ($($part:ident { $(fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)* })*) => {$(
        #[async_trait]
        impl $part for Renewed {
            $(async fn $name(&mut self, $($arg: $kind),*) -> Result<$answer, StoreError> {
                let mut held = self.held.lock().await;
                held.in_use = true;
                let answer = $part::$name(&mut held.session, $($arg),*).await;
                held.in_use = false;
                answer
            })*
        }
    )*};
}

handed_on! {
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
        fn consumers(after: &str, limit: usize) -> Vec<String>;
        fn summary(consumers: &[(String, Option<i32>)], most: i64) -> Summary;
        fn purge_status(left_alone: &LeftAlone, due_max: usize) -> (Reading, PurgeStatus);
        fn change(write: &Write, event: &AuditEvent) -> WriteResult;
        fn raise_token_offset(raise: OffsetRaise, event: &AuditEvent) -> WriteResult;
        fn import(entries: &[ImportedEntry], events: &[AuditEvent]) -> WriteResult;
        fn count_redriven(consumer: &str, operation_id: &str) -> i64;
        fn part_digests(consumers: &[String], id: &str) -> PartDigests;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_that_were_opened_together_go_one_after_the_other() {
        let lifetime = Duration::from_secs(1_000);
        let mut lives: Vec<u64> = (4_242..4_252).map(|pid| life(lifetime, pid).as_secs()).collect();
        lives.sort_unstable();
        assert!(lives[0] >= 900 && lives[9] <= 1_100, "{lives:?}");
        assert!(lives.windows(2).all(|two| two[1] - two[0] >= 5), "{lives:?}");
    }
}
