//! Reads for operators, on a session of their own: they never wait behind claims, nor claims
//! behind them.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::desk::{Desk, Reply, Tried};
use crate::domain::{
    Entry, EntryFilter, Key, Listed, Listing, Reading, Reason, Rejection, Span, StoreTime, Summary,
};
use crate::ledger::policies::in_force::Live;
use crate::ledger::refusals::store_unavailable;
use crate::ledger::runtime::spawn;
use crate::ledger::shared::supervised;
use crate::store::{Found, Purpose, Session, Store};

/// How many reads may wait.
const WAITING_MAX: usize = 64;

/// Ages that the store's clock shall make instants of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ages {
    /// Created at least this long ago.
    pub min: Option<Span>,
    /// Created at most this long ago.
    pub max: Option<Span>,
}

impl Ages {
    /// As instants, of which this is now.
    pub(super) fn fix(self, filter: &mut EntryFilter, now: StoreTime) {
        filter.created_until = self.min.map_or(StoreTime::MAX, |age| now - age);
        filter.created_from = self.max.map_or(StoreTime(0), |age| now - age);
    }
}

/// A page of a listing, and the listing as it was carried out: with instants for ages.
pub type Page = (Listing, Listed);

/// Whose entries shall be counted.
#[derive(Clone, Debug)]
pub enum Counted {
    /// Those of this consumer.
    One(String),
    /// Those of this many consumers, by name, after this one.
    After(String, usize),
}

enum Job {
    Get(Key, Reply<(Reading, Entry)>),
    List(Box<Listing>, Ages, Reply<Page>),
    Count(Counted, Reply<(Vec<String>, Summary)>),
}

impl Job {
    /// Nobody waits for it any more.
    fn abandoned(&self) -> bool {
        match self {
            Job::Get(_, reply) => reply.is_closed(),
            Job::List(_, _, reply) => reply.is_closed(),
            Job::Count(_, reply) => reply.is_closed(),
        }
    }
}

pub(crate) struct Reader {
    jobs: mpsc::Sender<Job>,
}

impl Reader {
    pub(crate) fn start(
        store: Arc<dyn Store>,
        policies: Arc<Live>,
        tasks: &TaskTracker,
        stop: CancellationToken,
    ) -> Reader {
        let (jobs, waiting) = mpsc::channel(WAITING_MAX);
        let waiting = Arc::new(tokio::sync::Mutex::new(waiting));
        let work = move || run(Arc::clone(&store), Arc::clone(&policies), Arc::clone(&waiting), stop.clone());
        spawn(tasks, supervised("the reader", work));
        Reader { jobs }
    }

    pub(crate) async fn get(&self, key: Key) -> Result<(Reading, Entry), Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Get(key, reply))?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    pub(crate) async fn list(&self, listing: Listing, ages: Ages) -> Result<Page, Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::List(Box::new(listing), ages, reply))?;
        answer.await.unwrap_or_else(|_| Err(store_unavailable()))
    }

    pub(crate) async fn count(&self, whose: Counted) -> Result<(Vec<String>, Summary), Rejection> {
        let (reply, answer) = oneshot::channel();
        self.send(Job::Count(whose, reply))?;
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

async fn run(
    store: Arc<dyn Store>,
    policies: Arc<Live>,
    waiting: Arc<tokio::sync::Mutex<mpsc::Receiver<Job>>>,
    stop: CancellationToken,
) {
    let mut waiting = waiting.lock().await;
    let mut desk = Desk::new(store, Purpose::Reads);
    loop {
        let job = tokio::select! {
            job = waiting.recv() => job,
            () = stop.cancelled() => None,
        };
        let Some(job) = job else { return };
        if job.abandoned() {
            continue;
        }
        match job {
            Job::Get(key, reply) => desk.read(reply, &key, |session, key| Box::pin(get(session, key))).await,
            Job::List(listing, ages, reply) => {
                let asked = (*listing, ages);
                desk.read(reply, &asked, |session, (listing, ages)| Box::pin(list(session, listing, *ages)))
                    .await;
            }
            Job::Count(whose, reply) => {
                let asked = (Arc::clone(&policies), whose);
                desk.read(reply, &asked, |session, (policies, whose)| {
                    Box::pin(count(session, policies, whose))
                })
                .await;
            }
        }
    }
}

async fn list(session: &mut dyn Session, listing: &Listing, ages: Ages) -> Tried<Page> {
    let mut listing = listing.clone();
    if ages.min.is_some() || ages.max.is_some() {
        let now = session.load(&[]).await?.reading.now;
        ages.fix(&mut listing.filter, now);
    }
    let listed = session.list(&listing).await?;
    Ok(Ok((listing, listed)))
}

async fn count(session: &mut dyn Session, policies: &Live, whose: &Counted) -> Tried<(Vec<String>, Summary)> {
    let names = match whose {
        Counted::One(consumer) => vec![consumer.clone()],
        Counted::After(after, limit) => session.consumers(after, *limit).await?,
    };
    let asked: Vec<(String, i32)> =
        names.iter().map(|name| (name.clone(), policies.of(name).max_attempts)).collect();
    let summary = session.summary(&asked).await?;
    Ok(Ok((names, summary)))
}

async fn get(session: &mut dyn Session, key: &Key) -> Tried<(Reading, Entry)> {
    let mut loaded = session.load(std::slice::from_ref(key)).await?;
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
