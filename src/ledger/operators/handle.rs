//! The operators' handle.

mod messages;
mod open_entries;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::change::{self, ChangeRequest, ChangeResult};
use super::import::{self, ImportOrder, ImportOutcomes};
use super::long::{LongOperations, OpenOperation, WorkPermit};
use super::operation::{self, Operation, StartOperation};
use super::operator_task::OperatorTask;
use super::read::{self, Ages, CountScope, Page, Sought};
use super::retry::Before;
use super::sent::Sent;
use super::token_offset::{self, OffsetOrder, TokenClock};
use super::unreadable::{self, DeleteUnreadable};
use crate::common::still_counted::StillCounted;
use crate::domain::{
    AuditEvent, AuditListing, Entry, Listing, PolicyVersion, PurgeStatus, Reading, Rejection, ReplayRun,
    Span, Summary,
};
use crate::ledger::changes::Changes;
use crate::ledger::policies::holds::{self, HoldOrder, HoldResult};
use crate::ledger::policies::in_force::PoliciesInForce;
use crate::ledger::policies::purge_view::PurgeView;
use crate::ledger::policies::replays::{self, RunOrder, RunResult};
use crate::ledger::policies::set::{self, PolicyOrder, PolicyResult};
use crate::ledger::policies::table::Policies;
use crate::ledger::refusals::draining;
use crate::ledger::runtime::spawn;
use crate::ledger::schema_fence::SchemaFence;
use crate::ledger::upkeep::purge_report;
use crate::metrics::Metrics;
use crate::store::{Purpose, Store};

/// The operators' handle: cheap to clone. Each handle acts for one principal, whose requests wait in a separate queue.
#[derive(Clone)]
pub struct Operators {
    pub(super) inner: Arc<Inner>,
    pub(super) principal: Arc<str>,
}

/// The parts of the ledger that operators' work uses.
pub(in crate::ledger) struct OperatorParts<'a> {
    pub(in crate::ledger) store: &'a Arc<dyn Store>,
    pub(in crate::ledger) policies: Arc<PoliciesInForce>,
    pub(in crate::ledger) changes: &'a Arc<Changes>,
    pub(in crate::ledger) metrics: &'a Metrics,
    pub(in crate::ledger) outdated: &'a SchemaFence,
}

pub(super) struct Inner {
    pub(super) reads: OperatorTask,
    pub(super) change_task: OperatorTask,
    pub(super) policies: Arc<PoliciesInForce>,
    pub(super) changes: Arc<Changes>,
    pub(super) metrics: Metrics,
    purge_every: Duration,
    long: LongOperations,
    /// The tasks that end at the drain; everything else goes on.
    draining: CancellationToken,
    tasks: TaskTracker,
}

impl Operators {
    pub(in crate::ledger) fn start(
        parts: OperatorParts<'_>,
        purge_every: Duration,
        tasks: &TaskTracker,
        stop: &CancellationToken,
    ) -> Operators {
        let OperatorParts { store, policies, changes, metrics, outdated } = parts;
        let task = |name, purpose| {
            OperatorTask::start(name, purpose, Arc::clone(store), tasks, stop.clone(), outdated.clone())
        };
        let inner = Inner {
            reads: task("the task of operators' reads", Purpose::Reads),
            change_task: task("the task of operators' changes", Purpose::Changes),
            policies,
            changes: Arc::clone(changes),
            metrics: metrics.clone(),
            purge_every,
            long: LongOperations::default(),
            draining: stop.child_token(),
            tasks: tasks.clone(),
        };
        Operators { inner: Arc::new(inner), principal: "".into() }
    }

    /// Notes what is counted of operators' requests.
    pub(in crate::ledger) fn still_counted(&self, left: &mut StillCounted) {
        self.inner.reads.still_counted(left);
        self.inner.change_task.still_counted(left);
        self.inner.long.still_counted(left);
    }

    /// The handle that acts for this principal.
    #[must_use]
    pub fn acting_for(&self, principal: &str) -> Operators {
        Operators { inner: Arc::clone(&self.inner), principal: principal.into() }
    }

    /// Reads one entry.
    ///
    /// # Errors
    /// `ENTRY_NOT_FOUND`, and those of the store.
    pub async fn get(&self, sought: Sought) -> Result<(Reading, Entry), Rejection> {
        self.inner
            .reads
            .read(&self.principal, sought, |session, sought| Box::pin(read::get(session, sought)))
            .await
    }

    /// Reads a page of entries.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn list(&self, listing: Listing, ages: Ages) -> Result<Page, Rejection> {
        let asked = (listing, ages);
        let list = self.inner.reads.read(&self.principal, asked, |session, (listing, ages)| {
            Box::pin(read::list(session, listing, *ages))
        });
        list.await
    }

    /// Counts the entries of consumers: returns these consumers, and their counts, which are exact up to `most` entries of each
    /// state.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn count(&self, whose: CountScope, most: i64) -> Result<(Vec<String>, Summary), Rejection> {
        let asked = (Arc::clone(&self.inner.policies), whose, most);
        let count = self.inner.reads.read(&self.principal, asked, |session, (policies, whose, most)| {
            Box::pin(read::count(session, policies, whose, *most))
        });
        count.await
    }

    /// The policies in force on this replica now.
    #[must_use]
    pub fn policies_here(&self) -> Arc<Policies> {
        self.inner.policies.current()
    }

    /// The policies in force, read from the store now.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn policies(&self) -> Result<Arc<Policies>, Rejection> {
        let refresh =
            self.inner.reads.read(&self.principal, Arc::clone(&self.inner.policies), |session, policies| {
                Box::pin(async move { Ok(Ok(policies.refresh(session).await?.policies())) })
            });
        refresh.await
    }

    /// Reads the versions of a consumer's policy below `before`, newest first.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn policy_versions(
        &self,
        consumer: String,
        before: i32,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, Rejection> {
        let asked = (consumer, before, limit);
        let versions = self.inner.reads.read(&self.principal, asked, |session, (consumer, before, limit)| {
            Box::pin(async move {
                Ok(Ok(session.policy_book().policy_versions(consumer, *before, *limit).await?))
            })
        });
        versions.await
    }

    /// Reads a page of the audit.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn audit(&self, listing: AuditListing) -> Result<Vec<AuditEvent>, Rejection> {
        let audit = self.inner.reads.read(&self.principal, listing, |session, listing| {
            Box::pin(async move { Ok(Ok(session.operators().audit(listing).await?)) })
        });
        audit.await
    }

    /// Whether the purge keeps up, with entries counted up to `due_max`.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn retention(&self, due_max: usize) -> Result<(Reading, PurgeStatus), Rejection> {
        let asked = (Arc::clone(&self.inner.policies), due_max);
        let status = self.inner.reads.read(&self.principal, asked, |session, (policies, due_max)| {
            Box::pin(async move {
                let left_alone = PurgeView::read(&policies.file, &mut *session).await?.left_alone();
                Ok(Ok(session.operators().purge_status(&left_alone, *due_max).await?))
            })
        });
        status.await
    }

    /// The purge counts as behind once the oldest due entry has waited this long.
    #[must_use]
    pub fn purge_behind_after(&self) -> Span {
        purge_report::too_long(self.inner.purge_every)
    }

    /// Carries out an operator's change.
    ///
    /// # Errors
    /// Those of [`crate::domain::operate`], a request id that was used for something else, and those of
    /// the store.
    pub async fn change(&self, order: ChangeRequest) -> Result<ChangeResult, Rejection> {
        let report = self.inner.changes.report_at_end(vec![order.key.clone()]);
        let asked = (Arc::clone(&self.inner.policies), order, report);
        let change =
            self.inner.change_task.change(&self.principal, asked, |session, (policies, order, _), before| {
                Box::pin(change::change(session, policies, order, before))
            });
        change.await
    }

    /// Deletes an entry that cannot be read; returns whether the request had been carried out before.
    ///
    /// # Errors
    /// Those of [`crate::domain::delete_unreadable`], `ENTRY_NOT_FOUND`, a request id that was used for something else,
    /// and those of the store.
    pub async fn delete_unreadable(&self, order: DeleteUnreadable) -> Result<bool, Rejection> {
        let delete = self.inner.change_task.change(&self.principal, order, |session, order, before| {
            Box::pin(unreadable::delete(session, order, before))
        });
        delete.await
    }

    /// Stores messages that were processed elsewhere as completed.
    ///
    /// # Errors
    /// Those of the store; single messages are refused in the answer.
    pub async fn import(&self, order: ImportOrder) -> Result<ImportOutcomes, Rejection> {
        let keys = order.rows.iter().map(|(key, _)| key.clone()).collect();
        let report = self.inner.changes.report_at_end(keys);
        let asked = (Arc::clone(&self.inner.policies), order, Sent::default(), report);
        let import = self.inner.change_task.change(
            &self.principal,
            asked,
            |session, (policies, order, sent, _), _| {
                Box::pin(import::carry_out(session, policies, order, sent))
            },
        );
        import.await
    }

    /// Sets or deletes a consumer's policy, or returns what would result.
    ///
    /// # Errors
    /// `VERSION_MISMATCH`, `POLICY_NOT_FOUND`, every fault of the policy, and those of the store.
    pub async fn set_policy(&self, order: PolicyOrder) -> Result<PolicyResult, Rejection> {
        let reads = order.validate_only;
        let asked = (Arc::clone(&self.inner.policies), order);
        if reads {
            let validate = self.inner.reads.read(&self.principal, asked, |session, (policies, order)| {
                Box::pin(set::set(session, policies, order))
            });
            return validate.await;
        }
        let set =
            self.inner.change_task.change(&self.principal, asked, |session, (policies, order), before| {
                Box::pin(async move {
                    let set = set::set(session, policies, order).await?;
                    // What an earlier try of this call did is not a repeat by the caller.
                    Ok(set.map(|result| PolicyResult {
                        replayed: result.replayed && before == Before::NotSent,
                        ..result
                    }))
                })
            });
        set.await
    }

    /// Creates or closes a replay run.
    ///
    /// # Errors
    /// `REPLAY_FORBIDDEN`, `REPLAY_RUN_UNKNOWN`, `REPLAY_RUN_CLOSED`, `STATE_NOT_ALLOWED`, and those of the store.
    pub async fn change_run(&self, order: RunOrder) -> Result<RunResult, Rejection> {
        let asked = (Arc::clone(&self.inner.policies), order);
        let change =
            self.inner.change_task.change(&self.principal, asked, |session, (policies, order), before| {
                Box::pin(async move {
                    let done = replays::carry_out(session, policies, order).await?;
                    // What an earlier try of this call did is not a repeat by the caller.
                    Ok(done.map(|done| RunResult {
                        replayed: done.replayed && before == Before::NotSent,
                        ..done
                    }))
                })
            });
        change.await
    }

    /// Places or ends a hold of consumers.
    ///
    /// # Errors
    /// `STATE_NOT_ALLOWED`, a request id that was used for something else, and those of the store.
    pub async fn change_hold(&self, order: HoldOrder) -> Result<HoldResult, Rejection> {
        let asked = (Arc::clone(&self.inner.policies), order);
        let change =
            self.inner.change_task.change(&self.principal, asked, |session, (policies, order), before| {
                Box::pin(async move {
                    let done = holds::carry_out(session, policies, order).await?;
                    // What an earlier try of this call did is not a repeat by the caller.
                    Ok(done.map(|done| HoldResult {
                        replayed: done.replayed && before == Before::NotSent,
                        ..done
                    }))
                })
            });
        change.await
    }

    /// Reads a page of the replay runs of a consumer after one of them, with the summaries of their entries.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn runs(&self, page: (String, String, usize)) -> Result<(Vec<ReplayRun>, Summary), Rejection> {
        let asked = (Arc::clone(&self.inner.policies), page);
        let runs = self.inner.reads.read(&self.principal, asked, |session, (policies, page)| {
            Box::pin(replays::list(session, policies, page))
        });
        runs.await
    }

    /// Raises the offset that is added to the store's clock for tokens; returns both afterwards.
    ///
    /// # Errors
    /// Those of [`crate::domain::raise_token_offset`], a request id that was used for something else, and those
    /// of the store.
    pub async fn raise_token_offset(&self, order: OffsetOrder) -> Result<TokenClock, Rejection> {
        let raise = self.inner.change_task.change(&self.principal, order, |session, order, before| {
            Box::pin(token_offset::raise(session, order, before))
        });
        raise.await
    }

    /// Records that an operation on many entries begins, or finds that it has begun.
    pub(super) async fn begin(&self, begin: StartOperation) -> Result<Operation, Rejection> {
        let begin = self
            .inner
            .change_task
            .change(&self.principal, begin, |session, begin, _| Box::pin(operation::begin(session, begin)));
        begin.await
    }

    /// Carries out what may take long; the server's end waits for it.
    pub(super) fn carry_out(&self, long: impl Future<Output = ()> + Send + 'static) {
        spawn(&self.inner.tasks, long);
    }

    /// Opens an import or a bulk redrive of a principal.
    ///
    /// # Errors
    /// `OVERLOADED`, `DRAINING`.
    pub fn open_operation(&self, principal: &str, dry_run: bool) -> Result<OpenOperation, Rejection> {
        if self.inner.draining.is_cancelled() {
            return Err(draining());
        }
        self.inner.long.open(principal, dry_run)
    }

    /// Takes a place for one piece of an operation's work. Waits for a bounded time.
    ///
    /// # Errors
    /// `OVERLOADED`, `DRAINING`.
    pub async fn place(&self, operation: &OpenOperation) -> Result<WorkPermit, Rejection> {
        tokio::select! {
            biased;
            () = self.draining() => Err(draining()),
            place = operation.place() => place,
        }
    }

    /// Resolves when long operations must end.
    pub async fn draining(&self) {
        self.inner.draining.cancelled().await;
    }

    /// Ends what may take long: imports and bulk redrives. Everything else goes on.
    pub(crate) fn drain(&self) {
        self.inner.draining.cancel();
    }
}
