//! A desk: one task that carries out one job after the other, on a session of its own. Jobs never wait behind
//! claims, nor claims behind jobs.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::tries::{ChangeJob, ReadJob, Tries};
use crate::domain::{Reason, Rejection};
use crate::ledger::outdated::Outdated;
use crate::ledger::refusals::{draining, lost, store_unavailable};
use crate::ledger::runtime::spawn;
use crate::ledger::tasks::supervised;
use crate::store::{Purpose, Store};

/// How many jobs may wait at a desk.
const WAITING_MAX: usize = 64;

type Job = Box<dyn for<'d> FnOnce(&'d mut Tries) -> BoxFuture<'d, ()> + Send>;

pub(super) struct Desk {
    jobs: mpsc::Sender<Job>,
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
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        // They outlive the task, should it die of a bug.
        let waiting = Arc::new(Mutex::new(waiting));
        let work = move || run(Tries::new(Arc::clone(&store), purpose), Arc::clone(&waiting), stop.clone());
        spawn(tasks, outdated.clone().until(supervised(name, work)));
        Desk { jobs, outdated }
    }

    /// Carries out what changes nothing, unless nobody waits for it any more.
    pub(super) async fn read<A, T>(&self, asked: A, work: ReadJob<A, T>) -> Result<T, Rejection>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.send(Box::new(move |tries| {
            Box::pin(async move {
                if !reply.is_closed() {
                    tries.read(reply, &asked, work).await;
                }
            })
        }))?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    /// Carries out what may change something, whether somebody waits for it or not.
    pub(super) async fn change<A, T>(&self, asked: A, work: ChangeJob<A, T>) -> Result<T, Rejection>
    where
        A: Send + Sync + 'static,
        T: Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        self.send(Box::new(move |tries| Box::pin(async move { tries.change(reply, &asked, work).await })))?;
        answer.await.unwrap_or_else(|_| Err(lost()))
    }

    fn send(&self, job: Job) -> Result<(), Rejection> {
        self.jobs.try_send(job).map_err(|error| match error {
            TrySendError::Full(_) => Rejection::new(
                Reason::Overloaded,
                "too many operators' requests wait already; nothing was changed: try again later",
            ),
            TrySendError::Closed(_) if self.outdated.why().is_some() => store_unavailable(),
            TrySendError::Closed(_) => draining(),
        })
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
