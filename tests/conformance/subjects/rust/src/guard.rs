//! A subject whose effect is a row in a SQL database, behind the package's guard: the step `effect` is its transaction.

mod lines;
mod outcomes;

use std::{collections::HashMap, env, time::Duration};

use idempotency_ledger_client::{Claim, Connection, Delivery, EffectResult, Key, Ledger, Steer, guard::once};
use lines::{commands, go, gone_on, say, text};
use outcomes::{failed, finished};
use serde_json::Value;
use sqlx::{Connection as _, MySqlConnection, PgConnection, SqliteConnection};

/// A payment by one of the three databases: amid the guard's transaction it waits for `go`.
macro_rules! paid {
    ($connection:ty, $url:expr, $claim:expr, $call:expr, $id:expr, $insert:literal) => {{
        let (call, id, receipt) = ($call, $id, format!("{}-{}", $call, std::process::id()));
        let mut connection = <$connection>::connect($url).await?;
        let paid = once(&mut connection, $claim, async |database: &mut $connection| {
            sqlx::query($insert).bind(&receipt).bind("shop").bind(id).bind(1).execute(database).await?;
            say!("effect", call: call, id: id, token: "0", idempotency_key: id);
            gone_on(call).await;
            Ok(receipt.clone())
        });
        paid.await
    }};
}

async fn handle(claim: Claim, call: String, id: String, url: String) -> Result<EffectResult, Steer> {
    say!("started", call: call);
    let (call, id) = (call.as_str(), id.as_str());
    match url.split_once(':').map(|(scheme, _)| scheme) {
        Some("sqlite") => {
            paid!(
                SqliteConnection,
                &url,
                &claim,
                call,
                id,
                "INSERT INTO payments (receipt, source, id, amount) VALUES (?, ?, ?, ?)"
            )
        }
        Some("mysql") => {
            let url = url.replace("unix_socket=", "socket=");
            paid!(
                MySqlConnection,
                &url,
                &claim,
                call,
                id,
                "INSERT INTO payments (receipt, source, id, amount) VALUES (?, ?, ?, ?)"
            )
        }
        _ => {
            paid!(
                PgConnection,
                &url,
                &claim,
                call,
                id,
                "INSERT INTO payments (receipt, source, id, amount) VALUES ($1, $2, $3, $4)"
            )
        }
    }
}

async fn process(ledger: Ledger, command: Value) {
    let (call, id) = (text(&command, "call"), text(&command, "id"));
    let wait = Duration::from_secs_f64(command["wait"].as_f64().unwrap_or_default());
    let url = env::var("DATABASE_URL").expect("the scenario names a database");
    let delivery = Delivery::of(Key::of("shop", &id)).wait(wait);
    let named = call.clone();
    match ledger.process(delivery, async move |claim| handle(claim, named, id, url).await).await {
        Ok(outcome) => finished(&call, &outcome),
        Err(error) => failed(&call, &error),
    }
}

#[tokio::main]
async fn main() {
    let mut ledgers: HashMap<String, Ledger> = HashMap::new();
    let mut lines = commands();
    say!("ready");
    while let Some(command) = lines.recv().await {
        let named = text(&command, "ledger");
        match command["do"].as_str() {
            Some("open") => {
                let connection = Connection::to(text(&command, "endpoint"));
                let ledger = Ledger::builder(text(&command, "consumer")).connection(connection).build();
                ledgers.insert(named, ledger.expect("right options"));
                say!("opened");
            }
            Some("process") => drop(tokio::spawn(process(ledgers[&named].clone(), command))),
            Some("go") => go(&text(&command, "call")),
            other => panic!("the command is not known: {other:?}"),
        }
    }
}
