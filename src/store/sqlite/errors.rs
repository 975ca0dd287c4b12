//! Classifies errors of the driver: whether the statement was applied, and what to do next.

use crate::store::{Fault, StoreError};

/// The text if another process had locked the file for the whole `busy_timeout`.
const FOREIGN: &str = "another process writes the file";
/// The text if the file, its WAL or their file system is read-only for this user.
const READ_ONLY: &str = "this user cannot write the file or its WAL";

/// Classifies an error from within a transaction, which is rolled back: certainly not applied.
pub(super) fn of_sqlx(error: &sqlx::Error) -> StoreError {
    let text = error.to_string();
    // The low byte is the primary result code; the others refine it.
    let primary = code(error).map(|code| code & 0xff);
    StoreError::NotApplied(match primary {
        // Constraint, mismatch, too big, corrupt: a row is at fault.
        Some(11 | 18 | 19 | 20 | 25) => Fault::Permanent(text),
        // Busy. This process has one writer, so another process holds the lock.
        Some(5) => Fault::Unavailable(format!("{FOREIGN}: {text}")),
        // Read-only, by the permissions or owner of the file or its WAL, or by the mount of its file system.
        Some(8) => Fault::Unavailable(format!("{READ_ONLY}: {text}")),
        // Not a database. This refuses all calls while the file is served, without splitting batches to find a faulty row.
        Some(26) => Fault::Schema(format!("the file is not a database of SQLite: {text}")),
        // Locked.
        Some(6) => Fault::Conflict(text),
        // No such table and the like.
        Some(1) => Fault::Schema(text),
        // Disk full, I/O errors, out of memory, and all others.
        _ => Fault::Unavailable(text),
    })
}

/// For an error of a migration: a file that is not writable then stays so, so a start must not wait for it.
pub(super) fn for_good(error: StoreError) -> StoreError {
    match error {
        StoreError::NotApplied(Fault::Unavailable(text)) if text.starts_with(READ_ONLY) => {
            StoreError::NotApplied(Fault::Permanent(text))
        }
        StoreError::NotApplied(_) | StoreError::Unknown(_) => error,
    }
}

/// Classifies an error of COMMIT: a full disk rolls back; after other errors the outcome is unknown.
pub(super) fn of_commit(error: &sqlx::Error) -> StoreError {
    match code(error).map(|code| code & 0xff) {
        Some(13) => StoreError::NotApplied(Fault::Unavailable(error.to_string())),
        _ => StoreError::Unknown(error.to_string()),
    }
}

/// Whether another process had locked the file.
pub(super) fn is_foreign(error: &StoreError) -> bool {
    matches!(error, StoreError::NotApplied(Fault::Unavailable(text)) if text.starts_with(FOREIGN))
}

fn code(error: &sqlx::Error) -> Option<i64> {
    error.as_database_error()?.code()?.parse().ok()
}
