//! Operators' changes while servers and Postgres are killed: an audit event for each change that is there,
//! a change for each event, and none for a refusal.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use idempotency_ledger::rpc::proto;
use idempotency_ledger::rpc::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::rpc::proto::ledger_service_client::LedgerServiceClient;
use tonic::transport::{Channel, Endpoint};

use super::replicas::Replica;
use crate::harness::details::{acquired, key};
use crate::harness::postgres::Cluster;
use crate::harness::random::Random;
use crate::proof::run::Run;
use crate::proof::spec::Order;
use crate::proof::{steps, wire};

const KEYS: u64 = 10;
/// After so many orders somebody dies.
const ORDERS_PER_DEATH: u64 = 7;

/// What is known of an order: done, refused; else nobody knows.
type Known = HashMap<String, bool>;

fn channel(replica: &Replica) -> Channel {
    let endpoint = Endpoint::from_shared(format!("http://{}", replica.address)).unwrap();
    endpoint.timeout(Duration::from_secs(5)).connect_timeout(Duration::from_secs(1)).connect_lazy()
}

pub(crate) async fn order_amid_deaths(
    run: &mut Run,
    random: &mut Random,
    replicas: &mut [Replica],
    cluster: &mut Cluster,
) -> String {
    let mut claims = LedgerServiceClient::new(channel(&replicas[0]));
    for number in 0..KEYS {
        let request = proto::ClaimRequest { key: key("audited", &number.to_string()), ..Default::default() };
        acquired(&claims.claim(request).await.unwrap().into_inner());
    }
    let first = versions(replicas).await;
    let (mut known, mut deaths) = (Known::new(), 0);
    for number in 0..run.size {
        if number % ORDERS_PER_DEATH == 0 {
            deaths += 1;
            let victim = random.below(replicas.len() as u64) as usize;
            // A moment later, amid the orders that follow.
            if random.percent(25) {
                cluster.crash();
                tokio::task::block_in_place(|| cluster.run());
            } else {
                replicas[victim].kill();
                let point = ["before_send", "after_send", "after_commit"][random.below(3) as usize];
                replicas[victim].start(Some(&format!("{point}:{}", 1 + random.below(2))));
            }
        }
        let replica = &mut replicas[random.below(3) as usize];
        if !replica.is_alive() {
            replica.kill();
            replica.start(None);
            replica.listens().await;
        }
        let mut admin = AdminServiceClient::new(channel(replica));
        let force = random.percent(70);
        let order = *steps::pick(random, &[0, 1, 2]);
        let order = match order {
            0 => Order::Park,
            1 => Order::Redrive { force, drop_fingerprint: false, admit: false },
            _ => Order::NotDone { force },
        };
        let name = key("audited", &random.below(KEYS).to_string()).unwrap();
        let request_id = format!("order {number}");
        let (_, done) = wire::order(&mut admin, &name, &order, &request_id).await;
        match done {
            Ok(_) => drop(known.insert(request_id, true)),
            Err(reason)
                if ["", "OUTCOME_UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED"].contains(&reason.as_str()) => {}
            Err(_) => drop(known.insert(request_id, false)),
        }
        run.progress(number, "orders");
    }
    for replica in replicas.iter_mut() {
        replica.kill();
        replica.start(None);
        replica.listens().await;
    }
    let last = versions(replicas).await;
    let events = events(replicas).await;
    let mut all = HashSet::new();
    for number in 0..KEYS {
        let of_key = &events[&number];
        let changes = last[&number] - first[&number];
        if changes != of_key.len() as i64 {
            run.fail(format!("entry {number} has {changes} changes and the events {of_key:?}"), &[]);
        }
        all.extend(of_key.iter().cloned());
    }
    for (request_id, done) in &known {
        if all.contains(request_id) != *done {
            run.fail(format!("{request_id} was answered as done: {done}, and its event is otherwise"), &[]);
        }
    }
    let done = known.values().filter(|done| **done).count();
    let unknown = run.size - known.len() as u64;
    format!(
        "{} events for as many changes, {done} orders done, {unknown} of unknown outcome, {deaths} deaths",
        all.len()
    )
}

/// Asks until somebody answers.
async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, tonic::Status>) -> T {
    for _ in 0..300 {
        if let Ok(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody answers");
}

async fn versions(replicas: &[Replica]) -> HashMap<u64, i64> {
    let admin = AdminServiceClient::new(channel(&replicas[0]));
    let mut all = HashMap::new();
    for number in 0..KEYS {
        let request = proto::GetEntryRequest { key: key("audited", &number.to_string()) };
        let seen = patiently(async || admin.clone().get_entry(request.clone()).await).await;
        all.insert(number, seen.into_inner().entry.unwrap().version);
    }
    all
}

async fn events(replicas: &[Replica]) -> HashMap<u64, Vec<String>> {
    let admin = AdminServiceClient::new(channel(&replicas[0]));
    let mut all = HashMap::new();
    for number in 0..KEYS {
        let key = key("audited", &number.to_string());
        let request = proto::ListAuditEventsRequest { key, page_size: 1_000, ..Default::default() };
        let page = patiently(async || admin.clone().list_audit_events(request.clone()).await).await;
        all.insert(number, page.into_inner().events.into_iter().map(|event| event.request_id).collect());
    }
    all
}
