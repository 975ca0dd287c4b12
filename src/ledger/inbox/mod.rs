//! The inbox: the ledger keeps messages, and hands them out. docs/contract.md, section 15.
//!
//! `store` carries out a batch of Stores, `backlog` says when no more are stored. `next` is a `ClaimNext` from its arrival to its
//! answer: it looks, waits in `line` for the messages of its consumer, and looks again; `look` is one look, from a `cursor`.
//! `jobs` is what waits for the sessions of the inbox, and `task` owns one of these sessions. No session is opened before the
//! first call of the inbox.

mod backlog;
mod cursor;
mod jobs;
mod line;
mod look;
mod next;
mod statement;
mod store;
mod task;

use std::sync::{Arc, OnceLock};

use tokio::sync::oneshot;

use self::backlog::Backlog;
use self::jobs::{Jobs, StoreJob};
use self::line::Lines;
use super::Ledger;
use super::claims::shared::Shared;
use super::policies::in_force::Snapshot;
use super::refusals::lost;
use super::waiting::Bounds;
use crate::common::still_counted::StillCounted;
use crate::domain::{Doubt, Rejection, StoreRequest, StoreVerdict, Stored, store_refused};

pub(super) use self::task::run;

/// How the inbox works.
#[derive(Clone, Copy, Debug)]
pub struct InboxOptions {
    /// The number of sessions.
    pub sessions: usize,
    /// Bytes of all messages together, from which on no more are stored.
    pub bytes_max: u64,
    /// Maximum number of Stores that wait for a session.
    pub queue_max: usize,
    /// Maximum bytes of these.
    pub queue_bytes_max: usize,
    /// Bounds of the calls that wait for messages.
    pub waits: Bounds,
}

/// State that the tasks of the inbox share with the calls.
pub(super) struct Inbox {
    shared: Shared,
    jobs: Jobs,
    backlog: Backlog,
    lines: Lines,
}

impl Inbox {
    pub(super) fn new(shared: &Shared, options: InboxOptions) -> Arc<Inbox> {
        Arc::new(Inbox {
            shared: shared.clone(),
            jobs: Jobs::new(options.queue_max, options.queue_bytes_max),
            backlog: Backlog::new(options.bytes_max),
            lines: Lines::new(options.waits),
        })
    }

    /// Lets all waiting calls go, and lets none wait from now on.
    pub(super) fn drain(&self) {
        self.lines.drain();
    }

    /// Accepts nothing more.
    pub(super) fn close(&self) {
        self.jobs.close();
    }

    /// Refuses what waits, and accepts nothing more, since this server is behind the schema fence.
    pub(super) fn outdated(&self) {
        self.jobs.outdated();
    }

    /// Notes what is counted of calls.
    pub(super) fn still_counted(&self, left: &mut StillCounted) {
        self.jobs.still_counted(left);
        self.lines.still_counted(left);
    }
}

impl Ledger {
    /// Stores messages of one call, and answers each in the same order.
    ///
    /// # Errors
    /// `OVERLOADED`, `DRAINING`, `STORE_UNAVAILABLE`: nothing was stored.
    pub(crate) async fn store_all(&self, requests: Vec<StoreRequest>) -> Result<Vec<Stored>, Rejection> {
        let (policies, mut answers) = (OnceLock::new(), Vec::with_capacity(requests.len()));
        let mut jobs = Vec::with_capacity(requests.len());
        for request in requests {
            let refused = match self.registered(request.key.consumer(), &policies) {
                Ok(policies) => refused_by_policy(&request, policies),
                Err(rejection) => Some(rejection),
            };
            match refused {
                None => {
                    let (answer, answered) = oneshot::channel();
                    answers.push(Ok((
                        answered,
                        request.key.consumer().to_owned(),
                        request.event_type.clone(),
                    )));
                    jobs.push(StoreJob { request, answer });
                }
                Some(rejection) => answers.push(Err(rejection)),
            }
        }
        self.inner.inbox.jobs.push(jobs)?;
        let mut stored = Vec::with_capacity(answers.len());
        for answer in answers {
            let answer = match answer {
                Ok((answered, consumer, event_type)) => {
                    let answer = answered.await.unwrap_or_else(|_| Err(lost()));
                    if let Ok((StoreVerdict::Stored { .. }, _)) = &answer {
                        let registered = self.inner.policies.registered(&consumer);
                        self.inner.metrics.message_stored(&consumer, &event_type, registered);
                    }
                    answer
                }
                Err(rejection) => Err(rejection),
            };
            self.inner.metrics.inbox().stored(answer.as_ref().map(|(verdict, _)| verdict));
            stored.push(answer);
        }
        Ok(stored)
    }
}

/// The refusal of a Store by its policy alone, before the store is asked; `None` if the entry decides, or if the policies must be read
/// again first.
fn refused_by_policy(request: &StoreRequest, policies: &Snapshot) -> Option<Rejection> {
    let policy = policies.of(request.key.consumer());
    let is_known = policies.fresh() && policy.doubt == Doubt::None;
    if is_known { store_refused(&request.store, &policy) } else { None }
}
