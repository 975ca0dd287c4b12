//! What a driver's error says about whether the statement was applied.

use crate::store::{Fault, StoreError};

/// What an error says where another process had locked the file for as long as a transaction waits.
const FOREIGN: &str = "another process writes the file";
/// What an error says where the file, its WAL or their file system is read-only for this user.
const READ_ONLY: &str = "this user cannot write the file or its WAL";

/// Sorts an error from within a transaction, which is rolled back: certainly not applied.
pub(super) fn of_sqlx(error: &sqlx::Error) -> StoreError {
    let text = error.to_string();
    // The low byte is the primary result code; the others refine it.
    let primary = code(error).map(|code| code & 0xff);
    StoreError::NotApplied(match primary {
        // Constraint, mismatch, too big, corrupt: a row is at fault.
        Some(11 | 18 | 19 | 20 | 25) => Fault::Permanent(text),
        // Busy. This process has one writer, so it is another one that does not let go.
        Some(5) => Fault::Unavailable(format!("{FOREIGN}: {text}")),
        // Read-only, by its modes or its owner, by those of its WAL, or as its file system is mounted.
        Some(8) => Fault::Unavailable(format!("{READ_ONLY}: {text}")),
        // Not a database. While it is served this refuses all calls, and no row of a batch is looked for.
        Some(26) => Fault::Schema(format!("the file is not a database of SQLite: {text}")),
        // Locked.
        Some(6) => Fault::Conflict(text),
        // No such table and the like.
        Some(1) => Fault::Schema(text),
        // Disk full, I/O errors, no memory, and whatever else.
        _ => Fault::Unavailable(text),
    })
}

/// Of a migration: a file that cannot be written then will not do however long a start waits.
pub(super) fn for_good(error: StoreError) -> StoreError {
    match error {
        StoreError::NotApplied(Fault::Unavailable(text)) if text.starts_with(READ_ONLY) => {
            StoreError::NotApplied(Fault::Permanent(text))
        }
        StoreError::NotApplied(_) | StoreError::Unknown(_) => error,
    }
}

/// Sorts an error of COMMIT: a full disk rolls back; after other errors nobody can tell.
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
