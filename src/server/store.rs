//! Opens the store of a configuration.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::sync::Arc;

use super::config::{Config, Database};
use crate::store::{PostgresStore, SqliteStore, Store, SystemClock};

/// The mode of a folder that is created for `SQLite`; an existing one keeps its mode.
const FOLDER_MODE: u32 = 0o700;

/// The store. With `accept_loss`, a loss of commits is accepted on behalf of a person.
pub(super) fn store(config: &Config, accept_loss: bool) -> Result<Arc<dyn Store>, String> {
    match &config.database {
        Database::Sqlite { path, by_default } => {
            if *by_default {
                make_folder(path)?;
            }
            let store = SqliteStore::new(path, Arc::new(SystemClock));
            let store = store.map_err(|problem| format!("database_url: {problem}"))?;
            if accept_loss {
                store.accept_loss();
            }
            Ok(Arc::new(store))
        }
        Database::Memory => Ok(Arc::new(SqliteStore::in_memory(Arc::new(SystemClock)))),
        Database::Postgres { .. } if accept_loss => {
            Err("--accept-loss: is for SQLite alone, and the database is Postgres: leave it out".into())
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
    let made = DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder);
    made.map_err(|error| format!("database_url: the folder {} cannot be created: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn new_folder_is_private_existing_keeps_mode() {
        let above = tempfile::tempdir().expect("a folder");
        set_permissions(above.path(), Permissions::from_mode(0o755)).expect("its mode");
        let folder = above.path().join("state/data");
        make_folder(&folder.join("ledger.db")).expect("a folder");
        let mode = |path: &Path| metadata(path).expect("it is there").permissions().mode() & 0o777;
        let modes = [&*folder, &above.path().join("state"), above.path()].map(mode);
        assert_eq!(modes, [0o700, 0o700, 0o755]);
        set_permissions(&folder, Permissions::from_mode(0o750)).expect("its mode");
        make_folder(&folder.join("ledger.db")).expect("it is there");
        assert_eq!(mode(&folder), 0o750);
    }
}
