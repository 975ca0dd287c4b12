//! Statements of connections, transactions and backups.

pub(super) const MIGRATED: &str = "\
-- ledger.migrated
SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'";

pub(super) const SCHEMA: &str = "\
-- ledger.schema
SELECT serves_from, level, (SELECT coalesce(max(version), 0) FROM migrations WHERE success) FROM meta";

/// Whether the file has a column for its key format (without it the format is 1), and whether it has entries.
pub(super) const SAYS_KEY_FORMAT: &str = "\
-- ledger.says_key_format
SELECT count(*) > 0, EXISTS (SELECT 1 FROM entries) FROM pragma_table_info('meta') WHERE name = 'key_format'";

pub(super) const KEY_FORMAT: &str = "\
-- ledger.key_format
SELECT key_format FROM meta";

/// The row of `meta` that each transaction reads.
macro_rules! meta {
    () => {
        "SELECT token_offset, clock_mark, serves_from, level FROM meta"
    };
}
pub(super) use meta;

macro_rules! begin {
    ($name:literal, $how:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
BEGIN ",
            $how,
            ";
",
            meta!()
        )
    };
}

/// Begins a write transaction, so that what it reads still holds when it writes; reads `meta` in the same round trip, since a
/// round trip to the connection's thread takes longer than either statement.
pub(super) const BEGIN_TO_WRITE: &str = begin!("begin_to_write", "IMMEDIATE");

/// Begins a read transaction: it sees one snapshot of the file, while writers go on.
pub(super) const BEGIN_TO_LOOK: &str = begin!("begin_to_look", "DEFERRED");

/// The number of heartbeats in the file: see `losses.rs`.
pub(super) const COUNTED: &str = "\
-- ledger.counted
SELECT user_version FROM pragma_user_version";

/// Sets the number of heartbeats in the file, which is appended to the text.
pub(super) const COUNT: &str = "\
-- ledger.count
PRAGMA user_version = ";

/// The mark in the header of the file: see `backup.rs`.
pub(super) const MARKED: &str = "\
-- ledger.marked
SELECT application_id FROM pragma_application_id";

/// Sets the mark in the header of the file, which is appended to the text.
pub(super) const MARK: &str = "\
-- ledger.mark
PRAGMA application_id = ";

/// Copies everything that is durable into one file.
pub(super) const COPY: &str = "\
-- ledger.copy
VACUUM INTO ?1";

/// Checks the pages of the file: returns `ok`, or what is wrong with them.
pub(super) const SOUND: &str = "\
-- ledger.sound
PRAGMA quick_check(1)";

/// A write that changes nothing, and fails if the file is not writable; BEGIN IMMEDIATE does not fail then.
pub(super) const TRY_TO_WRITE: &str = "\
-- ledger.try_to_write
UPDATE meta SET level = level";

pub(super) const COMMIT: &str = "\
-- ledger.commit
COMMIT";

pub(super) const ROLLBACK: &str = "\
-- ledger.rollback
ROLLBACK";
