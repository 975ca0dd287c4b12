//! What a page of a browser could send, and where each service is.

use std::net::SocketAddr;
use std::time::Duration;

use futures_util::FutureExt as _;
use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::rpc::Hosts;
use tokio::time::timeout;

use super::client::{Http1, request};
use super::{ADMIN, LEDGER, call, claim};
use crate::harness::postgres::free_port;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::People;

/// A call that is not answered within this time has no connection.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_page_can_send_nothing_without_a_preflight() {
    let server = TestServer::start(Kind::Sqlite).await;
    let to = server.http_address();
    let path = format!("{LEDGER}/Claim");
    let body = claim("page");
    let body = body.as_bytes();
    let origin = ("origin", "https://evil.example");
    for kind in [
        "text/plain",
        "text/plain; application/json",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json, text/plain",
        "application/grpc",
        "application/connect+json",
        "",
    ] {
        for http in [1, 2] {
            let reply = call(http, to, &path, &[("content-type", kind), origin], body).await;
            assert_eq!((reply.status, reply.reason()), (415, String::new()), "{kind:?} {reply:?}");
            assert_eq!(reply.header("cache-control"), "no-store");
        }
    }
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        let query = "?message=%7B%7D&encoding=json&connect=v1";
        let text = format!(
            "{method} {path}{query} HTTP/1.1\r\nhost: localhost\r\norigin: https://evil.example\r\n\r\n"
        );
        let mut connection = Http1::to(to).await;
        connection.send(text.as_bytes()).await;
        // The answer to HEAD has a length and no body.
        if method == "HEAD" {
            continue;
        }
        let reply = connection.reply().await.unwrap();
        assert_eq!((reply.status, reply.header("allow")), (405, "POST"), "{method}");
        assert_eq!(reply.header("cache-control"), "no-store");
        let cors = reply.headers.iter().any(|(name, _)| name.starts_with("access-control-"));
        assert!(!cors, "{method}: {reply:?}");
    }
    let reply = call(1, to, &path, &[origin], body).await;
    assert_eq!(reply.header("idempotency-ledger-advice"), "PROCESS", "nothing was claimed before");
    assert!(!reply.headers.iter().any(|(name, _)| name.starts_with("access-control-")), "{reply:?}");
    server.stop().await;
}

#[tokio::test]
async fn where_callers_are_anonymous_a_host_is_an_address_or_a_known_name() {
    let hosts = Hosts::of(["ledger.internal".to_owned()]);
    let server = TestServer::start_with(Kind::Sqlite, Setup { hosts, ..Setup::default() }).await;
    let to = server.http_address();
    let path = format!("{LEDGER}/Claim");
    for (number, (host, status)) in [
        ("localhost:50080", 200),
        ("127.0.0.1", 200),
        ("[::1]:50080", 200),
        ("ledger.internal", 200),
        ("evil.example", 421),
        ("evil.example:50080", 421),
        ("localhost.evil.example", 421),
        ("ledger.internal.evil.example", 421),
    ]
    .into_iter()
    .enumerate()
    {
        for http in [1, 2] {
            let body = claim(&format!("{number}-{http}"));
            let reply = call(http, to, &path, &[("host", host)], body.as_bytes()).await;
            assert_eq!((reply.status, reply.reason()), (status, String::new()), "{host} by HTTP/{http}");
        }
    }
    // The name in the first line counts, too.
    let text = String::from_utf8(request(&path, &[], claim("absolute").as_bytes())).unwrap();
    let absolute = text.replacen(&path, &format!("http://evil.example{path}"), 1);
    assert_eq!(Http1::to(to).await.ask(absolute.as_bytes()).await.status, 421);
    server.stop().await;

    // Where callers are known, a page has no credential.
    let people = People::new(&[("one", &[("c", "claim")])]);
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let server = TestServer::start_with(Kind::Sqlite, setup).await;
    let token = format!("Bearer {}", people.token("one"));
    let headers = [("host", "any.example"), ("authorization", token.as_str())];
    let reply = call(1, server.http_address(), &path, &headers, claim("known").as_bytes()).await;
    assert_eq!(reply.header("idempotency-ledger-advice"), "PROCESS", "{reply:?}");
    let reply = call(1, server.http_address(), &path, &headers[..1], claim("known").as_bytes()).await;
    assert_eq!((reply.status, reply.reason()), (401, "UNAUTHENTICATED".to_owned()));
    server.stop().await;
}

/// Both ports have their connections of the same places, and a port without a connection keeps none.
#[tokio::test]
async fn both_ports_share_the_places_of_connections() {
    let setup = Setup { connections_max: 2, ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let path = format!("{LEDGER}/Claim");
    let grpc = server.client.claim(crate::harness::details::claim("c", "grpc")).await;
    assert!(grpc.is_ok(), "gRPC has one of two places");
    let mut first = Http1::to(server.http_address()).await;
    assert_eq!(first.ask(&request(&path, &[], claim("1").as_bytes())).await.status, 200);
    let mut second = Http1::to(server.http_address()).await;
    second.send(&request(&path, &[], claim("2").as_bytes())).await;
    assert_eq!(first.ask(&request(&path, &[], claim("3").as_bytes())).await.status, 200);
    assert!(second.reply().now_or_never().is_none(), "all places are taken");
    drop(first);
    assert_eq!(second.reply().await.unwrap().status, 200);
    server.stop().await;
}

#[tokio::test]
async fn operators_connect_while_consumers_hold_all_connections() {
    let [admin, admin_http] = [free_port(), free_port()].map(|port| SocketAddr::from(([127, 0, 0, 1], port)));
    let setup =
        Setup { connections_max: 2, admin: Some(admin), admin_http: Some(admin_http), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let path = format!("{LEDGER}/Claim");
    server.client.claim(crate::harness::details::claim("c", "grpc")).await.unwrap();
    let mut holder = Http1::to(server.http_address()).await;
    assert_eq!(holder.ask(&request(&path, &[], claim("1").as_bytes())).await.status, 200);
    let mut waiting = Http1::to(server.http_address()).await;
    waiting.send(&request(&path, &[], claim("2").as_bytes())).await;
    let path = format!("{ADMIN}/ListPolicies");
    let listed =
        timeout(PATIENCE, call(1, admin_http, &path, &[], b"{}")).await.expect("a connection by HTTP");
    assert_eq!(listed.status, 200, "{listed:?}");
    let mut client = AdminServiceClient::connect(format!("http://{admin}")).await.unwrap();
    let listed = client.list_policies(proto::ListPoliciesRequest::default());
    timeout(PATIENCE, listed).await.expect("a connection by gRPC").unwrap();
    assert!(waiting.reply().now_or_never().is_none(), "the places of consumers were taken all the time");
    drop(holder);
    assert_eq!(waiting.reply().await.unwrap().status, 200);
    server.stop().await;
}

#[tokio::test]
async fn each_service_is_where_its_listener_is() {
    let admin = Some(free_port());
    let admin_http = Some(free_port());
    let at = |port: Option<u16>| port.map(|port| ([127, 0, 0, 1], port).into());
    for (admin, admin_http) in [(None, None), (admin, None), (admin, admin_http)] {
        let setup = Setup { admin: at(admin), admin_http: at(admin_http), ..Setup::default() };
        let server = TestServer::start_with(Kind::Sqlite, setup).await;
        let status =
            async |to, path: String, body: &str| call(1, to, &path, &[], body.as_bytes()).await.status;
        let public = server.http_address();
        assert_eq!(status(public, format!("{LEDGER}/Claim"), &claim("a")).await, 200);
        let expected = if admin.is_none() { 200 } else { 404 };
        assert_eq!(status(public, format!("{ADMIN}/ListPolicies"), "{}").await, expected);
        if let Some(own) = at(admin_http) {
            assert_eq!(status(own, format!("{ADMIN}/ListPolicies"), "{}").await, 200);
            assert_eq!(status(own, format!("{LEDGER}/Claim"), &claim("b")).await, 404);
        }
        for path in ["/", "/grpc.health.v1.Health/Check", "/idempotency.ledger.v1.LedgerService/Nothing"] {
            assert_eq!(status(public, path.to_owned(), "{}").await, 404, "{path}");
        }
        server.stop().await;
    }
}
