//! The policies in force on this replica: how they are read from the store, and until when they are trusted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use super::alerts::Alerts;
use super::failed_readings::FailedReadings;
use super::run_lookups::RunLookups;
use super::table::{DEFAULT, Policies, by_consumer, in_force};
use crate::domain::{Key, Policy, Span, StoreTime};
use crate::ledger::runtime::{Instant, Mutex};
use crate::store::{EffectiveRetention, Fault, ROWS_MAX, Session, StoreError};

/// Longest time of a statement after it has read the store's clock. Writes by policies that are trusted until an instant
/// commit up to this much later, so policies are trusted for that much less than a hold may take to be in force everywhere.
/// With 10 s, nothing is granted by policies that were read more than 8 s before, and no grant is later than 10 s after a
/// hold was answered.
const STATEMENT_MAX: Span = Span::from_secs(2);
/// How often all policies are read, also without a change.
const READ_ALL_EVERY: Duration = Duration::from_mins(1);
/// How often a start may meet a concurrent change of policies before it gives up.
const ADOPT_ROUNDS_MAX: usize = 16;

/// The policies as the store had them at one instant.
#[derive(Clone, Debug)]
pub struct InForce {
    policies: Arc<Policies>,
    /// The store's clock before they were read: they contain every change that was answered until then.
    as_of: StoreTime,
    /// The value of [`PolicyBook::policy_epoch`] before they were read; `None` if they were not read from a store.
    epoch: Option<i64>,
    /// When all of them were last read.
    read_at: Instant,
}

impl InForce {
    /// Policies that were not read from a store: nothing is granted by them.
    #[must_use]
    pub fn unread(policies: Policies) -> InForce {
        InForce { policies: Arc::new(policies), as_of: StoreTime(0), epoch: None, read_at: Instant::now() }
    }

    /// Reads what the store has now; all of it only if something changed since `before`, or a minute has passed. `as_of` is the
    /// store's clock before that.
    async fn read(
        file: &Policies,
        before: Option<&InForce>,
        session: &mut dyn Session,
        as_of: StoreTime,
    ) -> Result<InForce, StoreError> {
        // The epoch comes first: a change while the rest is read then leaves an epoch that is too old, so that all is
        // read again, never one that is too new.
        let epoch = session.policy_book().policy_epoch().await?;
        if let Some(still) = before.and_then(|before| before.still(as_of, epoch, Instant::now())) {
            return Ok(still);
        }
        Ok(InForce::read_all(file, before, session, as_of, epoch).await?.0)
    }

    /// The same policies as of a later instant; `None` if all of them must be read.
    fn still(&self, as_of: StoreTime, epoch: i64, now: Instant) -> Option<InForce> {
        let is_recent = now.saturating_duration_since(self.read_at) < READ_ALL_EVERY;
        (self.epoch == Some(epoch) && is_recent).then(|| InForce { as_of, ..self.clone() })
    }

    /// Reads all of it; also returns the retentions that were in force until now.
    async fn read_all(
        file: &Policies,
        before: Option<&InForce>,
        session: &mut dyn Session,
        as_of: StoreTime,
        epoch: i64,
    ) -> Result<(InForce, Vec<EffectiveRetention>), StoreError> {
        let read_at = Instant::now();
        let set = session.policy_book().policies().await?;
        let (_, retentions) = session.policy_book().effective_retentions().await?;
        let runs = session.replay_book().replay_runs().await?;
        let holds = session.hold_book().holds().await?;
        let policies = file.with(&set, before.map(|before| &*before.policies));
        let policies = policies.with_floors(&retentions).with_runs(&runs).with_holds(holds);
        let read = InForce { policies: Arc::new(policies), as_of, epoch: Some(epoch), read_at };
        Ok((read, retentions))
    }
}

/// Puts policies in force on a store that may have had others before: if a consumer's effective retention got longer, its
/// window floor rises, so that messages which were purged under the old retention do not come back as new. See
/// docs/contract.md, section 8.
///
/// # Errors
/// Those of the store.
pub async fn adopt(file: &Policies, session: &mut dyn Session) -> Result<InForce, StoreError> {
    for _ in 0..ADOPT_ROUNDS_MAX {
        if let Some(adopted) = try_to_adopt(file, session).await? {
            return Ok(adopted);
        }
    }
    Err(StoreError::NotApplied(Fault::Conflict("too many operators change policies concurrently".into())))
}

/// `None` if a policy was changed in between: what was read before must not be written then.
async fn try_to_adopt(file: &Policies, session: &mut dyn Session) -> Result<Option<InForce>, StoreError> {
    let as_of = session.entries().load(&[]).await?.reading.now;
    let epoch = session.policy_book().policy_epoch().await?;
    let (found, retentions) = InForce::read_all(file, None, session, as_of, epoch).await?;
    if session.policy_book().policy_epoch().await? != epoch {
        return Ok(None);
    }
    let policies = &found.policies;
    let before = by_consumer(&retentions);
    // Read after the others: another replica purged until then by its own rules.
    let now = session.entries().load(&[]).await?.reading.now;
    let usual = policies.default_policy();
    let lost = before.keys().filter(|name| **name != DEFAULT && !policies.registered(name));
    let mut news = Vec::new();
    for (name, own, policy) in (policies.own().map(|(name, policy)| (name, true, policy)))
        .chain(lost.map(|name| (*name, false, usual)))
        .chain([(DEFAULT, true, usual)])
    {
        let next = in_force(&before, name, own, policy.retention, now);
        let seen = before
            .get(name)
            .map_or_else(|| EffectiveRetention::nothing(name), |seen| EffectiveRetention::clone(seen));
        if seen != next {
            news.push((next, seen));
        }
    }
    news.sort_unstable_by(|one, other| one.0.consumer.cmp(&other.0.consumer));
    if news.is_empty() {
        return Ok(Some(found));
    }
    let (news, seen): (Vec<EffectiveRetention>, Vec<EffectiveRetention>) = news.into_iter().unzip();
    for (news, seen) in news.chunks(ROWS_MAX).zip(seen.chunks(ROWS_MAX)) {
        if session.policy_book().put_in_force(news, Some(seen)).await? < news.len() {
            return Ok(None);
        }
    }
    InForce::read(file, Some(&found), session, as_of).await.map(Some)
}

/// The policies of one batch, from its start to its end, and until when they are trusted. The two stay together: older
/// policies with a newer instant could grant after a hold.
#[derive(Debug)]
pub(crate) struct Snapshot {
    read: InForce,
    /// Until when, by the store's clock, they may grant.
    pub(crate) trusted_until: StoreTime,
    /// When they were requested, by the clock of this replica. It only takes trust away, where the store's clock stands
    /// still.
    asked_at: Instant,
    trusted_for: Duration,
    /// Number of the reading, in the order in which readings began.
    number: u64,
}

impl Snapshot {
    pub(crate) fn policies(&self) -> Arc<Policies> {
        Arc::clone(&self.read.policies)
    }

    pub(crate) fn of(&self, consumer: &str) -> Arc<Policy> {
        self.read.policies.of(consumer)
    }

    pub(crate) fn registered(&self, consumer: &str) -> bool {
        self.read.policies.registered(consumer)
    }

    /// The policy of a key's consumer, with the standing of the key's run.
    pub(crate) fn of_key(&self, key: &Key) -> Arc<Policy> {
        self.read.policies.of_key(key)
    }

    /// The epoch at which they were read; `None` if they were not read from a store.
    pub(super) fn epoch(&self) -> Option<i64> {
        self.read.epoch
    }

    /// Whether these policies contain every change that was answered longer ago than a change may take to be in force everywhere.
    pub(crate) fn fresh(&self) -> bool {
        self.fresh_at(Instant::now())
    }

    fn fresh_at(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.asked_at) < self.trusted_for
    }

    /// Whether these policies may grant when the store's clock is `now`. Otherwise a consumer may have been put on hold since.
    pub(crate) fn trusted(&self, now: StoreTime) -> bool {
        now <= self.trusted_until && self.fresh()
    }
}

/// The policies in force on this replica, and those of its file, which they override.
pub(crate) struct PoliciesInForce {
    pub(crate) file: Policies,
    /// Whether operators must state the redelivery window of a policy.
    pub(crate) window_required: bool,
    current: RwLock<Arc<Snapshot>>,
    /// Number of readings that have begun.
    begun: AtomicU64,
    /// How long policies are trusted after they were read.
    trusted_for: Duration,
    /// The readings of batches that failed.
    failed: FailedReadings,
    /// Unregistered runs that were looked up again.
    pub(crate) lookups: RunLookups,
    /// What the log has reported of policies that cannot be read.
    alerts: Mutex<Alerts>,
}

impl PoliciesInForce {
    pub(crate) fn new(
        file: Policies,
        read: InForce,
        trusted_for: Duration,
        window_required: bool,
    ) -> PoliciesInForce {
        let first = Snapshot {
            trusted_until: trusted_until(read.as_of, trusted_for),
            asked_at: read.read_at,
            trusted_for,
            number: 0,
            read,
        };
        let live = PoliciesInForce {
            file,
            window_required,
            current: RwLock::new(Arc::new(first)),
            begun: AtomicU64::new(0),
            trusted_for,
            failed: FailedReadings::none(),
            lookups: RunLookups::default(),
            alerts: Mutex::new(Alerts::default()),
        };
        live.alert(&live.current());
        live
    }

    /// Reads the store's policies now, whichever replica set them.
    pub(crate) async fn refresh(&self, session: &mut dyn Session) -> Result<Arc<Snapshot>, StoreError> {
        let as_of = session.entries().load(&[]).await?.reading.now;
        self.refresh_as_of(session, as_of).await
    }

    /// As [`PoliciesInForce::refresh`], where an earlier statement has read the store's clock as `as_of`.
    pub(crate) async fn refresh_as_of(
        &self,
        session: &mut dyn Session,
        as_of: StoreTime,
    ) -> Result<Arc<Snapshot>, StoreError> {
        let number = 1 + self.begun.fetch_add(1, Ordering::SeqCst);
        let asked_at = Instant::now();
        let before = self.snapshot();
        let read = InForce::read(&self.file, Some(&before.read), session, as_of).await?;
        let trusted_until = trusted_until(as_of, self.trusted_for);
        let fresh =
            Arc::new(Snapshot { read, trusted_until, asked_at, trusted_for: self.trusted_for, number });
        let now = self.install(fresh);
        self.alert(&now.policies());
        Ok(now)
    }

    /// Of two readings the one that began later wins: it contains all that was answered before the other one began.
    fn install(&self, fresh: Arc<Snapshot>) -> Arc<Snapshot> {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        if fresh.number > current.number {
            *current = fresh;
        }
        Arc::clone(&current)
    }

    /// Reads them for a batch that found them too old, when the store's clock was `as_of`. `None` if they cannot be read now.
    ///
    /// # Errors
    /// The session broke.
    pub(crate) async fn reread(
        &self,
        session: &mut dyn Session,
        as_of: StoreTime,
    ) -> Result<Option<Arc<Snapshot>>, StoreError> {
        if self.failed.are_recent(Instant::now()) {
            return Ok(None);
        }
        let attempt = self.failed.attempt(Instant::now());
        let read = self.refresh_as_of(session, as_of).await;
        attempt.ended(read.is_err().then(Instant::now));
        match read {
            Ok(fresh) => Ok(Some(fresh)),
            Err(StoreError::NotApplied(fault)) => {
                tracing::warn!(%fault, "the policies could not be read; what would grant is refused");
                Ok(None)
            }
            Err(error @ StoreError::Unknown(_)) => Err(error),
        }
    }

    /// Logs the policies that cannot be read, as often as [`Alerts`] allows.
    fn alert(&self, policies: &Policies) {
        self.alerts.lock().unwrap_or_else(PoisonError::into_inner).log(policies, Instant::now());
    }

    /// The current policies, and until when they are trusted.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Age of the policies, number of those that cannot be read, and number of holds in force.
    pub(crate) fn freshness(&self) -> (Duration, usize, usize) {
        let now = self.snapshot();
        let policies = &now.read.policies;
        (now.asked_at.elapsed(), policies.unreadable().count(), policies.holds().len())
    }

    pub(crate) fn current(&self) -> Arc<Policies> {
        self.snapshot().policies()
    }

    pub(crate) fn of(&self, consumer: &str) -> Arc<Policy> {
        self.snapshot().of(consumer)
    }

    pub(crate) fn registered(&self, consumer: &str) -> bool {
        self.snapshot().registered(consumer)
    }
}

fn trusted_until(as_of: StoreTime, trusted_for: Duration) -> StoreTime {
    as_of + (Span::from_std(trusted_for) - STATEMENT_MAX)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
