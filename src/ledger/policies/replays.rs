//! Creating, closing and listing replay runs: idempotent, audited, and in force on this replica before the call is answered.

use serde_json::json;

use super::in_force::PoliciesInForce;
use super::older;
use super::table::{DEFAULT, Policies, by_consumer};
use crate::domain::{
    AuditEvent, Doubt, Namespace, PURGE_MARGIN, Reading, Reason, Rejection, ReplayRun, RequestDigest,
    RunMode, Span, StoreTime, Summary, Violation, audit_action,
};
use crate::ledger::SUMMARY_MAX;
use crate::ledger::compare_and_set::{ROUNDS_MAX, contended, done};
use crate::ledger::refusals::used_before;
use crate::store::{REPLAY_LEVEL, Session, StoreError};

/// Shortest duration of a run.
const ENDS_IN_MIN: Span = Span::from_secs(60);

/// An operator's request.
#[derive(Clone, Debug)]
pub struct RunOrder {
    /// The operator's id of the request, among those of the consumer; its repeats change nothing.
    pub request_id: String,
    /// The digest of the whole request: a repeat has the same one.
    pub digest: RequestDigest,
    /// The operator, as authenticated.
    pub actor: String,
    /// The operator's reason, for the audit.
    pub reason: String,
    /// The run.
    pub run: Namespace,
    /// What to do with it.
    pub what: RunChange,
}

/// What to do with a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunChange {
    /// Create it; it is open for this long, or for as long as the consumer's retention.
    Create(Option<Span>),
    /// Close it.
    Close,
}

/// The result of an order.
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The run afterwards.
    pub run: ReplayRun,
    /// The store's clock.
    pub reading: Reading,
    /// An earlier call carried the order out.
    pub replayed: bool,
}

impl RunOrder {
    fn action(&self) -> &'static str {
        match self.what {
            RunChange::Create(_) => audit_action::CREATE_REPLAY_RUN,
            RunChange::Close => audit_action::CLOSE_REPLAY_RUN,
        }
    }

    /// What the audit records of the order.
    fn kept(&self) -> String {
        let asked = match self.what {
            RunChange::Create(ends_in) => ends_in.map(Span::micros),
            RunChange::Close => None,
        };
        json!({ "replay_run": self.run.replay_run(), "ends_in_us": asked }).to_string()
    }
}

pub(crate) async fn carry_out(
    session: &mut dyn Session,
    live: &PoliciesInForce,
    order: &RunOrder,
) -> Result<Result<RunResult, Rejection>, StoreError> {
    let (consumer, name) = (order.run.consumer(), order.run.replay_run());
    let mut swept = false;
    for _ in 0..ROUNDS_MAX {
        let event = session.operators().audited(consumer, &order.request_id).await;
        let event = event.map_err(StoreError::nothing_sent)?;
        let snapshot = live.refresh(session).await.map_err(StoreError::nothing_sent)?;
        let book = session.policy_book();
        let (reading, retentions) = book.effective_retentions().await.map_err(StoreError::nothing_sent)?;
        let found =
            session.replay_book().replay_run(consumer, name).await.map_err(StoreError::nothing_sent)?;
        if let Some(event) = event {
            let made = found.filter(|_| event.is_of(&order.digest));
            return Ok(made
                .map(|run| RunResult { run, reading, replayed: true })
                .ok_or_else(|| used_before("request_id")));
        }
        let event = AuditEvent {
            request_id: order.request_id.clone(),
            at: reading.now,
            actor: order.actor.clone(),
            action: order.action().to_owned(),
            consumer: consumer.to_owned(),
            key: None,
            reason: order.reason.clone(),
            before: None,
            after: Some(order.kept()),
            digest: Some(order.digest),
        };
        let written = match order.what {
            RunChange::Close => {
                if let Err(rejection) = closable(found.as_ref(), reading) {
                    return Ok(Err(rejection));
                }
                done(session.replay_book().close_replay_run(consumer, name, &event)).await?
            }
            RunChange::Create(ends_in) => {
                let written = by_consumer(&retentions);
                let written = written.get(consumer).and_then(|one| one.retention);
                let usual = by_consumer(&retentions).get(DEFAULT).and_then(|one| one.retention);
                let policy = snapshot.of(consumer);
                let retention = written.or(usual).unwrap_or(policy.retention).min(policy.retention);
                let mode = match creatable(order, found.as_ref(), ends_in, retention, &policy) {
                    Ok(mode) => mode,
                    Err(rejection) => return Ok(Err(rejection)),
                };
                match room(session, &snapshot.policies(), order, &mut swept, reading.now).await? {
                    Room::Enough => {}
                    Room::LookAgain => continue,
                    Room::None(rejection) => return Ok(Err(rejection)),
                }
                if let Some(rejection) = not_known_everywhere(session, reading).await? {
                    return Ok(Err(rejection));
                }
                let run = ReplayRun {
                    consumer: consumer.to_owned(),
                    name: name.to_owned(),
                    mode,
                    created_at: reading.now,
                    ends_at: reading.now + ends_in.unwrap_or(retention),
                    closed_at: None,
                    actor: order.actor.clone(),
                    reason: order.reason.clone(),
                };
                // The write is conditional on the epoch of these policies.
                let epoch = snapshot.epoch().unwrap_or_default();
                done(session.replay_book().add_replay_run(&run, epoch, &event)).await?
            }
        };
        if written {
            tracing::info!(
                consumer,
                replay_run = name,
                actor = order.actor,
                action = order.action(),
                "an operator changed a replay run"
            );
            // The change of the run is written: an error from here on must be `Unknown`. The caller would take a refusal to mean
            // that nothing was changed.
            let unknown = |error: StoreError| StoreError::Unknown(error.to_string());
            live.refresh(session).await.map_err(unknown)?;
            let run = session.replay_book().replay_run(consumer, name).await.map_err(unknown)?;
            let run = run.ok_or_else(|| StoreError::Unknown("the run is gone".into()))?;
            return Ok(Ok(RunResult { run, reading, replayed: false }));
        }
    }
    Ok(Err(contended("operators", "change policies and replay runs")))
}

fn closable(found: Option<&ReplayRun>, reading: Reading) -> Result<(), Rejection> {
    let Some(found) = found else {
        return Err(Rejection::new(
            Reason::ReplayRunUnknown,
            "this replay run was never created: there is nothing to close",
        ));
    };
    if found.end() <= reading.now {
        return Err(Rejection::new(
            Reason::ReplayRunClosed,
            "this replay run is closed or over already: nothing was changed",
        ));
    }
    Ok(())
}

/// Checks whether the run may be created, and with which end.
fn creatable(
    order: &RunOrder,
    found: Option<&ReplayRun>,
    ends_in: Option<Span>,
    retention: Span,
    policy: &crate::domain::Policy,
) -> Result<RunMode, Rejection> {
    if policy.doubt == Doubt::Unreadable {
        return Err(Rejection::new(
            Reason::PolicyUnreadable,
            "a newer version set the consumer's policy and this server cannot read it, so it creates no run: ask a \
             server of that version",
        ));
    }
    if found.is_some() {
        return Err(Rejection::new(
            Reason::StateNotAllowed,
            format!(
                "the consumer has had a replay run {:?}: a name is never used twice; take another one",
                order.run.replay_run()
            ),
        ));
    }
    let mode = policy.run_mode().ok_or_else(|| {
        Rejection::new(
            Reason::ReplayForbidden,
            "the consumer's policy forbids replay runs: set `replay` to SUPPRESS or REBUILD first",
        )
    })?;
    if ends_in.is_some_and(|ends_in| ends_in < ENDS_IN_MIN || ends_in > retention) {
        return Err(Rejection::invalid(vec![Violation {
            field: "ends_in".into(),
            description: format!(
                "must be 1 minute to the consumer's retention, {} s: a run is over before its first entry can be \
                 forgotten",
                retention.micros() / 1_000_000
            ),
        }]));
    }
    Ok(mode)
}

/// Whether there is space for one more run. If not, runs that can have no entries any more are swept, once.
async fn room(
    session: &mut dyn Session,
    policies: &Policies,
    order: &RunOrder,
    swept: &mut bool,
    now: StoreTime,
) -> Result<Room, StoreError> {
    let counts = policies.count_runs(order.run.consumer(), &order.actor);
    let Err(refused) = counts.room(&order.actor) else { return Ok(Room::Enough) };
    if !*swept {
        *swept = true;
        let sweep = session.replay_book().sweep_empty_runs(now - PURGE_MARGIN, now).await;
        if sweep.map_err(StoreError::nothing_sent)? > 0 {
            return Ok(Room::LookAgain);
        }
    }
    Ok(Room::None(refused))
}

enum Room {
    Enough,
    LookAgain,
    None(Rejection),
}

/// The refusal while a live server would answer a replay from live entries.
async fn not_known_everywhere(
    session: &mut dyn Session,
    reading: Reading,
) -> Result<Option<Rejection>, StoreError> {
    let Some(named) = older::servers(session, REPLAY_LEVEL, reading.now).await? else { return Ok(None) };
    Ok(Some(Rejection::new(
        Reason::StateNotAllowed,
        format!(
            "servers that were heard of within five minutes do not know replay runs, and would answer a replay from \
             live entries: {named}; nothing was changed: finish the upgrade of all servers, and try again five minutes later"
        ),
    )))
}

/// A page of the runs of a consumer, with the summaries of their entries.
pub(crate) async fn list(
    session: &mut dyn Session,
    live: &PoliciesInForce,
    (consumer, after, limit): &(String, String, usize),
) -> Result<Result<(Vec<ReplayRun>, Summary), Rejection>, StoreError> {
    let runs = session.replay_book().replay_runs_of(consumer, after, *limit).await?;
    let near = live.of(consumer).near_exhaustion_from();
    let named = |run: &ReplayRun| (Namespace::new(&run.consumer, &run.name).name().to_owned(), near);
    let asked: Vec<_> = runs.iter().map(named).collect();
    let summary = session.operators().summary(&asked, SUMMARY_MAX).await?;
    Ok(Ok((runs, summary)))
}
