//! The operator task: it carries out one job after the other, on a separate session, so that jobs never wait behind claims, nor
//! claims behind jobs. Principals are served round robin: one that sends many requests delays another by two jobs, not
//! by all of its requests, and does not take the places in which the others wait.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::places::{Bounds, FairPlaces, Permit};
use super::retry::{ChangeJob, ReadJob, RetryingSession};
use crate::common::still_counted::StillCounted;
use crate::domain::Rejection;
use crate::ledger::refusals::{draining, lost, store_unavailable};
use crate::ledger::runtime::spawn;
use crate::ledger::schema_fence::SchemaFence;
use crate::ledger::tasks::supervised;
use crate::store::{Purpose, Store};

/// One job runs and one waits in the task's channel, so that the session is never idle between two jobs. The wait is bounded by
/// the deadline of the call; the bound here is for a call without one.
const JOBS: Bounds =
    Bounds { what: "requests of operators", places: 2, waiting: 64, wait: Duration::from_mins(1) };

type Job = Box<dyn for<'d> FnOnce(&'d mut RetryingSession) -> BoxFuture<'d, ()> + Send>;

pub(super) struct OperatorTask {
    jobs: mpsc::Sender<Job>,
    places: FairPlaces,
    outdated: SchemaFence,
}

impl OperatorTask {
    pub(super) fn start(
        name: &'static str,
        purpose: Purpose,
        store: Arc<dyn Store>,
        tasks: &TaskTracker,
        stop: CancellationToken,
        outdated: SchemaFence,
    ) -> OperatorTask {
        let (jobs, waiting) = mpsc::channel(JOBS.places);
        // They outlive the task, in case it panics.
        let waiting = Arc::new(Mutex::new(waiting));
        let work = move || {
            run(RetryingSession::new(Arc::clone(&store), purpose), Arc::clone(&waiting), stop.clone())
        };
        spawn(tasks, outdated.clone().until(supervised(name, work)));
        OperatorTask { jobs, places: FairPlaces::new(JOBS), outdated }
    }

    /// Notes the places that are taken.
    pub(super) fn still_counted(&self, left: &mut StillCounted) {
        self.places.still_counted(left);
    }

    /// Carries out a read for a principal, unless its caller has gone.
    ///
    /// # Errors
    /// `OVERLOADED`, `DRAINING`, and those of the read.
    pub(super) async fn read<A, T>(
        &self,
        principal: &str,
        asked: A,
        work: ReadJob<A, T>,
    ) -> Result<T, Rejection>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let permit = self.places.take(principal).await?;
        let (reply, answer) = oneshot::channel();
        self.send(permit, move |session| {
            Box::pin(async move {
                if !reply.is_closed() {
                    session.read(reply, &asked, work).await;
                }
            })
        })
        .await?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    /// Carries out a change for a principal. The change goes on if its caller disconnects; after `ANSWER_WITHIN` it is given
    /// up, and its outcome is unknown.
    ///
    /// # Errors
    /// `OVERLOADED`, `DRAINING`, and those of the change.
    pub(super) async fn change<A, T>(
        &self,
        principal: &str,
        asked: A,
        work: ChangeJob<A, T>,
    ) -> Result<T, Rejection>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let permit = self.places.take(principal).await?;
        let (reply, answer) = oneshot::channel();
        self.send(permit, move |session| Box::pin(async move { session.change(reply, &asked, work).await }))
            .await?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Sends a job to the task. Its place is free again when the job has ended, or is dropped with the task.
    async fn send<J>(&self, permit: Permit, job: J) -> Result<(), Rejection>
    where
        J: for<'d> FnOnce(&'d mut RetryingSession) -> BoxFuture<'d, ()> + Send + 'static,
    {
        let job: Job = Box::new(move |session| {
            Box::pin(async move {
                job(session).await;
                drop(permit);
            })
        });
        let sent = self.jobs.send(job).await;
        sent.map_err(|_| if self.outdated.why().is_some() { store_unavailable() } else { draining() })
    }
}

async fn run(
    mut session: RetryingSession,
    waiting: Arc<Mutex<mpsc::Receiver<Job>>>,
    stop: CancellationToken,
) {
    let mut waiting = waiting.lock().await;
    loop {
        let job = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            job = waiting.recv() => job,
        };
        let Some(job) = job else { return };
        job(&mut session).await;
    }
}
