//! The session of an operator task, and the retry of its jobs.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;

use crate::common::log_limit::warn_once_a_second;
use crate::domain::Rejection;
use crate::ledger::refusals::{lost, read_failed, store_unavailable};
use crate::ledger::runtime::{Instant, timeout};
use crate::ledger::tasks::opened;
use crate::store::{Fault, Purpose, Session, Store, StoreError};

/// How long a job may take, its retry included.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// A connection that is gone fails immediately. A job that fails later than this is not retried.
const AGAIN_WITHIN: Duration = Duration::from_secs(5);
/// A session that was idle for longer is pinged before a job uses it.
const FRESH: Duration = Duration::from_millis(100);
/// Time limit of the ping. After a failover the old connection may neither answer nor end: an operator must not wait for that as
/// long as a job may take.
const ALIVE_WITHIN: Duration = Duration::from_secs(1);

/// Where the answer is sent.
pub(super) type ReplySender<T> = oneshot::Sender<Result<T, Rejection>>;

/// The result of one try of a job.
pub(crate) type JobResult<T> = Result<Result<T, Rejection>, StoreError>;

/// Whether an earlier try of the same job may have been applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Before {
    /// It was not applied, or there was none.
    NotSent,
    /// Unknown. A change with the id of the request was made by this job.
    Sent,
}

/// One try of a read.
pub(super) type ReadJob<A, T> = for<'s> fn(&'s mut dyn Session, &'s A) -> BoxFuture<'s, JobResult<T>>;

/// One try of a change.
pub(super) type ChangeJob<A, T> =
    for<'s> fn(&'s mut dyn Session, &'s A, Before) -> BoxFuture<'s, JobResult<T>>;

/// The session of a task. The store may be restarted between two jobs: what fails on the old connection is retried once on a
/// new one.
pub(super) struct RetryingSession {
    store: Arc<dyn Store>,
    purpose: Purpose,
    session: Option<Box<dyn Session>>,
    /// When the last job was answered.
    answered: Instant,
}

impl RetryingSession {
    pub(super) fn new(store: Arc<dyn Store>, purpose: Purpose) -> RetryingSession {
        RetryingSession { store, purpose, session: None, answered: Instant::now() }
    }

    /// Carries out a change, and answers. The work finds out by the request's id whether an earlier try was applied.
    pub(super) async fn change<A: Sync, T>(
        &mut self,
        reply: ReplySender<T>,
        asked: &A,
        work: ChangeJob<A, T>,
    ) {
        let tried = timeout(ANSWER_WITHIN, self.change_twice(asked, work)).await;
        let answer = match tried {
            Ok(Ok(answer)) => answer,
            Ok(Err(StoreError::Unknown(text))) => {
                warn_once_a_second!(error = text, "the outcome of an operator's change is unknown");
                self.session = None;
                Err(lost())
            }
            Ok(Err(error)) => {
                self.session = None;
                Err(read_failed(&error))
            }
            Err(_) => {
                self.session = None;
                Err(lost())
            }
        };
        self.answered = Instant::now();
        let _gone = reply.send(answer);
    }

    /// Carries out a read, and answers: no outcome of it is unknown.
    pub(super) async fn read<A: Sync, T>(&mut self, reply: ReplySender<T>, asked: &A, work: ReadJob<A, T>) {
        let tried = timeout(ANSWER_WITHIN, self.read_twice(asked, work)).await;
        let answer = match tried {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => {
                self.session = None;
                Err(read_failed(&error))
            }
            Err(_) => {
                self.session = None;
                Err(store_unavailable())
            }
        };
        self.answered = Instant::now();
        let _gone = reply.send(answer);
    }

    /// Returns the session, which is opened if there is none, and pinged if it was idle.
    async fn session(&mut self) -> Result<&mut dyn Session, StoreError> {
        if let Some(session) = &mut self.session
            && self.answered.elapsed() > FRESH
            && !matches!(timeout(ALIVE_WITHIN, session.policy_book().policy_epoch()).await, Ok(Ok(_)))
        {
            self.session = None;
        }
        opened(&*self.store, self.purpose, &mut self.session).await
    }

    async fn change_twice<A: Sync, T>(&mut self, asked: &A, work: ChangeJob<A, T>) -> JobResult<T> {
        let began = Instant::now();
        let session = self.session().await?;
        let error = match work(session, asked, Before::NotSent).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if !self.worth_another(&error, began) {
            return Err(error);
        }
        let session = opened(&*self.store, self.purpose, &mut self.session).await;
        let StoreError::Unknown(text) = error else {
            return work(session?, asked, Before::NotSent).await;
        };
        // A refusal may follow from what the first try has done: it does not prove that nothing was changed.
        match session {
            Ok(session) => match work(session, asked, Before::Sent).await {
                Ok(Ok(done)) => Ok(Ok(done)),
                Ok(Err(_)) | Err(_) => Err(StoreError::Unknown(text)),
            },
            Err(_) => Err(StoreError::Unknown(text)),
        }
    }

    async fn read_twice<A: Sync, T>(&mut self, asked: &A, work: ReadJob<A, T>) -> JobResult<T> {
        let began = Instant::now();
        let session = self.session().await?;
        let error = match work(session, asked).await {
            Ok(answer) => return Ok(answer),
            Err(error) => error,
        };
        if !self.worth_another(&error, began) {
            return Err(error);
        }
        work(opened(&*self.store, self.purpose, &mut self.session).await?, asked).await
    }

    /// Whether a retry on a new connection may help. The old connection is given up.
    fn worth_another(&mut self, error: &StoreError, began: Instant) -> bool {
        let session_at_fault = match error {
            StoreError::Unknown(_)
            | StoreError::NotApplied(Fault::Unavailable(_) | Fault::TimedOut(_) | Fault::Stale(_)) => true,
            StoreError::NotApplied(
                Fault::Conflict(_)
                | Fault::Locked(_)
                | Fault::Permanent(_)
                | Fault::ClockBehind
                | Fault::Schema(_)
                | Fault::Outdated(_),
            ) => false,
        };
        self.session = None;
        session_at_fault && began.elapsed() < AGAIN_WITHIN
    }
}
