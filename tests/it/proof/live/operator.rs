//! An operator who looks at keys and changes them, while they are worked on.

use std::sync::Arc;
use std::time::Duration;

use idempotency_ledger::rpc::proto::admin_service_client::AdminServiceClient;
use tonic::transport::{Channel, Endpoint};

use super::world::{World, now};
use crate::harness::random::Random;
use crate::proof::history::{Call, Event, Order, Outcome};
use crate::proof::{spec, wire};

pub(crate) async fn work(world: Arc<World>, number: u64) {
    let mut random = Random::new(world.seed.wrapping_add((number + 1) << 40));
    let stub = |address| {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        AdminServiceClient::new(endpoint.timeout(Duration::from_secs(3)).connect_lazy())
    };
    let mut stubs: Vec<AdminServiceClient<Channel>> = world.replicas.iter().map(stub).collect();
    while !world.is_over() {
        tokio::time::sleep(Duration::from_millis(2)).await;
        let key = world.pick(&mut random);
        if !key.begin() {
            continue;
        }
        let force = random.percent(50);
        let (order, asked) = match random.below(12) {
            0..4 => (Order::Redrive, spec::Order::Redrive { force, drop_fingerprint: false, admit: false }),
            4..7 => (Order::Park, spec::Order::Park),
            7 => (Order::Complete, spec::Order::Complete { force, result: Vec::new() }),
            8 => (Order::FailTerminal, spec::Order::FailTerminal { force, error: String::new() }),
            9..11 => (Order::NotDone, spec::Order::NotDone { force }),
            _ => (Order::Delete, spec::Order::Delete { force }),
        };
        let which = random.below(stubs.len() as u64) as usize;
        let name = key.name();
        let request_id = format!("{number}-{:x}", random.next());
        let invoked = now();
        let (_, done) = wire::order(&mut stubs[which], &name, &asked, &request_id).await;
        let returned = now();
        let outcome = match done {
            Ok(_) => Outcome::Settled { replayed: false, late: false },
            Err(reason) if reason == "OUTCOME_UNKNOWN" || reason.is_empty() => Outcome::Unknown,
            Err(reason) => {
                world.count(&format!("orders refused {reason}"));
                continue;
            }
        };
        world.count(&format!("{order:?}"));
        let returned = if outcome == Outcome::Unknown { i64::MAX } else { returned };
        let call = Call::Order { order, force };
        let event = Event { client: 2_000 + number, replica: which, call, outcome, invoked, returned };
        key.events.lock().unwrap().push(event);
    }
}
