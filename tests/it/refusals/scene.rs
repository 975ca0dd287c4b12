//! A server with little room, over a store that fails on demand, and what is in use there.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use idempotency_ledger::domain::Key;
use idempotency_ledger::identity::Guard;
use idempotency_ledger::proto;
use tonic::{Request, Response, Status};

use crate::harness::details::{acquired, claim, refusal};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::server::{Kind, Setup, TestServer, TestStore};
use crate::harness::timer::Timer;
use crate::identity::{People, by};
use crate::observe::parsed;
use crate::waiting::secs;

/// How long a condition may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// The gauges of what clients use, without the prefix of their names.
const USED: [&str; 6] =
    ["answer_bytes", "connections", "queue_bytes", "queue_commands", "request_bytes", "waiters"];

const CONNECTIONS: usize = 1;

/// What each gauge of `USED` shows, all its series together.
pub(super) type InUse = [f64; USED.len()];

pub(super) struct Scene {
    pub(super) server: TestServer,
    pub(super) plan: Arc<Plan>,
    people: People,
    setup: Setup,
    /// The token of the claim that the preparation was granted.
    pub(super) token: i64,
    /// What stays open for as long as the scene.
    pub(super) held: Vec<Box<dyn Any + Send>>,
}

impl Scene {
    pub(super) async fn start(setup: Setup) -> Scene {
        let people = People::new(&[
            ("all", &[("*", "claim settle store read admin")]),
            ("other", &[("other", "claim settle store read admin")]),
        ]);
        let setup = Setup { guard: Guard::new(people.trust()), ..setup };
        let mut at = TestStore::new(Kind::Sqlite).await.judged().await;
        let plan = Arc::new(Plan::default());
        at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
        let server = TestServer::on(at, setup.clone()).await;
        Scene { server, plan, people, setup, token: 0, held: Vec::new() }
    }

    /// The same with another server, which has read nothing yet.
    pub(super) async fn served_by_another(self) -> Scene {
        let at = self.server.stop().await;
        Scene { server: TestServer::on(at, self.setup.clone()).await, ..self }
    }

    pub(super) fn bearer(&self, name: &str) -> String {
        format!("Bearer {}", self.people.token(name))
    }

    /// A request of a principal with all rights.
    pub(super) fn by<T>(&self, message: T) -> Request<T> {
        self.by_holder("all", message)
    }

    pub(super) fn by_holder<T>(&self, name: &str, message: T) -> Request<T> {
        by(self.people.token(name), message)
    }

    /// Claims the key of the preparations; the token is kept.
    pub(super) async fn takes(&mut self) {
        let granted = self.server.client.claim(self.by(claim("c", "1"))).await.unwrap();
        self.token = acquired(&granted.into_inner()).token;
    }

    /// The version of its entry.
    pub(super) async fn version(&self) -> i64 {
        self.server.entry(&Key::new("c", "tests", "1")).await.unwrap().version
    }

    /// `None` while a gauge has no series: a server adds some of them once it serves.
    fn in_use(&self) -> Option<InUse> {
        let series: BTreeMap<String, f64> = parsed(&self.server.scraped());
        let of = |gauge: &str| {
            let name = format!("idempotency_ledger_{gauge}");
            let found = series.iter().filter(|(one, _)| one.split('{').next() == Some(&name));
            let values: Vec<f64> = found.map(|(_, value)| *value).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>())
        };
        let sums = USED.map(of);
        sums.iter().all(Option::is_some).then(|| sums.map(Option::unwrap))
    }

    /// Polls the gauges until two readings are equal and count the connection of the client; returns them.
    pub(super) async fn in_use_at_rest(&self) -> InUse {
        let timer = Timer::start();
        loop {
            let first = self.in_use();
            tokio::time::sleep(Duration::from_millis(20)).await;
            if let Some(first) = first
                && first[CONNECTIONS] > 0.0
                && self.in_use() == Some(first)
            {
                return first;
            }
            timer.within(PATIENCE, "what is in use comes to rest");
        }
    }

    /// Polls the gauges until none shows more than `before`.
    pub(super) async fn until_in_use(&self, what: &str, before: InUse) {
        let timer = Timer::start();
        loop {
            let now = self.in_use().expect("each gauge has a series");
            if now.iter().zip(before).all(|(now, before)| *now <= before) {
                return;
            }
            timer.within(PATIENCE, &format!("{what}: {USED:?} were {before:?} and are {now:?}"));
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(super) async fn stop(self) {
        drop(self.held);
        self.server.stop().await;
    }
}

/// A Claim that would wait.
pub(super) fn waiting_claim(consumer: &str, id: &str) -> proto::ClaimRequest {
    proto::ClaimRequest { wait: secs(9), ..claim(consumer, id) }
}

/// The reason for which a call was refused.
pub(super) fn reason<T: Debug>(answer: Result<Response<T>, Status>) -> String {
    refusal(&answer.unwrap_err()).reason
}
