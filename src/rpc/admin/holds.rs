//! Holds, as messages.

use tonic::Extensions;

use super::AdminRpc;
use crate::domain::{Hold, Rejection, RequestDigest};
use crate::identity::Whose;
use crate::ledger::{HoldChange, HoldOrder, HoldResult};
use crate::proto;
use crate::rpc::edge::auth::{self, AuthenticatedCaller};
use crate::wire::digest::digest;
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::words::shown;

const REQUEST_ID_MAX: usize = 128;
const REASON_MAX: usize = 1_024;

/// Carries out `HoldConsumers`.
pub(super) async fn hold(
    admin: &AdminRpc,
    extensions: &Extensions,
    request: &proto::HoldConsumersRequest,
) -> Result<proto::HoldConsumersResponse, Rejection> {
    let caller = auth::caller(extensions)?;
    let order = place(request, caller.principal(), &admin.limits)?;
    allowed(caller, &order.prefix)?;
    let HoldResult { hold, replayed } = admin.operators(caller).change_hold(order).await?;
    Ok(proto::HoldConsumersResponse { hold: hold.map(message), replayed })
}

/// Carries out `ResumeConsumers`.
pub(super) async fn resume(
    admin: &AdminRpc,
    extensions: &Extensions,
    request: &proto::ResumeConsumersRequest,
) -> Result<proto::ResumeConsumersResponse, Rejection> {
    let caller = auth::caller(extensions)?;
    let order = lift(request, caller.principal(), &admin.limits)?;
    allowed(caller, &order.prefix)?;
    let HoldResult { replayed, .. } = admin.operators(caller).change_hold(order).await?;
    Ok(proto::ResumeConsumersResponse { replayed })
}

fn place(
    request: &proto::HoldConsumersRequest,
    actor: &str,
    limits: &Limits,
) -> Result<HoldOrder, Rejection> {
    let asked = [&request.prefix, &request.request_id, &request.reason];
    let digest = digest("HoldConsumers", request);
    order(FieldChecks::new(limits), request.all, asked, digest, actor, HoldChange::Place)
}

fn lift(
    request: &proto::ResumeConsumersRequest,
    actor: &str,
    limits: &Limits,
) -> Result<HoldOrder, Rejection> {
    let asked = [&request.prefix, &request.request_id, &request.reason];
    let digest = digest("ResumeConsumers", request);
    order(FieldChecks::new(limits), request.all, asked, digest, actor, HoldChange::Lift)
}

fn order(
    mut fields: FieldChecks<'_>,
    all: bool,
    [prefix, request_id, reason]: [&String; 3],
    digest: RequestDigest,
    actor: &str,
    what: HoldChange,
) -> Result<HoldOrder, Rejection> {
    match (all, prefix.is_empty()) {
        // A forgotten prefix must not hold every consumer.
        (false, true) => {
            fields.wrong("prefix", "is empty: name what the consumers' names begin with, or set all");
        }
        (true, false) => fields.wrong("prefix", "is set, and so is all: set one of them"),
        (true, true) | (false, false) => self::prefix(&mut fields, prefix),
    }
    fields.request_id("request_id", request_id, REQUEST_ID_MAX);
    fields.name("reason", reason, REASON_MAX);
    fields.finish(|| HoldOrder {
        request_id: request_id.clone(),
        digest,
        actor: actor.to_owned(),
        reason: reason.clone(),
        prefix: prefix.clone(),
        what,
    })
}

fn prefix(fields: &mut FieldChecks<'_>, prefix: &str) {
    fields.text("prefix", prefix, fields.limits().consumer);
    if prefix.ends_with('*') {
        fields.wrong("prefix", "ends with *: write what the names begin with, without the *, or set all");
    }
}

/// The prefix of the holds that are listed.
pub(super) fn listed(request: &proto::ListHoldsRequest, limits: &Limits) -> Result<String, Rejection> {
    let mut fields = FieldChecks::new(limits);
    prefix(&mut fields, &request.prefix);
    fields.finish(|| request.prefix.clone())
}

/// Whether the caller may do what the call does for every consumer whose name begins with the prefix.
///
/// # Errors
/// `CONSUMER_NOT_ALLOWED`.
pub(super) fn allowed(caller: &AuthenticatedCaller, prefix: &str) -> Result<(), Rejection> {
    caller.allowed_for(if prefix.is_empty() { Whose::All } else { Whose::Prefix(prefix) })
}

pub(super) fn message(hold: Hold) -> proto::Hold {
    proto::Hold {
        all: hold.prefix.is_empty(),
        prefix: hold.prefix,
        created_at: Some(shown(hold.created_at)),
        actor: hold.actor,
        reason: hold.reason,
    }
}
