//! A server in this process over a store that fails on demand, and clients that leave their calls open.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use idempotency_ledger::domain::{Policy, ReplayMode};
use idempotency_ledger::proto;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::{Scene, Series};
use crate::harness::details::{acquired, claim, key};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::server::{Kind, Setup, TestServer, TestStore};
use crate::observe::parsed;

pub(super) struct Day {
    pub(super) server: TestServer,
    /// What the store does.
    pub(super) plan: Arc<Plan>,
    /// The tokens of claims, by their ids.
    tokens: BTreeMap<String, i64>,
    /// Calls and connections that stay open until an event drops them.
    pub(super) held: Vec<Box<dyn Any>>,
    /// Calls that are under way.
    pub(super) calls: Vec<JoinHandle<()>>,
    /// What an event has seen itself.
    pub(super) seen: Option<Series>,
}

impl Scene for Day {
    async fn series(&self) -> Series {
        parsed(&self.server.scraped())
    }

    fn seen(&mut self) -> Option<Series> {
        self.seen.take()
    }
}

/// A server whose consumer `c` may replay, and whose consumer `tried` has two attempts; it purges and counts all the time.
pub(super) fn setup() -> Setup {
    let replays = Policy { replay: ReplayMode::Rebuild, ..Policy::default() };
    let tries = Policy { max_attempts: 2, ..Policy::default() };
    let often = std::time::Duration::from_millis(50);
    Setup { purge_every: often, count_every: often, ..Setup::default() }
        .with("c", replays)
        .with("tried", tries)
}

impl Day {
    pub(super) async fn start(kind: Kind, setup: Setup) -> Day {
        let mut at = TestStore::new(kind).await.judged().await;
        let plan = Arc::new(Plan::default());
        plan.sessions.store(1, std::sync::atomic::Ordering::SeqCst);
        at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
        let server = TestServer::on(at, setup).await;
        Day { server, plan, tokens: BTreeMap::new(), held: Vec::new(), calls: Vec::new(), seen: None }
    }

    pub(super) async fn stop(mut self) {
        self.calls_end().await;
        drop(self.held);
        self.server.stop().await;
    }

    /// Waits for the calls that are under way.
    pub(super) async fn calls_end(&mut self) {
        for call in self.calls.drain(..) {
            call.await.unwrap();
        }
    }

    /// Claims a key; its token.
    pub(super) async fn claims(&mut self, consumer: &str, id: &str) -> i64 {
        let granted = self.server.client.claim(claim(consumer, id)).await.unwrap().into_inner();
        let token = acquired(&granted).token;
        self.tokens.insert(id.to_owned(), token);
        token
    }

    /// Keeps a token under another name.
    pub(super) fn keeps(&mut self, name: &str, token: i64) {
        self.tokens.insert(name.to_owned(), token);
    }

    /// The token of the last claim of this id.
    pub(super) fn token(&self, id: &str) -> i64 {
        self.tokens[id]
    }

    pub(super) async fn completes(&mut self, id: &str) {
        let request = complete(id, self.token(id));
        self.server.client.complete(request).await.unwrap();
    }

    /// A call that may be under way when the event is over.
    pub(super) fn sends(&mut self, call: impl Future<Output = ()> + Send + 'static) {
        self.calls.push(tokio::spawn(call));
    }

    /// A claim whose answer does not matter.
    pub(super) fn sends_a_claim(&mut self, id: &str) {
        let (mut client, request) = (self.server.client.clone(), claim("c", id));
        self.sends(async move { drop(client.claim(request).await) });
    }

    /// A Claim whose client sends these bytes, and reads nothing of the answer. It is held.
    pub(super) async fn unread(&mut self, body: Vec<u8>, ends: bool) {
        let open = OpenCall::begin(self.server.address(), body, ends).await;
        self.held.push(Box::new(open));
    }
}

pub(super) fn complete(id: &str, token: i64) -> proto::CompleteRequest {
    proto::CompleteRequest { key: key("c", id), token, ..Default::default() }
}

/// A call on its own connection, which ends when this is dropped.
pub(super) struct OpenCall {
    _send: SendRequest<Bytes>,
    _body: h2::SendStream<Bytes>,
    _answer: ResponseFuture,
    driving: JoinHandle<()>,
}

impl OpenCall {
    pub(super) async fn begin(to: std::net::SocketAddr, body: Vec<u8>, ends: bool) -> OpenCall {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(0);
        let stream = TcpStream::connect(to).await.unwrap();
        let (send, connection) = builder.handshake(stream).await.unwrap();
        let driving = tokio::spawn(async move { drop(connection.await) });
        let head = http::Request::post("http://x/idempotency.ledger.v1.LedgerService/Claim")
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        let mut send = send.ready().await.unwrap();
        let (answer, mut stream) = send.send_request(head.body(()).unwrap(), false).unwrap();
        stream.send_data(body.into(), ends).unwrap();
        OpenCall { _send: send, _body: stream, _answer: answer, driving }
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.driving.abort();
    }
}
