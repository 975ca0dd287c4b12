//! Redrives, parks or resolves all entries that fit a filter: page by page, entry by entry, each with a separate audit event,
//! no faster than requested, while the listener listens. Nothing is forced.

use std::time::Duration;

use tokio::sync::mpsc;

use super::change::ChangeRequest;
use super::handle::Operators;
use super::long::{OpenOperation, WorkPermit};
use super::operation::StartOperation;
use super::pace::Pace;
use super::read::{Ages, CountScope, SUMMARY_MAX};
use crate::domain::{
    Action, Change, Changed, Context, Entry, EntryFilter, Key, KeyHash, Listing, Reading, Reason, Rejection,
    RequestDigest, State, StoreTime, UnreadableEntry, operate,
};
use crate::ledger::runtime::{Instant, sleep, timeout};

/// Number of entries of one page.
const PAGE: usize = 100;
/// How often the listener gets a progress report at least.
const TELL_EVERY: Duration = Duration::from_secs(1);
/// Number of progress reports that may wait for the listener.
const TOLD_MAX: usize = 2;
/// How long the listener may take to receive a report.
const HEARD_WITHIN: Duration = Duration::from_mins(1);
/// How often an entry is tried while the operators' queue is full, or its row is locked.
const TRIES_MAX: usize = 5;
const TRY_AFTER: Duration = Duration::from_millis(100);
/// Pause after a page without an entry that fits.
const REST: Duration = Duration::from_millis(50);

/// An operator's request.
#[derive(Clone, Debug)]
pub struct BulkOrder {
    /// Which entries.
    pub filter: EntryFilter,
    /// The ages of these entries.
    pub ages: Ages,
    /// The filter of the request, for the audit.
    pub asked: String,
    /// The operator's id of the operation, among those of the consumer.
    pub operation_id: String,
    /// The digest of what all calls of the operation have in common: the request without `dry_run`, the rate and the maximum,
    /// which a later call may change.
    pub digest: RequestDigest,
    /// The operator, as authenticated.
    pub actor: String,
    /// The operator's reason.
    pub reason: String,
    /// Change nothing.
    pub dry_run: bool,
    /// Maximum number of entries a second.
    pub rate: u32,
    /// Maximum number of entries over all calls of the operation.
    pub maximum: i64,
    /// The change of each entry: redrive, park or resolve.
    pub action: Action,
    /// How the operator knows what becomes of the entries; empty: not stated.
    pub evidence: String,
}

impl BulkOrder {
    fn begin(&self) -> StartOperation {
        StartOperation {
            operation_id: self.operation_id.clone(),
            digest: self.digest,
            actor: self.actor.clone(),
            reason: self.reason.clone(),
            consumer: self.filter.consumer.clone(),
            action: self.action.clone(),
            asked: self.asked.clone(),
        }
    }
}

/// The outcome of one entry.
#[derive(Clone, Debug)]
pub struct BulkOutcome {
    /// The hash of its key.
    pub key_hash: KeyHash,
    /// The key; `None` if the entry cannot be read.
    pub key: Option<Key>,
    /// The state before; `None` if the entry cannot be read.
    pub state: Option<State>,
    /// Why it was not changed; `None` if it was.
    pub rejected: Option<Rejection>,
    /// Its effect may have happened.
    pub effect_doubtful: bool,
    /// It was changed, and waits for another Store or delivery: its message is erased.
    pub message_erased: bool,
}

/// What a change makes of an entry.
struct Made {
    /// By this call, and not by an earlier one.
    now: bool,
    message_erased: bool,
}

/// The progress of the operation.
#[derive(Clone, Debug, Default)]
pub struct BulkProgress {
    /// The outcomes since the last report.
    pub outcomes: Vec<BulkOutcome>,
    /// Number of entries changed by the operation, by earlier calls too.
    pub changed: i64,
    /// Number of entries refused in this call.
    pub refused: i64,
    /// Upper bound of the entries that can still be changed.
    pub at_most_left: i64,
    /// Whether the operation is finished.
    pub finished: bool,
    /// Whether it is finished because the maximum is reached.
    pub maximum_reached: bool,
}

/// What the listener receives.
pub type BulkEvent = Result<BulkProgress, Rejection>;

/// Changes all that fits, and reports its progress; ends when the receiver is dropped.
///
/// # Errors
/// An operation id that was used for something else, too many concurrent operations, and errors of the store.
pub async fn change_all(
    operators: &Operators,
    mut order: BulkOrder,
) -> Result<mpsc::Receiver<BulkEvent>, Rejection> {
    let open = operators.open_operation(&order.actor, order.dry_run)?;
    let place = operators.place(&open).await?;
    // May fail: it only shows how much is left.
    let whose = CountScope::One(order.filter.namespace());
    let standing = operators.count(whose, SUMMARY_MAX).await.map_or(i64::MAX, |(_, summary)| {
        let fits = |state: State| order.filter.states.contains(&crate::store::state_number(state));
        let counts = summary.counts.iter().filter(|count| fits(count.state));
        // If there may be more than were counted, the remainder has no bound.
        counts.fold(0, |sum, count| if count.at_least { i64::MAX } else { count.count.saturating_add(sum) })
    });
    let began = if order.dry_run { None } else { Some(operators.begin(order.begin()).await?) };
    if let Some(began) = &began {
        // The same instants in each call, however old the entries are by then.
        let ages = std::mem::take(&mut order.ages);
        ages.to_instants(&mut order.filter, began.at);
    }
    drop(place);
    let (tell, reports) = mpsc::channel(TOLD_MAX);
    let changed = began.as_ref().map_or(0, |began| began.done);
    let run = Run {
        operators: operators.clone(),
        began: began.map(|began| began.at),
        standing,
        progress: BulkProgress { changed, ..BulkProgress::default() },
        told_at: Instant::now(),
        pace: Pace::new(order.rate, Instant::now()),
        tell,
        order,
        open,
    };
    let ends = operators.clone();
    operators.carry_out(async move {
        let tell = run.tell.clone();
        let failed = tokio::select! {
            biased;
            () = ends.draining() => Some(Rejection::new(
                Reason::Draining,
                "this server is shutting down: repeat the same request, and another one goes on from here",
            )),
            ended = run.run() => ended.err(),
        };
        if let Some(rejection) = failed {
            // A listener that does not listen any more delays no other.
            let _gone = timeout(TELL_EVERY, tell.send(Err(rejection))).await;
        }
    });
    Ok(reports)
}

/// The listener is gone.
struct Gone;

struct Run {
    operators: Operators,
    open: OpenOperation,
    order: BulkOrder,
    /// When the operation began; `None` for a dry run.
    began: Option<StoreTime>,
    /// Number of entries in the states of the filter.
    standing: i64,
    progress: BulkProgress,
    told_at: Instant,
    pace: Pace,
    tell: mpsc::Sender<BulkEvent>,
}

impl Run {
    async fn run(mut self) -> Result<(), Rejection> {
        let mut ages = self.order.ages;
        let filter = self.order.filter.clone();
        let mut listing = Listing { filter, newest_first: false, after: None, limit: PAGE };
        loop {
            let place = self.place().await?;
            let (carried_out, listed) = self.operators.list(listing, ages).await?;
            // From here on the ages are instants.
            ages = Ages::default();
            listing = Listing { after: listed.next, ..carried_out };
            if self.began.is_some() && !listed.rows.is_empty() {
                // Another call of the operation may run concurrently: what it did counts.
                let done = self.operators.begin(self.order.begin()).await?.done;
                self.progress.changed = done.max(self.progress.changed);
            }
            drop(place);
            for row in &listed.rows {
                let entry = match &row.entry {
                    Ok(entry) => entry,
                    Err(unreadable) => {
                        if self.note_unreadable(unreadable).await.is_err() {
                            return Ok(());
                        }
                        continue;
                    }
                };
                if self.began.is_some_and(|began| entry.updated_at > began) {
                    continue;
                }
                if self.progress.changed >= self.order.maximum {
                    self.progress.maximum_reached = true;
                    return self.end().await;
                }
                let done = self.one(entry, &listed.reading).await?;
                if self.note(entry, done).await.is_err() {
                    return Ok(());
                }
            }
            if self.tell.is_closed() || (self.told_at.elapsed() >= TELL_EVERY && self.tell().await.is_err()) {
                return Ok(());
            }
            if listed.rows.is_empty() {
                sleep(REST).await;
            }
            if listing.after.is_none() {
                return self.end().await;
            }
        }
    }

    /// Takes a place for the next page or entry. The operation holds no place while it waits for its rate or its listener.
    async fn place(&self) -> Result<WorkPermit, Rejection> {
        self.operators.place(&self.open).await
    }

    /// Changes one entry. The outer error ends the operation.
    async fn one(&mut self, entry: &Entry, reading: &Reading) -> Result<Result<Made, Rejection>, Rejection> {
        let change =
            Change { expected_version: entry.version, action: self.order.action.clone(), force: false };
        if self.began.is_none() {
            let policy = self.operators.policies_here().of(entry.key.consumer());
            let context = Context::at(reading, &policy, 1);
            let changed = operate(&entry.key, Some(entry), &change, &context);
            return Ok(changed.map(|changed| {
                let erased = matches!(&changed, Changed::Entry(next) if next.message_erased());
                Made { now: true, message_erased: erased }
            }));
        }
        sleep(self.pace.left(Instant::now())).await;
        self.pace.begin(Instant::now());
        let order = ChangeRequest {
            request_id: format!("{}/{}", self.order.operation_id, entry.key.hash().simple()),
            // Without a version: what one call of the operation has changed is not changed by another one.
            digest: self.order.digest,
            actor: self.order.actor.clone(),
            reason: self.order.reason.clone(),
            evidence: self.order.evidence.clone(),
            key: entry.key.clone(),
            change,
        };
        let _place = self.place().await?;
        let mut tries = 0;
        loop {
            tries += 1;
            match self.operators.change(order.clone()).await {
                Ok(carried) => {
                    let message_erased = carried.entry.is_some_and(|entry| entry.message_erased());
                    return Ok(Ok(Made { now: !carried.replayed, message_erased }));
                }
                Err(rejection) if rejection.reason == Reason::Overloaded && tries < TRIES_MAX => {
                    sleep(TRY_AFTER).await;
                }
                // An entry that is refused for now is left to the next call of the operation.
                Err(rejection) if of_the_entry(rejection.reason) => return Ok(Err(rejection)),
                Err(rejection) => return Err(rejection),
            }
        }
    }

    async fn note(&mut self, entry: &Entry, done: Result<Made, Rejection>) -> Result<(), Gone> {
        let (rejected, message_erased) = match done {
            Ok(Made { now: true, message_erased }) => {
                self.progress.changed += 1;
                (None, message_erased)
            }
            // Counted before, by the call that did it.
            Ok(Made { now: false, .. }) => return Ok(()),
            Err(rejection) => {
                self.progress.refused += 1;
                (Some(rejection), false)
            }
        };
        self.add(BulkOutcome {
            key_hash: entry.key.hash(),
            key: Some(entry.key.clone()),
            state: Some(entry.state),
            rejected,
            effect_doubtful: entry.effect_doubtful(),
            message_erased,
        })
        .await
    }

    /// An entry that cannot be read is refused like any other that cannot be changed: left out, it would look changed.
    async fn note_unreadable(&mut self, unreadable: &UnreadableEntry) -> Result<(), Gone> {
        self.progress.refused += 1;
        self.add(BulkOutcome {
            key_hash: unreadable.key,
            key: None,
            state: None,
            rejected: Some(unreadable.rejection()),
            effect_doubtful: true,
            message_erased: false,
        })
        .await
    }

    async fn add(&mut self, outcome: BulkOutcome) -> Result<(), Gone> {
        self.standing = (self.standing - 1).max(0);
        self.progress.outcomes.push(outcome);
        if self.progress.outcomes.len() >= PAGE || self.told_at.elapsed() >= TELL_EVERY {
            self.tell().await?;
        }
        Ok(())
    }

    async fn tell(&mut self) -> Result<(), Gone> {
        let allowed = (self.order.maximum - self.progress.changed).max(0);
        let progress = BulkProgress {
            outcomes: std::mem::take(&mut self.progress.outcomes),
            at_most_left: if self.progress.finished { 0 } else { self.standing.min(allowed) },
            ..self.progress
        };
        self.told_at = Instant::now();
        match timeout(HEARD_WITHIN, self.tell.send(Ok(progress))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Gone),
        }
    }

    async fn end(&mut self) -> Result<(), Rejection> {
        self.progress.finished = true;
        let _gone = self.tell().await;
        Ok(())
    }
}

/// Whether a refusal concerns this entry alone, so that the operation goes on with the next one.
fn of_the_entry(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::StateNotAllowed
            | Reason::VersionMismatch
            | Reason::EntryNotFound
            | Reason::KeyCollision
            | Reason::EntryUnreadable
            | Reason::Overloaded
            | Reason::Internal
    )
}
