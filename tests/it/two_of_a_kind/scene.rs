//! A server with two owners.

use std::any::Any;
use std::time::{Duration, Instant};

use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tonic::Request;
use tonic::transport::Channel;

use super::PATIENCE;
use crate::harness::raw::channel;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::{People, by};

/// The two owners: as consumers, and as the holders of tokens.
pub(super) const OWNERS: [&str; 2] = ["first", "second"];
/// Their addresses. The server's own client has another one.
pub(super) const ADDRESSES: [&str; 2] = ["127.0.0.2", "127.0.0.3"];

pub(super) struct Scene {
    pub(super) server: TestServer,
    people: Option<People>,
    /// A connection of each owner; principals share the first one, as behind a proxy.
    channels: [Channel; 2],
    /// What the owners hold.
    pub(super) held: Vec<Box<dyn Any + Send>>,
    number: usize,
}

impl Scene {
    pub(super) async fn start(setup: Setup, principals: bool) -> Scene {
        let all: &[(&str, &str)] = &[("*", "claim settle read admin")];
        let people = principals.then(|| People::new(&OWNERS.map(|owner| (owner, all))));
        let guard = people.as_ref().map_or(setup.guard.clone(), |people| Guard::new(people.trust()));
        let server = TestServer::start_with(Kind::Sqlite, Setup { guard, ..setup }).await;
        let channels = [channel(&server).await, channel(&server).await];
        Scene { server, people, channels, held: Vec::new(), number: 0 }
    }

    /// A request of this owner.
    pub(super) fn request<T>(&self, owner: usize, message: T) -> Request<T> {
        match &self.people {
            Some(people) => by(people.token(OWNERS[owner]), message),
            None => Request::new(message),
        }
    }

    /// The principal of an owner.
    pub(super) fn principal(&self, owner: usize) -> String {
        self.people.as_ref().map_or("anonymous".into(), |_| format!("token:{}", OWNERS[owner]))
    }

    fn channel(&self, owner: usize) -> Channel {
        self.channels[if self.people.is_some() { 0 } else { owner }].clone()
    }

    pub(super) fn ledger(&self, owner: usize) -> LedgerServiceClient<Channel> {
        LedgerServiceClient::new(self.channel(owner))
    }

    pub(super) fn admin(&self, owner: usize) -> AdminServiceClient<Channel> {
        AdminServiceClient::new(self.channel(owner))
    }

    /// A name that nothing else here has.
    pub(super) fn fresh(&mut self) -> String {
        self.number += 1;
        self.number.to_string()
    }

    /// Waits until this holds. It polls: no event reports a change of a metric.
    pub(super) async fn until(&self, what: &str, is: impl Fn(&TestServer) -> bool) {
        let since = Instant::now();
        while !is(&self.server) {
            assert!(since.elapsed() < PATIENCE, "{what}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) async fn stop(self) {
        let Scene { server, channels, held, .. } = self;
        drop((held, channels));
        server.stop().await;
    }
}
