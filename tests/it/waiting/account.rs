//! What a waiting call holds of its principal: nothing, until it looks; and by whom it is judged then.

use std::time::Duration;

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto;
use idempotency_ledger::rpc::PrincipalLimits;
use tonic::Request;

use super::{Waiting, answer, ended, secs, until, until_waiting, waits};
use crate::door::client::{Http1, request};
use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::{People, by};

/// Seconds for which calls may wait: nearly as long as a call may take.
const LONG: u64 = 29;
const REQUEST_BYTES: &str = "idempotency_ledger_request_bytes";
const ALL: &[(&str, &str)] = &[("*", "claim settle read admin")];

async fn server(people: &People, principals: PrincipalLimits) -> (TestServer, Guard) {
    let guard = Guard::new(people.trust());
    let max_wait = Duration::from_secs(LONG);
    let setup = Setup { guard: guard.clone(), principals, max_wait, ..Setup::default() };
    (TestServer::start_with(Kind::Sqlite, setup).await, guard)
}

fn sent(server: &TestServer, request: Request<proto::ClaimRequest>) -> Waiting<proto::ClaimResponse> {
    let mut client = server.client.clone();
    tokio::spawn(async move { Ok(client.claim(request).await?.into_inner()) })
}

fn complete(token: i64) -> proto::CompleteRequest {
    proto::CompleteRequest { key: key("c", "1"), token, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holder_completes_however_many_calls_of_its_principal_wait() {
    const CALLS: usize = 40;
    let limits = [
        PrincipalLimits { calls_max: 8, ..PrincipalLimits::default() },
        // A call takes 5 KiB and more.
        PrincipalLimits { bytes_max: 65_536, ..PrincipalLimits::default() },
    ];
    for limits in limits {
        let people = People::new(&[("one", ALL)]);
        let (server, _guard) = server(&people, limits).await;
        let one = people.token("one");
        let mut client = server.client.clone();
        let granted = client.claim(by(one, claim("c", "1"))).await.unwrap().into_inner();
        let token = acquired(&granted).token;
        let mut waiting = Vec::new();
        for number in 1..=CALLS {
            let wait = secs(LONG.cast_signed());
            waiting.push(sent(&server, by(one, proto::ClaimRequest { wait, ..claim("c", "1") })));
            until_waiting(&server, number).await;
        }
        assert_eq!(server.metric(REQUEST_BYTES), Some(0.0), "{limits:?}");
        // Other calls of the principal find room, claims among them.
        acquired(&client.claim(by(one, claim("c", "2"))).await.unwrap().into_inner());
        client.complete(by(one, complete(token))).await.unwrap();
        for call in waiting {
            completed(&answer(call).await);
        }
        // What was given back was taken again, once: all room is there after that.
        until("the calls are over", || server.metric(REQUEST_BYTES) == Some(0.0)).await;
        for number in 0..20 {
            let next = claim("c", &format!("later {number}"));
            acquired(&client.claim(by(one, next)).await.unwrap().into_inner());
        }
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_quota_of_the_consumer_is_taken_once_for_all_looks_of_a_call() {
    let policy = Policy { claims_per_second: 1, ..Policy::default() };
    let server = TestServer::start_with(Kind::Sqlite, Setup::default().with("c", policy)).await;
    let token = super::held(&server, "1").await;
    // The next second brings the next claim: this one waits for it by its own retry.
    let mut client = server.client.clone();
    let waiting = tokio::spawn(async move {
        loop {
            match client.claim(waits("c", "1")).await {
                Ok(answered) => return answered.into_inner(),
                Err(status) => assert_eq!(refusal(&status).reason, "QUOTA_EXCEEDED"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    until_waiting(&server, 1).await;
    // The quota is used up, and its look takes none of it.
    let mut client = server.client.clone();
    while client.claim(claim("c", "2")).await.is_ok() {}
    super::complete(&server, "1", token).await;
    completed(&waiting.await.unwrap());
    assert_eq!(ended(&server, "refused"), 0, "the call that waited was answered itself");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credential_and_right_are_judged_at_each_look() {
    let people = People::new(&[("one", ALL), ("two", ALL), ("three", ALL), ("stays", ALL)]);
    let (server, guard) = server(&people, PrincipalLimits::default()).await;
    let mut client = server.client.clone();
    let holder = people.token("stays");
    let token = acquired(&client.claim(by(holder, claim("c", "1"))).await.unwrap().into_inner()).token;
    let waiting: Vec<_> = ["one", "two", "three", "stays"]
        .into_iter()
        .map(|name| sent(&server, by(people.token(name), waits("c", "1"))))
        .collect();
    until_waiting(&server, 4).await;
    // The credential of the first is taken out, and the right of the second; the credential of the third names another principal,
    // which has all rights.
    let lines = people.tokens_file.lines().filter(|line| !line.starts_with("one "));
    let lines: Vec<String> = lines.map(|line| line.replace("three = ", "other = ")).collect();
    let left = People {
        tokens: Vec::new(),
        tokens_file: lines.join("\n"),
        rights_file: People::new(&[("other", ALL), ("stays", ALL)]).rights_file,
    };
    guard.replace(left.trust());
    let request =
        proto::FailRequest { key: key("c", "1"), token, retry_after: secs(0), ..Default::default() };
    client.fail(by(holder, request)).await.unwrap();
    let mut answered = Vec::new();
    for one in waiting {
        let why =
            |status: tonic::Status| (refusal(&status).reason, status.message().contains("another principal"));
        answered.push(one.await.unwrap().map_err(why));
    }
    let stays = answered.pop().unwrap().unwrap();
    let refused = [("UNAUTHENTICATED", false), ("CONSUMER_NOT_ALLOWED", false), ("UNAUTHENTICATED", true)];
    assert_eq!(answered, refused.map(|(reason, moved)| Err((reason.to_owned(), moved))));
    // Each of them looked first in its turn, was granted nothing, and let the next one look.
    assert_eq!(acquired(&stays).attempt, 2);
    assert_eq!(ended(&server, "refused"), 3);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_that_finds_no_room_is_repeated_at_the_next_poll() {
    let people = People::new(&[("one", ALL), ("two", ALL)]);
    let limits = PrincipalLimits { calls_max: 8, ..PrincipalLimits::default() };
    let (server, _guard) = server(&people, limits).await;
    let (one, two) = (people.token("one"), people.token("two"));
    let mut client = server.client.clone();
    let token = acquired(&client.claim(by(two, claim("c", "1"))).await.unwrap().into_inner()).token;
    let waiting = sent(&server, by(one, waits("c", "1")));
    until_waiting(&server, 1).await;
    // All calls that its principal may have are under way: five claims that cannot be written.
    let held = server.at.hold_writes().await;
    let under_way: Vec<_> =
        (0..5).map(|number| sent(&server, by(one, claim("c", &format!("other {number}"))))).collect();
    let bytes = || server.metric(REQUEST_BYTES).unwrap();
    until("five calls are under way", || bytes() >= 5.0 * 5.0 * 1_024.0).await;
    let refusals = || server.metric("idempotency_ledger_principal_refusals_total{limit=\"calls\"}").unwrap();
    assert_eq!(refusals(), 0.0);
    // The lease of the holder is over, and a poll sees that.
    server.advance(Span::from_secs(100)).await;
    until("two looks found no room", || refusals() >= 2.0).await;
    assert!(!waiting.is_finished());
    drop(held);
    assert_eq!(acquired(&answer(waiting).await).attempt, 2);
    assert_eq!(ended(&server, "granted"), 1);
    for one in under_way {
        let _answered = one.await.unwrap();
    }
    assert!(token > 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_ends_before_the_deadline_of_a_call_whose_request_arrives_slowly() {
    let server = TestServer::start(Kind::Sqlite).await;
    super::held(&server, "1").await;
    let body = r#"{"key":{"consumer":"c","source":"tests","id":"1"},"owner":"o","wait":"9s"}"#;
    let headers = [("connect-timeout-ms", "2000"), ("expect", "100-continue")];
    let whole = request("/idempotency.ledger.v1.LedgerService/Claim", &headers, body.as_bytes());
    let (head, body) = whole.split_at(whole.len() - body.len());
    let mut http = Http1::to(server.http_address()).await;
    http.send(head).await;
    http.is_asked_for_its_body().await;
    // Half of its time is over when the rest of its request arrives.
    tokio::time::sleep(Duration::from_secs(1)).await;
    http.send(body).await;
    let answered = http.reply().await.unwrap();
    assert!(answered.json().get("inProgress").is_some(), "{answered:?}");
    assert_eq!(ended(&server, "over"), 1);
    server.stop().await;
}
