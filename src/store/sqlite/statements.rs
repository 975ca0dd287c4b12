//! Every statement that is sent to `SQLite`.

pub(super) const MIGRATED: &str = "\
-- ledger.migrated
SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'";

pub(super) const SCHEMA: &str = "\
-- ledger.schema
SELECT serves_from, level, (SELECT coalesce(max(version), 0) FROM migrations WHERE success) FROM meta";

/// A file from before the column is of format 1.
pub(super) const SAYS_KEY_FORMAT: &str = "\
-- ledger.says_key_format
SELECT count(*) > 0, EXISTS (SELECT 1 FROM entries) FROM pragma_table_info('meta') WHERE name = 'key_format'";

pub(super) const KEY_FORMAT: &str = "\
-- ledger.key_format
SELECT key_format FROM meta";

/// What each transaction looks at.
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

/// Begins as a writer, so that what is read still holds when it writes; with what each transaction begins by looking at,
/// since a journey to the thread of the connection takes longer than either.
pub(super) const BEGIN_TO_WRITE: &str = begin!("begin_to_write", "IMMEDIATE");

/// Sees one state of the file, while writers go on.
pub(super) const BEGIN_TO_LOOK: &str = begin!("begin_to_look", "DEFERRED");

/// How many heartbeats the file holds: see `losses.rs`.
pub(super) const COUNTED: &str = "\
-- ledger.counted
SELECT user_version FROM pragma_user_version";

/// The number stands behind it.
pub(super) const COUNT: &str = "\
-- ledger.count
PRAGMA user_version = ";

/// What the file's header says it is: see `backup.rs`.
pub(super) const MARKED: &str = "\
-- ledger.marked
SELECT application_id FROM pragma_application_id";

/// The mark stands behind it.
pub(super) const MARK: &str = "\
-- ledger.mark
PRAGMA application_id = ";

/// All that is durable, in one file.
pub(super) const COPY: &str = "\
-- ledger.copy
VACUUM INTO ?1";

/// `ok`, or what is wrong with the pages of the file.
pub(super) const SOUND: &str = "\
-- ledger.sound
PRAGMA quick_check(1)";

/// Changes nothing, and is refused where the file cannot be written: BEGIN IMMEDIATE is not.
pub(super) const TRY_TO_WRITE: &str = "\
-- ledger.try_to_write
UPDATE meta SET level = level";

pub(super) const COMMIT: &str = "\
-- ledger.commit
COMMIT";

pub(super) const ROLLBACK: &str = "\
-- ledger.rollback
ROLLBACK";
