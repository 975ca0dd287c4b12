//! Settings that a server over SQLite has, most of which are limits.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::claim_response::Verdict;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, ClaimRequest, EntryKey};
use sqlx::{Connection as _, Executor as _};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpSocket;
use tonic::{Code, Request};

use super::{BINARY, PATIENCE, Scene, import, probes, refused, sqlite};
use crate::door::client::http1;
use crate::edge::{PREFACE, SETTINGS};
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::raw::Raw;
use crate::harness::signals::signal;
use crate::observe::asked;
use crate::process::Server;
use crate::waiting::secs;

const CLAIM: &str = "/idempotency.ledger.v1.LedgerService/Claim";

/// As many letters as the value says, and one more.
fn long(value: &str) -> [String; 2] {
    let length: usize = value.parse().unwrap();
    [length, length + 1].map(|length| "x".repeat(length))
}

/// A field of this length is taken, and a longer one is refused.
async fn bounds(scene: &mut Scene, value: &str, with: fn(String) -> ClaimRequest) {
    let [fits, longer] = long(value);
    scene.client.claim(with(fits)).await.unwrap();
    let status = scene.client.claim(with(longer)).await.unwrap_err();
    assert_eq!(refusal(&status).reason, "INVALID_FIELD", "{status:?}");
    assert!(status.message().contains(value), "the bound is named: {status:?}");
}

fn of_key(change: fn(EntryKey, String) -> EntryKey, text: String) -> ClaimRequest {
    let short =
        EntryKey { consumer: "c".into(), source: "s".into(), id: "bounds".into(), ..Default::default() };
    ClaimRequest { key: Some(change(short, text)), ..claim("c", "bounds") }
}

/// Whether a field of the settlement is left out or cut, which its counter shows.
async fn is_corrected(scene: &Scene, field: &str, call: impl Future<Output = ()>) -> bool {
    let name = format!("corrected_fields_total{{field=\"{field}\"}}");
    let before = scene.metric(&name).await;
    call.await;
    scene.metric(&name).await > before
}

async fn token(scene: &mut Scene, id: &str) -> i64 {
    acquired(&scene.client.claim(claim("c", id)).await.unwrap().into_inner()).token
}

/// While what this returns lives, the store writes nothing.
async fn writes_are_held(folder: &TempDir) -> sqlx::SqliteConnection {
    let mut foreign = sqlx::SqliteConnection::connect(&sqlite(folder.path())).await.unwrap();
    foreign.execute(sqlx::raw_sql("BEGIN IMMEDIATE")).await.unwrap();
    foreign
}

fn batch(prefix: &str, items: usize) -> proto::BatchClaimRequest {
    let requests = (0..items).map(|number| claim("c", &format!("{prefix} {number}"))).collect();
    proto::BatchClaimRequest { requests }
}

probes! {
    is_served(scene, _value) {
        token(scene, "served").await;
    }

    is_served_by_http(scene, value) {
        let body = br#"{"key":{"consumer":"c","source":"s","id":"by http"},"owner":"o"}"#;
        assert_eq!(http1(value.parse().unwrap(), CLAIM, &[], body).await.status, 200);
    }

    names_its_host(scene, value) {
        let to = scene.at("http_listen").parse().unwrap();
        let body = br#"{"key":{"consumer":"c","source":"s","id":"by host"},"owner":"o"}"#;
        for (host, status) in [(value, 200), ("other.example", 421)] {
            assert_eq!(http1(to, CLAIM, &[("host", host)], body).await.status, status, "{host}");
        }
    }

    is_observed(_scene, value) {
        assert_eq!(asked(value, "GET /livez").await.0, 200);
    }

    offers_no_reflection(scene, _value) {
        let mut client = tonic::client::Grpc::new(scene.server.channel().await.unwrap());
        client.ready().await.unwrap();
        let path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo".parse().unwrap();
        let answer = client.server_streaming(Request::new(Vec::new()), path, Raw).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unimplemented);
    }

    bounds_consumer(scene, value) {
        bounds(scene, value, |text| of_key(|key, consumer| EntryKey { consumer, ..key }, text)).await;
    }

    bounds_source(scene, value) {
        bounds(scene, value, |text| of_key(|key, source| EntryKey { source, ..key }, text)).await;
    }

    bounds_id(scene, value) {
        bounds(scene, value, |text| of_key(|key, id| EntryKey { id, ..key }, text)).await;
    }

    bounds_owner(scene, value) {
        bounds(scene, value, |owner| ClaimRequest { owner, ..claim("c", "owner") }).await;
    }

    bounds_fingerprint(scene, value) {
        let with = |text: String| ClaimRequest { fingerprint: text.into(), ..claim("c", "fingerprint") };
        bounds(scene, value, with).await;
    }

    bounds_error(scene, value) {
        let token = token(scene, "error").await;
        let error = "x".repeat(1_000);
        let retry_after = secs(60);
        let kind = proto::FailureKind::Retryable.into();
        let fail = proto::FailRequest { key: key("c", "error"), token, kind, error, retry_after, ..Default::default() };
        scene.client.fail(fail).await.unwrap();
        let again = scene.client.claim(claim("c", "error")).await.unwrap().into_inner();
        let Some(Verdict::Backoff(backoff)) = again.verdict else { panic!("{again:?}") };
        let kept = backoff.last_error.len();
        assert!((1..=value.parse().unwrap()).contains(&kept), "{kept} bytes of the error are kept");
    }

    bounds_result(scene, value) {
        for (text, longer) in long(value).into_iter().zip([false, true]) {
            let id = format!("result {longer}");
            let token = token(scene, &id).await;
            let mut client = scene.client.clone();
            let request = proto::CompleteRequest { key: key("c", &id), token, result: text.into(), ..Default::default() };
            let completes = async { drop(client.complete(request).await.unwrap()) };
            assert_eq!(is_corrected(scene, "result", completes).await, longer, "{id}");
        }
    }

    bounds_checkpoint(scene, value) {
        let token = token(scene, "checkpoint").await;
        for (text, longer) in long(value).into_iter().zip([false, true]) {
            let mut client = scene.client.clone();
            let checkpoint = Some(Bytes::from(text));
            let request = proto::RenewRequest { key: key("c", "checkpoint"), token, checkpoint, ..Default::default() };
            let renews = async { drop(client.renew(request).await.unwrap()) };
            assert_eq!(is_corrected(scene, "checkpoint", renews).await, longer);
        }
    }

    bounds_items(scene, value) {
        let items: usize = value.parse().unwrap();
        scene.client.batch_claim(batch("items", items)).await.unwrap();
        let status = scene.client.batch_claim(batch("more items", items + 1)).await.unwrap_err();
        assert_eq!(refusal(&status).reason, "TOO_MANY_ITEMS", "{status:?}");
    }

    bounds_message(scene, value) {
        let large = ClaimRequest { owner: "x".repeat(value.parse().unwrap()), ..claim("c", "large") };
        let status = scene.client.claim(large).await.unwrap_err();
        assert_eq!(refusal(&status).reason, "TOO_LARGE", "{status:?}");
    }

    /// A bucket has all batches that were sent to the store so far.
    bounds_batch(scene, value) {
        scene.client.batch_claim(batch("batch", 10)).await.unwrap();
        let within = scene.metric(&format!("batch_commands_bucket{{le=\"{value}\"}}")).await;
        let all = scene.metric("batch_commands_count").await;
        assert!(all > 5.0 && (within - all).abs() < 0.5, "{within} of {all} batches have at most {value} commands");
    }

    /// More commands than may wait, while the store writes nothing.
    bounds_queue(scene, _value) {
        let held = writes_are_held(&scene.folder).await;
        let calls = (0..4).map(|number| {
            let mut client = scene.client.clone();
            async move { client.batch_claim(batch(&format!("queue {number}"), 10)).await }
        });
        let calls = tokio::spawn(join_all(calls.collect::<Vec<_>>()));
        scene.reaches("refusals_total{reason=\"OVERLOADED\"}", 1.0).await;
        drop(held);
        calls.await.unwrap();
    }

    /// The server measures how long calls wait. By default this one would wait for ten seconds.
    bounds_wait(scene, _value) {
        token(scene, "awaited").await;
        let waits = ClaimRequest { wait: secs(20), ..claim("c", "awaited") };
        let answer = scene.client.claim(waits).await.unwrap().into_inner();
        assert!(matches!(answer.verdict, Some(Verdict::InProgress(_))), "{answer:?}");
        let short = scene.metric("wait_seconds_bucket{outcome=\"over\",le=\"5\"}").await;
        assert_eq!((short, scene.metric("wait_seconds_count{outcome=\"over\"}").await), (1.0, 1.0));
    }

    /// By default the third count would come after two minutes.
    counts_often(scene, _value) {
        scene.reaches("entries_counting_seconds_count", 3.0).await;
    }

    bounds_connections(scene, value) {
        let mut open = Vec::new();
        for _ in 0..=value.parse().unwrap() {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
            let mut stream = socket.connect(scene.server.address.parse().unwrap()).await.unwrap();
            let _closed = stream.write_all(&[PREFACE, SETTINGS].concat()).await;
            open.push(stream);
        }
        scene.reaches("connections_closed_total{why=\"per_address\"}", 1.0).await;
    }

    /// Five of eight: the others are kept for settlements.
    bounds_calls(scene, _value) {
        let mut admin = AdminServiceClient::new(scene.server.channel().await.unwrap());
        let mut open = Vec::new();
        for number in 0..5 {
            open.push(import(&mut admin, number).await.unwrap());
        }
        refused(import(&mut admin, 5).await, "(principal_calls_max)");
    }

    /// Five of the eight calls of a principal are open to calls other than settlements: five imports take 133 KiB each, and the result
    /// of a settlement is too much.
    bounds_bytes(scene, value) {
        scene.becomes("request_bytes", |bytes| bytes == 0.0).await;
        let channel = scene.server.channel().await.unwrap();
        let mut open = Vec::new();
        for number in 10..15 {
            open.push(import(&mut AdminServiceClient::new(channel.clone()), number).await.unwrap());
        }
        let settles =
            proto::CompleteRequest { key: key("c", "awaited"), token: 7, result: vec![0; 65_000].into(), ..Default::default() };
        let refused_by = format!("more than {value} bytes (connection_bytes_max)");
        refused(LedgerServiceClient::new(channel).complete(settles).await, &refused_by);
        drop(open);
        scene.becomes("request_bytes", |bytes| bytes == 0.0).await;
    }

    bounds_rate(scene, _value) {
        let since = Instant::now();
        let name = "principal_refusals_total{limit=\"rate\"}";
        while scene.metric(name).await == 0.0 {
            assert!(since.elapsed() < PATIENCE, "no call is refused");
            // Claims without a key count, too, and cost no write.
            let calls = (0..50).map(|_| {
                let mut client = scene.client.clone();
                let requests = vec![ClaimRequest::default(); 10];
                async move { drop(client.batch_claim(proto::BatchClaimRequest { requests }).await) }
            });
            join_all(calls.collect::<Vec<_>>()).await;
        }
    }

    /// The server ends, and a call is under way that the store does not answer. By default it would be waited for. Settlements have
    /// a reserve of the limits before.
    drains_for_no_time(scene, _value) {
        scene.becomes("request_bytes", |bytes| bytes == 0.0).await;
        let held = writes_are_held(&scene.folder).await;
        let mut client = scene.client.clone();
        let settles = proto::CompleteRequest { key: key("c", "awaited"), token: 7, ..Default::default() };
        let call = tokio::spawn(async move { drop(client.complete(settles).await) });
        scene.becomes("request_bytes", |bytes| bytes > 0.0).await;
        signal("TERM", &[scene.server.child.id()]);
        let since = Instant::now();
        while scene.server.child.try_wait().unwrap().is_none() {
            assert!(since.elapsed() < PATIENCE, "the server does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        call.await.unwrap();
        drop(held);
        let log = scene.log();
        assert!(log.contains("drain_max: calls were still under way"), "{log}");
    }
}

/// While the store writes nothing, settlements of more than 1 MiB wait: the default, 64 MiB, would have room for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_full_of_bytes_takes_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let url = sqlite(folder.path());
    let settings =
        "--queue-bytes-max 1048576 --batch-bytes-max 65536 --result-bytes-max 60000 --observe-listen off";
    let settings: Vec<&str> = settings.split(' ').collect();
    let server = Server::with(Command::new(BINARY), &url, &settings, Stdio::null()).await;
    let held = writes_are_held(&folder).await;
    let client = server.client().await;
    let calls = (0..60).map(|number| {
        let (mut client, key) = (client.clone(), key("c", &number.to_string()));
        let settles =
            proto::CompleteRequest { key, token: 7, result: vec![0; 60_000].into(), ..Default::default() };
        async move { client.complete(settles).await.map(drop) }
    });
    let answers = join_all(calls.collect::<Vec<_>>()).await;
    drop(held);
    let reasons: Vec<String> =
        answers.into_iter().map(|answer| refusal(&answer.unwrap_err()).reason).collect();
    assert!(reasons.iter().any(|reason| reason == "OVERLOADED"), "{reasons:?}");
}

/// Whether the configuration is taken with an address that others reach, where callers are not authenticated.
pub(super) fn serves_all(value: &str) {
    for (flags, code) in [(vec!["--insecure-anonymous", value], 0), (vec![], 2)] {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--check-config", "--listen", "0.0.0.0:50051"]).args(&flags);
        assert_eq!(command.output().unwrap().status.code(), Some(code), "{flags:?}");
    }
}
