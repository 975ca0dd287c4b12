//! Every statement that is sent about entries by their keys.

use std::sync::LazyLock;

use super::at_once::RowStatement;
use super::for_rows::ForRows;
use crate::store::columns::{REPLACED, columns, entry_columns, select_list};
use crate::store::numbers::number;

/// How the rows of a batch find theirs: one by one, by key, whatever statistics say. Left to itself the planner reads
/// the whole table, and looks into the batch for each of its rows: with 256 rows in a batch, or two in the table when
/// it was analysed. An `UPDATE … FROM` cannot be told so, which is why rows are changed by an upsert.
macro_rules! by_key {
    () => {
        "r CROSS JOIN entries e INDEXED BY sqlite_autoindex_entries_1 ON e.key = r.key"
    };
}

pub(super) static LOAD: LazyLock<RowStatement> = LazyLock::new(|| {
    let text = concat!(
        "-- ledger.load
WITH {same}r (key) AS (VALUES {rows})
SELECT ",
        columns!(),
        "
FROM ",
        by_key!(),
        "
WHERE {is_same}"
    );
    RowStatement::new(text, 1)
});

/// `OR FAIL`: a statement that fails leaves what it has written. Its transaction is rolled back anyhow, and `SQLite` copies no
/// page beforehand that it would need to undo the statement alone, which cost a twelfth of the time of a claim.
pub(super) static INSERT: LazyLock<RowStatement> = LazyLock::new(|| {
    let text = concat!(
        "-- ledger.insert
WITH {same}r (
    key, claim_id, created_at, token, lease_until, consumer, source, principal, terms, version, id, id_uuid,
    owner, fingerprint, traceparent) AS (VALUES {rows})
INSERT OR FAIL INTO entries (
    key, claim_id, created_at, token, lease_until, consumer, source, principal, terms, attempts, version,
    state, closed_by, attention, id, id_uuid, owner, fingerprint, traceparent)
SELECT key, claim_id, created_at, token, lease_until, consumer, source, principal, terms, 1, version, ",
        number!(IN_PROGRESS),
        ", ",
        number!(OPEN),
        ", ",
        number!(IN_PROGRESS),
        ", id, id_uuid, owner, fingerprint, traceparent
FROM r
WHERE key IS NOT NULL AND {is_same}
ON CONFLICT (key) DO NOTHING"
    );
    RowStatement::new(text, 15)
});

/// Which of the keys an insert has just added. Asked only where it has not added all: to tell them with the insert would
/// cost each row a tenth.
pub(super) static ADDED: LazyLock<ForRows> = LazyLock::new(|| {
    let text = concat!(
        "-- ledger.added
WITH r (key, above) AS (VALUES {rows})
SELECT e.key
FROM ",
        by_key!(),
        "
WHERE e.rowid > r.above"
    );
    ForRows::new(text, 2)
});

pub(super) static COMPLETE: LazyLock<RowStatement> = LazyLock::new(|| {
    let text = concat!(
        "-- ledger.complete
WITH {same}r (key, token, at, terms, retention, result) AS (VALUES {rows})
INSERT INTO entries (
    key, created_at, token, lease_until, consumer, source, terms, attempts, version, state, closed_by,
    updated_at, result, retain_until)
SELECT e.key, e.created_at, e.token, e.lease_until, e.consumer, e.source, e.terms, e.attempts, e.version + 1, ",
        number!(COMPLETED),
        ", ",
        number!(BY_COMPLETE),
        ", r.at, r.result,
    CASE WHEN e.terms = r.terms THEN NULL ELSE (
        SELECT CASE WHEN t.retention >= r.retention THEN NULL ELSE r.at + r.retention END
        FROM terms t WHERE t.no = e.terms) END
FROM ",
        by_key!(),
        "
WHERE e.token = r.token AND e.state = ",
        number!(IN_PROGRESS),
        // A damaged row is not completed: its number of attempts could not be answered.
        " AND typeof(e.attempts) = 'integer' AND {is_same}
ON CONFLICT (key) DO UPDATE
SET version = excluded.version, state = excluded.state, closed_by = excluded.closed_by,
    updated_at = excluded.updated_at, result = excluded.result, retain_until = excluded.retain_until,
    attention = NULL, effect_unknown = NULL, closed_at = NULL,
    doubled = CASE WHEN superseded_completes > 0 THEN 1 END
RETURNING key, lease_until <= updated_at AS late, attempts, doubled IS NOT NULL AS doubled"
    );
    RowStatement::new(text, 6)
});

macro_rules! replace {
    ([] fixed { $($fixed:ident: $_ft:ty, $_f:literal;)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        concat!(
            "-- ledger.replace
WITH {same}r (",
            $(stringify!($name), ", ",)*
            "attention, key, version) AS (VALUES {rows})
INSERT INTO entries (",
            $(stringify!($fixed), ", ",)*
            $(stringify!($name), ", ",)*
            "attention, key, version)
SELECT ",
            $("e.", stringify!($fixed), ", ",)*
            $("r.", stringify!($name), ", ",)*
            "r.attention, r.key, r.version
FROM ",
            by_key!(),
            "
WHERE e.version = r.version - 1 AND {is_same}
ON CONFLICT (key) DO UPDATE
SET ",
            $(stringify!($name), " = excluded.", stringify!($name), ", ",)*
            "attention = excluded.attention, version = excluded.version
RETURNING key"
        )
    };
}
pub(super) static REPLACE: LazyLock<RowStatement> =
    LazyLock::new(|| RowStatement::new(entry_columns!(replace), REPLACED.len() + 3));

/// An operator's, of an entry that cannot be read. What stands in its token counts only where it is a token.
pub(super) const DELETE_UNREADABLE: &str = "\
-- ledger.delete_unreadable
DELETE FROM entries
WHERE key = ?1 AND (?2 IS NULL OR version = ?2) AND (token NOT BETWEEN 0 AND ?5 OR token + ?4 < ?3)";

/// The purge's and operators' own.
pub(super) const DELETE: &str = "\
-- ledger.delete
DELETE FROM entries WHERE key = ?1 AND version = ?2 AND max(version, token) + ?4 < ?3";
