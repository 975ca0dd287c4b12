//! The shape of a call: how much metadata it has, how many messages, and whether it shows a credential.

use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use idempotency_ledger::identity::Guard;
use prost::Message as _;
use tonic::Request;
use tonic_reflection::pb::{v1, v1alpha};

use super::frames::{message, post};
use super::memory::connect;
use crate::harness::details::{acquired, claim};
use crate::harness::raw;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::{People, by};

/// What a raw call was answered: its HTTP status, its gRPC status, and its reason.
async fn answered(
    mut send: h2::client::SendRequest<Bytes>,
    request: http::Request<()>,
    body: Vec<u8>,
) -> [String; 3] {
    let (answer, mut sending) = send.send_request(request, false).unwrap();
    // A call that is refused by its head needs no body.
    let _sent = sending.send_data(body.into(), true);
    let answer = match tokio::time::timeout(Duration::from_secs(10), answer).await.unwrap() {
        Ok(answer) => answer,
        Err(error) => return ["".into(), "".into(), error.to_string()],
    };
    let header = |name: &str| {
        answer.headers().get(name).map_or(String::new(), |value| value.to_str().unwrap().to_owned())
    };
    [answer.status().as_u16().to_string(), header("grpc-status"), header("idempotency-ledger-reason")]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_metadata_is_refused_with_a_status_and_its_neighbours_live() {
    let mut server = TestServer::start(Kind::Sqlite).await;
    let send = connect(&server.address().to_string()).await;
    for (bytes, expected) in [
        (1_000, ["200", "", ""]),
        (7_500, ["200", "", ""]),
        (8_192, ["200", "3", "TOO_LARGE"]),
        (20_000, ["200", "3", "TOO_LARGE"]),
        (40_000, ["200", "3", "TOO_LARGE"]),
        (64_000, ["200", "3", "TOO_LARGE"]),
        (500, ["200", "", ""]),
    ] {
        let mut request = post();
        request.headers_mut().insert("x", "a".repeat(bytes).parse().unwrap());
        let body = message(&claim("c", &bytes.to_string()));
        assert_eq!(answered(send.clone(), request, body).await, expected, "{bytes}");
    }
    assert_eq!(server.metric("idempotency_ledger_refusals_total{reason=\"TOO_LARGE\"}"), Some(4.0));
    acquired(&server.client.claim(claim("c", "another connection")).await.unwrap().into_inner());
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unary_call_with_two_messages_is_refused_and_carries_out_none() {
    let mut server = TestServer::start(Kind::Sqlite).await;
    let send = connect(&server.address().to_string()).await;
    let (first, second) = (message(&claim("c", "1")), message(&claim("c", "2")));
    for (body, expected) in [
        ([&first[..], &second].concat(), ["200", "3", "INVALID_FIELD"]),
        ([&first[..], &[0, 0, 0, 0, 0]].concat(), ["200", "3", "INVALID_FIELD"]),
    ] {
        assert_eq!(answered(send.clone(), post(), body).await, expected);
    }
    let mut health = post();
    *health.uri_mut() = "http://x/grpc.health.v1.Health/Check".parse().unwrap();
    let two = [[0; 5], [0; 5]].concat();
    assert_eq!(answered(send.clone(), health, two).await[1], "3", "health has one message, too");
    for id in ["1", "2"] {
        let answer = server.client.claim(claim("c", id)).await.unwrap().into_inner();
        assert_eq!(acquired(&answer).attempt, 1, "neither was carried out: {id}");
    }
    server.stop().await;
}

/// Where callers are authenticated, reflection needs a credential, any that is valid; health never does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_needs_a_credential_where_callers_have_some() {
    let people = People::new(&[("known", &[])]);
    for authenticates in [false, true] {
        let guard = if authenticates { Guard::new(people.trust()) } else { Setup::default().guard };
        let server = TestServer::start_with(Kind::Sqlite, Setup { guard, ..Setup::default() }).await;
        let channel = raw::channel(&server).await;
        for (token, answers) in
            [(None, !authenticates), (Some("ilt_wrong"), !authenticates), (Some(people.token("known")), true)]
        {
            let asked = |message| match token {
                Some(token) => by(token, message),
                None => Request::new(message),
            };
            let list = v1::server_reflection_request::MessageRequest::ListServices(String::new());
            let request = v1::ServerReflectionRequest { host: String::new(), message_request: Some(list) };
            let mut client = v1::server_reflection_client::ServerReflectionClient::new(channel.clone());
            let told = client.server_reflection_info(asked(stream::iter([request.clone()]))).await;
            let code = match told {
                Ok(told) => told.into_inner().next().await.unwrap().map(drop).map_err(|status| status.code()),
                Err(status) => Err(status.code()),
            };
            let expected = if answers { Ok(()) } else { Err(tonic::Code::Unauthenticated) };
            assert_eq!(code, expected, "{token:?}, authenticates: {authenticates}");
            let alpha = v1alpha::ServerReflectionRequest::decode(&request.encode_to_vec()[..]).unwrap();
            let mut client = v1alpha::server_reflection_client::ServerReflectionClient::new(channel.clone());
            let told = client.server_reflection_info(match token {
                Some(token) => by(token, stream::iter([alpha])),
                None => Request::new(stream::iter([alpha])),
            });
            assert_eq!(told.await.is_ok(), answers, "{token:?}, authenticates: {authenticates}");
            let mut health = tonic_health::pb::health_client::HealthClient::new(channel.clone());
            health.check(tonic_health::pb::HealthCheckRequest { service: "liveness".into() }).await.unwrap();
        }
        server.stop().await;
    }
}
