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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::for_tests::refused;

    fn word(error: &StoreError) -> &'static str {
        match error {
            StoreError::NotApplied(Fault::Permanent(_)) => "permanent",
            StoreError::NotApplied(Fault::Unavailable(_)) => "unavailable",
            StoreError::NotApplied(Fault::Schema(_)) => "schema",
            StoreError::NotApplied(Fault::Conflict(_)) => "conflict",
            StoreError::NotApplied(fault) => panic!("{fault}"),
            StoreError::Unknown(_) => "unknown",
        }
    }

    /// The result code; what it means within a transaction, for a migration, and for a COMMIT; whether another process is at
    /// fault.
    #[test]
    fn codes_mean_the_same_whatever_refines_them() {
        for (code, within, migrating, committing, foreign) in [
            ("1", "schema", "schema", "unknown", false),
            ("5", "unavailable", "unavailable", "unknown", true),
            ("517", "unavailable", "unavailable", "unknown", true),
            ("6", "conflict", "conflict", "unknown", false),
            ("8", "unavailable", "permanent", "unknown", false),
            ("1032", "unavailable", "permanent", "unknown", false),
            ("10", "unavailable", "unavailable", "unknown", false),
            ("11", "permanent", "permanent", "unknown", false),
            ("13", "unavailable", "unavailable", "unavailable", false),
            ("2067", "permanent", "permanent", "unknown", false),
            ("26", "schema", "schema", "unknown", false),
            ("not a number", "unavailable", "unavailable", "unknown", false),
        ] {
            let error = refused(code);
            assert_eq!(word(&of_sqlx(&error)), within, "{code}");
            assert_eq!(word(&for_good(of_sqlx(&error))), migrating, "{code}");
            assert_eq!(word(&of_commit(&error)), committing, "{code}");
            assert_eq!(is_foreign(&of_sqlx(&error)), foreign, "{code}");
        }
        assert_eq!(word(&for_good(StoreError::Unknown(READ_ONLY.into()))), "unknown");
    }
}
