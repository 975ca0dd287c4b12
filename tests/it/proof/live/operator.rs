//! Operators who look at keys and change them while they are worked on: one by one, and many at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use idempotency_ledger::domain::Key;
use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use sqlx::PgConnection;
use tonic::transport::{Channel, Endpoint};

use super::policies::{CONSUMERS, admin};
use super::world::{KeyLog, World, micros, now};
use crate::harness::random::Random;
use crate::proof::history::{Call, Event, Order, Outcome, Raise};
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
        let (order, asked) = match random.below(14) {
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

/// Redrives all that is parked or failed, of one consumer after the other.
pub(crate) async fn work_on_many(world: Arc<World>) {
    let mut random = Random::new(world.seed.wrapping_add(1 << 46));
    for number in 0_u64.. {
        tokio::time::sleep(Duration::from_millis(500 + random.below(1_500))).await;
        if world.is_over() {
            return;
        }
        let consumer = CONSUMERS[number as usize % CONSUMERS.len()];
        let replica = random.below(world.replicas.len() as u64) as usize;
        let operation = format!("many {}-{number}", world.seed);
        if let Err(problem) = redrive(&world, consumer, replica, &operation).await {
            world.problems.lock().unwrap().push(format!("{operation} of {consumer}: {problem}"));
        }
    }
}

/// Raises `token_offset` now and then, by more than a minute: what was handed out before is then old enough for
/// its entry to be deleted.
pub(crate) async fn raise_offset(world: Arc<World>, mut connection: PgConnection) {
    const BY: i64 = 61_000_000;
    let mut offset = 0;
    while !world.is_over() {
        tokio::time::sleep(Duration::from_secs(2)).await;
        offset += BY;
        let invoked = now();
        // Known from here on, whoever reads it before this call returns.
        let place = {
            let mut raises = world.raises.lock().unwrap();
            raises.push(Raise { invoked, returned: i64::MAX, offset });
            raises.len() - 1
        };
        let raise = sqlx::query("UPDATE ledger.meta SET token_offset = $1").bind(offset);
        raise.execute(&mut connection).await.unwrap();
        world.raises.lock().unwrap()[place].returned = now();
        world.count("raises of token_offset");
    }
}

/// As an operator does it: a look, and then a raise by more than the clock is behind.
pub(crate) async fn raise_by_rpc(world: &World, replica: usize, more: Duration) {
    const SECOND: i64 = 1_000_000;
    let mut admin = admin(world, replica);
    let look = proto::RaiseTokenOffsetRequest { validate_only: true, ..Default::default() };
    let seen = admin.raise_token_offset(look).await.unwrap().into_inner();
    let span = |it: Option<prost_types::Duration>| {
        it.map_or(0, |it| it.seconds * SECOND + i64::from(it.nanos) / 1_000)
    };
    let offset = span(seen.token_offset) + span(seen.behind) + micros(more);
    let asked = prost_types::Duration { seconds: offset / SECOND, nanos: (offset % SECOND * 1_000) as i32 };
    let request = proto::RaiseTokenOffsetRequest {
        request_id: format!("raise {}", now()),
        reason: "the clock was set back".into(),
        token_offset: Some(asked),
        expected_token_offset: seen.token_offset,
        validate_only: false,
    };
    world.raises.lock().unwrap().push(Raise { invoked: now(), returned: i64::MAX, offset });
    let raised = admin.raise_token_offset(request).await.unwrap().into_inner();
    assert_eq!(span(raised.token_offset), offset);
    world.raises.lock().unwrap().last_mut().unwrap().returned = now();
}

/// One operation. What it says that it redrove is what the audit says, and stands in the records of the keys.
async fn redrive(world: &World, consumer: &str, replica: usize, operation: &str) -> Result<(), String> {
    let request = proto::RedriveEntriesRequest {
        filter: Some(proto::EntryFilter {
            consumer: consumer.into(),
            states: vec![proto::EntryState::Parked.into(), proto::EntryState::FailedTerminal.into()],
            ..Default::default()
        }),
        operation_id: operation.into(),
        reason: "a storm".into(),
        rate: 1_000,
        ..Default::default()
    };
    let invoked = now();
    let answer = admin(world, replica).redrive_entries(request).await;
    let answers: Vec<_> = answer.map_err(|status| format!("{status:?}"))?.into_inner().collect().await;
    let returned = now();
    let whole = matches!(answers.last(), Some(Ok(last)) if last.finished);
    let mut told = BTreeSet::new();
    for outcome in answers.into_iter().flatten().flat_map(|answer| answer.outcomes) {
        if outcome.redriven {
            told.insert(outcome.key.unwrap().id);
        }
    }
    let done = audited(world, consumer, operation).await?;
    if done.len() != told.len() && whole || !told.iter().all(|id| done.contains(&hash(consumer, id))) {
        return Err(format!("it says {told:?}, the audit {done:?}"));
    }
    world.count(if whole { "bulk redrives" } else { "bulk redrives broken off" });
    for key in world.keys_of(consumer).iter().filter(|key| done.contains(&hash(consumer, &key.id))) {
        world.count("redriven in bulk");
        redriven(key, replica, invoked, returned);
    }
    Ok(())
}

fn hash(consumer: &str, id: &str) -> String {
    Key::new(consumer, "live", id).hash().to_string()
}

/// The hashes of the keys that an operation has redriven.
async fn audited(world: &World, consumer: &str, operation: &str) -> Result<BTreeSet<String>, String> {
    let mut request =
        proto::ListAuditEventsRequest { consumer: consumer.into(), page_size: 200, ..Default::default() };
    let mut all = BTreeSet::new();
    loop {
        let page = admin(world, 0).list_audit_events(request.clone()).await;
        let page = page.map_err(|status| format!("no events: {status:?}"))?.into_inner();
        for event in page.events {
            if event.request_id == operation {
                return Ok(all);
            }
            if event.request_id.starts_with(&format!("{operation}/")) {
                all.insert(event.key_hash);
            }
        }
        if page.next_page_token.is_empty() {
            return Err("the operation has no event of its own".into());
        }
        request.page_token = page.next_page_token;
    }
}

fn redriven(key: &KeyLog, replica: usize, invoked: i64, returned: i64) {
    let call = Call::Order { order: Order::Redrive, force: false };
    let outcome = Outcome::Settled { replayed: false, late: false };
    let event = Event { client: 3_000, replica, call, outcome, invoked, returned };
    key.events.lock().unwrap().push(event);
}
