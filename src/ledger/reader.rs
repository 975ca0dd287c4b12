//! Reads for operators, on a session of their own: they never wait behind claims, nor claims
//! behind them.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::rt::{spawn, timeout};
use super::{read_failed, store_unavailable};
use crate::domain::{Entry, Key, Reason, Rejection};
use crate::store::{Found, Listing, Reading, Session, Store, StoreError};

/// How many reads may wait.
const WAITING_MAX: usize = 64;
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

type Reply<T> = oneshot::Sender<Result<T, Rejection>>;

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
            Job::Get(key, reply) => answer(reply, get(&*store, &mut session, key)).await,
            Job::List(listing, reply) => answer(reply, list(&*store, &mut session, listing)).await,
        };
        if broken {
            session = None;
        }
    }
}

/// Answers; says whether the session should be given up.
async fn answer<T>(
    reply: Reply<T>,
    read: impl Future<Output = Result<Result<T, Rejection>, StoreError>>,
) -> bool {
    let (answer, broken) = match timeout(ANSWER_WITHIN, read).await {
        Ok(Ok(answer)) => (answer, false),
        Ok(Err(error)) => (Err(read_failed(&error)), true),
        Err(_) => (Err(store_unavailable()), true),
    };
    let _gone = reply.send(answer);
    broken
}

async fn opened<'s>(
    store: &dyn Store,
    session: &'s mut Option<Box<dyn Session>>,
) -> Result<&'s mut Box<dyn Session>, StoreError> {
    match session {
        Some(session) => Ok(session),
        None => Ok(session.insert(store.open().await?)),
    }
}

async fn get(
    store: &dyn Store,
    session: &mut Option<Box<dyn Session>>,
    key: Key,
) -> Result<Result<(Reading, Entry), Rejection>, StoreError> {
    let mut loaded = opened(store, session).await?.load(&[key]).await?;
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

async fn list(
    store: &dyn Store,
    session: &mut Option<Box<dyn Session>>,
    listing: Listing,
) -> Result<Result<(Reading, Vec<Entry>), Rejection>, StoreError> {
    Ok(Ok(opened(store, session).await?.list(&listing).await?))
}
