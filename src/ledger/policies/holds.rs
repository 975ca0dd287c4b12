//! Placing, ending and listing holds: idempotent, audited, and in force on this replica before the call is answered.

use serde_json::json;

use super::in_force::PoliciesInForce;
use super::older;
use crate::domain::{
    AuditEvent, Hold, Reading, Reason, Rejection, RequestDigest, StoreTime, audit_action, held_consumers,
    liftable, placeable,
};
use crate::ledger::compare_and_set::{ROUNDS_MAX, contended, done};
use crate::ledger::refusals::used_before;
use crate::store::{HOLD_LEVEL, Session, StoreError};

/// An operator's request.
#[derive(Clone, Debug)]
pub struct HoldOrder {
    /// The operator's id of the request; its repeats change nothing.
    pub request_id: String,
    /// The digest of the whole request: a repeat has the same one.
    pub digest: RequestDigest,
    /// The operator, as authenticated.
    pub actor: String,
    /// The operator's reason, for the audit.
    pub reason: String,
    /// Prefix of the names of the held consumers; empty: all consumers.
    pub prefix: String,
    /// What to do.
    pub what: HoldChange,
}

/// What to do with a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldChange {
    /// Stop new grants.
    Place,
    /// Allow them again.
    Lift,
}

/// The result of an order.
#[derive(Clone, Debug)]
pub struct HoldResult {
    /// The hold on the prefix that is then in force; `None` if there is none.
    pub hold: Option<Hold>,
    /// An earlier call carried the order out.
    pub replayed: bool,
}

impl HoldOrder {
    fn action(&self) -> &'static str {
        match self.what {
            HoldChange::Place => audit_action::HOLD_CONSUMERS,
            HoldChange::Lift => audit_action::RESUME_CONSUMERS,
        }
    }

    /// What the audit records of the order.
    fn kept(&self) -> String {
        json!({ "prefix": self.prefix, "all": self.prefix.is_empty() }).to_string()
    }

    /// The scope of its event and id: the prefix, with the `*` of rights and commands. No policy has such a name.
    fn scope(&self) -> String {
        format!("{}*", self.prefix)
    }

    fn hold(&self, now: StoreTime) -> Hold {
        Hold {
            prefix: self.prefix.clone(),
            created_at: now,
            actor: self.actor.clone(),
            reason: self.reason.clone(),
        }
    }

    fn event(&self, now: StoreTime) -> AuditEvent {
        AuditEvent {
            request_id: self.request_id.clone(),
            at: now,
            actor: self.actor.clone(),
            action: self.action().to_owned(),
            consumer: self.scope(),
            key: None,
            reason: self.reason.clone(),
            before: None,
            after: Some(self.kept()),
            digest: Some(self.digest),
        }
    }
}

pub(crate) async fn carry_out(
    session: &mut dyn Session,
    live: &PoliciesInForce,
    order: &HoldOrder,
) -> Result<Result<HoldResult, Rejection>, StoreError> {
    for _ in 0..ROUNDS_MAX {
        let event = session.operators().audited(&order.scope(), &order.request_id).await;
        let event = event.map_err(StoreError::nothing_sent)?;
        let snapshot = live.refresh(session).await.map_err(StoreError::nothing_sent)?;
        let policies = snapshot.policies();
        if let Some(event) = event {
            if !event.is_of(&order.digest) {
                return Ok(Err(used_before("request_id")));
            }
            let hold = policies.holds().iter().find(|hold| hold.prefix == order.prefix).cloned();
            return Ok(Ok(HoldResult { hold, replayed: true }));
        }
        let reading = session.entries().load(&[]).await.map_err(StoreError::nothing_sent)?.reading;
        let event = order.event(reading.now);
        let written = match order.what {
            HoldChange::Lift => {
                if let Err(rejection) = liftable(policies.holds(), &order.prefix) {
                    return Ok(Err(rejection));
                }
                done(session.hold_book().lift_hold(&order.prefix, &event)).await?
            }
            HoldChange::Place => {
                if let Err(rejection) = placeable(policies.holds(), &order.prefix, &order.actor) {
                    return Ok(Err(rejection));
                }
                if let Some(rejection) = not_known_everywhere(session, &reading).await? {
                    return Ok(Err(rejection));
                }
                // The write is conditional on the epoch of these policies.
                let epoch = snapshot.epoch().unwrap_or_default();
                done(session.hold_book().add_hold(&order.hold(reading.now), epoch, &event)).await?
            }
        };
        if written {
            tracing::warn!(
                consumers = held_consumers(&order.prefix),
                actor = order.actor,
                action = order.action(),
                "an operator changed a hold"
            );
            // The change of the hold is written: an error from here on must be `Unknown`. The caller would take a refusal
            // to mean that nothing was changed.
            let now = live.refresh(session).await;
            let policies = now.map_err(|error| StoreError::Unknown(error.to_string()))?.policies();
            let hold = policies.holds().iter().find(|hold| hold.prefix == order.prefix).cloned();
            return Ok(Ok(HoldResult { hold, replayed: false }));
        }
    }
    Ok(Err(contended("operators", "change policies and holds")))
}

/// The refusal while a live server would grant in spite of a hold.
async fn not_known_everywhere(
    session: &mut dyn Session,
    reading: &Reading,
) -> Result<Option<Rejection>, StoreError> {
    let named = older::servers(session, HOLD_LEVEL, reading.now).await?;
    Ok(named.map(|named| {
        Rejection::new(
            Reason::StateNotAllowed,
            format!(
                "servers that were heard of within five minutes do not know holds, and would go on granting: {named}; \
                 nothing was changed: finish the upgrade of all servers, and try again five minutes later; until then \
                 set `disabled` in the policy of each consumer"
            ),
        )
    }))
}
