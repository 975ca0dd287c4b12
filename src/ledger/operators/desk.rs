//! A desk: one task that carries out one job after the other, on its own session. Jobs never wait behind claims, nor
//! claims behind jobs. Principals are served round robin: one that sends many requests delays another by two jobs, not
//! by all of its own, and does not take the room in which the others wait.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::places::{Bounds, Permit, Places};
use super::tries::{ChangeJob, ReadJob, Tries};
use crate::domain::Rejection;
use crate::ledger::outdated::Outdated;
use crate::ledger::refusals::{draining, lost, store_unavailable};
use crate::ledger::runtime::spawn;
use crate::ledger::tasks::supervised;
use crate::store::{Purpose, Store};

/// One job is carried out and one waits in the task's channel, so that the session is never idle between two jobs. The
/// wait is bounded by the deadline of the call; the bound here is for a call that has none.
const JOBS: Bounds =
    Bounds { what: "requests of operators", places: 2, waiting: 64, wait: Duration::from_mins(1) };

type Job = Box<dyn for<'d> FnOnce(&'d mut Tries) -> BoxFuture<'d, ()> + Send>;

pub(super) struct Desk {
    jobs: mpsc::Sender<Job>,
    places: Places,
    outdated: Outdated,
}

impl Desk {
    pub(super) fn start(
        name: &'static str,
        purpose: Purpose,
        store: Arc<dyn Store>,
        tasks: &TaskTracker,
        stop: CancellationToken,
        outdated: Outdated,
    ) -> Desk {
        let (jobs, waiting) = mpsc::channel(JOBS.places);
        // They outlive the task, should it die of a bug.
        let waiting = Arc::new(Mutex::new(waiting));
        let work = move || run(Tries::new(Arc::clone(&store), purpose), Arc::clone(&waiting), stop.clone());
        spawn(tasks, outdated.clone().until(supervised(name, work)));
        Desk { jobs, places: Places::new(JOBS), outdated }
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
        self.send(permit, move |tries| {
            Box::pin(async move {
                if !reply.is_closed() {
                    tries.read(reply, &asked, work).await;
                }
            })
        })
        .await?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    /// Carries out a change for a principal. Once it has begun it is carried out to its end, also if its caller has gone.
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
        self.send(permit, move |tries| Box::pin(async move { tries.change(reply, &asked, work).await }))
            .await?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Sends a job to the task. Its place is free again when the job has ended, or is dropped with the task.
    async fn send<J>(&self, permit: Permit, job: J) -> Result<(), Rejection>
    where
        J: for<'d> FnOnce(&'d mut Tries) -> BoxFuture<'d, ()> + Send + 'static,
    {
        let job: Job = Box::new(move |tries| {
            Box::pin(async move {
                job(tries).await;
                drop(permit);
            })
        });
        let sent = self.jobs.send(job).await;
        sent.map_err(|_| if self.outdated.why().is_some() { store_unavailable() } else { draining() })
    }
}

async fn run(mut tries: Tries, waiting: Arc<Mutex<mpsc::Receiver<Job>>>, stop: CancellationToken) {
    let mut waiting = waiting.lock().await;
    loop {
        let job = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            job = waiting.recv() => job,
        };
        let Some(job) = job else { return };
        job(&mut tries).await;
    }
}
