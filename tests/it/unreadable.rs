//! Policies that a newer version wrote: what this one cannot read it does not guess, and it writes nothing
//! that an older one could not read.

use std::sync::Arc;
use std::time::Duration;

use idempotency_ledger::domain::{
    AuditEvent, Key, OnExpiry, Policy, PolicyVersion, RequestDigest, Span, StoreTime,
};
use idempotency_ledger::proto::{self, claim_response::Verdict};
use idempotency_ledger::store::{EffectiveRetention, LEVEL, WriteResult};
use tonic::{Code, Status};

use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, Served, Setup, TestServer, TestStore, replica};

on_both_stores!(
    by_a_policy_that_can_not_be_read_nothing_is_granted_and_nothing_parked,
    what_grants_nothing_goes_on_by_the_last_version_that_was_read,
    an_unreadable_policy_is_one_at_the_start_too,
    nothing_is_purged_by_a_policy_that_can_not_be_read,
    an_unreadable_policy_is_shown_as_such_and_not_changed_but_deleted,
    what_an_older_replica_can_not_read_is_not_written_while_it_is_at_work,
    what_is_at_its_default_is_not_stored,
);

/// A policy as a newer version writes it, by way of another replica.
pub(crate) async fn newer(at: &TestStore, consumer: &str, version: i32, json: &str) {
    let policy = PolicyVersion {
        consumer: consumer.into(),
        version,
        policy: Some(json.into()),
        created_at: at.now(),
        actor: "operator".into(),
        reason: "of a newer version".into(),
    };
    let event = AuditEvent {
        request_id: format!("newer {consumer} {version}"),
        at: at.now(),
        actor: "operator".into(),
        action: "SET_POLICY".into(),
        consumer: consumer.into(),
        key: None,
        reason: "of a newer version".into(),
        before: None,
        after: Some(json.into()),
        digest: Some(RequestDigest::of("tests", json.as_bytes())),
    };
    let in_force = EffectiveRetention {
        consumer: consumer.into(),
        retention: Some(Policy::default().retention),
        window_floor: StoreTime(0),
    };
    let mut session = at.session().await;
    assert_eq!(
        session.policy_book().add_policy(&policy, &in_force, &event).await.unwrap(),
        WriteResult::Done
    );
}

const UNKNOWN_FIELD: &str = r#"{"quorum":3}"#;
const UNKNOWN_WORD: &str = r#"{"on_expiry":"ASK_SOMEBODY"}"#;

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

fn lease(seconds: i64) -> proto::Policy {
    proto::Policy { lease: Some(prost_types::Duration { seconds, nanos: 0 }), ..Default::default() }
}

async fn get(served: &mut TestServer, consumer: &str) -> proto::ConsumerPolicy {
    let request = proto::GetPolicyRequest { consumer: consumer.into() };
    served.admin.get_policy(request).await.unwrap().into_inner().policy.unwrap()
}

fn unreadable(status: &Status) {
    let refused = refusal(status);
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Internal, "POLICY_UNREADABLE"), "{status:?}");
    assert_eq!(refused.advice, "RETRY_LATER");
}

/// A claim that is the same each time.
fn repeatable(consumer: &str, id: &str) -> proto::ClaimRequest {
    let claim_id = uuid::Builder::from_random_bytes([7; 16]).into_uuid().to_string();
    proto::ClaimRequest { claim_id, ..claim(consumer, id) }
}

async fn by_a_policy_that_can_not_be_read_nothing_is_granted_and_nothing_parked(kind: Kind) {
    for json in [UNKNOWN_FIELD, UNKNOWN_WORD] {
        let park = Policy { on_expiry: OnExpiry::Park, max_attempts: 1, ..Policy::default() };
        let setup =
            Setup { registered_only: true, ..Setup::default() }.with("c", park.clone()).with("d", park);
        let mut server = TestServer::start_with(kind, setup).await;
        let mut tokens = Vec::new();
        for id in ["released", "expired", "failed"] {
            let held = server.client.claim(claim("c", id)).await.unwrap().into_inner();
            tokens.push(acquired(&held).token);
        }
        let request = proto::ReleaseRequest {
            key: key("c", "released"),
            token: tokens[0],
            delay: None,
            unpin_fingerprint: false,
            event_type: String::new(),
        };
        server.client.release(request).await.unwrap();
        newer(&server.at, "c", 1, json).await;
        assert!(get(&mut server, "c").await.unreadable);
        // The last attempt failed: whether it was the last, nobody knows.
        let request = proto::FailRequest { key: key("c", "failed"), token: tokens[2], ..Default::default() };
        let failed = server.client.fail(request).await.unwrap().into_inner();
        assert_eq!(failed.state(), proto::EntryState::FailedRetryable);
        server.advance(Span::from_secs(3_600)).await;
        let year_ago = START - Span::from_days(365);
        let old = prost_types::Timestamp { seconds: year_ago.micros() / 1_000_000, nanos: 0 };
        let old = proto::ClaimRequest { occurred_at: Some(old), ..claim("c", "old") };
        for request in
            [claim("c", "new"), claim("c", "released"), claim("c", "expired"), claim("c", "failed"), old]
        {
            unreadable(&server.client.claim(request).await.unwrap_err());
        }
        let entry = server.entry(&Key::new("c", "tests", "expired")).await.unwrap();
        assert_eq!(entry.state, idempotency_ledger::domain::State::InProgress, "not parked");
        // Others are granted in the same batch.
        let requests = vec![claim("c", "batch"), claim("d", "batch")];
        let batch =
            server.client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
        let Some(Verdict::Rejected(rejected)) = &batch.responses[0].verdict else { panic!("{batch:?}") };
        assert_eq!(rejected.reason(), proto::ErrorReason::PolicyUnreadable);
        assert!(rejected.retry_after.is_some());
        acquired(&batch.responses[1]);
        // A version that can be read ends it.
        newer(&server.at, "c", 2, r#"{"lease":77000000}"#).await;
        assert!(!get(&mut server, "c").await.unreadable);
        let held = acquired(&server.client.claim(claim("c", "new")).await.unwrap().into_inner());
        assert_eq!(held.lease.unwrap().seconds, 77);
        server.stop().await;
    }
}

async fn what_grants_nothing_goes_on_by_the_last_version_that_was_read(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    server.admin.set_policy(set("c", 0, lease(120))).await.unwrap();
    let first = repeatable("c", "held");
    let held = acquired(&server.client.claim(first.clone()).await.unwrap().into_inner());
    let done = acquired(&server.client.claim(claim("c", "done")).await.unwrap().into_inner()).token;
    let request = proto::CompleteRequest { key: key("c", "done"), token: done, ..Default::default() };
    server.client.complete(request).await.unwrap();
    newer(&server.at, "c", 2, UNKNOWN_FIELD).await;
    let shown = get(&mut server, "c").await;
    assert_eq!((shown.unreadable, shown.version), (true, 2));
    assert_eq!(shown.policy.unwrap().lease.unwrap().seconds, 120, "of the version before");
    unreadable(&server.client.claim(claim("c", "new")).await.unwrap_err());
    completed(&server.client.claim(claim("c", "done")).await.unwrap().into_inner());
    let again = acquired(&server.client.claim(first).await.unwrap().into_inner());
    assert!(again.replayed && again.token == held.token);
    server.advance(Span::from_secs(30)).await;
    let request = proto::RenewRequest { key: key("c", "held"), token: held.token, ..Default::default() };
    let renewed = server.client.renew(request).await.unwrap().into_inner();
    assert_eq!(renewed.lease.unwrap().seconds, 120, "by the version before");
    let request = proto::CompleteRequest { key: key("c", "held"), token: held.token, ..Default::default() };
    server.client.complete(request).await.unwrap();
    server.stop().await;
}

async fn an_unreadable_policy_is_one_at_the_start_too(kind: Kind) {
    let at = TestStore::new(kind).await;
    newer(&at, "c", 1, r#"{"disabled":true,"quorum":3}"#).await;
    let configured = Policy { lease: Span::from_secs(20), ..Policy::default() };
    let mut server = TestServer::on(at, Setup::default().with("c", configured)).await;
    unreadable(&server.client.claim(claim("c", "1")).await.unwrap_err());
    let shown = get(&mut server, "c").await;
    assert_eq!((shown.unreadable, shown.policy.unwrap().lease.unwrap().seconds), (true, 20));
    acquired(&server.client.claim(claim("d", "1")).await.unwrap().into_inner());
    server.stop().await;
}

async fn nothing_is_purged_by_a_policy_that_can_not_be_read(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    // It purges once a day, and has done so before there is a consumer.
    server.looked().await;
    for consumer in ["c", "d"] {
        let token = acquired(&server.client.claim(claim(consumer, "1")).await.unwrap().into_inner()).token;
        let request = proto::CompleteRequest { key: key(consumer, "1"), token, ..Default::default() };
        server.client.complete(request).await.unwrap();
    }
    newer(&server.at, "c", 1, r#"{"retention_class":"LEGAL_HOLD"}"#).await;
    server.advance(Span::from_days(100)).await;
    let setup = Setup { purge_every: Duration::from_millis(20), ..Setup::default() };
    let purging = Served::start(Arc::clone(&server.at.store), setup).await;
    let gone = async {
        while server.entry(&Key::new("d", "tests", "1")).await.is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        server.at.until_purged().await;
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("the others are forgotten");
    assert!(
        server.entry(&Key::new("c", "tests", "1")).await.is_some(),
        "nobody knows for how long it is kept"
    );
    newer(&server.at, "c", 2, "{}").await;
    server.advance(Span::from_secs(3_601)).await;
    let gone = async {
        while server.entry(&Key::new("c", "tests", "1")).await.is_some() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), gone).await.expect("soon after it can be read");
    purging.stop().await;
    server.stop().await;
}

async fn an_unreadable_policy_is_shown_as_such_and_not_changed_but_deleted(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    server.admin.set_policy(set("c", 0, lease(120))).await.unwrap();
    newer(&server.at, "c", 2, UNKNOWN_FIELD).await;
    let shown = get(&mut server, "c").await;
    assert_eq!((shown.unreadable, shown.source()), (true, proto::PolicySource::Set));
    // What is not read would be lost with a change of single fields.
    unreadable(&server.admin.set_policy(set("c", 2, lease(60))).await.unwrap_err());
    // The newer server's own request, repeated here.
    let repeat = proto::SetPolicyRequest { request_id: "newer c 2".into(), ..set("c", 1, lease(60)) };
    unreadable(&server.admin.set_policy(repeat).await.unwrap_err());
    // Whether the consumer may have replay runs is not known here.
    let run = proto::CreateReplayRunRequest {
        consumer: "c".into(),
        replay_run: "r".into(),
        request_id: "run".into(),
        reason: "a rebuild".into(),
        ends_in: None,
    };
    unreadable(&server.admin.create_replay_run(run).await.unwrap_err());
    let request = proto::ListPolicyVersionsRequest { consumer: "c".into(), ..Default::default() };
    let versions = server.admin.list_policy_versions(request).await.unwrap().into_inner().versions;
    let told: Vec<_> =
        versions.iter().map(|one| (one.version, one.policy.is_some(), one.unreadable)).collect();
    assert_eq!(told, [(2, false, true), (1, true, false)]);
    let request = proto::DeletePolicyRequest {
        consumer: "c".into(),
        request_id: "back".into(),
        expected_version: 2,
        reason: "the upgrade was taken back".into(),
    };
    let now = server.admin.delete_policy(request).await.unwrap().into_inner().policy.unwrap();
    assert_eq!((now.version, now.unreadable), (3, false));
    acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    server.stop().await;
}

async fn what_an_older_replica_can_not_read_is_not_written_while_it_is_at_work(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    server.admin.set_policy(set("c", 0, lease(60))).await.unwrap();
    // A replica from before the first format, as it were.
    server.at.session().await.upkeep().write_heartbeat(&replica(0)).await.unwrap();
    let status = server.admin.set_policy(set("c", 1, lease(120))).await.unwrap_err();
    let refused = refusal(&status);
    assert_eq!((refused.code, refused.reason.as_str()), (Code::FailedPrecondition, "STATE_NOT_ALLOWED"));
    assert!(status.message().contains(&replica(0).id.to_string()), "{status:?}");
    let only = proto::SetPolicyRequest { validate_only: true, ..set("c", 1, lease(120)) };
    let only = server.admin.set_policy(only).await.unwrap_err();
    assert_eq!((only.code(), only.message()), (status.code(), status.message()), "validation refuses it too");
    assert_eq!(get(&mut server, "c").await.version, 1, "nothing was changed");
    server.advance(Span::from_secs(300)).await;
    server.admin.set_policy(set("c", 1, lease(120))).await.unwrap_err();
    server.advance(Span(1)).await;
    server.admin.set_policy(set("c", 1, lease(120))).await.unwrap();
    // Each server tells what it reads.
    let mut session = server.at.session().await;
    let mine = async {
        while session.policy_book().replicas_below(LEVEL + 1, server.at.now(), 10).await.unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), mine).await.expect("its heartbeat tells");
    server.stop().await;
}

async fn what_is_at_its_default_is_not_stored(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    server.admin.set_policy(set("c", 0, lease(60))).await.unwrap();
    let usual = proto::Policy { disabled: Some(false), ..lease(30) };
    server.admin.set_policy(set("d", 0, usual)).await.unwrap();
    let stored = server.at.session().await.policy_book().policies().await.unwrap();
    let stored: Vec<_> = stored.into_iter().map(|one| one.policy.unwrap()).collect();
    assert_eq!(stored, [r#"{"lease":60000000}"#, "{}"]);
    server.stop().await;
}
