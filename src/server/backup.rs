//! The commands `backup` and `restore` of an `SQLite` ledger.

use std::path::Path;

use super::config::{Config, Database};
use super::failure::Failure;
use super::telemetry::LogArgs;
use crate::common::program::program;
use crate::store::SqliteStore;

/// Backs up the ledger, while its server may go on.
///
/// # Errors
/// The error, and its setting.
pub(super) async fn backup(config: &Config, to: &Path, replaces: bool, log: &LogArgs) -> Result<(), Failure> {
    let path = file(config)?;
    let copied =
        SqliteStore::backup(path, to, replaces).await.map_err(|problem| format!("backup: {problem}"))?;
    let json = serde_json::json!({ "backup": to.display().to_string(), "of": path.display().to_string(), "heartbeat": copied.heartbeat, "bytes": copied.bytes });
    let text = format!(
        "backed up {} to {}: {} bytes, up to heartbeat {}",
        path.display(),
        to.display(),
        copied.bytes,
        copied.heartbeat
    );
    log.print(&text, &json)
}

/// Replaces the ledger with a backup, while no server runs.
///
/// # Errors
/// The error, and its setting.
pub(super) async fn restore(
    config: &Config,
    from: &Path,
    accepts: bool,
    log: &LogArgs,
) -> Result<(), Failure> {
    let path = file(config)?;
    if !accepts {
        return Err(Failure::Wrong(
            "restore: what was acknowledged after the backup is lost, and messages that were completed since may be \
             granted again; nothing was changed: add --accept-loss if that is what you want (docs/sqlite.md says how the \
             ledger learns what was done since)"
                .into(),
        ));
    }
    let copied = SqliteStore::restore(path, from).await.map_err(|problem| format!("restore: {problem}"))?;
    let json = serde_json::json!({ "restored": path.display().to_string(), "from": from.display().to_string(), "heartbeat": copied.heartbeat, "bytes": copied.bytes });
    let text = format!(
        "restored {} from {}, up to heartbeat {}; next: {} serve",
        path.display(),
        from.display(),
        copied.heartbeat,
        program()
    );
    log.print(&text, &json)
}

/// The file of the ledger, which must be an `SQLite` ledger.
fn file(config: &Config) -> Result<&Path, Failure> {
    match &config.database {
        Database::Sqlite { path, .. } => Ok(path),
        Database::Memory | Database::Postgres { .. } => Err(Failure::Wrong(
            "database_url: is not an SQLite file; a Postgres is backed up by its own tools (docs/postgres.md)".into(),
        )),
    }
}
