//! The task that owns one session of the inbox. The session is opened for the first job, and closed when there was none for a
//! while.

use std::sync::Arc;
use std::time::Duration;

use super::Inbox;
use super::jobs::Job;
use super::look::{LookJob, judged_by};
use super::statement::{ends_session, within};
use super::store::StoreBatch;
use crate::common::crash;
use crate::common::log_limit::warn_once_a_second;
use crate::domain::Rejection;
use crate::ledger::compare_and_set::contended;
use crate::ledger::refusals::{lost, read_failed, store_unavailable};
use crate::ledger::runtime::{Instant, call_clock, timeout};
use crate::metrics::Statement;
use crate::store::{Choice, DueLook, Fault, HandedOut, Purpose, Session, StoreError};

/// How long opening a session may take. Calls wait meanwhile.
const OPEN_WITHIN: Duration = Duration::from_secs(3);
/// How long the session is kept without a job.
const KEPT_FOR: Duration = Duration::from_mins(1);
/// How often a look may lose a race before it is refused.
const ROUNDS_MAX: usize = 4;

/// Works until nothing more is accepted and nothing waits.
pub(in crate::ledger) async fn run(inbox: Arc<Inbox>, number: u64) {
    let mut owner = SessionOwner { inbox, session: None, number, opened: 0 };
    loop {
        let job = match timeout(KEPT_FOR, owner.inbox.jobs.next()).await {
            Ok(Some(job)) => job,
            Ok(None) => return,
            Err(_) => {
                owner.session = None;
                continue;
            }
        };
        if let Err(error) = owner.open().await {
            warn_once_a_second!(%error, "the store cannot be opened for the inbox");
            owner.inbox.shared.outdated.notice(&error);
            refuse(job, &store_unavailable());
            continue;
        }
        owner.carry_out(job).await;
    }
}

fn refuse(job: Job, rejection: &Rejection) {
    match job {
        Job::Store(stores) => {
            for job in stores {
                let _gone = job.answer.send(Err(rejection.clone()));
            }
        }
        Job::Look(look) => {
            let _gone = look.answer.send(Err(rejection.clone()));
        }
    }
}

struct SessionOwner {
    inbox: Arc<Inbox>,
    session: Option<Box<dyn Session>>,
    /// The number of this task.
    number: u64,
    /// How often it has opened a session.
    opened: u64,
}

/// No ledger has as many tasks: numbers of sessions differ.
const TASKS_MAX: u64 = 1 << 16;

impl SessionOwner {
    async fn open(&mut self) -> Result<(), StoreError> {
        if self.session.is_some() {
            return Ok(());
        }
        let opened = timeout(OPEN_WITHIN, self.inbox.shared.store.open(Purpose::Inbox)).await;
        let opened = opened.unwrap_or_else(|_| {
            Err(StoreError::NotApplied(Fault::Unavailable(format!("no session within {OPEN_WITHIN:?}"))))
        });
        self.session = Some(opened?);
        self.opened += 1;
        Ok(())
    }

    /// Distinguishes this session from all others of this process.
    fn session_number(&self) -> u64 {
        self.opened * TASKS_MAX + self.number + 1
    }

    async fn carry_out(&mut self, job: Job) {
        let (inbox, number) = (Arc::clone(&self.inbox), self.session_number());
        let Some(session) = &mut self.session else { return refuse(job, &store_unavailable()) };
        let usable = match job {
            Job::Store(stores) => StoreBatch::new(&inbox, session.as_mut()).run(stores).await,
            Job::Look(look) => look_once(&inbox, session.as_mut(), *look, number).await,
        };
        if !usable {
            self.session = None;
        }
    }
}

/// Carries out a look; returns whether the session can still be used.
async fn look_once(inbox: &Inbox, session: &mut dyn Session, job: LookJob, number: u64) -> bool {
    let shared = &inbox.shared;
    let cursor = Arc::clone(&job.cursor);
    let mut cursor = cursor.lock().await;
    for round in 0..ROUNDS_MAX {
        if job.answer.is_closed() || call_clock() >= job.until {
            // Whatever is handed out now would wait for the end of its lease.
            let _gone = job.answer.send(Err(store_unavailable()));
            return true;
        }
        let mut policies = shared.policies.snapshot();
        if !policies.fresh() {
            let refreshed = within(shared, (Statement::Policies, 1), shared.policies.refresh(session)).await;
            match refreshed {
                Ok(fresh) => policies = fresh,
                Err(error @ StoreError::Unknown(_)) => return failed(job, &error),
                // Decided by the policies that were read before: nothing is granted by them.
                Err(StoreError::NotApplied(_)) => {}
            }
        }
        let began = Instant::now();
        let look = DueLook {
            claim: job.claim.clone(),
            after: cursor.place(number, began),
            limit: job.bounds.messages,
        };
        let choose = judged_by(&job, &policies, shared.store.withholds_grants());
        let sent = (Statement::HandOut, look.limit);
        match within(shared, sent, session.inbox().hand_out(&look, &choose)).await {
            // By these policies nothing was granted: they are read again by the clock of this look.
            Ok(HandedOut { reading, choice: Choice { repeated: false, .. }, .. })
                if !policies.trusted(reading.now) && round == 0 =>
            {
                let reread = shared.policies.reread(session, reading.now);
                if let Err(error) = within(shared, (Statement::Policies, 1), reread).await {
                    return failed(job, &error);
                }
            }
            Ok(handed_out) => {
                shared.clock.note(&handed_out.reading);
                if !handed_out.choice.repeated {
                    cursor.looked(
                        handed_out.choice.cursor,
                        handed_out.reading.now,
                        began.elapsed(),
                        Instant::now(),
                    );
                }
                drop(cursor);
                crash::point("before_handed_out");
                let _gone = job.answer.send(Ok(handed_out));
                return true;
            }
            Err(StoreError::NotApplied(Fault::Conflict(text))) => {
                tracing::debug!(error = text, "a look for messages lost a race");
            }
            Err(error) => return failed(job, &error),
        }
    }
    let _gone = job.answer.send(Err(contended("callers", "take messages of this consumer")));
    true
}

/// Answers a look that failed. A handout whose outcome is unknown is answered to a repeat with the same `claim_id`.
fn failed(job: LookJob, error: &StoreError) -> bool {
    warn_once_a_second!(%error, consumer = job.claim.consumer, "messages could not be handed out");
    let rejection = match error {
        StoreError::Unknown(_) => lost(),
        StoreError::NotApplied(_) => read_failed(error),
    };
    let _gone = job.answer.send(Err(rejection));
    !ends_session(error)
}
