//! `serve`: from a configuration to a server, and its end.

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::config::{Config, Database};
use super::descriptors;
use super::signals::{Signals, ignore_hangup, second_signal};
use super::store::{of_store, store};
use super::telemetry::{LogArgs, LogFormat};
use crate::ledger::{Ledger, adopt};
use crate::program::program;
use crate::rpc;
use crate::store::{Fault, Purpose, Store, StoreError};

const REOPEN_AFTER: Duration = Duration::from_millis(500);

/// Serves until SIGTERM or SIGINT, then drains. A second signal ends at once.
///
/// # Errors
/// What is wrong, and with which setting.
pub(super) async fn serve(mut config: Config, log: &LogArgs) -> Result<(), String> {
    ignore_hangup()?;
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
    greet(log, &address.to_string(), &store.describe());
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

/// Says that the server serves, and what to try next: an event of the log, and lines for people.
fn greet(log: &LogArgs, address: &str, store: &str) {
    let version = env!("CARGO_PKG_VERSION");
    let health = format!("{} health --address {address}", program());
    tracing::info!(version, address, store, health, "serving");
    if log.log_format == LogFormat::Text {
        let lines = [
            format!("idempotency-ledger {version} listens on {address}"),
            format!("  it stores in the {store}"),
            format!("  next, try: {health}"),
        ];
        // A closed standard output must not end the server.
        drop(writeln!(std::io::stdout(), "{}", lines.join("\n")));
    }
}

/// The first session: waits for a store that is on its way up, not for one that is set up wrongly.
async fn opened(store: &dyn Store, wait: Duration) -> Result<Box<dyn crate::store::Session>, String> {
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
