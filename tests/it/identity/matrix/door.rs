//! The same calls by the HTTP door: each credential and each right is judged there as it is by gRPC.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use rustls::pki_types::ServerName;
use tokio_rustls::TlsConnector;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::credentials::{each_is_known_or_refused_at, people, server, trust};
use super::presented::{Presented, bearer, forwarded, web_tokens};
use super::rpcs::{Method, ours};
use super::wire::{Answer, Calls, Headers};
use crate::harness::pki::Pki;
use crate::identity::web_tokens::Signer;

/// The way of a call to the door.
pub(super) enum Door {
    /// One connection, which changes no byte of a header.
    Http2(http2::SendRequest<Full<Bytes>>),
    /// Each connection carries calls of all credentials, one after the other.
    Http1 { address: SocketAddr, tls: Option<TlsConnector>, idle: Mutex<Vec<Http1>> },
}

type Http1 = http1::SendRequest<Full<Bytes>>;

impl Door {
    pub(super) async fn to(address: SocketAddr) -> Door {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let handshake = http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (client, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        Door::Http2(client)
    }

    pub(super) fn by_http1(address: SocketAddr) -> Door {
        Door::Http1 { address, tls: None, idle: Mutex::default() }
    }

    /// By HTTP/1.1 over TLS, with this certificate and its key.
    pub(super) fn secured(pki: &Pki, port: u16, own: Option<&(String, String)>) -> Door {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Door::Http1 { address, tls: Some(pki.http1(own)), idle: Mutex::default() }
    }

    /// Whether a call is answered at all. A handshake of TLS 1.3 is refused after the client thinks that it is done.
    pub(super) async fn answers(&self, method: &Method, headers: &Headers, message: Vec<u8>) -> bool {
        let Door::Http1 { address, tls, .. } = self else { panic!("by HTTP/1.1 alone") };
        let Ok(mut client) = connected(*address, tls.as_ref()).await else { return false };
        let request = self.request(method, headers).body(Full::new(message.into())).unwrap();
        client.send_request(request).await.is_ok()
    }

    fn request(&self, method: &Method, headers: &Headers) -> http::request::Builder {
        let request = match self {
            Door::Http2(_) => http::Request::post(format!("http://localhost{}", method.path())),
            Door::Http1 { .. } => http::Request::post(method.path()).header("host", "localhost"),
        };
        let request = request.header("content-type", "application/proto");
        headers.iter().fold(request, |request, (name, value)| request.header(*name, &value[..]))
    }

    async fn send(&self, request: http::request::Builder, body: Vec<u8>) -> (http::response::Parts, Bytes) {
        let request = request.body(Full::new(body.into())).unwrap();
        let whole = async |answer: http::Response<Incoming>| {
            let (head, body) = answer.into_parts();
            (head, body.collect().await.unwrap().to_bytes())
        };
        match self {
            Door::Http2(client) => whole(client.clone().send_request(request).await.unwrap()).await,
            Door::Http1 { address, tls, idle } => {
                let mut client = connection(*address, tls.as_ref(), idle).await;
                let answer = whole(client.send_request(request).await.unwrap()).await;
                idle.lock().unwrap_or_else(PoisonError::into_inner).push(client);
                answer
            }
        }
    }
}

/// A connection that takes a request: one that is idle, else a new one.
async fn connection(address: SocketAddr, tls: Option<&TlsConnector>, idle: &Mutex<Vec<Http1>>) -> Http1 {
    loop {
        let before = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(mut client) = before else { return connected(address, tls).await.unwrap() };
        if client.ready().await.is_ok() {
            return client;
        }
    }
}

async fn connected(address: SocketAddr, tls: Option<&TlsConnector>) -> std::io::Result<Http1> {
    let stream = tokio::net::TcpStream::connect(address).await?;
    let Some(tls) = tls else {
        let (client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        return Ok(client);
    };
    let stream = tls.connect(ServerName::try_from("localhost").unwrap(), stream).await?;
    let (client, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    Ok(client)
}

impl Calls for Door {
    async fn call(&self, method: &Method, headers: &Headers, message: Vec<u8>) -> Answer {
        let (mut head, body) = self.send(self.request(method, headers), message).await;
        // An answer ends its connection where it came before the body of its request, which may be empty.
        head.headers.remove(http::header::CONNECTION);
        if head.status == http::StatusCode::OK {
            return Answer { status: None, messages: vec![body.to_vec()] };
        }
        let error: serde_json::Value = serde_json::from_slice(&body)
            .unwrap_or_else(|error| panic!("{error}: {} {}", head.status, String::from_utf8_lossy(&body)));
        let code = code(error["code"].as_str().unwrap());
        let message = error["message"].as_str().unwrap_or_default().to_owned();
        let details = error["details"].as_array().cloned().unwrap_or_default();
        let details = details.iter().map(|detail| prost_types::Any {
            type_url: format!("type.googleapis.com/{}", detail["type"].as_str().unwrap()),
            value: STANDARD_NO_PAD.decode(detail["value"].as_str().unwrap()).unwrap(),
        });
        let details = details.collect();
        let details = tonic_types::pb::Status { code: code.into(), message: message.clone(), details };
        let metadata = MetadataMap::from_headers(head.headers);
        let details = details.encode_to_vec().into();
        let status = Status::with_details_and_metadata(code, message, details, metadata);
        Answer { status: Some(status), messages: Vec::new() }
    }
}

/// The codes that the calls of the matrices are refused with.
fn code(word: &str) -> Code {
    match word {
        "unauthenticated" => Code::Unauthenticated,
        "permission_denied" => Code::PermissionDenied,
        "invalid_argument" => Code::InvalidArgument,
        "not_found" => Code::NotFound,
        "aborted" => Code::Aborted,
        "failed_precondition" => Code::FailedPrecondition,
        "already_exists" => Code::AlreadyExists,
        "resource_exhausted" => Code::ResourceExhausted,
        "unavailable" => Code::Unavailable,
        "out_of_range" => Code::OutOfRange,
        word => panic!("{word}"),
    }
}

pub(super) fn unary() -> Vec<Method> {
    let methods: Vec<Method> = ours().into_iter().filter(|method| !method.streams).collect();
    assert!(methods.len() > 20, "{}", methods.len());
    methods
}

/// As HTTP/1.1 presents them: blanks around a value are no part of it.
fn without_blanks(all: Vec<Presented>) -> Vec<Presented> {
    let trimmed = |one: &Presented| {
        let headers = one.headers.iter().map(|(name, value)| (*name, value.trim_ascii().to_vec())).collect();
        let same = all.iter().find(|other| other.headers == headers);
        let known = same.map_or_else(|| one.known.clone(), |same| same.known.clone());
        Presented { what: one.what.clone(), headers, known }
    };
    all.iter().map(trimmed).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_token_is_known_or_refused_by_the_http_door() {
    let (people, ours, theirs) = (people(), Signer::new("k1"), Signer::new("k1"));
    let (server, channel) = server(&people, trust(&people, &ours, &["10.0.0.0/8"])).await;
    let all = [bearer(&people), web_tokens(&ours, &theirs)].concat();
    for (door, all) in [
        (Door::to(server.http_address()).await, all.clone()),
        (Door::by_http1(server.http_address()), without_blanks(all)),
    ] {
        each_is_known_or_refused_at(&door, &all, &unary(), &[]).await;
    }
    drop(channel);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_forwarded_name_is_known_or_refused_by_the_http_door() {
    let (people, ours) = (people(), Signer::new("k1"));
    let (server, channel) = server(&people, trust(&people, &ours, &["127.0.0.0/8"])).await;
    for (door, all) in [
        (Door::to(server.http_address()).await, forwarded(&people)),
        (Door::by_http1(server.http_address()), without_blanks(forwarded(&people))),
    ] {
        each_is_known_or_refused_at(&door, &all, &unary(), &[]).await;
    }
    drop(channel);
    server.stop().await;
}
