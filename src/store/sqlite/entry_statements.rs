//! Statements about entries by their keys.

use std::sync::LazyLock;

use super::for_rows::ForRows;
use super::one_trip::RowStatement;
use crate::store::columns::{REPLACED, columns, entry_columns, select_list};
use crate::store::numbers::number;

/// Forces a look-up by key for each row of a batch (`CROSS JOIN`), whatever the statistics are. Otherwise the planner scans the
/// whole table and searches the batch for each row, if the batch has 256 rows, or the table had two when it was analysed.
/// `UPDATE … FROM` cannot be forced like this, so rows are changed by an upsert. `tests/it/stores/batches.rs` checks the plans of
/// all sizes after ANALYZE of tables of 0 to 1,000 rows.
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

/// `OR FAIL`: a statement that fails leaves its earlier rows written. The transaction is rolled back anyway, and `SQLite` does
/// not have to journal pages to undo the statement alone, which took a twelfth of the time of a claim.
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

/// The keys that an insert has just added. Sent only if some were not added: a `RETURNING` clause of the insert would make each
/// row a tenth slower.
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
        // A damaged row is not completed: its number of attempts could not be returned.
        " AND typeof(e.attempts) = 'integer' AND e.body IS NULL AND {is_same}
ON CONFLICT (key) DO UPDATE
SET version = excluded.version, state = excluded.state, closed_by = excluded.closed_by,
    updated_at = excluded.updated_at, result = excluded.result, retain_until = excluded.retain_until,
    attention = NULL, effect_unknown = NULL, closed_at = NULL,
    doubled = CASE WHEN superseded_completes > 0 OR doubled IS NOT NULL THEN 1 END
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

/// Deletes an unreadable entry for an operator. The value in `token` counts only if it is a valid token.
pub(super) const DELETE_UNREADABLE: &str = "\
-- ledger.delete_unreadable
DELETE FROM entries
WHERE key = ?1 AND (?2 IS NULL OR version = ?2) AND (token NOT BETWEEN 0 AND ?5 OR token + ?4 < ?3)";

/// Deletes an entry for the purge or an operator.
pub(super) const DELETE: &str = "\
-- ledger.delete
DELETE FROM entries WHERE key = ?1 AND version = ?2 AND max(version, token) + ?4 < ?3";
