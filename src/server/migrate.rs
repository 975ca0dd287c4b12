//! `migrate`: the schema of a store that is not migrated by itself.

use super::config::{Config, Database};
use super::store::{of_store, store};
use super::telemetry::LogArgs;

/// Brings the schema up to this binary's version.
///
/// # Errors
/// What is wrong, and with which setting.
pub(super) async fn migrate(config: Config, log: &LogArgs) -> Result<(), String> {
    if matches!(config.database, Database::Sqlite { by_default: true, .. }) {
        return Err(
            "database_url: is not given; name the database to migrate with --database-url (SQLite's default \
                    file is migrated by `serve`)"
                .into(),
        );
    }
    let store = store(&config)?;
    let applied = store.migrate().await.map_err(|error| of_store(&error))?;
    let store = store.describe();
    let json = serde_json::json!({ "migrations_applied": applied, "store": store });
    log.print(&format!("{applied} migrations applied to the {store}"), &json);
    Ok(())
}
