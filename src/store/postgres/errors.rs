//! What a driver's error says about whether the statement was applied.

use sqlx::postgres::{PgDatabaseError, PgSeverity};

use crate::store::{Fault, StoreError};

/// Sorts an error that came of a statement which may have been sent.
#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(super) fn of_sqlx(error: sqlx::Error) -> StoreError {
    if let sqlx::Error::AnyDriverError(ours) = error {
        return ours.downcast().map_or_else(|other| StoreError::Unknown(other.to_string()), |ours| *ours);
    }
    let sqlx::Error::Database(database) = &error else {
        let never_sent = matches!(error, sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_));
        let text = error.to_string();
        return if never_sent {
            StoreError::NotApplied(Fault::Permanent(text))
        } else {
            StoreError::Unknown(text)
        };
    };
    let text = error.to_string();
    let code = database.code().unwrap_or_default().into_owned();
    let fault = match code.as_str() {
        // A prepared statement is gone (DEALLOCATE, DISCARD, a pooler's other connection), a transaction that was idle
        // for too long, or the plan is of a table that has changed since. That one is told from all else that is not
        // supported by who says so.
        "26000" | "25P03" => Fault::Stale(text),
        "0A000" if routine(&**database) == Some("RevalidateCachedQuery") => Fault::Stale(text),
        // Deadlock, serialization failure.
        "40P01" | "40001" => Fault::Conflict(text),
        // Lock timeout.
        "55P03" => Fault::Locked(text),
        // Statement timeout.
        "57014" => Fault::TimedOut(text),
        // Read-only, cannot connect now.
        "25006" | "57P03" => Fault::Unavailable(text),
        // A shutdown may hit a statement whose commit only waits for a standby.
        _ if code.starts_with("57P") || code.starts_with("08") || code == "40003" => {
            return StoreError::Unknown(text);
        }
        // Out of disk, memory or connections; the system failed.
        _ if code.starts_with("53") || code.starts_with("58") => Fault::Unavailable(text),
        // Missing tables, missing rights, wrong password, no such database.
        _ if code.starts_with("42") || code.starts_with("28") || code.starts_with("3D") => {
            Fault::Schema(text)
        }
        _ => Fault::Permanent(text),
    };
    StoreError::NotApplied(fault)
}

/// Sorts an error that came of a `COMMIT`. What ends the connection may be a pooler, which does not know what became of
/// it: only a transaction that was ended before is certain.
pub(super) fn of_commit(error: sqlx::Error) -> StoreError {
    let postgres = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    let ends = postgres.is_some_and(|error| error.severity() != PgSeverity::Error);
    match of_sqlx(error) {
        error @ (StoreError::NotApplied(Fault::Stale(_)) | StoreError::Unknown(_)) => error,
        StoreError::NotApplied(fault) if ends => StoreError::Unknown(fault.to_string()),
        error @ StoreError::NotApplied(_) => error,
    }
}

/// Which part of the server speaks, whatever its language.
fn routine(database: &dyn sqlx::error::DatabaseError) -> Option<&str> {
    database.try_downcast_ref::<PgDatabaseError>()?.routine()
}

/// Sorts an error that came before anything was sent.
pub(super) fn of_connect(error: &sqlx::Error) -> StoreError {
    let mut text = error.to_string();
    if text.ends_with("UnknownIssuer") {
        text.push_str(
            ": no trusted authority has signed the server's certificate; name its authority by sslrootcert",
        );
    }
    let wrong = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .is_some_and(|code| code.starts_with("28") || code.starts_with("3D") || code.starts_with("42"));
    StoreError::NotApplied(if wrong { Fault::Schema(text) } else { Fault::Unavailable(text) })
}
