//! The same calls by the HTTP door: each credential and each right is judged there as it is by gRPC.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use super::credentials::{each_is_known_or_refused_at, people, server, trust};
use super::presented::{bearer, forwarded, web_tokens};
use super::rpcs::{Method, ours};
use super::wire::{Answer, Calls, Headers};
use crate::identity::web_tokens::Signer;

/// A connection of HTTP/2, which changes no byte of a header.
pub(super) struct Door(SendRequest<Full<Bytes>>);

impl Door {
    pub(super) async fn to(address: SocketAddr) -> Door {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (client, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        Door(client)
    }
}

impl Calls for Door {
    async fn call(&self, method: &Method, headers: &Headers, message: Vec<u8>) -> Answer {
        let url = format!("http://localhost{}", method.path());
        let mut request = http::Request::post(url).header("content-type", "application/proto");
        for (name, value) in headers {
            request = request.header(*name, &value[..]);
        }
        let request = request.body(Full::new(message.into())).unwrap();
        let (head, body) = self.0.clone().send_request(request).await.unwrap().into_parts();
        let body = body.collect().await.unwrap().to_bytes();
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

fn unary() -> Vec<Method> {
    let methods: Vec<Method> = ours().into_iter().filter(|method| !method.streams).collect();
    assert!(methods.len() > 20, "{}", methods.len());
    methods
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_token_is_known_or_refused_by_the_http_door() {
    let (people, ours, theirs) = (people(), Signer::new("k1"), Signer::new("k1"));
    let (server, channel) = server(&people, trust(&people, &ours, &["10.0.0.0/8"])).await;
    let all = [bearer(&people), web_tokens(&ours, &theirs)].concat();
    let door = Door::to(server.http_address()).await;
    each_is_known_or_refused_at(&door, &all, &unary(), &[]).await;
    drop((door, channel));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_forwarded_name_is_known_or_refused_by_the_http_door() {
    let (people, ours) = (people(), Signer::new("k1"));
    let (server, channel) = server(&people, trust(&people, &ours, &["127.0.0.0/8"])).await;
    let door = Door::to(server.http_address()).await;
    each_is_known_or_refused_at(&door, &forwarded(&people), &unary(), &[]).await;
    drop((door, channel));
    server.stop().await;
}
