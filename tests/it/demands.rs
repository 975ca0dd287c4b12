//! What a policy may demand of claims and of operators, so that the window holds: `occurred_at`, long retentions, and a
//! stated redelivery window. See docs/contract.md, sections 4 and 8.

use idempotency_ledger::domain::{FingerprintMode, OccurredAtMode, Policy, Span, StoreTime};
use idempotency_ledger::proto::{self, claim_response::Verdict};

use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Setup, TestServer, replica};

on_both_stores!(
    a_claim_without_an_age_is_refused_where_the_policy_demands_one,
    what_is_demanded_is_told_at_once_and_before_the_entry_is_looked_at,
    nobody_knows_what_a_policy_demands_that_can_not_be_read,
    a_policy_that_demands_ages_is_not_written_while_a_server_can_not_read_it,
    a_retention_may_last_ten_years,
    a_server_may_demand_a_stated_redelivery_window,
);

fn at(instant: StoreTime) -> Option<prost_types::Timestamp> {
    Some(prost_types::Timestamp { seconds: instant.micros() / 1_000_000, nanos: 0 })
}

fn made(id: &str, before: Span) -> proto::ClaimRequest {
    proto::ClaimRequest { occurred_at: at(START - before), ..claim("c", id) }
}

fn days(days: i64) -> Option<prost_types::Duration> {
    Some(prost_types::Duration { seconds: days * 86_400, nanos: 0 })
}

fn set(consumer: &str, expected_version: i32, policy: proto::Policy) -> proto::SetPolicyRequest {
    proto::SetPolicyRequest {
        consumer: consumer.into(),
        request_id: format!("set {consumer} {expected_version}"),
        expected_version,
        reason: "tuned".into(),
        policy: Some(policy),
        ..Default::default()
    }
}

fn ages(mode: proto::OccurredAtMode) -> proto::Policy {
    proto::Policy { occurred_at: mode.into(), ..Default::default() }
}

async fn a_claim_without_an_age_is_refused_where_the_policy_demands_one(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let token = acquired(&server.client.claim(claim("c", "done")).await.unwrap().into_inner()).token;
    let done = proto::CompleteRequest { key: key("c", "done"), token, ..Default::default() };
    server.client.complete(done).await.unwrap();
    let changed = server.admin.set_policy(set("c", 0, ages(proto::OccurredAtMode::Require))).await.unwrap();
    let changes = changed.into_inner().changes;
    let change =
        proto::PolicyChange { path: "occurred_at".into(), from: "OPTIONAL".into(), to: "REQUIRE".into() };
    assert_eq!(changes, [change]);
    // The message, its age, and what is answered: the reason, or the verdict's advice.
    for (id, request, answer) in [
        ("new, without", claim("c", "new"), "INVALID_FIELD"),
        ("done, without", claim("c", "done"), "INVALID_FIELD"),
        ("done, with", made("done", Span::ZERO), "ADVICE_ACK"),
        ("new, with", made("new", Span::from_days(6)), "ADVICE_PROCESS"),
        ("beyond the retention", made("old", Span::from_days(7)), "ADVICE_DEAD_LETTER"),
        ("of another consumer", claim("d", "new"), "ADVICE_PROCESS"),
    ] {
        let told = match server.client.claim(request.clone()).await {
            Ok(response) => response.into_inner().advice().as_str_name().to_owned(),
            Err(status) => {
                assert_eq!(fields(&status), ["occurred_at"], "{id}");
                assert_eq!(refusal(&status).advice, "RETRY_LATER", "{id}");
                refusal(&status).reason
            }
        };
        assert_eq!(told, answer, "{id}");
    }
    // In a batch it is refused by itself.
    let requests = vec![claim("c", "batch"), made("batch 2", Span::ZERO)];
    let batch = server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    let Some(Verdict::Rejected(rejected)) = &batch.responses[0].verdict else { panic!("{batch:?}") };
    assert_eq!(rejected.field_violations[0].field, "requests[0].occurred_at");
    acquired(&batch.responses[1]);
    // Without the demand an old message without an age is new.
    server.admin.set_policy(set("c", 1, ages(proto::OccurredAtMode::Optional))).await.unwrap();
    acquired(&server.client.claim(claim("c", "old")).await.unwrap().into_inner());
    server.stop().await;
}

async fn what_is_demanded_is_told_at_once_and_before_the_entry_is_looked_at(kind: Kind) {
    let both = Policy {
        fingerprint: FingerprintMode::Require,
        occurred_at: OccurredAtMode::Require,
        ..Policy::default()
    };
    let mut server = TestServer::start_with(kind, Setup::default().with("c", both)).await;
    let request = proto::ClaimRequest { fingerprint: "A".into(), ..made("1", Span::ZERO) };
    acquired(&server.client.claim(request).await.unwrap().into_inner());
    for (id, expected) in [("1", "INVALID_FIELD"), ("2", "INVALID_FIELD")] {
        let status = server.client.claim(claim("c", id)).await.unwrap_err();
        assert_eq!(
            (refusal(&status).reason.as_str(), fields(&status)),
            (expected, vec!["fingerprint".to_owned(), "occurred_at".to_owned()])
        );
    }
    // A row that cannot be read is not reached.
    server.at.execute("UPDATE @ledger.entries SET state = 99").await;
    let status = server.client.claim(claim("c", "1")).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "INVALID_FIELD");
    let request = proto::ClaimRequest { fingerprint: "A".into(), ..made("1", Span::ZERO) };
    let status = server.client.claim(request).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "ENTRY_UNREADABLE");
    server.stop().await;
}

async fn nobody_knows_what_a_policy_demands_that_can_not_be_read(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    server.admin.set_policy(set("c", 0, ages(proto::OccurredAtMode::Require))).await.unwrap();
    crate::unreadable::newer(&server.at, "c", 2, r#"{"quorum":3}"#).await;
    let request = proto::GetPolicyRequest { consumer: "c".into() };
    assert!(server.admin.get_policy(request).await.unwrap().into_inner().policy.unwrap().unreadable);
    let status = server.client.claim(claim("c", "1")).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "POLICY_UNREADABLE");
    server.stop().await;
}

async fn a_policy_that_demands_ages_is_not_written_while_a_server_can_not_read_it(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    server.at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    let asked = ages(proto::OccurredAtMode::Require);
    let status = server.admin.set_policy(set("c", 0, asked.clone())).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "STATE_NOT_ALLOWED");
    assert!(status.message().contains("needs format 2"), "{status:?}");
    // What is at its default it can read.
    server.admin.set_policy(set("c", 0, ages(proto::OccurredAtMode::Optional))).await.unwrap();
    server.advance(Span::from_secs(301)).await;
    server.admin.set_policy(set("c", 1, asked)).await.unwrap();
    server.stop().await;
}

async fn a_retention_may_last_ten_years(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let kept = |retention| proto::Policy {
        retention: days(retention),
        max_redelivery_window: days(retention),
        ..Default::default()
    };
    let status = server.admin.set_policy(set("c", 0, kept(3_651))).await.unwrap_err();
    assert!(fields(&status).contains(&"policy.retention".to_owned()), "{status:?}");
    assert!(status.message().contains("3650d"), "{status:?}");
    let set = server.admin.set_policy(set("c", 0, kept(3_650))).await.unwrap().into_inner();
    let policy = set.policy.unwrap().policy.unwrap();
    for span in [policy.retention, policy.failed_retention, policy.abandoned_retention] {
        assert_eq!(span, days(3_650));
    }
    // What was purged by the shorter one before stays outside; what comes after is remembered for ten years.
    let token = acquired(&server.client.claim(made("1", Span::ZERO)).await.unwrap().into_inner()).token;
    let done = proto::CompleteRequest { key: key("c", "1"), token, ..Default::default() };
    server.client.complete(done).await.unwrap();
    server.advance(Span::from_days(3_649)).await;
    let again = server.client.claim(made("1", Span::ZERO)).await.unwrap().into_inner();
    assert_eq!(again.advice(), proto::Advice::Ack);
    let lost = server.client.claim(made("2", Span::ZERO)).await.unwrap().into_inner();
    assert_eq!(lost.advice(), proto::Advice::Process);
    server.advance(Span::from_days(1)).await;
    let late = server.client.claim(made("3", Span::ZERO)).await.unwrap().into_inner();
    assert_eq!(late.advice(), proto::Advice::DeadLetter);
    server.stop().await;
}

async fn a_server_may_demand_a_stated_redelivery_window(kind: Kind) {
    let setup = Setup { window_required: true, ..Setup::default() };
    let mut server = TestServer::start_with(kind, setup).await;
    let lease = proto::Policy {
        lease: days(0).map(|_| prost_types::Duration { seconds: 60, nanos: 0 }),
        ..Default::default()
    };
    for validate_only in [true, false] {
        let request = proto::SetPolicyRequest { validate_only, ..set("c", 0, lease.clone()) };
        let status = server.admin.set_policy(request).await.unwrap_err();
        assert_eq!(refusal(&status).reason, "INVALID_FIELD");
        assert_eq!(fields(&status), ["policy.max_redelivery_window"]);
        assert!(status.message().contains("require_redelivery_window"), "{status:?}");
    }
    // Together with what else is wrong; and it is no matter of the retention then.
    let both = proto::Policy { max_attempts: Some(-1), ..lease.clone() };
    let status = server.admin.set_policy(set("c", 0, both)).await.unwrap_err();
    assert_eq!(fields(&status), ["policy.max_attempts", "policy.max_redelivery_window"]);
    let stated = proto::Policy { max_redelivery_window: days(7), ..lease.clone() };
    server.admin.set_policy(set("c", 0, stated)).await.unwrap();
    // Once it is stated, other fields change by themselves; and it is not taken back.
    server.admin.set_policy(set("c", 1, ages(proto::OccurredAtMode::Require))).await.unwrap();
    let back = proto::Policy { max_redelivery_window: days(0), ..Default::default() };
    let status = server.admin.set_policy(set("c", 2, back)).await.unwrap_err();
    assert_eq!(fields(&status), ["policy.max_redelivery_window"]);
    // Claims of consumers without a policy go on.
    acquired(&server.client.claim(claim("d", "1")).await.unwrap().into_inner());
    server.stop().await;
}
