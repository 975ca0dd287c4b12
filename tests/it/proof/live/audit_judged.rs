//! Rows and events, judged: each change that is there has its event, each event its change, and what was
//! refused has none. Policies are judged apart.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use idempotency_ledger::domain::Key;
use idempotency_ledger::proto;
use serde_json::Value;

use super::audit::{KEYS, Known, SINGLE, Told, admin};
use super::audit_many::{ENTRIES, IMPORTED, MANY, PART, PARTS};
use super::policies::word;
use super::world::World;
use crate::harness::details::key;

/// The version of each entry; none: it is not there.
type Versions = BTreeMap<(&'static str, String), Option<i64>>;

/// Asks until somebody answers.
async fn patiently<T>(mut ask: impl AsyncFnMut() -> Result<T, tonic::Status>) -> Result<T, tonic::Status> {
    let mut last = None;
    for _ in 0..300 {
        match ask().await {
            Err(status) if word(&status) != "ENTRY_NOT_FOUND" => last = Some(status),
            answer => return answer,
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("nobody answers: {last:?}");
}

pub(super) async fn versions(world: &World) -> Versions {
    let single = (0..KEYS).map(|number| (SINGLE, number.to_string()));
    let many = (0..ENTRIES).map(|number| (MANY, number.to_string()));
    let mut all = Versions::new();
    for (consumer, id) in single.chain(many) {
        let entry = entry(world, consumer, &id).await;
        all.insert((consumer, id), entry.map(|entry| entry.version));
    }
    all
}

async fn entry(world: &World, consumer: &str, id: &str) -> Option<proto::Entry> {
    let admin = admin(world, 0);
    let request = proto::GetEntryRequest { key: key(consumer, id), ..Default::default() };
    let seen = patiently(async || admin.clone().get_entry(request.clone()).await).await;
    seen.ok().map(|seen| seen.into_inner().entry.unwrap())
}

/// The events of a consumer, or of one entry, oldest first.
async fn events(world: &World, consumer: &str, key: Option<proto::EntryKey>) -> Vec<proto::AuditEvent> {
    let admin = admin(world, 0);
    let mut request = proto::ListAuditEventsRequest { key, page_size: 70, ..Default::default() };
    if request.key.is_none() {
        request.consumer = consumer.into();
    }
    let mut all = Vec::new();
    loop {
        let page = patiently(async || admin.clone().list_audit_events(request.clone()).await).await;
        let page = page.unwrap().into_inner();
        all.extend(page.events);
        if page.next_page_token.is_empty() {
            all.reverse();
            return all;
        }
        request.page_token = page.next_page_token;
    }
}

/// What a summary of an entry says of its version; none: there is no entry. Zero: it was made by the change
/// that the event tells of, and is not known yet.
fn version(json: &str) -> Option<i64> {
    let summary: Value = if json.is_empty() { Value::Null } else { serde_json::from_str(json).unwrap() };
    summary.get("state").map(|_| summary["version"].as_i64().unwrap_or(0))
}

fn agree(before: Option<i64>, now: Option<i64>) -> bool {
    before == now || (before == Some(0) && now.is_some())
}

/// How many events there are for as many changes; or what is wrong.
pub(super) async fn judge(told: &Told, first: &Versions, world: &World) -> Result<String, String> {
    let last = versions(world).await;
    let (mut ids, mut changes) = (BTreeSet::new(), 0);
    for (entry @ (consumer, id), first) in first {
        let of_entry = events(world, consumer, key(consumer, id)).await;
        chain(&of_entry, *first, last[entry]).map_err(|problem| format!("{consumer} {id}: {problem}"))?;
        changes += of_entry.len();
        ids.extend(of_entry.into_iter().map(|event| event.request_id));
    }
    let mut of_consumers = events(world, SINGLE, None).await;
    of_consumers.extend(events(world, MANY, None).await);
    let whole: BTreeSet<&str> = of_consumers
        .iter()
        .filter(|event| event.action != "REDRIVE_ENTRIES")
        .map(|event| event.request_id.as_str())
        .collect();
    if whole != ids.iter().map(String::as_str).collect() {
        return Err(format!("the events of entries are {ids:?}, those of consumers {whole:?}"));
    }
    orders(told, &ids)?;
    let many: Vec<&proto::AuditEvent> =
        of_consumers.iter().filter(|event| event.action == "REDRIVE_ENTRIES").collect();
    redrives(told, &ids, &many)?;
    let imports = imports(told, world).await?;
    Ok(format!(
        "{changes} events for as many changes of entries, {} of bulk redrives, {imports} of imports",
        many.len()
    ))
}

/// The events lead from the first version to the last, each from where the one before it ended.
fn chain(events: &[proto::AuditEvent], first: Option<i64>, last: Option<i64>) -> Result<(), String> {
    let mut at = first;
    for event in events {
        if !agree(at, version(&event.before_json)) {
            return Err(format!("at version {at:?} comes {event:?}; all: {events:?}"));
        }
        at = version(&event.after_json);
        let made = event.action == "REDRIVE" && event.before_json.is_empty();
        if at.is_none() != (event.action == "DELETE") || (at == Some(0)) != made {
            return Err(format!("this leaves {at:?}: {event:?}"));
        }
    }
    if agree(at, last) {
        Ok(())
    } else {
        Err(format!("the events lead to {at:?}, the entry has {last:?}: {events:?}"))
    }
}

/// What was answered as done has its event, what was refused has none, and there are no others.
fn orders(told: &Told, ids: &BTreeSet<String>) -> Result<(), String> {
    for (request_id, known) in &told.orders {
        let there = ids.contains(request_id);
        if (*known == Known::Done && !there) || (*known == Known::Refused && there) {
            return Err(format!("{request_id} is {known:?}, its event is there: {there}"));
        }
    }
    let foreign = ids.iter().find(|id| {
        let operation =
            id.rsplit_once('/').is_some_and(|(operation, _)| told.redrives.contains_key(operation));
        !operation && !told.orders.contains_key(*id)
    });
    foreign.map_or(Ok(()), |id| Err(format!("nobody asked for {id}")))
}

/// Each operation has an event of its own, and one for each entry that it redrove.
fn redrives(told: &Told, ids: &BTreeSet<String>, many: &[&proto::AuditEvent]) -> Result<(), String> {
    let begun: BTreeSet<&str> = many.iter().map(|event| event.request_id.as_str()).collect();
    if many.len() != begun.len() || begun != told.redrives.keys().map(String::as_str).collect() {
        return Err(format!("the operations {:?} have the events {begun:?}", told.redrives.keys()));
    }
    for (operation, (redriven, named)) in &told.redrives {
        let prefix = format!("{operation}/");
        let there = ids.iter().filter(|id| id.starts_with(&prefix)).count() as i64;
        let missing = named
            .iter()
            .find(|id| !ids.contains(&format!("{prefix}{}", Key::new(MANY, "tests", id).hash().simple())));
        if there != *redriven || missing.is_some() {
            return Err(format!("{operation} says {redriven} and {named:?}, there are {there} events"));
        }
    }
    Ok(())
}

/// Each message that stored anything has one event, and everything is stored.
async fn imports(told: &Told, world: &World) -> Result<usize, String> {
    let mut by_operation: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for event in events(world, IMPORTED, None).await {
        let after: Value = serde_json::from_str(&event.after_json).unwrap();
        let stored = after["stored"].as_i64().unwrap();
        by_operation.entry(after["operation_id"].as_str().unwrap().to_owned()).or_default().push(stored);
    }
    let expected: BTreeMap<String, Vec<i64>> =
        told.imports.keys().map(|operation| (operation.clone(), vec![PART as i64; PARTS as usize])).collect();
    if by_operation != expected {
        return Err(format!("the imports stored {by_operation:?}, not {expected:?}"));
    }
    for key in told.imports.values().flatten().flat_map(|message| &message.entries) {
        let key = key.key.as_ref().unwrap();
        if key.consumer == IMPORTED {
            let entry = entry(world, IMPORTED, &key.id).await;
            if entry.as_ref().is_none_or(|entry| entry.state() != proto::EntryState::Completed) {
                return Err(format!("{} was imported, and is {entry:?}", key.id));
            }
        }
    }
    Ok(by_operation.values().map(Vec::len).sum())
}
