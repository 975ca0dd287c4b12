//! Holds: the switch that stops new grants for all consumers, or for those with a prefix. Audited, repeatable, in force
//! for consumers that no server has seen yet, and on every server within ten seconds.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use futures_util::{StreamExt as _, stream};
use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use idempotency_ledger::store::HOLD_LEVEL;
use tonic::Code;
use tonic::transport::Channel;

use crate::harness::details::{acquired, claim, completed, fields, key, refusal};
use crate::harness::on_all_stores;
use crate::harness::server::{Kind, Served, Setup, TestServer, replica};

type Ledger = LedgerServiceClient<Channel>;
type Admin = AdminServiceClient<Channel>;

on_all_stores!(
    hold_stops_new_grants_and_nothing_else,
    hold_of_all_consumers_leaves_none_out,
    hold_is_shown_where_consumers_are_looked_at,
    repeat_of_a_hold_changes_nothing,
    concurrent_holds_of_one_prefix_are_one_hold,
    hold_survives_a_restart,
    hold_is_refused_while_an_older_server_is_at_work,
    hold_without_consumers_is_refused,
    policy_for_a_pattern_is_refused,
);

pub(super) fn hold(prefix: &str) -> proto::HoldConsumersRequest {
    proto::HoldConsumersRequest {
        prefix: prefix.into(),
        all: prefix.is_empty(),
        request_id: format!("hold {prefix:?}"),
        reason: "the provider is down".into(),
    }
}

pub(super) fn resume(prefix: &str) -> proto::ResumeConsumersRequest {
    proto::ResumeConsumersRequest {
        prefix: prefix.into(),
        all: prefix.is_empty(),
        request_id: format!("resume {prefix:?}"),
        reason: "it is up again".into(),
    }
}

/// What a new delivery gets: the verdict, or the reason.
async fn asked(client: &Ledger, consumer: &str, id: &str) -> String {
    match client.clone().claim(claim(consumer, id)).await {
        Ok(answer) => match answer.into_inner().verdict.unwrap() {
            Verdict::Acquired(_) => "acquired".into(),
            other => format!("{other:?}"),
        },
        Err(status) => refusal(&status).reason,
    }
}

async fn held(admin: &Admin, consumer: &str) -> Option<String> {
    let request = proto::GetPolicyRequest { consumer: consumer.into() };
    admin.clone().get_policy(request).await.unwrap().into_inner().policy.unwrap().held_by
}

async fn listed(admin: &Admin, prefix: &str) -> Vec<String> {
    let request = proto::ListHoldsRequest { prefix: prefix.into() };
    let holds = admin.clone().list_holds(request).await.unwrap().into_inner().holds;
    holds.into_iter().map(|hold| hold.prefix).collect()
}

async fn hold_stops_new_grants_and_nothing_else(kind: Kind) {
    let own = Policy { lease: Span::from_secs(40), ..Policy::default() };
    let mut server = TestServer::start_with(kind, Setup::default().with("team-a-own", own)).await;
    let mut repeated = claim("team-a", "held");
    repeated.claim_id = uuid::Builder::from_random_bytes([7; 16]).into_uuid().to_string();
    let first = acquired(&server.client.claim(repeated.clone()).await.unwrap().into_inner());
    let done = acquired(&server.client.claim(claim("team-a", "done")).await.unwrap().into_inner());
    let released = acquired(&server.client.claim(claim("team-a", "released")).await.unwrap().into_inner());
    let complete =
        |id: &str, token| proto::CompleteRequest { key: key("team-a", id), token, ..Default::default() };
    server.client.complete(complete("done", done.token)).await.unwrap();

    let placed = server.admin.hold_consumers(hold("team-a")).await.unwrap().into_inner();
    let shown = placed.hold.unwrap();
    assert_eq!((shown.prefix.as_str(), shown.all, placed.replayed), ("team-a", false, false));
    assert_eq!((shown.actor.as_str(), shown.reason.as_str()), ("anonymous", "the provider is down"));
    let release = proto::ReleaseRequest {
        key: key("team-a", "released"),
        token: released.token,
        delay: None,
        unpin_fingerprint: false,
        event_type: String::new(),
    };
    server.client.release(release).await.unwrap();
    for (consumer, id, says) in [
        ("team-a", "new", "CONSUMER_DISABLED"),
        ("team-a", "released", "CONSUMER_DISABLED"),
        ("team-a-own", "new", "CONSUMER_DISABLED"),
        ("team-a-never-seen", "new", "CONSUMER_DISABLED"),
        ("team", "new", "acquired"),
        ("team-b", "new", "acquired"),
    ] {
        assert_eq!(asked(&server.client, consumer, id).await, says, "{consumer} {id}");
    }
    let status = server.client.claim(claim("team-a", "new")).await.unwrap_err();
    let said = "an operator holds the consumers whose names begin with \"team-a\"";
    assert!(status.code() == Code::FailedPrecondition && status.message().contains(said), "{status:?}");
    // Replays, verdicts on what is done, settlements and an operator's changes go on.
    let again = acquired(&server.client.claim(repeated).await.unwrap().into_inner());
    assert_eq!((again.token, again.replayed), (first.token, true));
    completed(&server.client.claim(claim("team-a", "done")).await.unwrap().into_inner());
    server.client.complete(complete("held", first.token)).await.unwrap();
    let row = proto::ImportedEntry { key: key("team-a", "imported"), ..Default::default() };
    let part = proto::ImportEntriesRequest {
        operation_id: "import".into(),
        reason: "adoption".into(),
        entries: vec![row],
    };
    let mut stored = server.admin.import_entries(stream::iter([part])).await.unwrap().into_inner();
    assert_eq!(stored.message().await.unwrap().unwrap().stored, 1);
    let filter = proto::EntryFilter {
        consumer: "team-a".into(),
        states: vec![proto::EntryState::Received.into()],
        ..Default::default()
    };
    let redrive = proto::RedriveEntriesRequest {
        filter: Some(filter),
        operation_id: "redrive".into(),
        reason: "again".into(),
        ..Default::default()
    };
    let redriven = server.admin.redrive_entries(redrive).await.unwrap().into_inner();
    let redriven: Vec<i64> = redriven.map(|told| told.unwrap().redriven).collect().await;
    assert_eq!(redriven.last(), Some(&1));

    // A disabled consumer stays disabled when the hold ends; a consumer that was only held is granted.
    let policy = proto::SetPolicyRequest {
        consumer: "team-a-own".into(),
        request_id: "disable".into(),
        reason: "by itself".into(),
        policy: Some(proto::Policy { disabled: Some(true), ..Default::default() }),
        ..Default::default()
    };
    let set = server.admin.set_policy(policy).await.unwrap().into_inner().policy.unwrap();
    assert_eq!(set.held_by.as_deref(), Some("team-a"));
    server.admin.resume_consumers(resume("team-a")).await.unwrap();
    for (consumer, id, says) in [
        ("team-a", "new", "acquired"),
        ("team-a", "released", "acquired"),
        ("team-a-own", "new", "CONSUMER_DISABLED"),
        ("team-a-never-seen", "new", "acquired"),
    ] {
        assert_eq!(asked(&server.client, consumer, id).await, says, "{consumer} {id}");
    }
    server.stop().await;
}

async fn hold_of_all_consumers_leaves_none_out(kind: Kind) {
    let mut server = TestServer::start_with(kind, Setup::default().with("own", Policy::default())).await;
    server.admin.hold_consumers(hold("own")).await.unwrap();
    let all = server.admin.hold_consumers(hold("")).await.unwrap().into_inner().hold.unwrap();
    assert!(all.all && all.prefix.is_empty(), "{all:?}");
    for consumer in ["own", "other", "*", "é"] {
        assert_eq!(asked(&server.client, consumer, "1").await, "CONSUMER_DISABLED", "{consumer}");
    }
    let batch = proto::BatchClaimRequest { requests: vec![claim("a", "1"), claim("b", "1")] };
    let answers = server.client.batch_claim(batch).await.unwrap().into_inner().responses;
    for answer in answers {
        let Some(Verdict::Rejected(rejected)) = answer.verdict else { panic!("{answer:?}") };
        assert_eq!(rejected.reason(), proto::ErrorReason::ConsumerDisabled);
    }
    server.admin.resume_consumers(resume("")).await.unwrap();
    assert_eq!(asked(&server.client, "other", "1").await, "acquired");
    assert_eq!(asked(&server.client, "own", "1").await, "CONSUMER_DISABLED", "its own hold goes on");
    server.stop().await;
}

async fn hold_is_shown_where_consumers_are_looked_at(kind: Kind) {
    let setup = Setup::default().with("pay-eu", Policy::default()).with("ship", Policy::default());
    let mut server = TestServer::start_with(kind, setup).await;
    assert_eq!(asked(&server.client, "pay-eu", "1").await, "acquired");
    for prefix in ["pay", "pay-eu-", "s"] {
        server.admin.hold_consumers(hold(prefix)).await.unwrap();
    }
    for (consumer, by) in [
        ("pay-eu", Some("pay")),
        ("pay-eu-2", Some("pay")),
        ("pay", Some("pay")),
        ("ship", Some("s")),
        ("other", None),
    ] {
        assert_eq!(held(&server.admin, consumer).await.as_deref(), by, "{consumer}");
    }
    for (prefix, holds) in [
        ("", vec!["pay", "pay-eu-", "s"]),
        ("pay", vec!["pay", "pay-eu-"]),
        ("pay-us", vec!["pay"]),
        ("x", vec![]),
    ] {
        assert_eq!(listed(&server.admin, prefix).await, holds, "{prefix:?}");
    }
    let policies = server.admin.list_policies(proto::ListPoliciesRequest::default()).await;
    let policies = policies.unwrap().into_inner().policies;
    let by: Vec<_> = policies.iter().map(|one| (one.consumer.as_str(), one.held_by.as_deref())).collect();
    assert_eq!(by, [("pay-eu", Some("pay")), ("ship", Some("s"))]);
    let summary = server.admin.summarize_entries(proto::SummarizeEntriesRequest::default()).await;
    let summary = summary.unwrap().into_inner().consumers.remove(0);
    assert_eq!((summary.held_by.as_deref(), summary.disabled), (Some("pay"), false));
    assert_eq!(server.metric("idempotency_ledger_holds_in_force"), Some(3.0));
    server.admin.hold_consumers(hold("")).await.unwrap();
    assert_eq!(held(&server.admin, "pay-eu").await.as_deref(), Some(""), "the widest one");
    server.stop().await;
}

async fn repeat_of_a_hold_changes_nothing(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let code = |status: tonic::Status| refusal(&status).reason;
    server.admin.hold_consumers(hold("a")).await.unwrap();
    let again = server.admin.hold_consumers(hold("a")).await.unwrap().into_inner();
    assert!(again.replayed && again.hold.is_some(), "{again:?}");
    let other = proto::HoldConsumersRequest { reason: "another".into(), ..hold("a") };
    assert_eq!(fields(&server.admin.hold_consumers(other).await.unwrap_err()), ["request_id"]);
    let crossed = proto::ResumeConsumersRequest { request_id: hold("a").request_id, ..resume("a") };
    assert_eq!(fields(&server.admin.resume_consumers(crossed).await.unwrap_err()), ["request_id"]);
    let same = proto::HoldConsumersRequest { request_id: "another".into(), ..hold("a") };
    assert_eq!(code(server.admin.hold_consumers(same).await.unwrap_err()), "STATE_NOT_ALLOWED");
    assert_eq!(code(server.admin.resume_consumers(resume("ab")).await.unwrap_err()), "STATE_NOT_ALLOWED");
    assert_eq!(code(server.admin.resume_consumers(resume("")).await.unwrap_err()), "STATE_NOT_ALLOWED");
    assert!(!server.admin.resume_consumers(resume("a")).await.unwrap().into_inner().replayed);
    assert!(server.admin.resume_consumers(resume("a")).await.unwrap().into_inner().replayed);
    // The repeat of a hold that has ended does not place it again.
    let late = server.admin.hold_consumers(hold("a")).await.unwrap().into_inner();
    assert!(late.replayed && late.hold.is_none(), "{late:?}");
    assert_eq!(listed(&server.admin, "").await, Vec::<String>::new());
    let page = server.admin.list_audit_events(proto::ListAuditEventsRequest::default()).await;
    let events = page.unwrap().into_inner().events;
    let mut events: Vec<_> = events
        .iter()
        .map(|one| (one.action.as_str(), one.consumer.as_str(), one.after_json.as_str()))
        .collect();
    let after = r#"{"all":false,"prefix":"a"}"#;
    let mut expected = [("HOLD_CONSUMERS", "a*", after), ("RESUME_CONSUMERS", "a*", after)];
    expected.sort();
    events.sort();
    assert_eq!(events, expected);
    // The id is one of its prefix.
    let of_another = proto::HoldConsumersRequest { request_id: hold("a").request_id, ..hold("b") };
    assert!(!server.admin.hold_consumers(of_another).await.unwrap().into_inner().replayed);
    server.stop().await;
}

/// However they meet: one is placed, and each of the others hears that it is.
async fn concurrent_holds_of_one_prefix_are_one_hold(kind: Kind) {
    let server = TestServer::start(kind).await;
    let places = (0..5).map(|number| {
        let mut admin = server.admin.clone();
        let request = proto::HoldConsumersRequest { request_id: format!("r{number}"), ..hold("a") };
        async move { admin.hold_consumers(request).await }
    });
    let answers = join_all(places).await;
    let (placed, refused): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!((placed.len(), refused.len()), (1, 4), "{refused:?}");
    assert_eq!(server.at.number("SELECT count(*) FROM @ledger.holds").await, 1);
    assert_eq!(server.at.number("SELECT count(*) FROM @ledger.audit").await, 1);
    server.stop().await;
}

async fn hold_survives_a_restart(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    server.admin.hold_consumers(hold("a")).await.unwrap();
    let at = server.stop().await;
    let server = TestServer::on(at, Setup::default()).await;
    assert_eq!(asked(&server.client, "ab", "1").await, "CONSUMER_DISABLED");
    server.stop().await;
}

/// A server that does not know holds would go on granting: it must be gone first, and stands down if it comes back.
async fn hold_is_refused_while_an_older_server_is_at_work(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let at_level = |level: i32| format!("SELECT count(*) FROM @ledger.meta WHERE level = {level}");
    let older = replica(HOLD_LEVEL - 1);
    server.at.session().await.upkeep().write_heartbeat(&older).await.unwrap();
    let status = server.admin.hold_consumers(hold("a")).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "STATE_NOT_ALLOWED");
    assert!(status.message().contains(&older.id.to_string()), "{status:?}");
    assert_eq!(server.at.number(&at_level(1)).await, 1, "nothing was changed");
    assert_eq!(asked(&server.client, "a", "1").await, "acquired");
    server.advance(Span::from_secs(301)).await;
    server.admin.hold_consumers(hold("a")).await.unwrap();
    assert_eq!(server.at.number(&at_level(HOLD_LEVEL)).await, 1, "an older server stands down");
    server.admin.resume_consumers(resume("a")).await.unwrap();
    assert_eq!(server.at.number(&at_level(HOLD_LEVEL)).await, 1, "the level never falls");
    server.stop().await;
}

/// A prefix that was forgotten, or written as rights have it, holds nothing and says what to write.
async fn hold_without_consumers_is_refused(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let of = |prefix: &str, all| proto::HoldConsumersRequest { prefix: prefix.into(), all, ..hold("a") };
    for (request, wrong) in [
        (of("", false), "prefix"),
        (of("a", true), "prefix"),
        (of("a*", false), "prefix"),
        (of("*", false), "prefix"),
        (of("a\n", false), "prefix"),
        (of(&"a".repeat(129), false), "prefix"),
        (proto::HoldConsumersRequest { request_id: String::new(), ..hold("a") }, "request_id"),
        (proto::HoldConsumersRequest { reason: String::new(), ..hold("a") }, "reason"),
    ] {
        let status = server.admin.hold_consumers(request.clone()).await.unwrap_err();
        assert_eq!(fields(&status), [wrong], "{request:?}");
        let proto::HoldConsumersRequest { prefix, all, request_id, reason } = request;
        let lift = proto::ResumeConsumersRequest { prefix, all, request_id, reason };
        assert_eq!(fields(&server.admin.resume_consumers(lift).await.unwrap_err()), [wrong]);
    }
    let starred = proto::ListHoldsRequest { prefix: "a*".into() };
    assert_eq!(fields(&server.admin.list_holds(starred).await.unwrap_err()), ["prefix"]);
    assert_eq!(server.at.number("SELECT count(*) FROM @ledger.holds").await, 0);
    server.stop().await;
}

/// `*` in a right means many consumers; a policy of that name would hold for none of them.
async fn policy_for_a_pattern_is_refused(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for consumer in ["*", "team-a*"] {
        for validate_only in [false, true] {
            let set = proto::SetPolicyRequest {
                consumer: consumer.into(),
                request_id: "r".into(),
                reason: "hold all".into(),
                policy: Some(proto::Policy { disabled: Some(true), ..Default::default() }),
                validate_only,
                ..Default::default()
            };
            let status = server.admin.set_policy(set).await.unwrap_err();
            assert_eq!(fields(&status), ["consumer"], "{consumer}");
            assert!(status.message().contains("HoldConsumers"), "{status:?}");
        }
        let delete = proto::DeletePolicyRequest {
            consumer: consumer.into(),
            request_id: "d".into(),
            reason: "r".into(),
            expected_version: 1,
        };
        let status = server.admin.delete_policy(delete).await.unwrap_err();
        assert_eq!(fields(&status), ["consumer"], "{consumer}");
    }
    assert_eq!(server.at.number("SELECT count(*) FROM @ledger.policies").await, 0);
    server.stop().await;
}

/// What one server holds or resumes is in force on another one of the same database, for consumers that are new to both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hold_is_in_force_on_every_server_within_ten_seconds() {
    let mut server = TestServer::start(Kind::Postgres).await;
    let other = Served::start(Arc::clone(&server.at.store), Setup::default()).await;
    assert_eq!(asked(&other.client, "pay", "before").await, "acquired");
    server.admin.hold_consumers(hold("pay")).await.unwrap();
    becomes(&other.client, "CONSUMER_DISABLED").await;
    for consumer in ["pay", "pay-new"] {
        assert_eq!(asked(&other.client, consumer, "after").await, "CONSUMER_DISABLED", "{consumer}");
    }
    assert_eq!(asked(&other.client, "ship", "after").await, "acquired");
    server.admin.resume_consumers(resume("pay")).await.unwrap();
    becomes(&other.client, "acquired").await;
    other.stop().await;
    server.stop().await;
}

async fn becomes(client: &Ledger, says: &str) {
    let becomes = async {
        for number in 0.. {
            if asked(client, "pay", &format!("{says} {number}")).await == says {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), becomes).await.expect("within ten seconds");
}
