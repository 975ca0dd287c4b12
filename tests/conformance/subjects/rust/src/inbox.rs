//! The inbox: a message that is stored, and a worker.

use std::collections::HashMap;

use idempotency_ledger_client::{Key, Ledger, Message};
use serde_json::Value;

use crate::{
    lines::{say, text},
    outcomes::{failed, finished},
    steps,
};

pub(crate) async fn store(ledger: Ledger, command: Value) {
    let mut message = Message::of(steps::content(&command, "payload"));
    for (name, value) in command["headers"].as_object().into_iter().flatten() {
        let value = value.as_str().unwrap_or_default().to_owned();
        message.headers.push((name.clone(), value.into()));
    }
    let call = text(&command, "call");
    match ledger.store(Key::of(text(&command, "source"), text(&command, "id")), message).await {
        Ok(outcome) => finished(&call, &outcome),
        Err(error) => failed(&call, &error),
    }
}

pub(crate) async fn work(ledger: Ledger, command: Value) {
    let concurrency = command["concurrency"].as_u64().unwrap_or(1);
    let worker = ledger.worker(move |claim, message| {
        let id = message.key.id().to_owned();
        let headers: HashMap<_, _> =
            message.message.headers.iter().map(|(name, value)| (name.clone(), lossy(value))).collect();
        say!("handed", call: id, payload: lossy(&message.message.payload), headers: headers);
        let named = &command["steps_of"][&id];
        let steps = if named.is_null() { &command["steps"] } else { named };
        let steps = steps.as_array().cloned().unwrap_or_default();
        steps::handle(claim, id.clone(), id, steps)
    });
    let worker = worker.concurrency(usize::try_from(concurrency).expect("it fits"));
    let ended = worker.run(std::future::pending()).await.expect("it is open");
    say!("worked", ended: ended);
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
