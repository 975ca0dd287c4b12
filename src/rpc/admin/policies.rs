//! Policies: messages to orders, and back.

use crate::domain::{Doubt, PolicyPatch, Rejection, StoreTime, names_many};
use crate::ledger::{Policies, PolicyOrder};
use crate::rpc::proto;
use crate::rpc::wire::fields::{Fields, Limits};
use crate::rpc::wire::policy::{message, named, patch, restrict};
use crate::rpc::wire::words::timestamp;

const REQUEST_ID_MAX: usize = 128;
const REASON_MAX: usize = 1_024;

pub(super) fn set(
    request: &proto::SetPolicyRequest,
    actor: &str,
    limits: &Limits,
) -> Result<PolicyOrder, Rejection> {
    let mut fields = Fields::new(limits);
    if let Some(why) = names_many(&request.consumer) {
        fields.wrong("consumer", why);
    }
    if request.validate_only {
        fields.name("consumer", &request.consumer, limits.consumer);
        fields.spare_request_id("request_id", &request.request_id, REQUEST_ID_MAX);
        fields.text("reason", &request.reason, REASON_MAX);
    } else {
        common(&mut fields, &request.consumer, &request.request_id, &request.reason, limits);
    }
    if request.expected_version < 0 {
        fields.wrong("expected_version", format!("is {}, must be 0 or more", request.expected_version));
    }
    let given = request.policy.clone().unwrap_or_default();
    let mut patch = patch(&mut fields, &given);
    if let Some(mask) = &request.update_mask {
        restrict(&mut fields, &mut patch, mask);
    }
    if patch == PolicyPatch::default() {
        fields.wrong("policy", "sets nothing: set the fields that shall change");
    }
    fields.finish(|| PolicyOrder {
        request_id: request.request_id.clone(),
        actor: actor.to_owned(),
        reason: request.reason.clone(),
        consumer: request.consumer.clone(),
        expected_version: request.expected_version,
        patch: Some(patch),
        mask: request.update_mask.as_ref().map(named),
        validate_only: request.validate_only,
    })
}

pub(super) fn delete(
    request: &proto::DeletePolicyRequest,
    actor: &str,
    limits: &Limits,
) -> Result<PolicyOrder, Rejection> {
    let mut fields = Fields::new(limits);
    common(&mut fields, &request.consumer, &request.request_id, &request.reason, limits);
    if request.expected_version < 1 {
        fields.wrong(
            "expected_version",
            format!("is {}, must be the version that you looked at", request.expected_version),
        );
    }
    fields.finish(|| PolicyOrder {
        request_id: request.request_id.clone(),
        actor: actor.to_owned(),
        reason: request.reason.clone(),
        consumer: request.consumer.clone(),
        expected_version: request.expected_version,
        patch: None,
        mask: None,
        validate_only: false,
    })
}

fn common(fields: &mut Fields<'_>, consumer: &str, request_id: &str, reason: &str, limits: &Limits) {
    fields.name("consumer", consumer, limits.consumer);
    fields.request_id("request_id", request_id, REQUEST_ID_MAX);
    fields.name("reason", reason, REASON_MAX);
}

pub(super) fn shown(policies: &Policies, consumer: &str) -> proto::ConsumerPolicy {
    let policy = policies.of(consumer);
    let source = if policies.is_set(consumer) {
        proto::PolicySource::Set
    } else if policies.registered(consumer) {
        proto::PolicySource::Configuration
    } else {
        proto::PolicySource::Default
    };
    proto::ConsumerPolicy {
        consumer: consumer.to_owned(),
        version: policies.version(consumer),
        source: source.into(),
        window_floor: (policy.window_floor > StoreTime(0)).then(|| timestamp(policy.window_floor)),
        unreadable: policy.doubt == Doubt::Unreadable,
        policy: Some(message(&policy)),
        held_by: policy.held_by.as_deref().map(str::to_owned),
    }
}

/// The version in force; 0: the policy of the server's configuration.
pub(super) fn version_in_force(policies: &Policies, consumer: &str) -> i32 {
    if policies.is_set(consumer) { policies.version(consumer) } else { 0 }
}
