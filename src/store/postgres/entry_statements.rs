//! The statements about entries by their keys.
//!
//! Each that writes looks at the level itself, and writes nothing where a newer binary has begun to use what this one
//! does not know. The load that follows says why.

use std::sync::LazyLock;

use crate::store::columns::{REPLACED, columns, empty_list, no_columns, select_list};
use crate::store::numbers::number;
use crate::store::schema::{LEVEL, known, level};

/// The parameters of a statement as columns of `r`: of many rows as arrays, of one row as plain values, which costs the
/// database and the server less. What all rows share is selected beside the arrays: joined to them, each row would be
/// copied for the join. In a `FROM`, arrays are stored first, and read again.
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

/// What all rows of a batch share is sent once: the first value of its list counts for those that have none. No first
/// grant is without one; an import may be, and replaces its rows in the same transaction.
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

/// First grants: `clock` is added to what was decided as of instant zero. They are inserted in the order in which they are
/// given, which is that of their keys: so two servers that insert the same keys do not wait for each other crosswise.
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

/// The reading with whether the rows were inserted: all, or none at all where the clock forbids it. Where a single row
/// meets an entry, the statement fails. Tokens follow from the reading: to return each row's would cost a copy of it.
pub(super) const INSERT_NEW: &str = concat!(
    first_grants!("insert_new", many, ", fresh AS (\n    ", ""),
    "
)
SELECT clock_now, token_offset, clock_mark, level, serves_from, may_write AS inserted FROM clock"
);

/// First the reading with the keys and tokens of what was inserted, then the entries that were met: those of keys
/// that were not inserted, as the statement saw them when it began. An entry that was committed after that is met
/// too, and not seen: of such a key the answer says nothing. One that was deleted after that is still seen: its key
/// was inserted, and says so.
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

/// One row, where the claim of a new message waits for nothing else. It says nothing of what it meets: that takes a
/// load of its own, which is cheap, since nothing was written.
pub(super) const INSERT_ONE: &str = concat!(
    first_grants!("insert_one", one, "\n", "\n    ON CONFLICT (key) DO NOTHING"),
    "\n    RETURNING e.created_at, e.token"
);

/// The same, failing where it meets an entry.
pub(super) const INSERT_NEW_ONE: &str =
    concat!(first_grants!("insert_new_one", one, "\n", ""), "\n    RETURNING e.created_at, e.token");

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
    doubled = CASE WHEN e.superseded_completes > 0 THEN true END,
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
            "
RETURNING e.key, e.lease_until <= r.now AS late, e.attempts, e.doubled"
        )
    };
}
/// First how many were completed, then what is worth telling of them: all, where some were not; otherwise those that
/// were not completed in time, by the first attempt and by no other holder before.
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

/// What may be written only until an instant is not written after it: a grant, by policies that may have changed.
/// Made from the table of columns; its parameters stand in the order of `r`.
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

/// It changes no row: it only takes the free locks for a moment. The version is asked for since no index holds
/// it: the key alone would be read from all of an index that holds it behind other columns.
pub(super) const LOCKED: &str = "\
-- ledger.locked
SELECT e.key, e.version
FROM unnest($1::uuid[]) AS r(key)
JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key])
WHERE e.key NOT IN (
    SELECT f.key FROM unnest($1::uuid[]) AS r(key)
    JOIN ledger.entries f ON f.key = ANY (ARRAY[r.key])
    FOR NO KEY UPDATE OF f SKIP LOCKED)";

/// An operator's, of an entry that cannot be read. What stands in its token counts only where it is a token.
pub(super) const DELETE_UNREADABLE: &str = concat!(
    "-- ledger.delete_unreadable
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() + token_offset AS token_clock, clock_mark, level, serves_from FROM ledger.meta
)
DELETE FROM ledger.entries e
USING clock c
WHERE e.key = ANY (ARRAY[$1::uuid])
  AND ($2::bigint IS NULL OR e.version = $2) AND (e.token NOT BETWEEN 0 AND $5 OR e.token + $4 < c.token_clock)
  AND c.token_clock >= greatest(c.clock_mark, $3) AND c.level <= ",
    level!(),
    " AND c.serves_from <= ",
    known!()
);

/// An operator's, whatever the rules.
pub(super) const DELETE: &str = concat!(
    "-- ledger.delete
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() + token_offset AS token_clock, clock_mark, level, serves_from FROM ledger.meta
)
DELETE FROM ledger.entries e
USING clock c
WHERE e.key = ANY (ARRAY[$1::uuid])
  AND e.version = $2 AND greatest(e.version, e.token) + $4 < c.token_clock
  AND c.token_clock >= greatest(c.clock_mark, $3) AND c.level <= ",
    level!(),
    " AND c.serves_from <= ",
    known!()
);
