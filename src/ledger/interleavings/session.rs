//! The trait's statements over the store in memory. They behave as the SQL does.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use shuttle::rand::{Rng as _, thread_rng};

use super::disk::{Disk, Inject, Inner, POISON, marks, not_applied};
use super::runtime::wander;
use super::tally::EventCounts;
use crate::domain::{ClosedBy, Entry, Key, KeyHash, Reading, State, StoreTime};
use crate::store::{
    Completion, Done, Entries, Fault, Found, HoldBook, Inbox, InsertOutcome, Inserted, Loaded, Operators,
    PolicyBook, Purpose, ROWS_MAX, ReplayBook, Session, Store, StoreError, Upkeep,
};

/// The store that the ledger sees.
pub(super) struct DiskStore(pub(super) Arc<Disk>);

pub(super) struct DiskSession {
    pub(super) disk: Arc<Disk>,
    /// The maximum number of rows of a statement.
    rows_max: usize,
    broken: bool,
}

#[async_trait]
impl Store for DiskStore {
    fn describe(&self) -> String {
        "in memory".into()
    }

    fn database(&self) -> &'static str {
        "memory"
    }

    fn sessions(&self) -> usize {
        self.0.inner().manners.sessions
    }

    async fn open(&self, purpose: Purpose) -> Result<Box<dyn Session>, StoreError> {
        wander(1).await;
        let (fault, batch_max) = {
            let inner = self.0.inner();
            (inner.random_trouble(), inner.batch_max)
        };
        match fault {
            Some(Inject::Unavailable) => {
                self.0.tally.count("sessions refused");
                return Err(not_applied(Fault::Unavailable));
            }
            Some(Inject::LostAnswer) => return Err(StoreError::Unknown("no session".into())),
            _ => {}
        }
        let rows_max = if purpose == Purpose::Inbox { ROWS_MAX } else { batch_max };
        Ok(Box::new(DiskSession { disk: Arc::clone(&self.0), rows_max, broken: false }))
    }

    async fn migrate(&self) -> Result<usize, StoreError> {
        Ok(0)
    }
}

impl DiskSession {
    /// A look at the clock, which never fails.
    pub(super) async fn clock(&self) -> Result<Reading, StoreError> {
        wander(1).await;
        Ok(self.disk.inner().reading(&self.disk.tally))
    }

    /// Carries out one statement, and decides whether the session is broken afterwards.
    pub(super) async fn statement<T>(
        &mut self,
        keys: Vec<&Key>,
        sent: HashSet<u64>,
        work: impl FnOnce(&mut Inner, &EventCounts) -> T,
    ) -> Result<T, StoreError> {
        let disk = Arc::clone(&self.disk);
        let work = async { Ok(work(&mut disk.inner(), &disk.tally)) };
        self.transaction(keys, sent, work).await
    }

    /// Carries out one transaction. `work` is dropped where the transaction does not get as far as the store.
    pub(super) async fn transaction<T>(
        &mut self,
        keys: Vec<&Key>,
        sent: HashSet<u64>,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let hashes: Vec<KeyHash> = keys.iter().map(|key| key.hash()).collect();
        let poisoned = !sent.is_empty() && keys.iter().any(|key| key.id().starts_with(POISON));
        let disk = &self.disk;
        let fault = disk.inner().arrived(self.broken, self.rows_max, &hashes, &sent, &disk.tally);
        let mut busy = Busy { disk, given_up: true };
        // Until it has answered, in case its caller gives it up.
        self.broken = true;
        wander(2).await;
        let free = |held: &Option<KeyHash>| held.is_none_or(|held| !hashes.contains(&held));
        let _held = disk.held.subscribe().wait_for(free).await.is_err();
        let done = carry_out(disk, fault, &sent, poisoned, work).await;
        busy.given_up = false;
        self.broken =
            matches!(done, Err(StoreError::Unknown(_) | StoreError::NotApplied(Fault::Unavailable(_))));
        done
    }
}

/// What it does at the store, and the way of its answer.
async fn carry_out<T>(
    disk: &Disk,
    fault: Option<Inject>,
    sent: &HashSet<u64>,
    poisoned: bool,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    if let Some(fault) = fault {
        disk.tally.count(&format!("{fault:?}"));
    }
    let pending: HashSet<u64> = sent.difference(&disk.inner().applied).copied().collect();
    match fault {
        Some(Inject::LostRequest) => return Err(StoreError::Unknown("the request is lost".into())),
        Some(Inject::Unavailable) => return Err(not_applied(Fault::Unavailable)),
        Some(Inject::Conflict) => return Err(not_applied(Fault::Conflict)),
        Some(Inject::Locked) => return Err(not_applied(Fault::Locked)),
        Some(Inject::ClockBehind) => return Err(StoreError::NotApplied(Fault::ClockBehind)),
        Some(Inject::Outdated) => return Err(not_applied(Fault::Outdated)),
        Some(Inject::Panic) if thread_rng().gen_bool(0.5) => disk.die(&pending),
        Some(Inject::LostAnswer | Inject::Panic) | None => {}
    }
    if poisoned {
        disk.tally.count("poison");
        return Err(not_applied(Fault::Permanent));
    }
    let done = work.await;
    wander(2).await;
    match fault {
        Some(Inject::Panic) => disk.die(&pending),
        Some(Inject::LostAnswer) => Err(StoreError::Unknown("the answer is lost".into())),
        _ => done,
    }
}

/// Counts a statement while its caller waits for it.
struct Busy<'a> {
    disk: &'a Disk,
    given_up: bool,
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.disk.inner().busy -= 1;
        if self.given_up && !std::thread::panicking() {
            self.disk.tally.count("statements given up");
        }
    }
}

impl Session for DiskSession {
    fn entries(&mut self) -> &mut dyn Entries {
        self
    }

    fn upkeep(&mut self) -> &mut dyn Upkeep {
        self
    }

    fn operators(&mut self) -> &mut dyn Operators {
        unreachable!("no operator works on this disk")
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
impl Entries for DiskSession {
    async fn load(&mut self, keys: &[Key]) -> Result<Loaded, StoreError> {
        if keys.is_empty() {
            // Not a statement that a scenario may wait for: the purge asks for the time without end.
            return Ok(Loaded { reading: self.clock().await?, found: Vec::new() });
        }
        let work = |inner: &mut Inner, tally: &EventCounts| {
            let find = |key: &Key| inner.rows.get(&key.hash()).cloned();
            let found =
                keys.iter().map(find).map(|row| row.map_or(Found::Absent, |row| Found::Entry(row.into())));
            let found = found.collect();
            Loaded { reading: inner.reading(tally), found }
        };
        self.statement(keys.iter().collect(), HashSet::new(), work).await
    }

    /// It sees the rows that are there when it arrives, as the SQL does, and inserts later: it may conflict with a row that it
    /// has not seen.
    async fn insert(&mut self, rows: &[Entry], until: StoreTime) -> Result<Inserted, StoreError> {
        let (reading, seen) = {
            let mut inner = self.disk.inner();
            let reading = inner.reading(&self.disk.tally);
            let see = |row: &Entry| inner.rows.get(&row.key.hash()).cloned();
            (reading, rows.iter().map(see).collect::<Vec<_>>())
        };
        let work = |inner: &mut Inner, tally: &EventCounts| {
            let mut insert = |row: &Entry| {
                if reading.now > until {
                    return None;
                }
                let row = row.clone().stamped(reading.now, reading.token_clock());
                if inner.rows.contains_key(&row.key.hash()) {
                    return None;
                }
                let token = row.token;
                inner.commit(row, tally);
                Some(token)
            };
            let outcome = |(row, seen): (&Entry, Option<Entry>)| match (won(tally, insert(row)), seen) {
                (Some(token), _) => InsertOutcome::Granted(token),
                (None, Some(entry)) => {
                    tally.count("conflicts of an optimistic insert");
                    InsertOutcome::Conflict(Found::Entry(entry.into()))
                }
                (None, None) => {
                    tally.count("unknown conflicts");
                    InsertOutcome::UnknownConflict
                }
            };
            Inserted { reading, outcomes: rows.iter().zip(seen).map(outcome).collect() }
        };
        let keys = rows.iter().map(|row| &row.key).collect();
        let sent = rows.iter().flat_map(marks).collect();
        self.statement(keys, sent, work).await
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<Done>>, StoreError> {
        let work = |inner: &mut Inner, tally: &EventCounts| {
            let now = inner.reading(tally).now;
            let mut complete = |one: &Completion| {
                let open = |row: &&Entry| {
                    row.token == one.token && row.state == State::InProgress && row.body.is_none()
                };
                let mut row = inner.rows.get(&one.key.hash()).filter(open)?.clone();
                let done = Done {
                    late: row.lease_over(now),
                    attempt: row.attempts,
                    doubled: row.superseded_completes > 0,
                };
                row.version += 1;
                row.state = State::Completed;
                row.closed_by = ClosedBy::Complete;
                row.closed_at = Some(now);
                row.result = one.result.clone();
                row.result_dropped = one.result_dropped;
                inner.commit(row, tally);
                Some(done)
            };
            completions.iter().map(|one| won(tally, complete(one))).collect()
        };
        let keys = completions.iter().map(|one| &one.key).collect();
        let number = |one: &Completion| std::str::from_utf8(&one.result).ok()?.parse().ok();
        let sent = completions.iter().filter_map(number).collect();
        self.statement(keys, sent, work).await
    }

    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        let work = |inner: &mut Inner, tally: &EventCounts| {
            let now = inner.reading(tally).now;
            let mut replace = |next: &Entry, until: StoreTime| {
                if now > until {
                    return None;
                }
                let current = |row: &&Entry| row.version + 1 == next.version;
                inner.rows.get(&next.key.hash()).filter(current)?;
                inner.commit(next.clone(), tally);
                Some(())
            };
            let each = entries.iter().zip(until);
            each.map(|(next, until)| won(tally, replace(next, *until)).is_some()).collect()
        };
        let keys = entries.iter().map(|row| &row.key).collect();
        let sent = entries.iter().flat_map(marks).collect();
        self.statement(keys, sent, work).await
    }

    async fn locked(&mut self, keys: &[Key]) -> Result<Vec<KeyHash>, StoreError> {
        let work = |inner: &mut Inner, _: &EventCounts| {
            let ill = inner.manners.one_in > 0;
            let held = keys.iter().map(Key::hash).filter(|_| ill && thread_rng().gen_bool(0.5));
            held.collect()
        };
        // It reads all rows that are remembered, and waits for none of them.
        self.statement(Vec::new(), HashSet::new(), work).await
    }
}

pub(super) fn won<T>(tally: &EventCounts, won: Option<T>) -> Option<T> {
    if won.is_none() {
        tally.count("races lost");
    }
    won
}
