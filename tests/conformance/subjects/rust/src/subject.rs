//! The subject of clients/rust: `../../PROTOCOL.md` says what it reads and writes.

mod inbox;
mod lines;
mod outcomes;
mod serve;
mod steps;

use std::{collections::HashMap, time::Duration};

use idempotency_ledger_client::{Connection, Delivery, InvalidField, Key, Ledger, Shutdown};
use lines::{commands, go, say, text};
use outcomes::{failed, finished};
use serde_json::Value;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

fn opened(command: &Value) -> Result<Ledger, InvalidField> {
    let mut connection = command["endpoint"].as_str().map_or_else(Connection::default, Connection::to);
    if let (Some(certificate), Some(key)) =
        (command["client_cert_file"].as_str(), command["client_key_file"].as_str())
    {
        connection = connection.client_cert_files(certificate, key);
    }
    let mut builder = Ledger::builder(text(command, "consumer")).connection(connection);
    if let Some(lease) = command["lease"].as_f64() {
        builder = builder.lease(Duration::from_secs_f64(lease));
    }
    builder.repeat_announced(command["repeat_announced"].as_bool().unwrap_or_default()).build()
}

async fn process(ledger: Ledger, command: Value, cancelled: CancellationToken) {
    let (call, id) = (text(&command, "call"), text(&command, "id"));
    let mut delivery = Delivery::of(Key::of(text(&command, "source"), &id));
    if let Some(body) = command["body"].as_str() {
        delivery = delivery.body(body);
    }
    if let Some(wait) = command["wait"].as_f64() {
        delivery = delivery.wait(Duration::from_secs_f64(wait));
    }
    let steps = command["steps"].as_array().cloned().unwrap_or_default();
    let named = call.clone();
    let processed = ledger.process(delivery, async move |claim| steps::handle(claim, named, id, steps).await);
    tokio::select! {
        outcome = processed => match outcome {
            Ok(outcome) => finished(&call, &outcome),
            Err(error) => failed(&call, &error),
        },
        () = cancelled.cancelled() => say!("cancelled", call: call),
    }
}

async fn close(ledger: Ledger, grace: Duration) {
    let closed = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.close(grace).await }
    });
    while !ledger.is_closing() {
        tokio::task::yield_now().await;
    }
    say!("closing");
    say!("closed", ended: closed.await.expect("it does not panic"));
}

async fn shutdown(stop: Shutdown, grace: Duration, ledgers: Vec<Ledger>, running: TaskTracker) {
    stop.requested().await;
    say!("stopping");
    for ledger in &ledgers {
        ledger.close(grace).await;
    }
    running.close();
    running.wait().await;
    std::process::exit(0);
}

#[tokio::main]
async fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut ledgers: HashMap<String, Ledger> = HashMap::new();
    let mut cancels: HashMap<String, CancellationToken> = HashMap::new();
    let running = TaskTracker::new();
    let mut lines = commands();
    say!("ready", forks: false, forks_after_use: false, cancels: true, inbox: true);
    while let Some(command) = lines.recv().await {
        let grace = Duration::from_secs_f64(command["grace"].as_f64().unwrap_or_default());
        let named = || ledgers[&text(&command, "ledger")].clone();
        match command["do"].as_str() {
            Some("open") => match opened(&command) {
                Ok(ledger) => {
                    ledgers.insert(text(&command, "ledger"), ledger);
                    say!("opened");
                }
                Err(fault) => failed("open", &fault.into()),
            },
            Some("process") => {
                let cancelled = CancellationToken::new();
                cancels.insert(text(&command, "call"), cancelled.clone());
                running.spawn(process(named(), command, cancelled));
            }
            Some("store") => drop(tokio::spawn(inbox::store(named(), command))),
            Some("work") => drop(tokio::spawn(inbox::work(named(), command))),
            Some("go") => go(&text(&command, "call")),
            Some("cancel") => cancels[&text(&command, "call")].cancel(),
            Some("serve") => drop(tokio::spawn(serve::serve(command))),
            Some("close") => drop(tokio::spawn(close(named(), grace))),
            Some("shutdown") => {
                let stop = Shutdown::new(grace).expect("the signals can be handled");
                tokio::spawn(shutdown(stop, grace, ledgers.values().cloned().collect(), running.clone()));
            }
            other => panic!("the command is not known: {other:?}"),
        }
    }
}
