//! Servers that tenants share, and clients that leave their calls open and read as little of an answer as they like.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use idempotency_ledger::identity::NewToken;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{Healthy, from_elsewhere};
use crate::edge::Edge;
use crate::harness::postgres::free_port;

/// How long clients may take to fill a server.
const FULL_WITHIN: Duration = Duration::from_secs(60);

/// What a series shows.
pub(in crate::edge) async fn gauge(observe: &str, name: &str) -> u64 {
    let mut stream = TcpStream::connect(observe).await.unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let of = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok();
    text.lines().find_map(of).unwrap_or_else(|| panic!("{name} in {text}"))
}

/// A server of several tenants, each with all rights on consumers of its own.
pub(super) struct Tenants {
    pub(super) edge: Edge,
    /// The tokens of the hostile ones, whose consumers are `hostile0`, `hostile1` and so on.
    pub(super) hostile: Vec<String>,
    /// Its consumer is `healthy`.
    pub(super) healthy: Healthy,
    pub(super) observe: String,
    pub(super) _files: tempfile::TempDir,
}

impl Tenants {
    pub(super) async fn start(hostile: usize, stall_max: &str, settings: &[&str]) -> Tenants {
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).display().to_string();
        let names = (0..hostile).map(|number| format!("hostile{number}")).chain(["healthy".to_owned()]);
        let all: Vec<_> = names.map(|name| (NewToken::make(&name).unwrap(), name)).collect();
        let (mut tokens, mut rights) = ("[tokens]\n".to_owned(), String::new());
        for (token, name) in &all {
            writeln!(tokens, "{name} = [{:?}]", token.hash).unwrap();
            writeln!(
                rights,
                "[[rights]]\nprincipal = \"token:{name}\"\nconsumers = [{name:?}]\n\
                 may = [\"claim\", \"settle\", \"admin\"]\n"
            )
            .unwrap();
        }
        std::fs::write(path("tokens.toml"), tokens).unwrap();
        std::fs::write(path("rights.toml"), rights).unwrap();
        let (tokens, rights) = (path("tokens.toml"), path("rights.toml"));
        let files_of = ["--tokens-file", &tokens, "--rights-file", &rights, "--stall-max", stall_max];
        let observe = format!("127.0.0.1:{}", free_port());
        let edge = Edge::start(&[&files_of[..], &["--observe-listen", &observe], settings].concat()).await;
        let mut hostile: Vec<String> = all.into_iter().map(|(token, _)| token.token).collect();
        let healthy = Healthy { tokens: vec![hostile.pop().unwrap()], ..Healthy::of(&edge) };
        Tenants { edge, hostile, healthy, observe, _files: files }
    }

    /// Waits until the requests under way have that many bytes.
    pub(super) async fn holds(&self, bytes: u64) {
        let until = Instant::now() + FULL_WITHIN;
        loop {
            let held = gauge(&self.observe, "idempotency_ledger_request_bytes").await;
            if held >= bytes {
                return;
            }
            assert!(Instant::now() < until, "requests hold {held} bytes, not {bytes}");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

/// A connection of a client that reads as much of each answer as this window allows.
pub(super) struct Deaf {
    pub(super) send: SendRequest<Bytes>,
    pub(super) driving: JoinHandle<Result<(), h2::Error>>,
}

/// A call that its client leaves open.
pub(super) struct Asked {
    pub(super) answer: ResponseFuture,
    pub(super) body: SendStream<Bytes>,
}

impl Deaf {
    pub(super) async fn connect(edge: &Edge, window: u32) -> Deaf {
        let mut builder = h2::client::Builder::new();
        builder.initial_window_size(window).initial_max_send_streams(256);
        let (send, connection) = builder.handshake(from_elsewhere(edge).await).await.unwrap();
        Deaf { send, driving: tokio::spawn(connection) }
    }

    /// Begins a call; `None` if the connection has ended.
    pub(super) async fn ask(&mut self, path: &str, token: &str, bytes: Vec<u8>, ends: bool) -> Option<Asked> {
        let mut request = http::Request::post(format!("http://x/{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        if !token.is_empty() {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let mut send = self.send.clone().ready().await.ok()?;
        let (answer, mut body) = send.send_request(request.body(()).unwrap(), false).ok()?;
        body.send_data(bytes.into(), ends).ok()?;
        Some(Asked { answer, body })
    }
}

impl Asked {
    /// The head of the answer, and what is behind it; `None` if its stream was reset.
    pub(super) async fn head(self) -> Option<(String, RecvStream, SendStream<Bytes>)> {
        let (head, rest) = self.answer.await.ok()?.into_parts();
        let status = head.headers.get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
        Some((status.unwrap_or_default(), rest, self.body))
    }
}
