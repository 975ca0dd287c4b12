//! The command `serve`: starts a server from a configuration, and shuts it down.

use std::io::{IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};

use super::addresses::Addresses;
use super::config::{Config, Database};
use super::descriptors;
use super::failure::Failure;
use super::health;
use super::observe::{self, Accepting};
use super::otlp::Exported;
use super::signals::{Signals, hangups};
use super::store::store;
use super::supervisor::Supervisor;
use super::telemetry::{self, LogArgs, LogFormat};
use super::trust::Files;
use crate::identity::Guard;
use crate::ledger::{InForce, Ledger, Policies, adopt};
use crate::metrics::Metrics;
use crate::rpc::{self, Listeners};
use crate::store::{Fault, Purpose, Store, StoreError};

/// How often the log warns that callers are not authenticated.
const WARN_EVERY: Duration = Duration::from_mins(1);
const REOPEN_AFTER: Duration = Duration::from_millis(500);

/// Serves until SIGTERM or SIGINT, or until the store no longer serves this binary; then drains. A second signal ends the process
/// immediately.
///
/// # Errors
/// The error, and its setting.
pub(super) async fn serve(
    mut config: Config,
    mut files: Files,
    log: &LogArgs,
    signals: Signals,
    accept_loss: bool,
) -> Result<(), Failure> {
    if config.identity.insecure_anonymous {
        warn_of_anonymous();
        tokio::spawn(async {
            loop {
                sleep(WARN_EVERY).await;
                warn_of_anonymous();
            }
        });
    }
    let http = &config.http;
    let addresses = [Some(config.listen), config.admin_listen, http.listen.address(), http.admin_listen];
    for listen in addresses.into_iter().flatten() {
        if config.identity.tokens_in_the_clear(listen) {
            tracing::warn!(
                %listen,
                "tokens come in without TLS from where others may listen: set listen_tls_cert, or keep to a network that \
                 encrypts"
            );
        }
    }
    let hangups = hangups()?;
    let guard = Guard::new(files.trust()?);
    files.fetch_keys();
    let threads = config.runtime_threads();
    let fitting = descriptors::connections(config.serve.connections_max);
    config.serve.connections_max = fitting.connections;
    let store = store(&config, accept_loss)?;
    let is_ephemeral = config.database == Database::Memory;
    let migrates = is_ephemeral || matches!(config.database, Database::Sqlite { .. });
    let in_force = adopted(&*store, migrates, &config.policies, config.startup_wait).await?;
    let listeners = listeners(&config).await?;
    let listen = listeners.public.local_addr().map_err(|error| format!("listen: {error}"))?;
    let observed = observe::bound_locally("observe_listen", config.observe_listen, "no metrics are served")?;
    let metrics = if observed.is_some() { Metrics::new() } else { Metrics::unseen() };
    let metrics = metrics.map_err(|error| format!("metrics: {error}"))?;
    metrics.upkeep().log_lines_dropped_by(telemetry::lines_dropped);
    tokio::spawn(files.follow(guard.clone(), hangups, metrics.clone()));
    let exported = Exported::start();
    let supervisor = Supervisor::found()?;
    signals.take_over();
    let ledger = Ledger::start(Arc::clone(&store), config.policies, in_force, config.ledger, metrics);
    let accepting = Accepting::new();
    let observe_address = address_of(observed.as_ref());
    // Served until the process ends, so that a draining server can be observed.
    if let Some(listener) = observed {
        tokio::spawn(observe::serve(listener, fitting.observed, ledger.clone(), accepting.clone()));
    }
    let health = health::command(&listen.to_string(), guard.trust().tls.as_deref());
    let addresses = Addresses {
        listen,
        admin_listen: address_of(listeners.admin.as_ref()),
        http_listen: address_of(listeners.http.as_ref()),
        admin_http_listen: address_of(listeners.admin_http.as_ref()),
        observe_listen: observe_address,
    };
    greet(log, &addresses, &health, (&store.describe(), is_ephemeral), threads);
    supervisor.serves();
    let mut outdated = None;
    let stop = async {
        tokio::select! {
            () = signals.reach(1) => {}
            why = ledger.outdated() => outdated = Some(why),
        }
        accepting.end();
        supervisor.drains();
    };
    let serving = async {
        let served =
            rpc::serve(listeners, ledger.clone(), guard, config.serve, exported.traces(), stop).await;
        exported.end().await;
        served
    };
    let served = tokio::select! {
        served = serving => served,
        () = signals.reach(2) => {
            exported.give_up();
            return Err(Failure::Wrong("ended immediately by a second signal".into()));
        }
    };
    ended(served, outdated)
}

/// The result of the server. `served`: whether all calls ended within `drain_max`. `outdated`: why the store needs a newer program;
/// that precedes calls that outlived the drain, but no error of the listeners.
fn ended<E: std::fmt::Display>(served: Result<bool, E>, outdated: Option<String>) -> Result<(), Failure> {
    match (served, outdated) {
        (Err(error), _) => Err(Failure::Wrong(format!("the server ended: {error}"))),
        (Ok(_), Some(why)) => Err(Failure::Outdated(format!("database_url: {why}"))),
        (Ok(false), None) => {
            Err(Failure::Wrong("drain_max: calls were still under way when the time was over".into()))
        }
        (Ok(true), None) => Ok(()),
    }
}

fn warn_of_anonymous() {
    tracing::warn!(
        "insecure_anonymous: callers are not authenticated, and every client that reaches this server may do everything"
    );
}

/// Reports that the server serves, and what to try next: an event in the log, and lines for people, or for the program that
/// started an ephemeral server.
fn greet(
    log: &LogArgs,
    addresses: &Addresses,
    health: &str,
    (store, is_ephemeral): (&str, bool),
    threads: usize,
) {
    let version = env!("CARGO_PKG_VERSION");
    let address = addresses.listen.to_string();
    let metrics = addresses.observe_listen;
    let metrics = metrics.map_or_else(|| "nowhere".to_owned(), |at| format!("http://{at}/metrics"));
    let http = addresses.http_listen.map_or_else(|| "nowhere".to_owned(), |at| at.to_string());
    tracing::info!(version, address, http, store, metrics, threads, health, "serving");
    if is_ephemeral && !std::io::stdout().is_terminal() {
        say(addresses.json());
    } else if log.log_format == LogFormat::Text {
        let lines = [
            format!("idempotency-ledger {version} listens on {address}"),
            format!("  it stores in the {store}"),
            format!("  without gRPC: {http}"),
            format!("  metrics: {metrics}"),
            format!("  next, try: {health}"),
        ];
        say(lines.join("\n"));
    }
}

/// Writes to standard output. If it is closed, the server must not end; if it is not read, the server must not stall.
fn say(lines: String) {
    let print = move || drop(writeln!(std::io::stdout(), "{lines}"));
    let _printing = std::thread::Builder::new().name("addresses".into()).spawn(print);
}

fn address_of(listener: Option<&TcpListener>) -> Option<SocketAddr> {
    listener.and_then(|listener| listener.local_addr().ok())
}

/// Binds the listeners of all services, by the settings.
async fn listeners(config: &Config) -> Result<Listeners, Failure> {
    let own = async |setting: &str, address: Option<SocketAddr>| match address {
        Some(address) => bound(setting, address).await.map(Some),
        None => Ok(None),
    };
    let listeners = Listeners {
        public: bound("listen", config.listen).await?,
        admin: own("admin_listen", config.admin_listen).await?,
        http: observe::bound_locally("http_listen", config.http.listen, "nothing is served by HTTP")?,
        admin_http: own("admin_http_listen", config.http.admin_listen).await?,
        hosts: config.http.hosts.clone(),
    };
    for (listener, text) in [
        (&listeners.admin, "operators are served here alone"),
        (&listeners.admin_http, "operators are served here by HTTP"),
    ] {
        if let Some(address) = address_of(listener.as_ref()) {
            tracing::info!(%address, "{text}");
        }
    }
    Ok(listeners)
}

async fn bound(setting: &str, address: SocketAddr) -> Result<TcpListener, String> {
    let flag = setting.replace('_', "-");
    let bound = TcpListener::bind(address).await;
    bound.map_err(|error| format!("{setting}: {address}: {error}; choose another with --{flag}"))
}

/// Loads the policies in force with the first session. Retries while the store starts up, or if it fails within these
/// statements, all of which may be repeated; does not retry if the store is misconfigured.
async fn adopted(
    store: &dyn Store,
    migrates: bool,
    policies: &Policies,
    wait: Duration,
) -> Result<InForce, Failure> {
    let give_up = Instant::now() + wait;
    loop {
        match try_to_adopt(store, migrates, policies).await {
            Ok(in_force) => return Ok(in_force),
            Err(error) if never(&error) || Instant::now() >= give_up => {
                return Err(Failure::of_store(&format!("{}: ", store.describe()), &error));
            }
            Err(error) => {
                tracing::warn!(%error, "the store is not there yet; waiting");
                sleep(REOPEN_AFTER).await;
            }
        }
    }
}

async fn try_to_adopt(store: &dyn Store, migrates: bool, policies: &Policies) -> Result<InForce, StoreError> {
    if migrates {
        store.migrate().await?;
    }
    let mut session = store.open(Purpose::Changes).await?;
    adopt(policies, &mut *session).await
}

/// Whether an error of the store is permanent, so that waiting does not help.
fn never(error: &StoreError) -> bool {
    matches!(error, StoreError::NotApplied(Fault::Schema(_) | Fault::Permanent(_) | Fault::Outdated(_)))
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::*;

    #[test]
    fn outdated_server_exits_with_8_also_after_drain_max() {
        let newer = || Some("needs version 9".to_owned());
        for (served, outdated, exit) in [
            (Ok(true), None, 0),
            (Ok(false), None, 1),
            (Err("no listener"), None, 1),
            (Ok(true), newer(), 8),
            (Ok(false), newer(), 8),
            (Err("no listener"), newer(), 1),
        ] {
            let row = format!("{served:?}, {outdated:?}");
            let code = ended(served, outdated).map_or_else(|failure| failure.code(), |()| ExitCode::SUCCESS);
            assert_eq!(code, ExitCode::from(exit), "{row}");
        }
    }
}
