//! The command `migrate`, for stores that are not migrated at the start of a server.

use super::config::{Config, Database};
use super::failure::Failure;
use super::store::store;
use super::telemetry::LogArgs;

/// Brings the schema up to this binary's version.
///
/// # Errors
/// The error, and its setting.
pub(super) async fn migrate(
    config: Config,
    grant_to: Option<&str>,
    accept_clock: bool,
    log: &LogArgs,
) -> Result<(), Failure> {
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
    let accepted =
        if accept_clock { Some(store.accept_clock().await.map_err(failed)?.micros()) } else { None };
    let store = store.describe();
    let json = serde_json::json!({
        "migrations_applied": applied,
        "store": store,
        "granted_to": grant_to,
        "clock_accepted_us": accepted,
    });
    let granted = grant_to.map(|role| format!("; {role} has the rights of a server")).unwrap_or_default();
    let clock = accepted
        .map(|micros| format!("; its clock is accepted, at {micros} us since 1970"))
        .unwrap_or_default();
    log.print(&format!("migrations applied: {applied}, to the {store}{granted}{clock}"), &json)
}
