//! `migrate`: the schema of a store that is not migrated by itself.

use super::config::{Config, Database};
use super::failure::Failure;
use super::store::store;
use super::telemetry::LogArgs;

/// Brings the schema up to this binary's version.
///
/// # Errors
/// What is wrong, and with which setting.
pub(super) async fn migrate(config: Config, grant_to: Option<&str>, log: &LogArgs) -> Result<(), Failure> {
    if matches!(config.database, Database::Sqlite { by_default: true, .. }) {
        return Err(Failure::Wrong(
            "database_url: is not given; name the database to migrate with --database-url (SQLite's default \
                    file is migrated by `serve`)"
                .into(),
        ));
    }
    let store = store(&config, false)?;
    let failed = |error| Failure::of_store("", &error);
    let applied = store.migrate().await.map_err(failed)?;
    if let Some(role) = grant_to {
        store.grant_to(role).await.map_err(failed)?;
    }
    let store = store.describe();
    let json = serde_json::json!({ "migrations_applied": applied, "store": store, "granted_to": grant_to });
    let granted = grant_to.map(|role| format!("; {role} has the rights of a server")).unwrap_or_default();
    log.print(&format!("migrations applied: {applied}, to the {store}{granted}"), &json);
    Ok(())
}
