//! Statements about entries by their keys.
//!
//! Each write checks the store's level itself, and writes nothing if a newer binary has begun to use a feature that this one
//! does not know. The load that follows reports the reason.

use std::sync::LazyLock;

use crate::store::columns::{REPLACED, columns, empty_list, no_columns, select_list};
use crate::store::numbers::number;
use crate::store::schema::{LEVEL, known, level};

/// The parameters of a statement as columns of `r`: arrays for many rows, plain values for one row, which costs the database
/// and the server less. Arrays are unnested in the select list next to the values that all rows share: a join would copy each
/// row, and arrays in a `FROM` are materialized first.
macro_rules! given {
    (many; $($number:literal $type:literal $name:literal)*) => {
        concat!("" $(, ", unnest(", $number, "::", $type, "[]) AS ", $name)*)
    };
    (one; $($number:literal $type:literal $name:literal)*) => {
        concat!("" $(, ", ", $number, "::", $type, " AS ", $name)*)
    };
}

macro_rules! load {
    ($name:literal, $rows:ident) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() AS clock_now, token_offset, clock_mark, level, serves_from FROM ledger.meta
)
SELECT r.clock_now, r.token_offset, r.clock_mark, r.level, r.serves_from, ",
            columns!(),
            "
FROM (SELECT c.*",
            given!($rows; "$1" "uuid" "key"),
            " FROM clock c OFFSET 0) AS r
LEFT JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key])"
        )
    };
}
pub(super) const LOAD: &str = load!("load", many);
pub(super) const LOAD_ONE: &str = load!("load_one", one);

/// A value that all rows of a batch share is sent once: the first value of the list applies to rows without a value. Every
/// first grant has these values; an imported entry may lack one, and is replaced in the same transaction.
macro_rules! first {
    (many; $($number:literal $type:literal $name:literal)*) => {
        concat!("" $(, ", (", $number, "::", $type, "[])[1] AS first_", $name)*)
    };
    (one; $($number:literal $type:literal $name:literal)*) => {
        ""
    };
}
macro_rules! or_first {
    (many, $column:literal) => {
        concat!("coalesce(r.", $column, ", r.first_", $column, ")")
    };
    (one, $column:literal) => {
        concat!("r.", $column)
    };
}

/// First grants: the clock is added to instants that were decided as of instant zero. Rows are inserted in the order in which
/// they are given, which is that of their keys: so two servers that insert the same keys do not deadlock.
macro_rules! first_grants {
    ($name:literal, $rows:ident, $open:literal, $conflict:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH clock AS MATERIALIZED (
    SELECT now AS clock_now, now + token_offset AS token_clock, token_offset, clock_mark, level, serves_from,
           now + token_offset >= greatest(clock_mark, $1) AND now <= $2 AND now >= $16
           AND (greatest(clock_mark, $1) = 0 OR now + token_offset - greatest(clock_mark, $1) <= $17)
           AND now + token_offset <= $18 AND level <= ",
            level!(),
            " AND serves_from <= ",
            known!(),
            " AS may_write",
            first!(
                $rows; "$6" "bigint" "lease_until" "$7" "int" "consumer" "$8" "int" "source" "$9" "int" "principal"
                "$10" "int" "terms" "$13" "text" "owner"
            ),
            "
    FROM (SELECT ledger.clock() AS now, token_offset, clock_mark, level, serves_from FROM ledger.meta OFFSET 0) AS reading
)",
            $open,
            "INSERT INTO ledger.entries AS e (
        key, claim_id, created_at, token, lease_until, consumer, source, principal, terms, attempts, version,
        state, closed_by, id, id_uuid, owner, fingerprint, traceparent)
    SELECT r.key, r.claim_id, r.clock_now, r.token_clock + r.token, r.clock_now + ",
            or_first!($rows, "lease_until"),
            ",
           ",
            or_first!($rows, "consumer"),
            ", ",
            or_first!($rows, "source"),
            ", ",
            or_first!($rows, "principal"),
            ", ",
            or_first!($rows, "terms"),
            ", 1, r.token_clock - r.token_clock % 1000, ",
            number!(IN_PROGRESS),
            ", ",
            number!(OPEN),
            ", r.id, r.id_uuid, ",
            or_first!($rows, "owner"),
            ", r.fingerprint, r.traceparent
    FROM (SELECT c.*",
            given!(
                $rows; "$3" "uuid" "key" "$4" "uuid" "claim_id" "$5" "bigint" "token" "$6" "bigint" "lease_until"
                "$7" "int" "consumer" "$8" "int" "source" "$9" "int" "principal" "$10" "int" "terms" "$11" "text" "id"
                "$12" "uuid" "id_uuid" "$13" "text" "owner" "$14" "bytea" "fingerprint" "$15" "bytea" "traceparent"
            ),
            "
          FROM clock c WHERE c.may_write) AS r",
            $conflict
        )
    };
}

/// Optimistic insert: returns the reading, and whether the rows were inserted: all of them, or none if the clock forbids it. If
/// a single row conflicts with an entry, the statement fails. Tokens follow from the reading: returning them would copy each
/// row.
pub(super) const INSERT_NEW: &str = concat!(
    first_grants!("insert_new", many, ", fresh AS (\n    ", ""),
    "
)
SELECT clock_now, token_offset, clock_mark, level, serves_from, may_write AS inserted FROM clock"
);

/// Insert that handles conflicts: returns first the reading with the keys and tokens of the inserted rows, then the entries of
/// keys that were not inserted, as they were in the statement's snapshot. An entry that was committed after the snapshot
/// conflicts but is not visible: the answer omits its key (an unknown conflict). An entry that was deleted after the snapshot is
/// still visible, but its key is among the inserted ones.
pub(super) const INSERT: &str = concat!(
    first_grants!("insert", many, ", fresh AS (\n    ", "\n    ON CONFLICT (key) DO NOTHING"),
    "
    RETURNING e.key, e.token
)
SELECT c.clock_now, c.token_offset, c.clock_mark, c.level, c.serves_from, f.fresh_keys, f.fresh_tokens, ",
    no_columns!(),
    "
FROM clock c CROSS JOIN (SELECT array_agg(key) AS fresh_keys, array_agg(token) AS fresh_tokens FROM fresh) AS f
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, ",
    columns!(),
    "
FROM unnest($3::uuid[]) AS r(key)
JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key])
WHERE (SELECT count(*) FROM fresh) < cardinality($3) AND r.key NOT IN (SELECT f.key FROM fresh f)"
);

/// Inserts a single row. It does not return a conflicting entry: that takes a separate load, which is cheap, since nothing
/// was written.
pub(super) const INSERT_ONE: &str = concat!(
    first_grants!("insert_one", one, "\n", "\n    ON CONFLICT (key) DO NOTHING"),
    "\n    RETURNING e.created_at, e.token"
);

/// Inserts a single row as an optimistic insert, which fails on a conflict.
pub(super) const INSERT_NEW_ONE: &str =
    concat!(first_grants!("insert_new_one", one, "\n", ""), "\n    RETURNING e.created_at, e.token");

/// An entry that keeps a message is not completed: when its message is erased is decided first, after a load.
macro_rules! complete {
    ($name:literal, $rows:ident, $open:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now, level, serves_from FROM ledger.meta)",
            $open,
            "UPDATE ledger.entries e
SET version = e.version + 1, state = ",
            number!(COMPLETED),
            ", closed_by = ",
            number!(BY_COMPLETE),
            ", attention = NULL, effect_unknown = NULL, updated_at = r.now, closed_at = NULL, result = r.result,
    doubled = CASE WHEN e.superseded_completes > 0 OR e.doubled THEN true END,
    retain_until = CASE WHEN e.terms = r.terms THEN NULL ELSE (
        SELECT CASE WHEN t.retention >= r.retention THEN NULL ELSE r.now + r.retention END
        FROM ledger.terms t WHERE t.no = e.terms) END
FROM (SELECT c.now",
            given!(
                $rows; "$1" "uuid" "key" "$2" "bigint" "token" "$3" "int" "terms" "$4" "bigint" "retention"
                "$5" "bytea" "result"
            ),
            " FROM clock c WHERE c.level <= ",
            level!(),
            " AND c.serves_from <= ",
            known!(),
            ") AS r
WHERE e.key = ANY (ARRAY[r.key]) AND e.token = r.token AND e.state = ",
            number!(IN_PROGRESS),
            " AND e.body IS NULL
RETURNING e.key, e.lease_until <= r.now AS late, e.attempts, e.doubled"
        )
    };
}
/// The first row has the number of completed entries. If some were not completed, a row for each completed entry follows; else
/// rows only for those that were late, needed more than one attempt, or were reported before by another holder.
pub(super) const COMPLETE: &str = concat!(
    complete!("complete", many, ", done AS (\n"),
    "
)
SELECT count(*) AS done, NULL::uuid AS key, NULL::boolean AS late, NULL::int AS attempts, NULL::boolean AS doubled FROM done
UNION ALL
SELECT NULL, d.key, d.late, d.attempts, d.doubled FROM done d
WHERE d.late OR d.attempts <> 1 OR d.doubled OR (SELECT count(*) FROM done) < cardinality($1)"
);
pub(super) const COMPLETE_ONE: &str = complete!("complete_one", one, "\n");

/// Replaces entries. A row is not written after its `until`: a grant follows policies that may have changed
/// since. Generated from the table of columns; the parameters have the order of `r`.
pub(super) static REPLACE: LazyLock<String> = LazyLock::new(|| {
    let own = [("key", "uuid"), ("version", "bigint"), ("attention", "smallint"), ("until", "bigint")];
    let all: Vec<(&str, &str)> = own.into_iter().chain(REPLACED.iter().copied()).collect();
    let given: Vec<String> = all
        .iter()
        .zip(1..)
        .map(|((name, of), number)| format!("unnest(${number}::{of}[]) AS {name}"))
        .collect();
    let set: Vec<String> = REPLACED.iter().map(|(name, _)| format!("{name} = r.{name}")).collect();
    format!(
        "\
-- ledger.replace
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now, level, serves_from FROM ledger.meta)
UPDATE ledger.entries e
SET version = e.version + 1, attention = r.attention, {}
FROM (SELECT c.now, {} FROM clock c WHERE c.level <= {LEVEL} AND c.serves_from <= {}) AS r
WHERE e.key = ANY (ARRAY[r.key]) AND e.version = r.version - 1 AND r.now <= r.until
RETURNING e.key",
        set.join(", "),
        given.join(", "),
        known!()
    )
});

/// Selects the keys of rows that another session has locked. It takes the row locks that are free (`SKIP LOCKED`), and holds them
/// only until its transaction ends; it changes no row.
pub(super) const LOCKED: &str = "\
-- ledger.locked
SELECT e.key, e.version
FROM unnest($1::uuid[]) AS r(key)
JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key])
WHERE e.key NOT IN (
    SELECT f.key FROM unnest($1::uuid[]) AS r(key)
    JOIN ledger.entries f ON f.key = ANY (ARRAY[r.key])
    FOR NO KEY UPDATE OF f SKIP LOCKED)";

/// Deletes an entry that `$condition` selects, together with its message: an erasure leaves no payload.
macro_rules! delete {
    ($name:literal, $condition:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() + token_offset AS token_clock, clock_mark, level, serves_from FROM ledger.meta
), deleted AS (
    DELETE FROM ledger.entries e
    USING clock c
    WHERE e.key = ANY (ARRAY[$1::uuid])
      AND ",
            $condition,
            "
      AND c.token_clock >= greatest(c.clock_mark, $3) AND c.level <= ",
            level!(),
            " AND c.serves_from <= ",
            known!(),
            "
    RETURNING e.key
), message AS (
    DELETE FROM ledger.messages m USING deleted d WHERE m.key = d.key
)
SELECT d.key FROM deleted d"
        )
    };
}

/// Deletes an unreadable entry for an operator. The value in `token` counts only if it is a valid token.
pub(super) const DELETE_UNREADABLE: &str = delete!(
    "delete_unreadable",
    "($2::bigint IS NULL OR e.version = $2) AND (e.token NOT BETWEEN 0 AND $5 OR e.token + $4 < c.token_clock)"
);

/// Deletes an entry for an operator, whatever the rules.
pub(super) const DELETE: &str =
    delete!("delete", "e.version = $2 AND greatest(e.version, e.token) + $4 < c.token_clock");
