//! The ids of operators' requests, of each RPC that has one: an id belongs to a consumer, its repeat changes nothing, and
//! it serves one request.

use idempotency_ledger::domain::{AuditEvent, Key, Span};
use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto;
use idempotency_ledger::store::Write;
use prost_reflect::DynamicMessage;
use serde_json::{Value, json};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::harness::details::{claim, fields, refusal};
use crate::harness::dynamic::{Rpc, each_field_changed};
use crate::harness::on_both_stores;
use crate::harness::raw::channel;
use crate::harness::server::{Kind, START, Setup, TestServer};
use crate::identity::{People, by};

on_both_stores!(
    request_id_belongs_to_the_consumer_of_its_request,
    request_id_used_for_another_request_is_refused,
    repeat_by_another_operator_is_replayed,
    id_from_before_ids_belonged_to_consumers_stays_used,
);

const IDS: [&str; 2] = ["request_id", "operation_id"];
/// The RPCs that change one entry: each has one of its own, whose id is the RPC's name.
const OF_AN_ENTRY: [&str; 4] = ["ParkEntry", "RedriveEntry", "ResolveEntry", "DeleteEntry"];

/// Each RPC that has an id, in an order in which all are carried out; the field by which its answer says that it was a
/// repeat, `None` if it has no such field; and its request, without the id.
async fn rows(server: &TestServer, consumer: &str) -> Vec<(&'static str, Option<&'static str>, Value)> {
    let mut rows = Vec::new();
    for rpc in OF_AN_ENTRY {
        let version = server.entry(&Key::new(consumer, "tests", rpc)).await.unwrap().version;
        let key = json!({ "consumer": consumer, "source": "tests", "id": rpc });
        let mut request = json!({ "key": key, "reason": "why", "expectedVersion": version.to_string() });
        match rpc {
            "ResolveEntry" => request["state"] = "ENTRY_STATE_COMPLETED".into(),
            "DeleteEntry" => request["force"] = true.into(),
            _ => {}
        }
        rows.push((rpc, Some("replayed"), request));
    }
    let filter = json!({ "consumer": consumer, "states": ["ENTRY_STATE_FAILED_TERMINAL"] });
    let failed = json!({ "consumer": consumer, "states": ["ENTRY_STATE_FAILED_RETRYABLE"] });
    let imported = json!([{ "key": { "consumer": consumer, "source": "tests", "id": "imported" } }]);
    let policy = json!({ "disabled": true, "replay": "REPLAY_MODE_REBUILD" });
    let run = json!({ "consumer": consumer, "replayRun": "r", "reason": "why" });
    rows.extend([
        ("RedriveEntries", None, json!({ "filter": filter, "reason": "why" })),
        ("ParkEntries", None, json!({ "filter": failed, "reason": "why" })),
        (
            "ResolveEntries",
            None,
            json!({ "filter": filter, "reason": "why", "state": "ENTRY_STATE_COMPLETED" }),
        ),
        ("ImportEntries", None, json!({ "entries": imported, "reason": "why" })),
        ("SetPolicy", Some("replayed"), json!({ "consumer": consumer, "reason": "why", "policy": policy })),
        ("CreateReplayRun", Some("replayed"), run.clone()),
        ("CloseReplayRun", Some("replayed"), run),
        (
            "DeletePolicy",
            Some("replayed"),
            json!({ "consumer": consumer, "reason": "why", "expectedVersion": 1 }),
        ),
        ("HoldConsumers", Some("replayed"), json!({ "prefix": consumer, "reason": "why" })),
        ("ResumeConsumers", Some("replayed"), json!({ "prefix": consumer, "reason": "why" })),
        ("RaiseTokenOffset", Some("replayed"), json!({ "reason": "why", "tokenOffset": "3600s" })),
    ]);
    let mut known: Vec<String> = Rpc::with_field(&IDS).iter().map(|rpc| rpc.name().to_owned()).collect();
    let mut covered: Vec<&str> = rows.iter().map(|(rpc, ..)| *rpc).collect();
    known.sort();
    covered.sort_unstable();
    assert_eq!(covered, known, "each RPC with an id has a row");
    rows
}

fn rpc_of(name: &str) -> Rpc {
    Rpc::with_field(&IDS).into_iter().find(|rpc| rpc.name() == name).unwrap()
}

fn request(rpc: &Rpc, id: &str, json: &Value) -> DynamicMessage {
    let mut json = json.clone();
    json[rpc.field(&IDS)] = id.into();
    rpc.request(&json)
}

/// Calls, and says whether it was a repeat, where the answer of this RPC says so.
async fn replayed(
    channel: &Channel,
    token: Option<&str>,
    (rpc, says): (&Rpc, Option<&str>),
    request: &DynamicMessage,
) -> Result<Option<bool>, Status> {
    let answers = rpc.call(channel, token, request).await?;
    Ok(says.map(|field| answers[0].get_field_by_name(field).unwrap().as_bool().unwrap()))
}

/// Entries that the RPCs of one entry may change.
async fn entries(server: &mut TestServer, consumers: &[(&str, Option<&str>)]) {
    for (consumer, token) in consumers {
        for id in OF_AN_ENTRY {
            let claim = match token {
                Some(token) => by(token, claim(consumer, id)),
                None => tonic::Request::new(claim(consumer, id)),
            };
            server.client.claim(claim).await.unwrap();
        }
    }
    server.advance(Span::from_secs(120)).await;
}

async fn events(server: &mut TestServer, token: Option<&str>, consumer: &str) -> Vec<proto::AuditEvent> {
    let request = proto::ListAuditEventsRequest { consumer: consumer.into(), ..Default::default() };
    let request = match token {
        Some(token) => by(token, request),
        None => tonic::Request::new(request),
    };
    server.admin.list_audit_events(request).await.unwrap().into_inner().events
}

async fn request_id_belongs_to_the_consumer_of_its_request(kind: Kind) {
    let people = People::new(&[
        ("a", &[("team-a*", "claim admin read")]),
        ("b", &[("team-b*", "claim admin read")]),
        ("chief", &[("*", "admin")]),
    ]);
    let [a, b, chief] = ["a", "b", "chief"].map(|name| Some(people.token(name)));
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let mut server = TestServer::start_with(kind, setup).await;
    let channel = channel(&server).await;
    entries(&mut server, &[("team-a1", a), ("team-b1", b)]).await;
    let both = rows(&server, "team-a1").await.into_iter().zip(rows(&server, "team-b1").await);
    for ((name, says, of_a), (_, _, of_b)) in both {
        let rpc = rpc_of(name);
        // The one id of the operator of team-a, also for what concerns all.
        let id = if name == "RaiseTokenOffset" { "X SetPolicy".to_owned() } else { format!("X {name}") };
        let callers =
            if name == "RaiseTokenOffset" { vec![(chief, of_a)] } else { vec![(a, of_a), (b, of_b)] };
        for (token, row) in callers {
            let request = request(&rpc, &id, &row);
            for repeat in [false, true] {
                let answer = replayed(&channel, token, (&rpc, says), &request).await;
                assert_eq!(answer.unwrap(), says.map(|_| repeat), "{name} by {row}");
            }
        }
        if name == "SetPolicy" {
            for (consumer, token) in [("team-a1", a), ("team-b1", b)] {
                let claim = by(token.unwrap(), claim(consumer, "new"));
                let refused = refusal(&server.client.claim(claim).await.unwrap_err());
                assert_eq!(refused.reason, "CONSUMER_DISABLED", "the hold of {consumer} is in force");
            }
        }
    }
    // Each sees its own events, under its own ids, and one of each.
    for (consumer, token) in [("team-a1", a), ("team-b1", b)] {
        let mut ids: Vec<_> = events(&mut server, token, consumer).await;
        assert!(ids.iter().all(|event| event.consumer == consumer), "{ids:?}");
        ids.retain(|event| event.action != "IMPORT_ENTRIES");
        let ids: Vec<_> = ids.into_iter().map(|event| event.request_id).collect();
        assert_eq!((ids.len(), ids.iter().all(|id| id.starts_with("X "))), (11, true), "{ids:?}");
    }
    server.stop().await;
}

/// The consumer, the prefix or the hash, to which the id belongs; the id itself; and of a bulk change what may change when it goes on.
const OTHERWISE: [&str; 12] = [
    "request_id",
    "operation_id",
    "consumer",
    "key.consumer",
    "key_hash",
    "filter.consumer",
    "prefix",
    "all",
    "validate_only",
    "dry_run",
    "rate",
    "maximum",
];

async fn request_id_used_for_another_request_is_refused(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let channel = channel(&server).await;
    entries(&mut server, &[("c", None)]).await;
    let mut changed_fields = 0;
    for (name, says, row) in rows(&server, "c").await {
        let rpc = rpc_of(name);
        let first = request(&rpc, name, &row);
        assert_eq!(replayed(&channel, None, (&rpc, says), &first).await.unwrap(), says.map(|_| false));
        let before = (events(&mut server, None, "").await, server.entry(&Key::new("c", "tests", name)).await);
        for (path, other) in each_field_changed(&first) {
            if OTHERWISE.contains(&path.as_str()) {
                continue;
            }
            let refused = rpc.call(&channel, None, &other).await;
            let refused = refused.expect_err(&format!("{name} with another {path}"));
            assert_eq!(refused.code(), Code::InvalidArgument, "{name} with another {path}: {refused:?}");
            assert_eq!(fields(&refused), [rpc.field(&IDS)], "{name} with another {path}");
            changed_fields += 1;
        }
        // Another RPC, whose request is encoded alike.
        if name == "ParkEntry" {
            let delete = rpc_of("DeleteEntry");
            let refused = delete.call(&channel, None, &request(&delete, name, &row)).await.unwrap_err();
            assert_eq!(fields(&refused), ["request_id"]);
        }
        // A bulk redrive goes on with another rate.
        for (path, other) in each_field_changed(&first) {
            if ["rate", "maximum", "dry_run"].contains(&path.as_str()) {
                rpc.call(&channel, None, &other).await.unwrap();
            }
        }
        assert_eq!(replayed(&channel, None, (&rpc, says), &first).await.unwrap(), says.map(|_| true));
        let after = (events(&mut server, None, "").await, server.entry(&Key::new("c", "tests", name)).await);
        assert_eq!(after, before, "{name} has changed nothing more");
    }
    assert!(changed_fields > 70, "only {changed_fields} fields");
    server.stop().await;
}

fn hold(consumer: &str, request_id: &str) -> proto::SetPolicyRequest {
    proto::SetPolicyRequest {
        consumer: consumer.into(),
        request_id: request_id.into(),
        reason: "why".into(),
        policy: Some(proto::Policy { disabled: Some(true), ..Default::default() }),
        ..Default::default()
    }
}

/// The actor does not belong to the request: the audit keeps the one that carried it out.
async fn repeat_by_another_operator_is_replayed(kind: Kind) {
    let people = People::new(&[("one", &[("c", "admin read")]), ("other", &[("c", "admin read")])]);
    let [one, other] = ["one", "other"].map(|name| people.token(name));
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let mut server = TestServer::start_with(kind, setup).await;
    let hold = hold("c", "hold");
    for (token, replayed) in [(one, false), (other, true)] {
        let answer = server.admin.set_policy(by(token, hold.clone())).await.unwrap().into_inner();
        assert_eq!(answer.replayed, replayed);
    }
    let events = events(&mut server, Some(other), "c").await;
    assert_eq!(events.iter().map(|event| event.actor.as_str()).collect::<Vec<_>>(), ["token:one"]);
    server.stop().await;
}

/// The version before kept no digest: whether a request is the same is not known.
async fn id_from_before_ids_belonged_to_consumers_stays_used(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let event = AuditEvent {
        request_id: "old".into(),
        at: START,
        actor: "a".into(),
        action: "SET_POLICY".into(),
        consumer: "c".into(),
        key: None,
        reason: "why".into(),
        before: None,
        after: Some("{}".into()),
        digest: None,
    };
    let mut session = server.at.session().await;
    session.operators().change(&Write::Nothing, &event).await.unwrap();
    let refused = server.admin.set_policy(hold("c", "old")).await.unwrap_err();
    assert_eq!(fields(&refused), ["request_id"]);
    assert!(!server.admin.set_policy(hold("d", "old")).await.unwrap().into_inner().replayed);
    let (mut pages, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = proto::ListAuditEventsRequest { page_size: 1, page_token, ..Default::default() };
        let page = server.admin.list_audit_events(request).await.unwrap().into_inner();
        pages.extend(page.events.into_iter().map(|event| (event.consumer, event.request_id)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let both = ["d", "c"].map(|consumer| (consumer.to_owned(), "old".to_owned()));
    pages.sort_by(|one, other| other.cmp(one));
    assert_eq!(pages, both);
    server.stop().await;
}
