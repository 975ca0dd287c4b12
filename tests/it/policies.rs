//! Policies that operators set: in force at once, on every replica soon, kept with their history.

mod races;

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::proto::{self, claim_response::Verdict};
use prost_types::FieldMask;
use tonic::{Code, Status};

use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_all_stores;
use crate::harness::server::{Kind, START, Setup, TestServer};

on_all_stores!(
    a_policy_survives_a_restart,
    a_repeat_changes_nothing_and_a_stale_version_is_refused,
    a_policy_is_checked_as_a_whole,
    a_mask_takes_what_it_names,
    a_deleted_policy_gives_way_to_the_configuration_and_keeps_its_history,
    a_longer_retention_raises_the_floor_and_deletion_does_not_lower_it,
    the_hold_switch_stops_grants_only,
    an_entry_tells_by_which_version_it_was_granted,
    setting_a_policy_registers_a_consumer,
    policies_are_listed_by_name,
    a_request_id_belongs_to_its_change,
);

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn days(days: i64) -> Option<prost_types::Duration> {
    seconds(days * 86_400)
}

fn set(consumer: &str, expected_version: i32, policy: proto::Policy) -> proto::SetPolicyRequest {
    proto::SetPolicyRequest {
        consumer: consumer.into(),
        request_id: format!("set {consumer} {expected_version}"),
        expected_version,
        reason: "tuned".into(),
        policy: Some(policy),
        update_mask: None,
        validate_only: false,
    }
}

fn delete(consumer: &str, expected_version: i32) -> proto::DeletePolicyRequest {
    proto::DeletePolicyRequest {
        consumer: consumer.into(),
        request_id: format!("delete {consumer} {expected_version}"),
        expected_version,
        reason: "not needed".into(),
    }
}

async fn put(server: &mut TestServer, request: proto::SetPolicyRequest) -> proto::ConsumerPolicy {
    server.admin.set_policy(request).await.unwrap().into_inner().policy.unwrap()
}

async fn get(server: &mut TestServer, consumer: &str) -> proto::ConsumerPolicy {
    let request = proto::GetPolicyRequest { consumer: consumer.into() };
    server.admin.get_policy(request).await.unwrap().into_inner().policy.unwrap()
}

fn reason(status: Status) -> (Code, String) {
    let refused = refusal(&status);
    (refused.code, refused.reason)
}

async fn events(server: &mut TestServer) -> Vec<String> {
    let page = server.admin.list_audit_events(proto::ListAuditEventsRequest::default()).await;
    page.unwrap().into_inner().events.into_iter().map(|event| event.action).collect()
}

async fn a_policy_survives_a_restart(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let policy = proto::Policy { lease: seconds(77), ..Default::default() };
    put(&mut server, set("c", 0, policy)).await;
    let at = server.stop().await;
    // Also one of the configuration does not come before it.
    let mut server = TestServer::on(at, Setup::default().with("c", Policy::default())).await;
    let held = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    assert_eq!(held.lease, seconds(77));
    server.stop().await;
}

async fn a_repeat_changes_nothing_and_a_stale_version_is_refused(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let request = set("c", 0, proto::Policy { lease: seconds(60), ..Default::default() });
    put(&mut server, request.clone()).await;
    put(&mut server, set("c", 1, proto::Policy { lease: seconds(50), ..Default::default() })).await;
    let again = server.admin.set_policy(request.clone()).await.unwrap().into_inner();
    assert!(again.replayed);
    assert_eq!(
        (again.policy.as_ref().unwrap().version, again.policy.unwrap().policy.unwrap().lease),
        (2, seconds(50))
    );
    let stale = proto::SetPolicyRequest { request_id: "another".into(), ..request.clone() };
    let refused = server.admin.set_policy(stale).await.unwrap_err();
    assert_eq!(reason(refused), (Code::Aborted, "VERSION_MISMATCH".into()));
    // An id belongs to its consumer.
    let other = proto::SetPolicyRequest { consumer: "d".into(), ..request };
    assert!(!server.admin.set_policy(other).await.unwrap().into_inner().replayed);
    assert_eq!(events(&mut server).await, ["SET_POLICY"; 3]);
    server.stop().await;
}

async fn a_policy_is_checked_as_a_whole(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let policy = proto::Policy {
        lease: seconds(0),
        max_attempts: Some(-1),
        retention: seconds(60),
        backoff: Some(proto::BackoffPolicy { multiplier: Some(0.5), ..Default::default() }),
        ..Default::default()
    };
    let refused = server.admin.set_policy(set("c", 0, policy)).await.unwrap_err();
    let mut wrong = fields(&refused);
    wrong.sort();
    assert_eq!(
        wrong,
        ["policy.backoff.multiplier", "policy.lease", "policy.max_attempts", "policy.retention"]
    );
    let request = set("c", 0, proto::Policy { max_redelivery_window: days(14), ..Default::default() });
    let refused = server.admin.set_policy(request.clone()).await.unwrap_err();
    assert_eq!(reason(refused), (Code::FailedPrecondition, "RETENTION_TOO_SHORT".into()));
    let mut accepted = request;
    accepted.policy.as_mut().unwrap().accepted_risk = "replays are never that old".into();
    put(&mut server, accepted).await;
    let refused = server.admin.set_policy(proto::SetPolicyRequest::default()).await.unwrap_err();
    assert_eq!(fields(&refused), ["consumer", "request_id", "reason", "policy"]);
    assert_eq!(events(&mut server).await.len(), 1, "refusals leave no event");
    server.stop().await;
}

async fn a_mask_takes_what_it_names(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let policy = proto::Policy { lease: seconds(60), max_hold: seconds(7_200), ..Default::default() };
    let mask =
        |paths: &[&str]| Some(FieldMask { paths: paths.iter().map(|&path| path.to_owned()).collect() });
    let request = proto::SetPolicyRequest { update_mask: mask(&["lease"]), ..set("c", 0, policy) };
    let now = put(&mut server, request.clone()).await.policy.unwrap();
    assert_eq!((now.lease, now.max_hold), (seconds(60), seconds(86_400)));
    for (paths, wrong) in [(&["lease", "retention"][..], "policy.retention"), (&["leese"], "update_mask")] {
        let request = proto::SetPolicyRequest {
            update_mask: mask(paths),
            request_id: "again".into(),
            expected_version: 1,
            ..request.clone()
        };
        let refused = server.admin.set_policy(request).await.unwrap_err();
        assert!(fields(&refused).contains(&wrong.to_owned()), "{refused:?}");
    }
    server.stop().await;
}

async fn a_deleted_policy_gives_way_to_the_configuration_and_keeps_its_history(kind: Kind) {
    let configured = Policy { lease: Span::from_secs(20), ..Policy::default() };
    let mut server = TestServer::start_with(kind, Setup::default().with("c", configured)).await;
    let refused = server.admin.delete_policy(delete("c", 1)).await.unwrap_err();
    assert_eq!(reason(refused), (Code::Aborted, "VERSION_MISMATCH".into()));
    put(&mut server, set("c", 0, proto::Policy { lease: seconds(60), ..Default::default() })).await;
    let now = server.admin.delete_policy(delete("c", 1)).await.unwrap().into_inner().policy.unwrap();
    assert_eq!((now.version, now.source()), (2, proto::PolicySource::Configuration));
    assert_eq!(now.policy.unwrap().lease, seconds(20));
    let refused = server.admin.delete_policy(delete("c", 2)).await.unwrap_err();
    assert_eq!(reason(refused), (Code::NotFound, "POLICY_NOT_FOUND".into()));
    put(&mut server, set("c", 2, proto::Policy { lease: seconds(40), ..Default::default() })).await;
    let request =
        proto::ListPolicyVersionsRequest { consumer: "c".into(), page_size: 2, ..Default::default() };
    let first = server.admin.list_policy_versions(request.clone()).await.unwrap().into_inner();
    let request = proto::ListPolicyVersionsRequest { page_token: first.next_page_token, ..request };
    let second = server.admin.list_policy_versions(request).await.unwrap().into_inner();
    assert!(second.next_page_token.is_empty());
    let all: Vec<_> = first.versions.into_iter().chain(second.versions).collect();
    let seen: Vec<_> =
        all.iter().map(|one| (one.version, one.policy.as_ref().and_then(|it| it.lease))).collect();
    assert_eq!(seen, [(3, seconds(40)), (2, None), (1, seconds(60))]);
    assert_eq!((all[0].actor.as_str(), all[0].reason.as_str()), ("anonymous", "tuned"));
    server.stop().await;
}

async fn a_longer_retention_raises_the_floor_and_deletion_does_not_lower_it(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let made = |age: i64| {
        let at = START - Span::from_days(age);
        let occurred_at = prost_types::Timestamp { seconds: at.micros() / 1_000_000, nanos: 0 };
        proto::ClaimRequest { occurred_at: Some(occurred_at), ..claim("c", &format!("{age} days old")) }
    };
    let now =
        put(&mut server, set("c", 0, proto::Policy { retention: days(30), ..Default::default() })).await;
    assert!(now.window_floor.is_some());
    let old = server.client.claim(made(8)).await.unwrap().into_inner();
    assert!(matches!(old.verdict, Some(Verdict::OutsideWindow(_))), "it may be gone already: {old:?}");
    acquired(&server.client.claim(made(6)).await.unwrap().into_inner());
    let now = server.admin.delete_policy(delete("c", 1)).await.unwrap().into_inner().policy.unwrap();
    assert!(now.window_floor.is_some(), "the floor only grows");
    server.stop().await;
}

async fn the_hold_switch_stops_grants_only(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let held = acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    put(&mut server, set("c", 0, proto::Policy { disabled: Some(true), ..Default::default() })).await;
    let refused = server.client.claim(claim("c", "2")).await.unwrap_err();
    assert_eq!(reason(refused), (Code::FailedPrecondition, "CONSUMER_DISABLED".into()));
    let done = proto::CompleteRequest { key: key("c", "1"), token: held.token, ..Default::default() };
    server.client.complete(done).await.unwrap();
    put(&mut server, set("c", 1, proto::Policy { disabled: Some(false), ..Default::default() })).await;
    acquired(&server.client.claim(claim("c", "2")).await.unwrap().into_inner());
    server.stop().await;
}

async fn an_entry_tells_by_which_version_it_was_granted(kind: Kind) {
    let mut server = TestServer::start_with(kind, Setup::default().with("c", Policy::default())).await;
    let mut versions = Vec::new();
    for number in 0..3 {
        let id = number.to_string();
        acquired(&server.client.claim(claim("c", &id)).await.unwrap().into_inner());
        let request = proto::GetEntryRequest { key: key("c", &id), ..Default::default() };
        let entry = server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap();
        versions.push(entry.policy_version);
        match number {
            0 => {
                let policy = proto::Policy { lease: seconds(60), ..Default::default() };
                put(&mut server, set("c", 0, policy)).await;
            }
            _ => drop(server.admin.delete_policy(delete("c", 1)).await),
        }
    }
    assert_eq!(versions, [0, 1, 0], "0 is the configuration's");
    server.stop().await;
}

async fn setting_a_policy_registers_a_consumer(kind: Kind) {
    let mut server = TestServer::start_with(kind, Setup { registered_only: true, ..Setup::default() }).await;
    let refused = server.client.claim(claim("c", "1")).await.unwrap_err();
    assert_eq!(reason(refused), (Code::FailedPrecondition, "UNKNOWN_CONSUMER".into()));
    put(&mut server, set("c", 0, proto::Policy { lease: seconds(30), ..Default::default() })).await;
    acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    server.admin.delete_policy(delete("c", 1)).await.unwrap();
    let refused = server.client.claim(claim("c", "2")).await.unwrap_err();
    assert_eq!(reason(refused), (Code::FailedPrecondition, "UNKNOWN_CONSUMER".into()));
    server.stop().await;
}

async fn policies_are_listed_by_name(kind: Kind) {
    let mut server = TestServer::start_with(kind, Setup::default().with("b", Policy::default())).await;
    for name in ["d", "a", "c"] {
        put(&mut server, set(name, 0, proto::Policy { lease: seconds(30), ..Default::default() })).await;
    }
    let mut request = proto::ListPoliciesRequest { page_size: 3, ..Default::default() };
    let mut seen = Vec::new();
    loop {
        let page = server.admin.list_policies(request.clone()).await.unwrap().into_inner();
        seen.extend(page.policies.into_iter().map(|one| (one.consumer.clone(), one.source())));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    use proto::PolicySource::{Configuration, Set};
    let expected = [("a", Set), ("b", Configuration), ("c", Set), ("d", Set)];
    assert_eq!(seen, expected.map(|(name, source)| (name.to_owned(), source)));
    server.stop().await;
}

async fn a_request_id_belongs_to_its_change(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let set = |expected_version, policy| proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "r".into(),
        expected_version,
        reason: "tuned".into(),
        policy: Some(policy),
        update_mask: None,
        validate_only: false,
    };
    let disabled = |disabled| proto::Policy { disabled: Some(disabled), ..Default::default() };
    let days = Some(prost_types::Duration { seconds: 30 * 86_400, nanos: 0 });
    let first = proto::Policy { retention: days, ..disabled(false) };
    assert!(!server.admin.set_policy(set(0, first.clone())).await.unwrap().into_inner().replayed);
    let again = server.admin.set_policy(set(0, first.clone())).await.unwrap().into_inner();
    assert!(again.replayed);
    // The same change, but for one thing that the operator said of it.
    let paths =
        |paths: &[&str]| Some(FieldMask { paths: paths.iter().map(|&path| path.to_owned()).collect() });
    let masked =
        proto::SetPolicyRequest { update_mask: paths(&["retention", "disabled"]), ..set(0, first.clone()) };
    for (what, request) in [
        ("version", set(1, first.clone())),
        ("reason", proto::SetPolicyRequest { reason: "another".into(), ..set(0, first.clone()) }),
        ("mask", masked.clone()),
        ("policy and version", set(1, disabled(true))),
    ] {
        let refused = server.admin.set_policy(request).await.unwrap_err();
        assert_eq!(
            (reason(refused.clone()).1.as_str(), fields(&refused)),
            ("INVALID_FIELD", vec!["request_id".into()]),
            "{what}"
        );
    }
    let delete = proto::DeletePolicyRequest {
        consumer: "c".into(),
        request_id: "r".into(),
        expected_version: 1,
        reason: "tuned".into(),
    };
    let other = server.admin.delete_policy(delete).await.unwrap_err();
    assert_eq!(fields(&other), ["request_id"]);
    // A field that the mask does not name belongs to the request too.
    let masked = proto::SetPolicyRequest { request_id: "m".into(), expected_version: 1, ..masked };
    server.admin.set_policy(masked.clone()).await.unwrap();
    assert!(server.admin.set_policy(masked.clone()).await.unwrap().into_inner().replayed);
    let all = paths(&["disabled", "retention", "lease"]);
    for (mask, lease) in
        [(masked.update_mask.clone(), true), (paths(&["disabled"]), false), (all, true), (None, false)]
    {
        let mut request = proto::SetPolicyRequest { update_mask: mask.clone(), ..masked.clone() };
        request.policy.as_mut().unwrap().lease = seconds(30).filter(|_| lease);
        assert_eq!(fields(&server.admin.set_policy(request).await.unwrap_err()), ["request_id"], "{mask:?}");
    }
    let gone = super::policies::delete("c", 2);
    assert!(!server.admin.delete_policy(gone.clone()).await.unwrap().into_inner().replayed);
    assert!(server.admin.delete_policy(gone.clone()).await.unwrap().into_inner().replayed);
    for (what, request) in [
        ("reason", proto::DeletePolicyRequest { reason: "another".into(), ..gone.clone() }),
        ("version", proto::DeletePolicyRequest { expected_version: 3, ..gone }),
    ] {
        assert_eq!(fields(&server.admin.delete_policy(request).await.unwrap_err()), ["request_id"], "{what}");
    }
    let kept = server.admin.list_audit_events(proto::ListAuditEventsRequest::default()).await;
    let kept = kept.unwrap().into_inner().events;
    let kept = |id: &str| kept.iter().find(|event| event.request_id == id).cloned().unwrap();
    let (masked, gone) = (kept("m"), kept("delete c 2"));
    assert!(masked.after_json.contains(r#""update_mask":["disabled","retention"]"#), "{masked:?}");
    assert!(gone.before_json.contains(r#""version":2"#) && gone.after_json.is_empty(), "{gone:?}");
    server.stop().await;
}
