//! The store that a configuration names.

use std::path::Path;
use std::sync::Arc;

use super::config::{Config, Database};
use crate::store::{PostgresStore, SqliteStore, Store, SystemClock};

pub(super) fn store(config: &Config) -> Result<Arc<dyn Store>, String> {
    match &config.database {
        Database::Sqlite { path, by_default } => {
            if *by_default {
                make_folder(path)?;
            }
            let store = SqliteStore::new(path, Arc::new(SystemClock));
            Ok(Arc::new(store.map_err(|problem| format!("database_url: {problem}"))?))
        }
        Database::Postgres { source } => {
            let store = PostgresStore::new(&config.postgres(source)).map_err(|wrong| wrong.to_string())?;
            store.warn_of_unverified();
            Ok(Arc::new(store))
        }
    }
}

fn make_folder(path: &Path) -> Result<(), String> {
    let Some(folder) = path.parent() else { return Ok(()) };
    std::fs::create_dir_all(folder)
        .map_err(|error| format!("database_url: the folder {} cannot be created: {error}", folder.display()))
}
