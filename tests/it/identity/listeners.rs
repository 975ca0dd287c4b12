//! A listener of the operators' own, and reflection, which follows the listener.

use std::net::SocketAddr;

use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use super::People;
use crate::harness::details::claim;
use crate::harness::postgres::free_port;
use crate::harness::raw::channel_to;
use crate::harness::server::{Kind, Setup, TestServer};

/// The services that reflection lists; none: there is none.
async fn listed(channel: &Channel) -> Option<Vec<String>> {
    let request = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut client = ServerReflectionClient::new(channel.clone());
    let answer = client.server_reflection_info(futures_util::stream::iter([request])).await;
    let mut answer =
        answer.inspect_err(|status| assert_eq!(status.code(), Code::Unimplemented)).ok()?.into_inner();
    match answer.message().await.unwrap().unwrap().message_response.unwrap() {
        MessageResponse::ListServicesResponse(list) => {
            let mut names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
            names.retain(|name| name.starts_with("idempotency"));
            names.sort();
            Some(names)
        }
        other => panic!("{other:?}"),
    }
}

/// Which services of ours answer with something else than that they are not there.
async fn there(channel: &Channel) -> (bool, bool) {
    let claimed = LedgerServiceClient::new(channel.clone()).claim(claim("c", "1")).await;
    let looked = proto::GetRetentionStatusRequest {};
    let looked = AdminServiceClient::new(channel.clone()).get_retention_status(looked).await;
    let there = |code: Option<Code>| code != Some(Code::Unimplemented);
    (there(claimed.err().map(|status| status.code())), there(looked.err().map(|status| status.code())))
}

async fn healthy(channel: &Channel) -> bool {
    let request = Request::new(HealthCheckRequest { service: "liveness".into() });
    HealthClient::new(channel.clone()).check(request).await.is_ok()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_may_have_a_listener_of_their_own() {
    const LEDGER: &str = "idempotency.ledger.v1.LedgerService";
    const ADMIN: &str = "idempotency.ledger.v1.AdminService";
    let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let own = admin.to_string();
    let server = TestServer::start_with(Kind::Sqlite, Setup { admin: Some(admin), ..Setup::default() }).await;
    let (public, own) = (channel_to(&server.address().to_string()).await, channel_to(&own).await);
    assert_eq!(there(&public).await, (true, false));
    assert_eq!(there(&own).await, (false, true));
    assert!(healthy(&public).await && healthy(&own).await);
    assert_eq!(listed(&public).await, Some(vec![LEDGER.to_owned()]));
    assert_eq!(listed(&own).await, Some(vec![ADMIN.to_owned()]));
    drop((public, own));
    server.stop().await;
    // Without it both are in one place; without reflection nobody is told which.
    let server = TestServer::start_with(Kind::Sqlite, Setup { reflection: false, ..Setup::default() }).await;
    let public = channel_to(&server.address().to_string()).await;
    assert_eq!(there(&public).await, (true, true));
    assert_eq!(listed(&public).await, None);
    assert!(healthy(&public).await);
    drop(public);
    server.stop().await;
}

/// The same callers are known at both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_operators_listener_authenticates_as_the_other_does() {
    let people = People::new(&[("one", &[("*", "read")])]);
    let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let own = admin.to_string();
    let setup = Setup { admin: Some(admin), guard: Guard::new(people.trust()), ..Setup::default() };
    let server = TestServer::start_with(Kind::Sqlite, setup).await;
    let mut client = AdminServiceClient::new(channel_to(&own).await);
    let status = proto::GetRetentionStatusRequest {};
    assert_eq!(super::why(client.get_retention_status(status).await), "UNAUTHENTICATED");
    assert_eq!(super::why(client.get_retention_status(super::by(people.token("one"), status)).await), "");
    drop(client);
    server.stop().await;
}
