//! Policies, as messages.

use super::page_token::{self, Pages};
use crate::domain::{Doubt, PolicyPatch, PolicyVersion, Rejection, StoreTime, names_many};
use crate::ledger::{Policies, PolicyOrder};
use crate::proto;
use crate::wire::digest::digest;
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::policy::{message, named, patch, restrict, version};
use crate::wire::words::timestamp;

const REQUEST_ID_MAX: usize = 128;
const REASON_MAX: usize = 1_024;
const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;

pub(super) fn set(
    request: &proto::SetPolicyRequest,
    actor: &str,
    limits: &Limits,
) -> Result<PolicyOrder, Rejection> {
    let mut fields = FieldChecks::new(limits);
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
    // Larger results are dropped by the server, whatever a policy says.
    if patch.result_bytes_max.and_then(|max| usize::try_from(max).ok()).is_some_and(|max| max > limits.result)
    {
        let text = format!("must be at most {}, the server's `result_bytes_max`", limits.result);
        fields.wrong("policy.result_bytes_max", text);
    }
    // For the question whether a request would be a repeat, a call that only validates counts as that
    // request.
    let whole = proto::SetPolicyRequest { validate_only: false, ..request.clone() };
    fields.finish(|| PolicyOrder {
        request_id: request.request_id.clone(),
        digest: digest("SetPolicy", &whole),
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
    let mut fields = FieldChecks::new(limits);
    common(&mut fields, &request.consumer, &request.request_id, &request.reason, limits);
    if request.expected_version < 1 {
        fields.wrong(
            "expected_version",
            format!("is {}, must be the version that you looked at", request.expected_version),
        );
    }
    fields.finish(|| PolicyOrder {
        request_id: request.request_id.clone(),
        digest: digest("DeletePolicy", request),
        actor: actor.to_owned(),
        reason: request.reason.clone(),
        consumer: request.consumer.clone(),
        expected_version: request.expected_version,
        patch: None,
        mask: None,
        validate_only: false,
    })
}

fn common(fields: &mut FieldChecks<'_>, consumer: &str, request_id: &str, reason: &str, limits: &Limits) {
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

/// The version in force; 0 for the policy of the server's configuration.
pub(super) fn version_in_force(policies: &Policies, consumer: &str) -> i32 {
    if policies.is_set(consumer) { policies.version(consumer) } else { 0 }
}

/// A page of the consumers that have a policy, by name.
pub(super) struct PolicyPage {
    /// The last name of the page before; empty for the first page.
    after: String,
    size: usize,
    pages: Pages,
}

pub(super) fn page(request: &proto::ListPoliciesRequest, limits: &Limits) -> Result<PolicyPage, Rejection> {
    let mut fields = FieldChecks::new(limits);
    let size = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
    let asked = proto::ListPoliciesRequest { page_size: 0, page_token: String::new() };
    let pages = Pages::of("ListPolicies", &asked);
    let after = pages.place(&mut fields, &request.page_token, page_token::name).unwrap_or_default();
    fields.finish(|| PolicyPage { after, size, pages })
}

impl PolicyPage {
    pub(super) fn listed(self, all: &Policies) -> proto::ListPoliciesResponse {
        let mut names = all.names();
        names.retain(|name| *name > self.after);
        let more = names.len() > self.size;
        names.truncate(self.size);
        let last = names.last().filter(|_| more);
        proto::ListPoliciesResponse {
            next_page_token: last.map_or_else(String::new, |last| self.pages.token(last.as_bytes())),
            policies: names.iter().map(|name| shown(all, name)).collect(),
        }
    }
}

/// A page of the versions of a consumer's policy, newest first.
pub(super) struct VersionPage {
    /// Only versions below this one.
    pub(super) before: i32,
    pub(super) size: usize,
    pages: Pages,
}

pub(super) fn versions(
    request: &proto::ListPolicyVersionsRequest,
    limits: &Limits,
) -> Result<VersionPage, Rejection> {
    let mut fields = FieldChecks::new(limits);
    fields.name("consumer", &request.consumer, limits.consumer);
    let size = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
    let asked =
        proto::ListPolicyVersionsRequest { page_size: 0, page_token: String::new(), ..request.clone() };
    let pages = Pages::of("ListPolicyVersions", &asked);
    let before = pages.place(&mut fields, &request.page_token, |place| {
        let version = i32::from_be_bytes(place.try_into().ok()?);
        (version > 1).then_some(version)
    });
    fields.finish(|| VersionPage { before: before.unwrap_or(i32::MAX), size, pages })
}

impl VersionPage {
    pub(super) fn listed(self, versions: Vec<PolicyVersion>) -> proto::ListPolicyVersionsResponse {
        let last = versions.last().filter(|last| versions.len() == self.size && last.version > 1);
        proto::ListPolicyVersionsResponse {
            next_page_token: last
                .map_or_else(String::new, |last| self.pages.token(&last.version.to_be_bytes())),
            versions: versions.into_iter().map(version).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields that are refused.
    fn wrong(order: Result<PolicyOrder, Rejection>) -> Vec<String> {
        let violations = order.err().map_or_else(Vec::new, |refused| refused.violations);
        violations.into_iter().map(|one| one.field).collect()
    }

    #[test]
    fn expected_version_must_be_a_version_that_can_be_seen() {
        let limits = Limits::default();
        let (consumer, request_id, reason) = ("c".to_owned(), "1".to_owned(), "tests".to_owned());
        let deletion = proto::DeletePolicyRequest { consumer, request_id, reason, ..Default::default() };
        // Version 0 is the policy of the server's configuration: it can be overridden, and cannot be deleted.
        for (expected_version, set_is_wrong, delete_is_wrong) in
            [(i32::MIN, true, true), (-1, true, true), (0, false, true), (1, false, false)]
        {
            let deletion = proto::DeletePolicyRequest { expected_version, ..deletion.clone() };
            let change = proto::SetPolicyRequest {
                consumer: deletion.consumer.clone(),
                request_id: deletion.request_id.clone(),
                reason: deletion.reason.clone(),
                expected_version,
                policy: Some(proto::Policy { disabled: Some(true), ..Default::default() }),
                ..Default::default()
            };
            for (wrong, is_wrong) in [
                (wrong(set(&change, "tests", &limits)), set_is_wrong),
                (wrong(delete(&deletion, "tests", &limits)), delete_is_wrong),
            ] {
                let expected: &[&str] = if is_wrong { &["expected_version"] } else { &[] };
                assert_eq!(wrong, expected, "{expected_version}");
            }
        }
    }
}
