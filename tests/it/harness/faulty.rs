//! A store that fails on demand, around a real one.

mod plan;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use idempotency_ledger::domain::{
    AuditEvent, AuditListing, Entry, EntryFilter, Hold, ImportedEntry, Key, KeyHash, Listed, Listing,
    OpenConsumers, OpenRange, OpenRow, PolicyVersion, PurgeStatus, PurgeWorker, Reading, ReplayRun, Span,
    StoreTime, Summary,
};
use idempotency_ledger::store::{
    Completion, Created, Done, EffectiveRetention, Entries, EventDigests, Fault, Found, HoldBook, Inbox,
    Inserted, LeftAlone, Loaded, OffsetRaise, Operators, PartDigests, PolicyBook, PurgeTurn, Purpose,
    ReplayBook, Replica, Session, Store, StoreError, Upkeep, Write, WriteResult,
};

pub(crate) use self::plan::{Inject, Plan};

/// Ids that start with this spoil the statement that carries them.
pub(crate) const POISON: &str = "poison";

pub(crate) struct FaultyStore {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) plan: Arc<Plan>,
}

struct FaultySession {
    inner: Box<dyn Session>,
    plan: Arc<Plan>,
    /// The next read is refused.
    no_read: AtomicBool,
}

impl FaultySession {
    fn read(&self) -> Result<(), StoreError> {
        if self.no_read.swap(false, Ordering::SeqCst) {
            return Err(refused());
        }
        Ok(())
    }
}

fn refused() -> StoreError {
    StoreError::NotApplied(Fault::Unavailable("on demand".into()))
}

fn lost() -> StoreError {
    StoreError::Unknown("the connection broke, on demand".into())
}

/// Carries a write out, or not, as the plan has it.
macro_rules! carried_out {
    ($session:ident, $poisoned:expr, $write:expr) => {{
        let fault = $session.plan.take();
        $session.plan.gate.acquire().await.unwrap().forget();
        if $poisoned {
            return Err(StoreError::NotApplied(Fault::Permanent("poison, on demand".into())));
        }
        match fault {
            None | Some(Inject::Nothing) => $write.await,
            Some(Inject::LostAnswer) => {
                $write.await?;
                Err(lost())
            }
            Some(Inject::LateLostAnswer) => {
                $write.await?;
                $session.plan.writes.fetch_add(1, Ordering::SeqCst);
                $session.plan.gate.acquire().await.unwrap().forget();
                Err(lost())
            }
            Some(Inject::NoReadAfter) => {
                let done = $write.await?;
                $session.no_read.store(true, Ordering::SeqCst);
                Ok(done)
            }
            Some(Inject::LostRequest | Inject::Panic) => Err(lost()),
            Some(Inject::Unavailable) => Err(refused()),
            Some(Inject::Conflict) => Err(StoreError::NotApplied(Fault::Conflict("on demand".into()))),
        }
    }};
}

mod books;
mod inbox;

fn poisoned<'k>(mut keys: impl Iterator<Item = &'k Key>) -> bool {
    keys.any(|key| key.id().starts_with(POISON))
}

#[async_trait]
impl Store for FaultyStore {
    fn describe(&self) -> String {
        format!("{}, that fails on demand", self.inner.describe())
    }

    fn database(&self) -> &'static str {
        self.inner.database()
    }

    fn sessions(&self) -> usize {
        self.plan.sessions.load(Ordering::SeqCst)
    }

    async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError> {
        if self.plan.no_sessions.load(Ordering::SeqCst) {
            return Err(refused());
        }
        let inner = self.inner.open(purpose).await?;
        Ok(Box::new(FaultySession { inner, plan: Arc::clone(&self.plan), no_read: AtomicBool::new(false) }))
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        self.inner.migrate().await
    }
}

impl Session for FaultySession {
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

#[async_trait]
impl Entries for FaultySession {
    async fn load(&mut self, keys: &[Key]) -> Result<Loaded, StoreError> {
        self.read()?;
        // Who asks for no entry asks for the time.
        self.plan.loads.fetch_add(usize::from(!keys.is_empty()), Ordering::SeqCst);
        self.inner.entries().load(keys).await
    }

    async fn insert(&mut self, rows: &[Entry], until: StoreTime) -> Result<Inserted, StoreError> {
        carried_out!(
            self,
            poisoned(rows.iter().map(|row| &row.key)),
            self.inner.entries().insert(rows, until)
        )
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<Done>>, StoreError> {
        carried_out!(
            self,
            poisoned(completions.iter().map(|one| &one.key)),
            self.inner.entries().complete(completions)
        )
    }

    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        let poisoned = poisoned(entries.iter().map(|row| &row.key));
        carried_out!(self, poisoned, self.inner.entries().replace_until(entries, until))
    }

    async fn locked(&mut self, keys: &[Key]) -> Result<Vec<KeyHash>, StoreError> {
        self.inner.entries().locked(keys).await
    }
}

#[async_trait]
impl Upkeep for FaultySession {
    async fn write_heartbeat(&mut self, replica: &Replica) -> Result<Reading, StoreError> {
        self.inner.upkeep().write_heartbeat(replica).await
    }

    async fn index_open_claims(&mut self, limit: usize) -> Result<usize, StoreError> {
        self.inner.upkeep().index_open_claims(limit).await
    }

    async fn take_purge_turn(&mut self, hold: Span) -> Result<Option<PurgeTurn>, StoreError> {
        self.inner.upkeep().take_purge_turn(hold).await
    }

    async fn end_purge_turn(&mut self, turn: &PurgeTurn, due: StoreTime) -> Result<(), StoreError> {
        self.inner.upkeep().end_purge_turn(turn, due).await
    }

    async fn created_between(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
        until: StoreTime,
        limit: usize,
    ) -> Result<Created, StoreError> {
        self.inner.upkeep().created_between(turn, after, until, limit).await
    }

    async fn first_created_after(
        &mut self,
        turn: &PurgeTurn,
        after: StoreTime,
    ) -> Result<Option<StoreTime>, StoreError> {
        self.inner.upkeep().first_created_after(turn, after).await
    }

    async fn purge(&mut self, entries: &[(KeyHash, i64)], policy_epoch: i64) -> Result<usize, StoreError> {
        carried_out!(self, false, self.inner.upkeep().purge(entries, policy_epoch))
    }

    async fn report_purge(&mut self, worker: &PurgeWorker) -> Result<(), StoreError> {
        self.inner.upkeep().report_purge(worker).await
    }

    async fn purge_audit(&mut self, before: StoreTime, limit: usize) -> Result<usize, StoreError> {
        self.inner.upkeep().purge_audit(before, limit).await
    }
}

#[async_trait]
impl Operators for FaultySession {
    async fn load_by_hash(&mut self, hash: KeyHash) -> Result<(Reading, Found), StoreError> {
        self.read()?;
        self.inner.operators().load_by_hash(hash).await
    }

    async fn list(&mut self, listing: &Listing) -> Result<Listed, StoreError> {
        self.inner.operators().list(listing).await
    }

    async fn open_consumers(
        &mut self,
        after: &str,
        states: &[i16],
        doubled: bool,
        names: usize,
    ) -> Result<OpenConsumers, StoreError> {
        self.inner.operators().open_consumers(after, states, doubled, names).await
    }

    async fn open_rows(
        &mut self,
        range: &OpenRange,
        filter: &EntryFilter,
    ) -> Result<(Reading, Vec<OpenRow>), StoreError> {
        self.inner.operators().open_rows(range, filter).await
    }

    async fn consumers(&mut self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.inner.operators().consumers(after, limit).await
    }

    async fn summary(
        &mut self,
        consumers: &[(String, Option<i32>)],
        most: i64,
    ) -> Result<Summary, StoreError> {
        self.inner.operators().summary(consumers, most).await
    }

    async fn purge_status(
        &mut self,
        left_alone: &LeftAlone,
        due_max: usize,
    ) -> Result<(Reading, PurgeStatus), StoreError> {
        self.inner.operators().purge_status(left_alone, due_max).await
    }

    async fn change(&mut self, write: &Write, event: &AuditEvent) -> Result<WriteResult, StoreError> {
        carried_out!(self, false, self.inner.operators().change(write, event))
    }

    async fn raise_token_offset(
        &mut self,
        raise: OffsetRaise,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        carried_out!(self, false, self.inner.operators().raise_token_offset(raise, event))
    }

    async fn write_entries(
        &mut self,
        fresh: &[ImportedEntry],
        changed: &[Entry],
        events: &[AuditEvent],
    ) -> Result<WriteResult, StoreError> {
        carried_out!(self, false, self.inner.operators().write_entries(fresh, changed, events))
    }

    async fn count_changed(
        &mut self,
        consumer: &str,
        operation_id: &str,
        action: &str,
    ) -> Result<i64, StoreError> {
        self.inner.operators().count_changed(consumer, operation_id, action).await
    }

    async fn part_digests(&mut self, consumers: &[String], id: &str) -> Result<PartDigests, StoreError> {
        self.inner.operators().part_digests(consumers, id).await
    }

    async fn event_digests(&mut self, stored_ids: &[String]) -> Result<EventDigests, StoreError> {
        self.inner.operators().event_digests(stored_ids).await
    }

    async fn audited(&mut self, consumer: &str, request_id: &str) -> Result<Option<AuditEvent>, StoreError> {
        self.inner.operators().audited(consumer, request_id).await
    }

    async fn audit(&mut self, listing: &AuditListing) -> Result<Vec<AuditEvent>, StoreError> {
        self.inner.operators().audit(listing).await
    }
}
