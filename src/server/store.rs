//! The store that a configuration names.

use std::path::Path;
use std::sync::Arc;

use super::config::{Config, Database};
use crate::store::{PostgresOptions, PostgresStore, SqliteStore, Store, StoreError, SystemClock};

pub(super) fn store(config: &Config) -> Result<Arc<dyn Store>, String> {
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

fn make_folder(path: &Path) -> Result<(), String> {
    let Some(folder) = path.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("database_url: the folder {} can not be made: {error}", folder.display()))
}

pub(super) fn of_store(error: &StoreError) -> String {
    format!("database_url: {error}")
}
