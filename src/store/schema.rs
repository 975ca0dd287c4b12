//! The schema fence: whether this binary may work with a store, by the version, `serves_from` and `level` in the store.

use crate::common::program::program;
use crate::domain::{KEY_FORMAT, POLICY_FORMAT};
use crate::store::Fault;

/// [`LEVEL`], for statements that check the level themselves.
macro_rules! level {
    () => {
        6
    };
}
pub(super) use level;

/// The version of this binary's last migration, for statements that check `serves_from` themselves. A test compares it with the
/// migrations.
macro_rules! known {
    () => {
        11
    };
}
pub(super) use known;

/// The version of the schema that this binary brings a store to.
pub const SCHEMA: i32 = known!();

/// The newest feature that this binary knows. Features have numbers of one row: a format of stored policies is
/// one, and so is whatever raises `level` in `meta`. See docs/changing.md, "A feature that older binaries must not
/// meet". 2: the policy field `occurred_at`. 3: replay runs, and the policy
/// field `replay`. 4: holds of consumers. 5: the policy field `result_bytes_max`. 6: messages (the policy fields
/// `inbox`, `message_retention` and `backlog_max_age`).
pub const LEVEL: i32 = level!();

const _: () = assert!(LEVEL >= POLICY_FORMAT, "a format of stored policies is a feature");

/// The versions that a store declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// The last migration that was applied.
    pub(super) version: i64,
    /// The lowest schema version a binary may have been made for: older ones are not served.
    pub(super) serves_from: i32,
    /// The newest feature that is in use. It only grows.
    pub(super) level: i32,
}

impl Standing {
    /// Whether a binary whose migrations end with `known` may work with the store.
    pub(super) fn check(self, known: i64) -> Result<(), Fault> {
        if self.version < known {
            return Err(Fault::Schema(format!(
                "the store's schema is version {}, this binary needs {known}: run `{} migrate`",
                self.version,
                program()
            )));
        }
        still(self.serves_from, self.level, known)
    }
}

/// Checks that this binary finds the entries of a store with this key format.
pub(super) fn finds(key_format: i32, has_entries: bool) -> Result<(), Fault> {
    if has_entries && key_format != KEY_FORMAT {
        return Err(Fault::Outdated(format!(
            "the store has entries under keys of format {key_format}, this binary makes keys of format {KEY_FORMAT} and would \
             not find them; nothing was changed: go on with the binary that wrote them, or give this one its own store"
        )));
    }
    Ok(())
}

/// Checks that a binary that works with the store may go on.
pub(super) fn still(serves_from: i32, level: i32, known: i64) -> Result<(), Fault> {
    if i64::from(serves_from) > known {
        return Err(Fault::Outdated(format!(
            "the store serves binaries of schema version {serves_from} and newer, this one is of version {known}: \
             run the newer binary"
        )));
    }
    knows(level)
}

/// Checks that this binary knows the features that are in use.
fn knows(level: i32) -> Result<(), Fault> {
    if level > LEVEL {
        return Err(Fault::Outdated(format!(
            "the store uses features up to number {level}, this binary knows those up to {LEVEL}: run the newer \
             binary"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::migrations;

    #[test]
    fn known_is_the_last_migration() {
        for all in [&migrations::POSTGRES, &migrations::SQLITE] {
            assert_eq!(migrations::newest(all), known!());
        }
    }

    #[test]
    fn finds_other_key_format_with_entries_is_refused() {
        for (format, has_entries, found) in [
            (KEY_FORMAT, true, true),
            (KEY_FORMAT, false, true),
            (KEY_FORMAT - 1, false, true),
            (KEY_FORMAT - 1, true, false),
            (KEY_FORMAT + 1, true, false),
        ] {
            let found_by = finds(format, has_entries);
            assert_eq!(found_by.is_ok(), found, "{format} {has_entries}: {found_by:?}");
        }
    }

    #[test]
    fn standing_check_follows_versions() {
        for (version, serves_from, level, says) in [
            (3, 1, 1, ""),
            (3, 3, 1, ""),
            (4, 1, 1, ""),
            (9999, 3, 0, ""),
            (2, 1, 1, "schema is version 2, this binary needs 3"),
            (0, 1, 1, "migrate"),
            (9, 4, 1, "serves binaries of schema version 4 and newer"),
            (3, 1, LEVEL + 1, "features up to number"),
            (4, 1, i32::MAX, "the newer binary"),
        ] {
            let said = Standing { version, serves_from, level }.check(3);
            let text = said.err().map(|fault| fault.to_string()).unwrap_or_default();
            assert!(
                text.contains(says) && text.is_empty() == says.is_empty(),
                "{version} {serves_from} {level}: {text:?}"
            );
        }
    }
}
