//! The commands of the command line.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep, timeout};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::config::{Config, Database};
use super::descriptors;
use crate::ledger::{Ledger, adopt};
use crate::rpc;
use crate::store::{
    Fault, PostgresOptions, PostgresStore, Purpose, SqliteStore, Store, StoreError, SystemClock,
};

/// Why a command failed: for people, with what to do next.
pub type Problem = String;

const REOPEN_AFTER: Duration = Duration::from_millis(500);

/// Serves until SIGTERM or SIGINT, then drains. A second signal ends at once.
///
/// # Errors
/// What is wrong, and with which setting.
pub async fn serve(mut config: Config) -> Result<(), Problem> {
    config.serve.connections_max = descriptors::connections(config.serve.connections_max);
    let store = store(&config)?;
    if matches!(config.database, Database::Sqlite { .. }) {
        store.migrate().await.map_err(|error| of_store(&error))?;
    }
    let mut session = opened(&*store, config.startup_wait).await?;
    let in_force = adopt(&config.policies, &mut *session).await.map_err(|error| of_store(&error))?;
    drop(session);
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(|error| format!("listen: {}: {error}; choose another with --listen", config.listen))?;
    let address = listener.local_addr().map_err(|error| format!("listen: {error}"))?;
    let mut signals = Signals::new()?;
    let ledger = Ledger::start(Arc::clone(&store), config.policies, in_force, config.ledger);
    println!("idempotency-ledger {} listens on {address}", env!("CARGO_PKG_VERSION"));
    println!("  it stores in the {}", store.describe());
    println!("  next, try: idempotency-ledger health --address {address}");
    tracing::info!(%address, store = store.describe(), "serving");
    let served = tokio::select! {
        served = rpc::serve(listener, ledger, config.serve, signals.next()) => served,
        // `serve` has taken the first signal by the time that a second one comes.
        () = second_signal() => return Err("ended at once by a second signal".into()),
    };
    match served {
        Ok(true) => Ok(()),
        Ok(false) => Err("drain_max: calls were still under way when the time was over".into()),
        Err(error) => Err(format!("the server ended: {error}")),
    }
}

/// Brings the schema up to this binary's version.
///
/// # Errors
/// What is wrong, and with which setting.
pub async fn migrate(config: Config) -> Result<(), Problem> {
    if matches!(config.database, Database::Sqlite { by_default: true, .. }) {
        return Err(
            "database_url: is not given; name the database to migrate with --database-url (SQLite's default \
                    file is migrated by `serve`)"
                .into(),
        );
    }
    let store = store(&config)?;
    let applied = store.migrate().await.map_err(|error| of_store(&error))?;
    println!("{applied} migrations applied to the {}", store.describe());
    Ok(())
}

/// Asks a server whether it serves.
///
/// # Errors
/// It does not, or does not answer.
pub async fn health(address: &str, service: &str, within: Duration) -> Result<(), Problem> {
    let url = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let asked = async {
        let endpoint = Endpoint::from_shared(url).map_err(|error| format!("address: {error}"))?;
        let channel = endpoint.connect().await.map_err(|error| {
            format!("{address}: {error}; is the server running? Name another with --address")
        })?;
        let mut client = HealthClient::new(channel);
        let request = HealthCheckRequest { service: service.to_owned() };
        client.check(request).await.map_err(|status| format!("{address}: {}", status.message()))
    };
    let answer =
        timeout(within, asked).await.map_err(|_| format!("{address}: no answer within {within:?}"))??;
    let status = answer.into_inner().status();
    println!("{}", status.as_str_name());
    if status == ServingStatus::Serving { Ok(()) } else { Err(format!("{address}: not serving")) }
}

fn store(config: &Config) -> Result<Arc<dyn Store>, Problem> {
    match &config.database {
        Database::Sqlite { path, by_default } => {
            if *by_default {
                make_folder(path)?;
            }
            let store = SqliteStore::new(path, Arc::new(SystemClock));
            Ok(Arc::new(store.map_err(|problem| format!("database_url: {problem}"))?))
        }
        Database::Postgres { url } => {
            let options = PostgresOptions {
                url: url.clone(),
                sessions: config.sessions,
                lock_wait: config.lock_wait,
                prepared_statements: config.prepared_statements,
            };
            let store = PostgresStore::new(&options);
            Ok(Arc::new(store.map_err(|problem| format!("database_url: {problem}"))?))
        }
    }
}

fn make_folder(path: &Path) -> Result<(), Problem> {
    let Some(folder) = path.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("database_url: the folder {} can not be made: {error}", folder.display()))
}

/// The first session: waits for a store that is on its way up, not for one that is set up wrongly.
async fn opened(store: &dyn Store, wait: Duration) -> Result<Box<dyn crate::store::Session>, Problem> {
    let give_up = Instant::now() + wait;
    loop {
        match store.open(Purpose::Changes).await {
            Ok(session) => return Ok(session),
            Err(StoreError::NotApplied(fault @ (Fault::Schema(_) | Fault::Permanent(_)))) => {
                return Err(format!("database_url: {}: {fault}", store.describe()));
            }
            Err(error) if Instant::now() >= give_up => {
                return Err(format!("database_url: {}: {error}", store.describe()));
            }
            Err(error) => {
                tracing::warn!(%error, "the store is not there yet; waiting");
                sleep(REOPEN_AFTER).await;
            }
        }
    }
}

fn of_store(error: &StoreError) -> Problem {
    format!("database_url: {error}")
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Signals, Problem> {
        let listen = |kind| signal(kind).map_err(|error| format!("signals can not be received: {error}"));
        Ok(Signals {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

async fn second_signal() {
    let Ok(mut signals) = Signals::new() else { return std::future::pending().await };
    signals.next().await;
    signals.next().await;
}
