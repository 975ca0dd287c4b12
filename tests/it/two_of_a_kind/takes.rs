//! How an owner takes all that it may have.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use futures_util::future::LocalBoxFuture;
use futures_util::{StreamExt as _, stream};
use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tonic::Status;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::WAIT;
use super::scene::{ADDRESSES, OWNERS, Scene};
use crate::door::client::{Http1, request};
use crate::edge::{PREFACE, SETTINGS};
use crate::harness::details::{claim, key, refusal};
use crate::harness::server::START;
use crate::identity::fresh;
use crate::waiting::{WAITERS, ended, secs};

/// Takes one after the other, up to the first that is refused.
macro_rules! one_by_one {
    ($name:ident, $one:ident) => {
        pub(super) fn $name(scene: &mut Scene, owner: usize) -> LocalBoxFuture<'_, (usize, String)> {
            Box::pin(async move {
                for taken in 0..200 {
                    if let Err(why) = $one(scene, owner).await {
                        return (taken, why);
                    }
                }
                (200, "nothing was refused".to_owned())
            })
        }
    };
}

one_by_one!(claims, claims_one);
one_by_one!(imports, opens_an_import);
one_by_one!(connections, connects);
one_by_one!(holds, holds_a_prefix);
one_by_one!(runs, creates_a_run);
one_by_one!(watches, watches_health);

type One = Result<(), String>;

/// A Claim that waits.
fn waits(consumer: &str, id: &str) -> proto::ClaimRequest {
    proto::ClaimRequest { wait: secs(WAIT.as_secs().cast_signed()), ..claim(consumer, id) }
}

fn reason(status: Status) -> String {
    refusal(&status).reason
}

async fn claims_one(scene: &mut Scene, owner: usize) -> One {
    let message = claim(OWNERS[owner], &scene.fresh());
    let request = scene.request(owner, message);
    scene.ledger(owner).claim(request).await.map(drop).map_err(reason)
}

/// An import that has stored its first message, and waits for the next one.
async fn opens_an_import(scene: &mut Scene, owner: usize) -> One {
    let id = scene.fresh();
    let first = proto::ImportEntriesRequest {
        operation_id: format!("import {id}"),
        reason: "two of a kind".into(),
        entries: vec![proto::ImportedEntry { key: key("c", &id), ..Default::default() }],
    };
    let (more, rest) = tokio::sync::oneshot::channel::<()>();
    let messages = stream::iter([first]).chain(stream::once(rest).filter_map(|_| async { None }));
    let request = scene.request(owner, messages);
    let mut stored = scene.admin(owner).import_entries(request).await.map_err(reason)?.into_inner();
    stored.message().await.map_err(reason)?;
    scene.held.push(Box::new((more, stored)));
    Ok(())
}

async fn from(address: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{address}:0").parse().unwrap()).unwrap();
    socket.connect(to).await.unwrap()
}

/// A connection on which the server has answered the preface.
async fn connects(scene: &mut Scene, owner: usize) -> One {
    let mut stream = from(ADDRESSES[owner], scene.server.address()).await;
    let sent = stream.write_all(&[PREFACE, SETTINGS].concat()).await;
    let mut first = [0; 1];
    match (sent, stream.read(&mut first).await) {
        (Ok(()), Ok(1..)) => {
            scene.held.push(Box::new(stream));
            Ok(())
        }
        _ => Err("closed".to_owned()),
    }
}

async fn holds_a_prefix(scene: &mut Scene, owner: usize) -> One {
    let id = scene.fresh();
    let hold = proto::HoldConsumersRequest {
        prefix: format!("prefix-{id}"),
        all: false,
        request_id: id,
        reason: "two of a kind".into(),
    };
    let request = scene.request(owner, hold);
    scene.admin(owner).hold_consumers(request).await.map(drop).map_err(reason)
}

/// All but two of the holds that a principal may have.
pub(super) fn fill_holds(scene: &Scene, owner: usize) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let (actor, now) = (scene.principal(owner), START.micros());
        let insert = format!(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 48)
             INSERT INTO @ledger.holds (prefix, created_at, actor, reason)
             SELECT '{actor}-' || i, {now}, '{actor}', 'why' FROM n"
        );
        scene.server.at.execute(&insert).await;
        is_read_again(scene).await;
    })
}

/// What was written past the server is read with its next change.
async fn is_read_again(scene: &Scene) {
    scene.server.at.execute("UPDATE @ledger.meta SET policy_epoch = policy_epoch + 1").await;
}

async fn creates_a_run(scene: &mut Scene, owner: usize) -> One {
    let id = scene.fresh();
    let run = proto::CreateReplayRunRequest {
        consumer: OWNERS[owner].into(),
        replay_run: format!("new-{id}"),
        request_id: id,
        reason: "two of a kind".into(),
        ends_in: None,
    };
    let request = scene.request(owner, run);
    scene.admin(owner).create_replay_run(request).await.map(drop).map_err(reason)
}

/// Runs of a principal, of this consumer or of ten whose names begin like this.
async fn fill_runs(scene: &Scene, consumer: &str, actor: &str, count: usize) {
    let (now, end) = (START.micros(), (START + Span::from_days(7)).micros());
    let insert = format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})
         INSERT INTO @ledger.replay_runs (consumer, name, mode, created_at, ends_at, actor, reason)
         SELECT {consumer}, 'run' || i, 3, {now}, {end}, '{actor}', 'why' FROM n"
    );
    scene.server.at.execute(&insert).await;
    is_read_again(scene).await;
}

/// All but two of the runs that a consumer may have.
pub(super) fn fill_runs_of_a_consumer(scene: &Scene, owner: usize) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move { fill_runs(scene, &format!("'{}'", OWNERS[owner]), "another", 998).await })
}

/// All but two of the runs that a principal may have: half of what others leave.
pub(super) fn fill_runs_of_a_principal(scene: &Scene, owner: usize) -> LocalBoxFuture<'_, ()> {
    Box::pin(async move {
        let consumer = format!("'of-{}-' || (i % 10)", OWNERS[owner]);
        fill_runs(scene, &consumer, &scene.principal(owner), [4_998, 2_498][owner]).await;
    })
}

async fn watches_health(scene: &mut Scene, owner: usize) -> One {
    let at = Endpoint::from_shared(format!("http://{}", scene.server.address())).unwrap();
    let channel = at.local_address(Some(ADDRESSES[owner].parse().unwrap())).connect().await.unwrap();
    let watched = HealthClient::new(channel).watch(HealthCheckRequest::default()).await;
    let mut watched = watched.map_err(reason)?.into_inner();
    watched.message().await.map_err(reason)?;
    scene.held.push(Box::new(watched));
    Ok(())
}

/// Sends these Claims, which all find a holder. Returns how many wait when all have found a place or none.
async fn crowd(scene: &mut Scene, owner: usize, keys: Vec<(String, String)>) -> (usize, String) {
    for (consumer, id) in keys.iter().collect::<BTreeSet<_>>() {
        // Granted or not, the key is held then.
        let request = scene.request(owner, claim(consumer, id));
        drop(scene.ledger(owner).claim(request).await.unwrap());
    }
    let before = waiting(scene);
    for (consumer, id) in &keys {
        let (mut client, request) = (scene.ledger(owner), scene.request(owner, waits(consumer, id)));
        let call = tokio::spawn(async move { client.claim(request).await });
        scene.held.push(Box::new(AbortOnDrop(call)));
    }
    found_place(scene, before, keys.len()).await
}

/// Sends a ClaimNext for each of these consumers, of which no messages are stored.
async fn crowd_of_workers(scene: &mut Scene, owner: usize, consumers: Vec<String>) -> (usize, String) {
    let (before, count) = (waiting(scene), consumers.len());
    for consumer in consumers {
        let next = proto::ClaimNextRequest {
            consumer,
            claim_id: fresh(),
            owner: "worker".into(),
            max: 1,
            wait: secs(WAIT.as_secs().cast_signed()),
            ..Default::default()
        };
        let (mut client, request) = (scene.ledger(owner), scene.request(owner, next));
        let call = tokio::spawn(async move { client.claim_next(request).await });
        scene.held.push(Box::new(AbortOnDrop(call)));
    }
    found_place(scene, before, count).await
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// How many calls wait, and how many found no place.
fn waiting(scene: &Scene) -> (usize, usize) {
    let waiters = scene.server.metric(WAITERS).unwrap_or_default();
    (waiters as usize, ended(&scene.server, "no_place"))
}

async fn found_place(scene: &Scene, before: (usize, usize), count: usize) -> (usize, String) {
    let new = || {
        let now = waiting(scene);
        (now.0 - before.0, now.1 - before.1)
    };
    scene.until("each call waits, or found no place", |_| new().0 + new().1 == count).await;
    let (waits, refused) = new();
    (waits, if refused > 0 { "no place" } else { "nothing was refused" }.to_owned())
}

pub(super) fn waits_of_a_key(scene: &mut Scene, owner: usize) -> LocalBoxFuture<'_, (usize, String)> {
    // Both keys are of one consumer.
    let keys = vec![("c".to_owned(), OWNERS[owner].to_owned()); 5];
    Box::pin(crowd(scene, owner, keys))
}

pub(super) fn waits_of_a_consumer(scene: &mut Scene, owner: usize) -> LocalBoxFuture<'_, (usize, String)> {
    let keys = (0..9).map(|id| (OWNERS[owner].to_owned(), id.to_string())).collect();
    Box::pin(crowd(scene, owner, keys))
}

pub(super) fn waits_of_a_principal(scene: &mut Scene, owner: usize) -> LocalBoxFuture<'_, (usize, String)> {
    // Each call is of another consumer.
    let keys = (0..9).map(|number| (format!("{}-{number}", OWNERS[owner]), "1".to_owned())).collect();
    Box::pin(crowd(scene, owner, keys))
}

pub(super) fn waits_of_a_connection(scene: &mut Scene, owner: usize) -> LocalBoxFuture<'_, (usize, String)> {
    Box::pin(crowd(scene, owner, vec![("c".to_owned(), "1".to_owned()); 140]))
}

pub(super) fn handouts_of_a_consumer(scene: &mut Scene, owner: usize) -> LocalBoxFuture<'_, (usize, String)> {
    Box::pin(crowd_of_workers(scene, owner, vec![OWNERS[owner].to_owned(); 9]))
}

pub(super) fn handouts_of_a_principal(
    scene: &mut Scene,
    owner: usize,
) -> LocalBoxFuture<'_, (usize, String)> {
    // Each call is of another consumer.
    let consumers = (0..9).map(|number| format!("{}-{number}", OWNERS[owner])).collect();
    Box::pin(crowd_of_workers(scene, owner, consumers))
}

pub(super) fn handouts_of_a_connection(
    scene: &mut Scene,
    owner: usize,
) -> LocalBoxFuture<'_, (usize, String)> {
    Box::pin(crowd_of_workers(scene, owner, vec!["c".to_owned(); 140]))
}

pub(super) fn waits_of_an_address(scene: &mut Scene, owner: usize) -> LocalBoxFuture<'_, (usize, String)> {
    Box::pin(async move {
        drop(scene.ledger(owner).claim(claim("c", "1")).await.unwrap());
        let before = waiting(scene);
        let wait = WAIT.as_secs();
        let body = format!(r#"{{"key":{{"consumer":"c","source":"tests","id":"1"}},"wait":"{wait}s"}}"#);
        // Two find no place, and their connections stay: an address has eight.
        let count = if scene.held.len() < 12 { 6 } else { 2 };
        for _ in 0..count {
            let stream = from(ADDRESSES[owner], scene.server.http_address()).await;
            let mut http = Http1::over(stream);
            http.send(&request("/idempotency.ledger.v1.LedgerService/Claim", &[], body.as_bytes())).await;
            scene.held.push(Box::new(http));
        }
        found_place(scene, before, count).await
    })
}
