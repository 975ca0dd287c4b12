//! Setting and deleting a consumer's policy: validated as a whole, versioned, audited, and in force on this replica before
//! the call is answered.

use std::sync::Arc;

use serde_json::Value;

use super::in_force::PoliciesInForce;
use super::table::{Policies, by_consumer, in_force};
use crate::domain::{
    AuditEvent, Doubt, Policy, PolicyError, PolicyPatch, PolicyVersion, Reason, Rejection, RequestDigest,
    Span, StoreTime, StoredPolicy, Violation, audit_action, names_many,
};
use crate::ledger::compare_and_set::{ROUNDS_MAX, contended, done};
use crate::ledger::refusals::used_before;
use crate::store::{EffectiveRetention, Session, StoreError};

/// A replica without a report for this long is not live.
pub(super) const AT_WORK: Span = Span::from_secs(300);
/// Number of replicas that a refusal names.
const NAMED_MAX: usize = 3;

/// An operator's request.
#[derive(Clone, Debug)]
pub struct PolicyOrder {
    /// The operator's id of the request, among those of the consumer; its repeats change nothing.
    pub request_id: String,
    /// The digest of the whole request without `validate_only`: a repeat has the same one.
    pub digest: RequestDigest,
    /// The operator, as authenticated.
    pub actor: String,
    /// The operator's reason, for the audit and the history.
    pub reason: String,
    /// The consumer.
    pub consumer: String,
    /// The expected version; 0: no version was ever set.
    pub expected_version: i32,
    /// The change; `None` to delete the policy.
    pub patch: Option<PolicyPatch>,
    /// The fields that the request's mask names, sorted; `None` if it has no mask.
    pub mask: Option<Vec<String>>,
    /// Change nothing: return the policy that would result. The request id may be empty.
    pub validate_only: bool,
}

/// The result of an order, or of one that only validates.
#[derive(Clone, Debug)]
pub struct PolicyResult {
    /// The policies that are then in force.
    pub policies: Arc<Policies>,
    /// The consumer's policy before and after the order. `None` if it had been carried out before, by an earlier call or an
    /// earlier try of this one.
    pub changed: Option<(Arc<Policy>, Arc<Policy>)>,
    /// An earlier call carried the order out.
    pub replayed: bool,
}

/// The audit's name for a policy's version, next to its fields.
const VERSION: &str = "version";
/// The audit's name for the mask of the request.
const MASK: &str = "update_mask";

impl PolicyOrder {
    /// A policy in the form of the audit.
    fn kept(policy: &str, version: i32, mask: Option<&[String]>) -> String {
        let kept = serde_json::from_str(policy);
        let mut kept: serde_json::Map<String, Value> = kept.unwrap_or_default();
        kept.insert(VERSION.to_owned(), version.into());
        if let Some(mask) = mask {
            kept.insert(MASK.to_owned(), mask.into());
        }
        Value::Object(kept).to_string()
    }
}

pub(crate) async fn set(
    session: &mut dyn Session,
    live: &PoliciesInForce,
    order: &PolicyOrder,
) -> Result<Result<PolicyResult, Rejection>, StoreError> {
    for _ in 0..ROUNDS_MAX {
        let current = live.refresh(session).await.map_err(StoreError::nothing_sent)?.policies();
        if let Some(event) = event_of(session, order).await.map_err(StoreError::nothing_sent)? {
            return Ok(repeated(current, order, &event));
        }
        let prepared = prepare(session, live, order, &current).await.map_err(StoreError::nothing_sent)?;
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(rejection) => return Ok(Err(rejection)),
        };
        if order.validate_only {
            return Ok(Ok(prepared.would_be(order, &current)));
        }
        let Prepared { version, in_force, event, before, after, .. } = prepared;
        if done(session.policy_book().add_policy(&version, &in_force, &event)).await? {
            tracing::info!(
                consumer = order.consumer,
                version = version.version,
                actor = order.actor,
                "an operator changed a policy"
            );
            // The policy is written: an error from here on must be `Unknown`. The caller would take a refusal to mean that
            // nothing was changed.
            let now = live.refresh(session).await;
            let now = now.map_err(|error| StoreError::Unknown(error.to_string()))?;
            return Ok(Ok(PolicyResult {
                policies: now.policies(),
                changed: Some((before, after)),
                replayed: false,
            }));
        }
    }
    Ok(Err(contended("operators", "change this policy")))
}

/// The audit event of a request that was carried out before.
async fn event_of(session: &mut dyn Session, order: &PolicyOrder) -> Result<Option<AuditEvent>, StoreError> {
    if order.validate_only && order.request_id.is_empty() {
        return Ok(None);
    }
    session.operators().audited(&order.consumer, &order.request_id).await
}

fn repeated(
    current: Arc<Policies>,
    order: &PolicyOrder,
    event: &AuditEvent,
) -> Result<PolicyResult, Rejection> {
    if event.is_of(&order.digest) {
        return Ok(PolicyResult { policies: current, changed: None, replayed: true });
    }
    let unreadable = event.after.as_deref().is_some_and(|after| came_out(after).is_err());
    if unreadable && event.action == action(order) {
        return Err(Rejection::new(
            Reason::PolicyUnreadable,
            "a newer version carried a request with this request_id out, and this server cannot read what it wrote; \
             nothing was changed by this call: repeat it at a server of that version",
        ));
    }
    Err(used_before("request_id"))
}

/// All rows that an order writes, checked.
struct Prepared {
    version: PolicyVersion,
    in_force: EffectiveRetention,
    event: AuditEvent,
    /// The consumer's policy before the order, and after it.
    before: Arc<Policy>,
    after: Arc<Policy>,
    /// The retentions in force before the order.
    retentions: Vec<EffectiveRetention>,
}

impl Prepared {
    /// The policies in force once it is written.
    fn would_be(mut self, order: &PolicyOrder, current: &Policies) -> PolicyResult {
        self.retentions.retain(|one| one.consumer != order.consumer);
        self.retentions.push(self.in_force);
        let policies = current.with(&[self.version], None).with_floors(&self.retentions);
        let policies = policies.with_holds(current.holds());
        PolicyResult {
            policies: Arc::new(policies),
            changed: Some((self.before, self.after)),
            replayed: false,
        }
    }
}

/// Checks an order as a whole, and prepares what it writes. Writes nothing.
async fn prepare(
    session: &mut dyn Session,
    live: &PoliciesInForce,
    order: &PolicyOrder,
    current: &Policies,
) -> Result<Result<Prepared, Rejection>, StoreError> {
    let next = match next(live, current, order) {
        Ok(next) => next,
        Err(rejection) => return Ok(Err(rejection)),
    };
    let stored = match next.as_ref().map(Policy::to_stored).transpose() {
        Ok(stored) => stored,
        Err(error) => return Ok(Err(not_storable(&error))),
    };
    let (reading, retentions) = session.policy_book().effective_retentions().await?;
    if let Some(stored) = &stored
        && let Some(rejection) = not_read_everywhere(session, stored, reading.now).await?
    {
        return Ok(Err(rejection));
    }
    // Without a set policy, the one of the file or the default is in force again.
    let own = next.is_some() || live.file.registered(&order.consumer);
    let after = next.map_or_else(|| live.file.of(&order.consumer), Arc::new);
    let in_force = in_force(&by_consumer(&retentions), &order.consumer, own, after.retention, reading.now);
    let version = PolicyVersion {
        consumer: order.consumer.clone(),
        version: order.expected_version.saturating_add(1),
        policy: stored.map(|stored| stored.json),
        created_at: reading.now,
        actor: order.actor.clone(),
        reason: order.reason.clone(),
    };
    let event = AuditEvent {
        request_id: order.request_id.clone(),
        at: reading.now,
        actor: order.actor.clone(),
        action: action(order).to_owned(),
        consumer: order.consumer.clone(),
        key: None,
        reason: order.reason.clone(),
        before: current
            .stored(&order.consumer)
            .map(|text| PolicyOrder::kept(&text, order.expected_version, None)),
        after: version
            .policy
            .as_deref()
            .map(|text| PolicyOrder::kept(text, version.version, order.mask.as_deref())),
        digest: Some(order.digest),
    };
    let before = current.of(&order.consumer);
    Ok(Ok(Prepared { version, in_force, event, before, after, retentions }))
}

/// The policy after the order; `None` if it is deleted.
fn next(
    live: &PoliciesInForce,
    current: &Policies,
    order: &PolicyOrder,
) -> Result<Option<Policy>, Rejection> {
    // A policy that an earlier version has set for such a name can still be deleted.
    if let Some(description) = names_many(&order.consumer).filter(|_| !current.is_set(&order.consumer)) {
        let (field, description) = ("consumer".into(), description.into());
        return Err(Rejection::invalid(vec![Violation { field, description }]));
    }
    let version = current.version(&order.consumer);
    if version != order.expected_version {
        return Err(Rejection::new(
            Reason::VersionMismatch,
            format!(
                "the policy has version {version}, not the expected {}: it was changed since; look at it again",
                order.expected_version
            ),
        ));
    }
    let Some(patch) = &order.patch else {
        if !current.is_set(&order.consumer) {
            return Err(Rejection::new(
                Reason::PolicyNotFound,
                "no operator has set a policy for this consumer: there is nothing to delete",
            ));
        }
        return Ok(None);
    };
    let base = current.of(&order.consumer);
    if base.doubt == Doubt::Unreadable {
        return Err(Rejection::new(
            Reason::PolicyUnreadable,
            "a newer version set the policy and this server cannot read it, so it cannot change single fields of it; \
             nothing was changed: ask a server of that version, or delete the policy and set it again",
        ));
    }
    let policy = patch.onto(&base);
    let mut errors = policy.validate().err().unwrap_or_default();
    if live.window_required && policy.max_redelivery_window == Span::ZERO {
        errors.push(PolicyError {
            field: "max_redelivery_window",
            problem:
                "is not stated, and this server demands it (require_redelivery_window): state the longest of \
                      broker retention, replay and dead-letter horizons"
                    .into(),
            retention_too_short: false,
        });
    }
    if errors.is_empty() {
        return Ok(Some(policy));
    }
    let short = errors.iter().all(|error| error.retention_too_short);
    let violation = |error: PolicyError| Violation {
        field: format!("policy.{}", error.field),
        description: error.problem,
    };
    let rejection = Rejection::invalid(errors.into_iter().map(violation).collect());
    Err(if short { Rejection { reason: Reason::RetentionTooShort, ..rejection } } else { rejection })
}

/// The policy that an audit event keeps. `None` if this version cannot read it.
#[must_use]
pub fn audited_policy(kept: &str) -> Option<Policy> {
    came_out(kept).ok()
}

/// The policy of an audit event, without the additional fields.
fn came_out(after: &str) -> Result<Policy, serde_json::Error> {
    let mut kept: serde_json::Map<String, Value> = serde_json::from_str(after)?;
    kept.remove(VERSION);
    kept.remove(MASK);
    Policy::from_stored(&Value::Object(kept).to_string())
}

fn action(order: &PolicyOrder) -> &'static str {
    if order.patch.is_some() { audit_action::SET_POLICY } else { audit_action::DELETE_POLICY }
}

fn not_storable(error: &serde_json::Error) -> Rejection {
    tracing::error!(%error, "a policy cannot be written down");
    Rejection::new(
        Reason::Internal,
        "a bug of the server: the policy cannot be written down; nothing was changed",
    )
}

/// The refusal of a policy that a live replica could not read: it would stop the consumer there.
async fn not_read_everywhere(
    session: &mut dyn Session,
    stored: &StoredPolicy,
    now: StoreTime,
) -> Result<Option<Rejection>, StoreError> {
    let behind = session.policy_book().replicas_below(stored.format, now - AT_WORK, NAMED_MAX).await?;
    if behind.is_empty() {
        return Ok(None);
    }
    let named =
        behind.iter().map(|one| format!("{} (version {}, reads format {})", one.id, one.version, one.speaks));
    Ok(Some(Rejection::new(
        Reason::StateNotAllowed,
        format!(
            "the policy needs format {}, and replicas that were heard of within five minutes cannot read it: {}; \
             nothing was changed: finish the upgrade of all replicas, and try again five minutes later",
            stored.format,
            named.collect::<Vec<_>>().join(", ")
        ),
    )))
}
