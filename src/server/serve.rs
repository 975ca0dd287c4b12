//! `serve`: from a configuration to a server, and its end.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::config::{Config, Database};
use super::descriptors;
use super::signals::{Signals, second_signal};
use super::store::{of_store, store};
use crate::ledger::{Ledger, adopt};
use crate::rpc;
use crate::store::{Fault, Purpose, Store, StoreError};

const REOPEN_AFTER: Duration = Duration::from_millis(500);

/// Serves until SIGTERM or SIGINT, then drains. A second signal ends at once.
///
/// # Errors
/// What is wrong, and with which setting.
pub(super) async fn serve(mut config: Config) -> Result<(), String> {
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
