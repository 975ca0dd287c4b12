//! `SetPolicy` that only validates: it answers as the real call does, and writes nothing.

use idempotency_ledger::proto;
use idempotency_ledger::store::EffectiveRetention;
use prost_types::FieldMask;
use tonic::Status;

use crate::harness::details::{fields, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestServer};

on_both_stores!(
    what_is_only_validated_is_answered_alike_and_not_written,
    a_repeat_is_found_and_changes_nothing,
);

fn seconds(seconds: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds, nanos: 0 })
}

fn days(days: i64) -> Option<prost_types::Duration> {
    seconds(days * 86_400)
}

/// A policy of its own: version 1.
fn first(consumer: &str) -> proto::SetPolicyRequest {
    proto::SetPolicyRequest {
        consumer: consumer.into(),
        request_id: format!("first {consumer}"),
        reason: "new".into(),
        policy: Some(proto::Policy { lease: seconds(60), ..Default::default() }),
        ..Default::default()
    }
}

fn second(consumer: &str, policy: proto::Policy) -> proto::SetPolicyRequest {
    let request_id = format!("second {consumer}");
    proto::SetPolicyRequest { request_id, expected_version: 1, policy: Some(policy), ..first(consumer) }
}

fn change(path: &str, from: &str, to: &str) -> proto::PolicyChange {
    proto::PolicyChange { path: path.into(), from: from.into(), to: to.into() }
}

fn refused(status: &Status) -> (String, Vec<String>) {
    (refusal(status).reason, fields(status))
}

/// All that `SetPolicy` writes of a consumer.
async fn written(server: &TestServer, consumer: &str) -> (proto::ConsumerPolicy, usize, usize) {
    let mut admin = server.admin.clone();
    let request = proto::GetPolicyRequest { consumer: consumer.into() };
    let policy = admin.get_policy(request).await.unwrap().into_inner().policy.unwrap();
    let request = proto::ListPolicyVersionsRequest { consumer: consumer.into(), ..Default::default() };
    let versions = admin.list_policy_versions(request).await.unwrap().into_inner().versions.len();
    let request = proto::ListAuditEventsRequest { consumer: consumer.into(), ..Default::default() };
    let events = admin.list_audit_events(request).await.unwrap().into_inner().events.len();
    (policy, versions, events)
}

async fn what_is_only_validated_is_answered_alike_and_not_written(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mut admin = server.admin.clone();
    let floor_of_all = EffectiveRetention { window_floor: START, ..EffectiveRetention::nothing("") };
    server.at.session().await.policy_book().put_in_force(&[floor_of_all], None).await.unwrap();
    let policy = proto::Policy::default;
    let mask = |path: &str| Some(FieldMask { paths: vec![path.to_owned()] });
    let with = |request: &dyn Fn(&str) -> proto::SetPolicyRequest, consumer: &str| request(consumer);
    // A request of a consumer with a policy of its own; what it changes, or the reason why it is refused.
    type Request<'r> = &'r dyn Fn(&str) -> proto::SetPolicyRequest;
    let rows: [(Request<'_>, Result<Vec<proto::PolicyChange>, &str>); 11] = [
        (&|name| second(name, proto::Policy { lease: seconds(120), ..policy() }), {
            Ok(vec![change("lease", "1m", "2m")])
        }),
        (&|name| second(name, proto::Policy { lease: seconds(60), ..policy() }), Ok(vec![])),
        // The others follow, and so does the window.
        (&|name| second(name, proto::Policy { retention: days(60), ..policy() }), {
            Ok(vec![
                change("retention", "7d", "60d"),
                change("failed_retention", "30d", "60d"),
                change("abandoned_retention", "30d", "60d"),
                change("result_retention", "7d", "60d"),
            ])
        }),
        (
            &|name| {
                let accepted_risk = "a newsletter".to_owned();
                let window = proto::Policy { max_redelivery_window: days(14), accepted_risk, ..policy() };
                second(name, proto::Policy { max_attempts: Some(0), disabled: Some(true), ..window })
            },
            Ok(vec![
                change("max_attempts", "10", "0"),
                change("max_redelivery_window", "0s", "14d"),
                change("accepted_risk", "", "a newsletter"),
                change("disabled", "false", "true"),
            ]),
        ),
        (
            &|name| {
                let backoff = proto::BackoffPolicy { multiplier: Some(1.5), ..Default::default() };
                let on_expiry = proto::OnExpiry::ParkIfStarted.into();
                second(name, proto::Policy { on_expiry, backoff: Some(backoff), ..policy() })
            },
            Ok(vec![
                change("on_expiry", "RECLAIM", "PARK_IF_STARTED"),
                change("backoff.multiplier", "2", "1.5"),
            ]),
        ),
        (
            &|name| {
                let both = proto::Policy { lease: seconds(90), max_hold: seconds(7_200), ..policy() };
                proto::SetPolicyRequest { update_mask: mask("lease"), ..second(name, both) }
            },
            Ok(vec![change("lease", "1m", "90s")]),
        ),
        (&|name| second(name, proto::Policy { max_redelivery_window: days(14), ..policy() }), {
            Err("RETENTION_TOO_SHORT")
        }),
        (&|name| second(name, proto::Policy { lease: seconds(0), max_attempts: Some(-1), ..policy() }), {
            Err("INVALID_FIELD")
        }),
        (&|name| proto::SetPolicyRequest { expected_version: 4, ..first(name) }, Err("VERSION_MISMATCH")),
        (&|name| second(name, policy()), Err("INVALID_FIELD")),
        (
            &|name| {
                let lease = proto::Policy { lease: seconds(90), ..policy() };
                proto::SetPolicyRequest { update_mask: mask("leese"), ..second(name, lease) }
            },
            Err("INVALID_FIELD"),
        ),
    ];
    for (number, (request, expected)) in rows.into_iter().enumerate() {
        let consumer = format!("c{number}");
        admin.set_policy(first(&consumer)).await.unwrap();
        let before = written(&server, &consumer).await;
        let real =
            proto::SetPolicyRequest { request_id: format!("real {number}"), ..with(request, &consumer) };
        // It needs neither an id nor a reason.
        let only = proto::SetPolicyRequest {
            validate_only: true,
            request_id: String::new(),
            reason: String::new(),
            ..real.clone()
        };
        let validated = admin.set_policy(only).await.map(tonic::Response::into_inner);
        assert_eq!(written(&server, &consumer).await, before, "{real:?}");
        let done = admin.set_policy(real.clone()).await.map(tonic::Response::into_inner);
        match (validated, done, expected) {
            (Ok(validated), Ok(done), Ok(changes)) => {
                assert_eq!(validated, done, "{real:?}");
                assert_eq!(validated.changes, changes, "{real:?}");
                let policy = validated.policy.unwrap();
                assert_eq!((policy.version, policy.window_floor.is_some()), (2, true));
                assert_eq!(written(&server, &consumer).await.1, 2, "the real one was written");
            }
            (Err(validated), Err(done), Err(reason)) => {
                assert_eq!(refused(&validated), refused(&done), "{real:?}");
                assert_eq!(refused(&validated).0, reason, "{real:?}");
            }
            (validated, done, expected) => panic!("{real:?}: {validated:?}, {done:?}, not {expected:?}"),
        }
    }
    // What it does look at it checks as ever.
    let only = proto::SetPolicyRequest {
        validate_only: true,
        request_id: "x".repeat(129),
        reason: "x".repeat(1_025),
        ..first("")
    };
    assert_eq!(fields(&admin.set_policy(only).await.unwrap_err()), ["consumer", "request_id", "reason"]);
    for validate_only in [false, true] {
        let slash = proto::SetPolicyRequest { validate_only, request_id: "a/b".into(), ..first("c") };
        assert_eq!(fields(&admin.set_policy(slash).await.unwrap_err()), ["request_id"], "{validate_only}");
    }
    server.stop().await;
}

async fn a_repeat_is_found_and_changes_nothing(kind: Kind) {
    let server = TestServer::start(kind).await;
    let mut admin = server.admin.clone();
    let done = admin.set_policy(first("c")).await.unwrap().into_inner();
    assert_eq!((done.replayed, done.changes), (false, vec![change("lease", "30s", "1m")]));
    for validate_only in [false, true] {
        let again = proto::SetPolicyRequest { validate_only, ..first("c") };
        let again = admin.set_policy(again).await.unwrap().into_inner();
        assert_eq!((again.replayed, again.changes), (true, vec![]), "{validate_only}");
        assert_eq!(again.policy, done.policy);
        let other = proto::SetPolicyRequest { validate_only, reason: "another".into(), ..first("c") };
        assert_eq!(fields(&admin.set_policy(other).await.unwrap_err()), ["request_id"], "{validate_only}");
    }
    server.stop().await;
}
