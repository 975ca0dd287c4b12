//! The way to Postgres: what a URL may say, what a database must be, and what the program says where either is wrong.

mod certificates;
mod databases;
mod keys;
mod sqlstates;
mod urls;
mod variables;

use std::time::Duration;

use idempotency_ledger::domain::ClockLimits;
use idempotency_ledger::store::{PostgresOptions, PostgresSource, PostgresStore, SchemaName, Store as _};

use crate::harness::postgres::Cluster;

/// A cluster of one's own, with these lines of configuration.
async fn cluster(settings: &'static str) -> Cluster {
    tokio::task::spawn_blocking(move || Cluster::start(settings)).await.unwrap()
}

/// What the ledger says to a URL when it migrates; nothing where it does well.
async fn migrated(url: &str) -> Result<(), String> {
    let options = PostgresOptions {
        source: PostgresSource::of_url(url),
        schema: SchemaName::default(),
        clock_limits: ClockLimits::NONE,
        sessions: 1,
        lifetime: None,
        lock_wait: Duration::from_millis(250),
        prepared_statements: true,
        transaction_pooling: false,
    };
    let store = PostgresStore::new(&options).map_err(|wrong| wrong.to_string())?;
    store.migrate().await.map(drop).map_err(|error| error.to_string())
}
