//! Rights: each RPC, asked by each kind of holder, for one consumer and another; and that nothing but the right decides.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use idempotency_ledger::identity::{Guard, Right, Rpc};
use idempotency_ledger::proto;
use tokio::time::timeout;

use super::every_rpc::{Way, ask};
use super::{NO_ANSWER, People, by, fresh, why, word};
use crate::harness::details::{claim, key};
use crate::harness::postgres as pg;
use crate::harness::raw::channel_to;
use crate::harness::server::{Kind, Served, Setup, TestServer, postgres_store};
use crate::harness::switch::Switch;

const DENIED: &str = "CONSUMER_NOT_ALLOWED";

/// What a call is answered that has the right, while the store is silent: it has got as far as the policy or the store.
const ALLOWED: [&str; 5] =
    ["DEADLINE_EXCEEDED", "STORE_UNAVAILABLE", "OUTCOME_UNKNOWN", "OVERLOADED", "UNKNOWN_CONSUMER"];

/// Who there is, and what they may do for which consumers.
const PEOPLE: &[(&str, &[(&str, &str)])] = &[
    ("nobody", &[]),
    ("claimer", &[("mine", "claim")]),
    ("settler", &[("mine", "settle")]),
    ("reader", &[("mine", "read")]),
    ("mender", &[("mine", "admin")]),
    ("worker", &[("mine*", "claim settle")]),
    ("warden", &[("min*", "admin")]),
    ("auditor", &[("*", "read")]),
    ("chief", &[("*", "claim settle read admin")]),
    ("almost", &[("min", "claim settle read admin"), ("mine-*", "claim settle read admin")]),
];

/// Within this time a stream is answered whose store is silent.
const STREAM_ENDS: Duration = Duration::from_mins(4);

/// The RPCs whose keys, or whose filter, may be of a replay run: rights go by the consumer without its run. An import is
/// never of a run.
const OF_A_RUN: [&str; 20] = [
    "Claim",
    "BatchClaim",
    "Lookup",
    "BatchLookup",
    "Complete",
    "Fail",
    "Release",
    "Renew",
    "BatchSettle",
    "GetEntry",
    "ListEntries",
    "GroupEntries",
    "SummarizeEntries",
    "RedriveEntry",
    "ParkEntry",
    "ResolveEntry",
    "DeleteEntry",
    "RedriveEntries",
    "ParkEntries",
    "ResolveEntries",
];

/// The RPCs that are of all consumers whose names begin with a prefix.
const OF_A_PREFIX: [&str; 3] = ["HoldConsumers", "ResumeConsumers", "ListHolds"];

/// The consumer that a call of this RPC names; none: all of them.
fn whose(rpc: &str, way: Way, consumer: &'static str) -> Option<&'static str> {
    let all = matches!(rpc, "ListPolicies" | "GetRetentionStatus" | "RaiseTokenOffset");
    (!all && !matches!(way, Way::All | Way::ByHash)).then_some(consumer)
}

/// As docs/contract.md, section 14, has it: all else is a change, which needs `admin`.
fn needs(rpc: Rpc, way: Way) -> Right {
    match rpc.name {
        "Claim" | "BatchClaim" | "Lookup" | "BatchLookup" | "ClaimNext" => Right::Claim,
        "Store" | "BatchStore" => Right::Store,
        // A payload is more than a query shows.
        "GetMessage" => Right::Admin,
        "Renew" | "Complete" | "Fail" | "Release" | "BatchSettle" => Right::Settle,
        name if way == Way::ValidateOnly
            || ["Get", "Group", "List", "Summarize"].iter().any(|verb| name.starts_with(verb)) =>
        {
            Right::Read
        }
        _ => Right::Admin,
    }
}

/// What the table of people says, read as plainly as can be.
fn may(person: &str, rpc: &str, right: Right, consumer: Option<&str>) -> bool {
    let (_, lines) = PEOPLE.iter().find(|(name, _)| *name == person).unwrap();
    lines.iter().any(|(consumers, rights)| {
        let fits = match consumer {
            None => *consumers == "*",
            // All consumers whose names begin so: a name alone is not enough.
            Some(prefix) if OF_A_PREFIX.contains(&rpc) => {
                consumers.strip_suffix('*').is_some_and(|wider| prefix.starts_with(wider))
            }
            Some(name) => {
                consumers.strip_suffix('*').map_or(*consumers == name, |prefix| name.starts_with(prefix))
            }
        };
        fits && rights.split(' ').any(|word| word == right.word())
    })
}

/// The store does not answer while all this is asked: whoever lacks a right is told so all the same, and at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_is_judged_before_the_store_and_the_policy_are_looked_at() {
    let people = People::new(PEOPLE);
    let switch = Switch::before(SocketAddr::from(([127, 0, 0, 1], pg::shared().port))).await;
    let url = pg::shared().url(&pg::database().await);
    let (_, rest) = url.split_once('@').unwrap();
    let (_, path) = rest.split_once('/').unwrap();
    let (user, _) = url.split_once('@').unwrap();
    let url = format!("{user}@{}/{path}", switch.address);
    let setup = Setup { guard: Guard::new(people.trust()), registered_only: true, ..Setup::default() };
    let served = Served::start(Arc::new(postgres_store(&url)), setup).await;
    let channel = channel_to(&served.address.to_string()).await;
    switch.silence(true);
    let mut rows = Vec::new();
    for rpc in Rpc::all() {
        let mut ways = vec![Way::Usual];
        ways.extend(match rpc.name {
            "SetPolicy" | "RaiseTokenOffset" => Some(Way::ValidateOnly),
            "ListEntries" | "GroupEntries" | "SummarizeEntries" | "ListAuditEvents" | "HoldConsumers"
            | "ResumeConsumers" | "ListHolds" => Some(Way::All),
            "GetEntry" => Some(Way::ByHash),
            _ => None,
        });
        ways.extend(OF_A_RUN.contains(&rpc.name).then_some(Way::InRun));
        for (person, _) in PEOPLE {
            for way in &ways {
                rows.extend(["mine", "other"].map(|consumer| (rpc, *person, *way, consumer)));
            }
        }
    }
    assert_eq!(rows.len(), (40 + 10 + OF_A_RUN.len()) * PEOPLE.len() * 2);
    let (allowed, refused): (Vec<_>, Vec<_>) = rows.into_iter().partition(|&(rpc, person, way, consumer)| {
        may(person, rpc.name, needs(rpc, way), whose(rpc.name, way, consumer))
    });
    let (mut wrong, expected) = (Vec::new(), refused.len());
    // Those that wait for the store are sent last: they would keep others from it.
    // A refusal arrives at the latest when the machine has time for it; a call that is allowed waits for the store, and a few of
    // those whose answer comes too late on a busy machine are asked again.
    let refused = (refused, true, Duration::from_mins(2), 1);
    for (mut rows, denied, mut deadline, rounds) in [refused, (allowed, false, Duration::from_secs(2), 5)] {
        for round in 1..=rounds {
            if rows.is_empty() {
                break;
            }
            let asked = rows.iter().map(|&(rpc, person, way, consumer)| {
                let asked = ask(channel.clone(), deadline, people.token(person), rpc.name, consumer, way);
                // A stream has no deadline, but the store is given up after a while.
                async move { timeout(STREAM_ENDS, asked).await.unwrap_or_else(|_| NO_ANSWER.to_owned()) }
            });
            let answers = join_all(asked).await;
            let mut unanswered = Vec::new();
            for (row, answer) in rows.iter().zip(answers) {
                let (rpc, person, way, consumer) = row;
                if answer == NO_ANSWER && round < rounds {
                    unanswered.push(*row);
                } else if !(if denied { answer == DENIED } else { ALLOWED.contains(&answer.as_str()) }) {
                    wrong.push(format!("{} {way:?} by {person} for {consumer}: {answer:?}", rpc.name));
                }
            }
            rows = unanswered;
            deadline *= 2;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // Each refusal is counted once, of whichever RPC it is.
    let counted = served.metric("idempotency_ledger_refusals_total{reason=\"CONSUMER_NOT_ALLOWED\"}");
    assert_eq!(counted, u32::try_from(expected).ok().map(f64::from));
    switch.silence(false);
    served.stop().await;
}

/// The table of rights has each RPC of the two services, and no other.
#[test]
fn each_rpc_has_a_row() {
    use prost::Message as _;
    let set = prost_types::FileDescriptorSet::decode(proto::FILE_DESCRIPTOR_SET).unwrap();
    let services = set.file.iter().flat_map(|file| &file.service);
    let mut there: Vec<(String, bool)> = services
        .flat_map(|service| &service.method)
        .map(|method| (method.name().to_owned(), method.client_streaming() || method.server_streaming()))
        .collect();
    let mut rows: Vec<(String, bool)> = Rpc::all().map(|rpc| (rpc.name.to_owned(), rpc.streams)).collect();
    there.sort();
    rows.sort();
    assert_eq!(rows, there);
}

/// Items of a batch are judged one by one, and one that is refused changes nothing for its neighbours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_is_judged_item_by_item() {
    let people = People::new(PEOPLE);
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let requests = vec![claim("mine", "1"), claim("other", "1"), claim("mine-too", "1"), claim("", "1")];
    let batch = by(people.token("worker"), proto::BatchClaimRequest { requests });
    let answer = server.client.batch_claim(batch).await.unwrap().into_inner();
    let said: Vec<String> = answer
        .responses
        .iter()
        .map(|response| match response.verdict.as_ref().unwrap() {
            proto::claim_response::Verdict::Rejected(rejected) => word(rejected),
            proto::claim_response::Verdict::Acquired(_) => "acquired".to_owned(),
            other => format!("{other:?}"),
        })
        .collect();
    // What is not well-formed is told before rights are looked at: it says nothing of any consumer.
    assert_eq!(said, ["acquired", DENIED, "acquired", "INVALID_FIELD"]);
    assert_eq!(
        server.metric("idempotency_ledger_refusals_total{reason=\"CONSUMER_NOT_ALLOWED\"}"),
        Some(1.0)
    );
    // It was not granted behind the refusal.
    let looked = proto::GetEntryRequest { key: key("other", "1"), key_hash: String::new() };
    assert_eq!(why(server.admin.get_entry(by(people.token("chief"), looked)).await), "ENTRY_NOT_FOUND");
    server.stop().await;
}

/// The claim's principal and the audit's actor are who was authenticated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_kept_of_a_caller_is_the_principal() {
    let people = People::new(PEOPLE);
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let claimed = server.client.claim(by(people.token("claimer"), claim("mine", "1"))).await;
    assert!(claimed.is_ok(), "{claimed:?}");
    let looked = proto::GetEntryRequest { key: key("mine", "1"), key_hash: String::new() };
    let entry = server.admin.get_entry(by(people.token("reader"), looked)).await.unwrap().into_inner().entry;
    let entry = entry.unwrap();
    assert_eq!(entry.principal, "token:claimer");
    let park = proto::ParkEntryRequest {
        key: key("mine", "1"),
        request_id: "r1".into(),
        expected_version: entry.version,
        reason: "it must wait".into(),
    };
    assert_eq!(why(server.admin.park_entry(by(people.token("mender"), park)).await), "");
    let asked = proto::ListAuditEventsRequest { consumer: "mine".into(), ..Default::default() };
    let events =
        server.admin.list_audit_events(by(people.token("reader"), asked)).await.unwrap().into_inner();
    assert_eq!(events.events[0].actor, "token:mender");
    server.stop().await;
}

/// Who may only look learns nothing of requests for other consumers, not even that they were made.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_only_looks_tells_nothing_of_other_consumers() {
    let people = People::new(PEOPLE);
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let set = |consumer: &str, validate_only| proto::SetPolicyRequest {
        consumer: consumer.into(),
        request_id: "ticket 7".into(),
        reason: "because".into(),
        policy: Some(proto::Policy { max_attempts: Some(5), ..Default::default() }),
        validate_only,
        ..Default::default()
    };
    assert_eq!(why(server.admin.set_policy(by(people.token("chief"), set("other", false))).await), "");
    let looked = server.admin.set_policy(by(people.token("reader"), set("mine", true))).await;
    assert!(!looked.unwrap().into_inner().replayed);
    // An id that another consumer's operator has used is free here, and says nothing of it.
    let made = server.admin.set_policy(by(people.token("mender"), set("mine", false))).await;
    assert!(!made.unwrap().into_inner().replayed);
    server.stop().await;
}

/// A claim is its principal's: the same claim_id by somebody else is somebody else's claim.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_is_not_replayed_to_another_principal() {
    let people = People::new(PEOPLE);
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let request = proto::ClaimRequest { claim_id: fresh(), ..claim("mine", "1") };
    let mut verdicts = Vec::new();
    for person in ["claimer", "claimer", "worker"] {
        let answer = server.client.claim(by(people.token(person), request.clone())).await.unwrap();
        verdicts.push(match answer.into_inner().verdict.unwrap() {
            proto::claim_response::Verdict::Acquired(acquired) => format!("acquired {}", acquired.replayed),
            proto::claim_response::Verdict::InProgress(_) => "in_progress".to_owned(),
            other => format!("{other:?}"),
        });
    }
    assert_eq!(verdicts, ["acquired false", "acquired true", "in_progress"]);
    server.stop().await;
}

/// Health is asked by probes, which have no credential.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_needs_no_credential() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    let setup = Setup { guard: Guard::new(People::new(PEOPLE).trust()), ..Setup::default() };
    let server = TestServer::start_with(Kind::Sqlite, setup).await;
    let channel = channel_to(&server.address().to_string()).await;
    let mut request = tonic::Request::new(HealthCheckRequest { service: "liveness".into() });
    request.set_timeout(Duration::from_secs(5));
    assert!(HealthClient::new(channel).check(request).await.is_ok());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_ends_with_the_last_right_of_its_caller() {
    let people = People::new(&[("mender", &[("mine", "admin")])]);
    let guard = Guard::new(people.trust());
    let mut server =
        TestServer::start_with(Kind::Sqlite, Setup { guard: guard.clone(), ..Setup::default() }).await;
    let (send, messages) = tokio::sync::mpsc::channel(1);
    // What has no entry asks for no right to any of them.
    let message = || proto::ImportEntriesRequest {
        operation_id: "o".into(),
        reason: "adoption".into(),
        ..Default::default()
    };
    let messages =
        futures_util::stream::unfold(messages, |mut from| async { Some((from.recv().await?, from)) });
    send.send(message()).await.unwrap();
    let request = by(people.token("mender"), Box::pin(messages));
    let mut import = server.admin.import_entries(request).await.unwrap().into_inner();
    assert!(import.message().await.unwrap().is_some());
    let nobody = People { rights_file: String::new(), ..people };
    guard.replace(nobody.trust());
    send.send(message()).await.unwrap();
    assert_eq!(why(import.message().await.map(tonic::Response::new)), DENIED);
    server.stop().await;
}
