//! What the calls of one principal may take, whoever else calls: settlements are refused last.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto::{self, claim_response::Verdict, settlement_result::Outcome};
use idempotency_ledger::rpc::PrincipalLimits;
use tokio::task::JoinSet;
use tonic::{Code, Request, Status};
use tonic_types::StatusExt as _;

use super::{People, by, why};
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::raw;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};
use crate::waiting::until;

fn people() -> People {
    let all: &[(&str, &str)] = &[("*", "claim settle read admin")];
    People::new(&[("one", all), ("two", all), ("first", all)])
}

async fn server(people: &People, principals: PrincipalLimits) -> TestServer {
    let guard = Guard::new(people.trust());
    TestServer::start_with(Kind::Sqlite, Setup { guard, principals, ..Setup::default() }).await
}

/// A server whose only worker waits for its store with one claim, so that all commands which are accepted after it queue.
struct Held {
    server: TestServer,
    plan: Arc<Plan>,
    limit: &'static str,
    sent: usize,
    refused: usize,
    first: Calls,
}

impl Held {
    async fn new(people: &People, principals: PrincipalLimits, limit: &'static str) -> Held {
        let (mut at, plan) = (TestStore::new(Kind::Sqlite).await, Arc::new(Plan::default()));
        at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
        let setup = Setup { guard: Guard::new(people.trust()), principals, ..Setup::default() };
        let server = TestServer::on(at, setup).await;
        plan.close();
        let first = claims(&server, people.token("first"), 0, 1);
        plan.arrived(1).await;
        Held { server, plan, limit, sent: 0, refused: 0, first }
    }

    /// Waits until each of these calls is refused or queues; how many are refused, each by this setting.
    async fn refuses(&mut self, calls: &mut Calls, setting: &str) -> usize {
        self.sent += calls.len();
        let queued = || -> f64 {
            let lane = |lane| format!("idempotency_ledger_queue_commands{{lane=\"{lane}\"}}");
            ["close", "claim"].map(|name| self.server.metric(&lane(name)).unwrap()).iter().sum()
        };
        let all = || queued() + refusals(&self.server, self.limit);
        until("each call is refused or queues", || all() >= self.sent as f64).await;
        let refused = refusals(&self.server, self.limit) as usize;
        let new = refused - std::mem::replace(&mut self.refused, refused);
        for _ in 0..new {
            limited(&calls.join_next().await.unwrap().unwrap().unwrap_err(), setting);
        }
        new
    }

    /// The store goes on.
    async fn goes_on(self) -> TestServer {
        self.plan.open();
        self.first.join_all().await.into_iter().for_each(Result::unwrap);
        self.server
    }
}

fn refusals(server: &TestServer, limit: &str) -> f64 {
    server.metric(&format!("idempotency_ledger_principal_refusals_total{{limit=\"{limit}\"}}")).unwrap()
}

/// It was refused by this setting, and says when to come back.
fn limited(status: &Status, setting: &str) -> Duration {
    let refused = refusal(status);
    assert_eq!(
        (refused.code, refused.reason.as_str(), refused.advice.as_str()),
        (Code::ResourceExhausted, "QUOTA_EXCEEDED", "RETRY_LATER"),
        "{status:?}"
    );
    assert!(status.message().contains(setting), "{}", status.message());
    status.get_details_retry_info().and_then(|info| info.retry_delay).expect("a time to come back")
}

fn complete(id: &str, bytes: usize) -> proto::CompleteRequest {
    proto::CompleteRequest {
        key: key("c", id),
        token: 1,
        result: Bytes::from(vec![7; bytes]),
        result_left_out: false,
        event_type: String::new(),
    }
}

type Calls = JoinSet<Result<(), Status>>;

fn claims(server: &TestServer, token: &str, from: usize, count: usize) -> Calls {
    let mut calls = JoinSet::new();
    for number in from..from + count {
        let (mut client, request) = (server.client.clone(), by(token, claim("c", &number.to_string())));
        calls.spawn(async move { client.claim(request).await.map(drop) });
    }
    calls
}

fn completions(server: &TestServer, token: &str, bytes: usize, count: usize) -> Calls {
    let mut calls = JoinSet::new();
    for number in 0..count {
        let request = by(token, complete(&format!("none {number}"), bytes));
        let mut client = server.client.clone();
        calls.spawn(async move { client.complete(request).await.map(drop) });
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_under_way_are_limited_and_settlements_have_a_reserve() {
    let people = people();
    let (one, two) = (people.token("one"), people.token("two"));
    let limits = PrincipalLimits { calls_max: 8, ..PrincipalLimits::default() };
    let mut held = Held::new(&people, limits, "calls").await;
    let setting = "principal_calls_max";
    // Five of eight.
    let mut claimed = claims(&held.server, one, 1, 7);
    assert_eq!(held.refuses(&mut claimed, setting).await, 2);
    let mut settled = completions(&held.server, one, 1, 5);
    assert_eq!(held.refuses(&mut settled, setting).await, 2, "three more, which settle");
    let mut others = claims(&held.server, two, 100, 5);
    assert_eq!(held.refuses(&mut others, setting).await, 0, "another principal has its own");
    let server = held.goes_on().await;
    assert_eq!(refusals(&server, "calls"), 4.0);
    assert_eq!(server.metric("idempotency_ledger_refusals_total{reason=\"QUOTA_EXCEEDED\"}"), Some(4.0));
    for call in claimed.join_all().await.into_iter().chain(others.join_all().await) {
        call.unwrap();
    }
    for call in settled.join_all().await {
        assert_eq!(refusal(&call.unwrap_err()).reason, "ENTRY_NOT_FOUND");
    }
    // What was taken went back with the calls, refused ones included.
    let mut client = server.client.clone();
    for number in 0..50 {
        acquired(&client.claim(by(one, claim("c", &format!("later {number}")))).await.unwrap().into_inner());
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_a_second_are_limited_and_settlements_have_a_reserve() {
    let all: &[(&str, &str)] = &[("*", "claim settle read admin")];
    let names: Vec<String> = (0..20).map(|attempt| format!("one-{attempt}")).collect();
    let lines: Vec<(&str, &[(&str, &str)])> = names.iter().map(|name| (name.as_str(), all)).collect();
    let people = People::new(&[&lines[..], &[("two", all)]].concat());
    // One each half second. Calls are counted, too: a refused one must not stay so.
    let limits = PrincipalLimits { calls_per_second: 2, calls_max: 1_000, ..PrincipalLimits::default() };
    let mut server = server(&people, limits).await;
    let setting = "principal_calls_per_second";
    // On a busy machine half a second may pass between two calls: then the next principal shows it.
    let mut judged = false;
    for name in &names {
        let (one, began) = (people.token(name), Instant::now());
        let claimed = |id: &str| by(one, claim("c", &format!("{name} {id}")));
        acquired(&server.client.claim(claimed("first")).await.unwrap().into_inner());
        let second = server.client.claim(claimed("second")).await;
        let settled = server.client.complete(by(one, complete("none", 1))).await;
        let further = server.client.complete(by(one, complete("none", 1))).await;
        let third = server.client.claim(claimed("third")).await;
        if began.elapsed() > Duration::from_millis(450) {
            continue;
        }
        judged = true;
        let wait = limited(&second.unwrap_err(), setting);
        assert!(wait <= Duration::from_millis(500), "{wait:?}");
        // One more, which settles; and then none.
        assert_eq!(why(settled), "ENTRY_NOT_FOUND");
        limited(&further.unwrap_err(), setting);
        acquired(
            &server.client.claim(by(people.token("two"), claim("c", "second"))).await.unwrap().into_inner(),
        );
        // The refusal says when to come back.
        tokio::time::sleep(limited(&third.unwrap_err(), setting)).await;
        acquired(&server.client.claim(claimed("third")).await.unwrap().into_inner());
        break;
    }
    assert!(judged, "the machine is too busy for five calls within half a second");
    assert!(refusals(&server, "rate") >= 3.0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_item_of_a_batch_is_a_call() {
    let people = people();
    let (one, two) = (people.token("one"), people.token("two"));
    let limits = PrincipalLimits { calls_per_second: 16, ..PrincipalLimits::default() };
    let mut server = server(&people, limits).await;
    let requests = (0..40).map(|number| claim("c", &number.to_string())).collect::<Vec<_>>();
    let batch = |token: &str| by(token, proto::BatchClaimRequest { requests: requests.clone() });
    let answers = server.client.batch_claim(batch(one)).await.unwrap().into_inner().responses;
    let mut granted = Vec::new();
    for (number, answer) in answers.iter().enumerate() {
        match &answer.verdict {
            Some(Verdict::Rejected(rejected)) => {
                assert_eq!(rejected.reason(), proto::ErrorReason::QuotaExceeded);
                assert!(rejected.retry_after.is_some() && answer.retry_after.is_some());
            }
            _ => granted.push((number, acquired(answer).token)),
        }
    }
    // Ten of sixteen; more where the batch took long.
    assert!((10..=13).contains(&granted.len()), "{}", granted.len());
    let settle = |(number, token): &(usize, i64)| proto::Settlement {
        action: Some(proto::settlement::Action::Complete(proto::CompleteRequest {
            key: key("c", &number.to_string()),
            token: *token,
            result: Bytes::new(),
            result_left_out: false,
            event_type: String::new(),
        })),
    };
    let request = proto::BatchSettleRequest { settlements: granted.iter().take(5).map(settle).collect() };
    let results = server.client.batch_settle(by(one, request)).await.unwrap().into_inner().results;
    for result in results {
        assert!(matches!(result.outcome, Some(Outcome::Complete(_))), "the reserve: {result:?}");
    }
    let request =
        proto::BatchSettleRequest { settlements: granted.iter().cycle().take(40).map(settle).collect() };
    let results = server.client.batch_settle(by(one, request)).await;
    if let Ok(results) = results {
        let refused = |result: &&proto::SettlementResult| match &result.outcome {
            Some(Outcome::Rejected(rejected)) => rejected.reason() == proto::ErrorReason::QuotaExceeded,
            _ => false,
        };
        assert!(results.into_inner().results.iter().filter(refused).count() > 20);
    }
    let answers = server.client.batch_claim(batch(two)).await.unwrap().into_inner().responses;
    let quota = |answer: &&proto::ClaimResponse| matches!(&answer.verdict, Some(Verdict::Rejected(_)));
    assert!((27..=30).contains(&answers.iter().filter(quota).count()), "another principal has its own");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_under_way_are_limited_and_settlements_have_a_reserve() {
    let people = people();
    let (one, two) = (people.token("one"), people.token("two"));
    let limits = PrincipalLimits { bytes_max: 150_000, ..PrincipalLimits::default() };
    let mut held = Held::new(&people, limits, "bytes").await;
    let setting = "principal_bytes_max";
    // Of five eighths, 5.5 KiB each.
    let mut claimed = claims(&held.server, one, 1, 30);
    let refused = held.refuses(&mut claimed, setting).await;
    assert!((12..=15).contains(&refused), "{refused}");
    let mut settled = completions(&held.server, one, 16_384, 5);
    assert_eq!(held.refuses(&mut settled, setting).await, 3, "three eighths are left to settlements");
    let mut others = claims(&held.server, two, 100, 3);
    assert_eq!(held.refuses(&mut others, setting).await, 0);
    let server = held.goes_on().await;
    assert_eq!(refusals(&server, "bytes"), 3.0 + refused as f64);
    for call in settled.join_all().await {
        assert_eq!(refusal(&call.unwrap_err()).reason, "ENTRY_NOT_FOUND");
    }
    for call in claims(&server, one, 200, 10).join_all().await {
        call.unwrap();
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_come_after_the_credential_and_before_all_else() {
    let people = people();
    let one = people.token("one");
    let limits = PrincipalLimits { calls_per_second: 1, ..PrincipalLimits::default() };
    let mut server = server(&people, limits).await;
    acquired(&server.client.claim(by(one, claim("c", "1"))).await.unwrap().into_inner());
    let malformed = || proto::ClaimRequest::default();
    assert_eq!(why(server.client.claim(by("ilt_wrong", malformed())).await), "UNAUTHENTICATED");
    assert_eq!(why(server.client.claim(Request::new(malformed())).await), "UNAUTHENTICATED");
    assert_eq!(why(server.client.claim(by(one, malformed())).await), "QUOTA_EXCEEDED");
    server.stop().await;
}

/// A principal without a right on any consumer is refused by the headers of its call: its bytes take no room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn principal_without_a_right_is_refused_before_its_request_is_read() {
    let people = People::new(&[
        ("nobody", &[("c", "read")][..]),
        ("worker", &[("c", "claim"), ("c", "settle")]),
        ("operator", &[("c", "admin")]),
    ]);
    let server = server(&people, PrincipalLimits::default()).await;
    let plain = raw::channel(&server).await;
    let unreadable = vec![0xff; 9];
    for (who, method, reason) in [
        ("nobody", "LedgerService/Claim", "CONSUMER_NOT_ALLOWED"),
        ("nobody", "LedgerService/BatchSettle", "CONSUMER_NOT_ALLOWED"),
        ("nobody", "AdminService/ImportEntries", "CONSUMER_NOT_ALLOWED"),
        ("nobody", "AdminService/DeletePolicy", "CONSUMER_NOT_ALLOWED"),
        // With `validate_only` these are for those who may read.
        ("nobody", "AdminService/SetPolicy", "INVALID_FIELD"),
        ("nobody", "AdminService/RaiseTokenOffset", "INVALID_FIELD"),
        ("worker", "AdminService/RaiseTokenOffset", "CONSUMER_NOT_ALLOWED"),
        ("worker", "LedgerService/Claim", "INVALID_FIELD"),
        ("worker", "LedgerService/BatchSettle", "INVALID_FIELD"),
        ("operator", "AdminService/DeletePolicy", "INVALID_FIELD"),
    ] {
        let request = by(people.token(who), unreadable.clone());
        let answered = raw::answers(&plain, method, request).await;
        assert_eq!(refusal(&answered.unwrap_err()).reason, reason, "{who} {method}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_is_under_way_until_its_end() {
    let people = people();
    let one = people.token("one");
    let limits = PrincipalLimits { calls_max: 1, ..PrincipalLimits::default() };
    let mut server = server(&people, limits).await;
    let message = proto::ImportEntriesRequest {
        operation_id: "o".into(),
        reason: "adoption".into(),
        entries: vec![proto::ImportedEntry { key: key("c", "1"), ..Default::default() }],
    };
    let (send, rest) = tokio::sync::oneshot::channel::<()>();
    let messages = stream::iter([message]).chain(stream::once(rest).filter_map(|_| async { None }));
    let mut import = server.admin.import_entries(by(one, messages)).await.unwrap().into_inner();
    assert_eq!(import.message().await.unwrap().unwrap().stored, 1);
    limited(&server.client.claim(by(one, claim("c", "2"))).await.unwrap_err(), "principal_calls_max");
    drop(send);
    assert!(import.message().await.unwrap().is_none());
    for id in ["2", "3", "4"] {
        let token = acquired(&once_it_passes(&mut server, one, id).await).token;
        let kind = proto::FailureKind::Park.into();
        let fail = proto::FailRequest { key: key("c", id), token, kind, ..Default::default() };
        server.client.fail(by(one, fail)).await.unwrap();
    }
    let filter = proto::EntryFilter {
        consumer: "c".into(),
        states: vec![proto::EntryState::Parked.into()],
        ..Default::default()
    };
    let redrive = proto::RedriveEntriesRequest {
        filter: Some(filter),
        operation_id: "r".into(),
        reason: "mended".into(),
        rate: 1,
        ..Default::default()
    };
    let mut told = server.admin.redrive_entries(by(one, redrive)).await.unwrap().into_inner();
    told.message().await.unwrap().unwrap();
    limited(&server.client.claim(by(one, claim("c", "5"))).await.unwrap_err(), "principal_calls_max");
    while told.message().await.unwrap().is_some() {}
    once_it_passes(&mut server, one, "5").await;
    server.stop().await;
}

/// The server is done with a stream a moment after its client.
async fn once_it_passes(server: &mut TestServer, token: &str, id: &str) -> proto::ClaimResponse {
    let until = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        match server.client.claim(by(token, claim("c", id))).await {
            Ok(answer) => return answer.into_inner(),
            Err(status) => assert!(std::time::Instant::now() < until, "the stream has ended: {status:?}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Where nobody is authenticated, all calls are those of one principal, whatever their connections.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_without_a_name_is_one_principal() {
    let principals = PrincipalLimits { calls_per_second: 1, ..PrincipalLimits::default() };
    let setup = Setup { principals, ..Setup::default() };
    let server = TestServer::start_with(Kind::Sqlite, setup).await;
    let (mut refused, mut passed) = (0, 0);
    for number in 0..5 {
        let channel = crate::harness::raw::channel(&server).await;
        let mut client = proto::ledger_service_client::LedgerServiceClient::new(channel);
        match client.claim(claim("c", &number.to_string())).await {
            Ok(_) => passed += 1,
            Err(status) => {
                limited(&status, "principal_calls_per_second");
                refused += 1;
            }
        }
    }
    assert!(passed >= 1 && refused >= 2, "{passed} passed, {refused} were refused");
    server.stop().await;
}
