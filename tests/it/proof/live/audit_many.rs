//! Operations on many entries amid deaths: broken off, resumed with the same id, repeated in the end.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use idempotency_ledger::proto;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tonic::Status;
use tonic::transport::Channel;

use super::audit::{Told, admin};
use super::deaths::Deaths;
use super::policies::word;
use super::world::World;
use crate::harness::details::{acquired, key};
use crate::harness::random::Random;
use crate::proof::spec::Order;
use crate::proof::wire;

/// Whose entries are redriven together, and how many there are.
pub(super) const MANY: &str = "bulk";
pub(super) const ENTRIES: u64 = 20;
/// Who has imported, in so many messages of so many entries.
pub(super) const IMPORTED: &str = "imported";
pub(super) const PARTS: u64 = 3;
pub(super) const PART: u64 = 5;
/// How often an operation is resumed.
const TRIES: usize = 60;

/// All of them wait for a person.
pub(super) async fn park_all(client: &mut LedgerServiceClient<Channel>) {
    for number in 0..ENTRIES {
        let key = key(MANY, &number.to_string());
        let request = proto::ClaimRequest { key: key.clone(), ..Default::default() };
        let token = acquired(&client.claim(request).await.unwrap().into_inner()).token;
        let kind = proto::FailureKind::Park.into();
        client.fail(proto::FailRequest { key, token, kind, ..Default::default() }).await.unwrap();
    }
}

/// Parks a few more, then redrives whatever is parked, until the operation says that it is finished.
pub(super) async fn redrive(
    told: &mut Told,
    deaths: &mut Deaths<'_>,
    random: &mut Random,
    world: &Arc<World>,
    number: u64,
) {
    for one in 0..4 {
        let name = key(MANY, &random.below(ENTRIES).to_string()).unwrap();
        let request_id = format!("park {number} {one}");
        let mut admin = admin(world, 0);
        let request = proto::GetEntryRequest { key: Some(name.clone()), ..Default::default() };
        let Ok(seen) = admin.get_entry(request).await else { continue };
        let expected = seen.into_inner().entry.unwrap().version;
        let done = wire::order_of(&mut admin, &name, &Order::Park, &request_id, expected).await;
        told.note(&request_id, done.as_ref().map(|_| ()).map_err(String::as_str));
    }
    let operation = format!("redrive {number}");
    let begun = told.redrives.entry(operation.clone()).or_default();
    for _ in 0..TRIES {
        let replica = random.below(world.replicas.len() as u64) as usize;
        let outcome = deaths.amid(replica, random, async || listen(world, replica, &operation).await).await;
        for one in &outcome {
            let Ok(one) = one else { continue };
            begun.0 = one.redriven;
            let redriven = one.outcomes.iter().filter(|outcome| outcome.redriven);
            begun.1.extend(redriven.map(|outcome| outcome.key.as_ref().unwrap().id.clone()));
        }
        if matches!(outcome.last(), Some(Ok(last)) if last.finished) {
            return;
        }
        *told.counts.entry("operations on many resumed").or_default() += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.problems.lock().unwrap().push(format!("{operation} never finishes"));
}

/// All that an operation tells until it ends or breaks.
async fn listen(
    world: &World,
    replica: usize,
    operation: &str,
) -> Vec<Result<proto::RedriveEntriesResponse, Status>> {
    let request = proto::RedriveEntriesRequest {
        filter: Some(proto::EntryFilter {
            consumer: MANY.into(),
            states: vec![proto::EntryState::Parked.into()],
            ..Default::default()
        }),
        operation_id: operation.into(),
        reason: "a test".into(),
        rate: 500,
        ..Default::default()
    };
    match admin(world, replica).redrive_entries(request).await {
        Ok(answer) => answer.into_inner().collect().await,
        Err(status) => vec![Err(status)],
    }
}

/// Some messages of new entries, and one that is refused; until each is answered.
pub(super) async fn import(
    told: &mut Told,
    deaths: &mut Deaths<'_>,
    random: &mut Random,
    world: &Arc<World>,
    number: u64,
) {
    let operation = format!("import {number}");
    let part = |entries| proto::ImportEntriesRequest {
        operation_id: operation.clone(),
        reason: "a test".into(),
        entries,
    };
    let entry = |key| proto::ImportedEntry { key, result: b"done".as_slice().into(), ..Default::default() };
    let fresh = |message| (0..PART).map(move |one| key(IMPORTED, &format!("{number}-{message}-{one}")));
    let mut messages: Vec<_> = (0..PARTS).map(|message| part(fresh(message).map(entry).collect())).collect();
    messages.push(part(vec![entry(key(MANY, "0"))]));
    told.imports.insert(operation.clone(), messages.clone());
    let mut answered = 0;
    for _ in 0..TRIES {
        let replica = random.below(world.replicas.len() as u64) as usize;
        // From where it broke, or from the start.
        let from = if random.percent(50) { answered } else { 0 };
        let rest = messages[from..].to_vec();
        let answers = deaths.amid(replica, random, async || send(world, replica, rest).await).await;
        for (place, answer) in (from..).zip(answers) {
            let Ok(answer) = answer else { break };
            let whole = if place < PARTS as usize {
                answer.stored + answer.already_completed == PART as i64
                    && (place >= answered || answer.stored == 0)
            } else {
                answer.stored == 0 && answer.rejections.len() == 1
            };
            if !whole {
                let problem = format!("message {place} of {operation} was answered {answer:?}");
                world.problems.lock().unwrap().push(problem);
            }
            answered = answered.max(place + 1);
        }
        if answered == messages.len() {
            return;
        }
        *told.counts.entry("operations on many resumed").or_default() += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    world.problems.lock().unwrap().push(format!("{operation} never finishes"));
}

async fn send(
    world: &World,
    replica: usize,
    messages: Vec<proto::ImportEntriesRequest>,
) -> Vec<Result<proto::ImportEntriesResponse, Status>> {
    match admin(world, replica).import_entries(stream::iter(messages)).await {
        Ok(answer) => answer.into_inner().collect().await,
        Err(status) => vec![Err(status)],
    }
}

/// Every operation once more, with nobody dying: there is nothing left to do, and nothing is done. What is
/// parked since is not theirs.
pub(super) async fn repeat(told: &mut Told, world: &Arc<World>) {
    for (operation, (redriven, _)) in &mut told.redrives {
        let answers = listen(world, 0, operation).await;
        match answers.last() {
            Some(Ok(last)) if last.finished && last.outcomes.iter().all(|outcome| !outcome.redriven) => {
                *redriven = last.redriven;
            }
            other => {
                let reason = other.and_then(|other| other.as_ref().err().map(word));
                let problem = format!("{operation}, repeated: {reason:?}: {answers:?}");
                world.problems.lock().unwrap().push(problem);
            }
        }
    }
    for (operation, messages) in &told.imports {
        for answer in send(world, 0, messages.clone()).await {
            if !answer.as_ref().is_ok_and(|answer| answer.stored == 0) {
                let problem = format!("{operation}, repeated: {answer:?}");
                world.problems.lock().unwrap().push(problem);
            }
        }
    }
}
