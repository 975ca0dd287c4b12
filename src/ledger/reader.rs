//! Reads for operators, on a session of their own: they never wait behind claims, nor claims
//! behind them.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::jobs::{Reply, answer_read, opened};
use super::rt::spawn;
use super::store_unavailable;
use crate::domain::{Entry, Key, Reason, Rejection};
use crate::store::{Found, Listing, Reading, Session, Store, StoreError};

/// How many reads may wait.
const WAITING_MAX: usize = 64;

enum Job {
    Get(Key, Reply<(Reading, Entry)>),
    List(Listing, Reply<(Reading, Vec<Entry>)>),
}

pub(super) struct Reader {
    jobs: mpsc::Sender<Job>,
}

impl Reader {
    pub(super) fn start(store: Arc<dyn Store>, tasks: &TaskTracker, stop: CancellationToken) -> Reader {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        spawn(tasks, run(store, waiting, stop));
        Reader { jobs }
    }

    pub(super) async fn get(&self, key: Key) -> Result<(Reading, Entry), Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Get(key, reply))?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    pub(super) async fn list(&self, listing: Listing) -> Result<(Reading, Vec<Entry>), Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::List(listing, reply))?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    fn send(&self, job: Job) -> Result<(), Rejection> {
        self.jobs.try_send(job).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                Rejection::new(Reason::Overloaded, "too many reads wait already: try again later")
            }
            mpsc::error::TrySendError::Closed(_) => Rejection::new(
                Reason::Draining,
                "this server is shutting down: try again, another one answers",
            ),
        })
    }
}

async fn run(store: Arc<dyn Store>, mut waiting: mpsc::Receiver<Job>, stop: CancellationToken) {
    let mut session: Option<Box<dyn Session>> = None;
    loop {
        let job = tokio::select! {
            job = waiting.recv() => job,
            () = stop.cancelled() => None,
        };
        let Some(job) = job else { return };
        let broken = match job {
            Job::Get(key, reply) => {
                let work = async { get(opened(&*store, &mut session).await?, key).await };
                answer_read(reply, work).await
            }
            Job::List(listing, reply) => {
                let work = async { Ok(Ok(opened(&*store, &mut session).await?.list(&listing).await?)) };
                answer_read(reply, work).await
            }
        };
        if broken {
            session = None;
        }
    }
}

async fn get(session: &mut dyn Session, key: Key) -> Result<Result<(Reading, Entry), Rejection>, StoreError> {
    let mut loaded = session.load(&[key]).await?;
    Ok(match loaded.found.pop() {
        Some(Found::Entry(entry)) => Ok((loaded.reading, *entry)),
        Some(Found::Unreadable(problem)) => {
            tracing::error!(problem, "an entry can not be read");
            Err(Rejection::new(Reason::EntryUnreadable, "the stored entry of this key can not be read"))
        }
        Some(Found::Collision) => {
            Err(Rejection::new(Reason::KeyCollision, "another key has the same 128-bit hash"))
        }
        Some(Found::Absent) | None => Err(Rejection::new(
            Reason::EntryNotFound,
            "there is no entry for this key: it was never claimed, or it was purged or deleted since",
        )),
    })
}
