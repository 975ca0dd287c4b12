//! The statements about entries by their keys.
//!
//! Each that writes looks at the level itself, and writes nothing where a newer binary has begun to use what this one
//! does not know. The load that follows says why.

use std::sync::LazyLock;

use crate::store::columns::{REPLACED, columns, empty_list, no_columns, select_list};
use crate::store::numbers::number;
use crate::store::schema::{LEVEL, level};

/// The parameters of a statement as the rows of `r`, in their order: of many rows as arrays, of one row as plain
/// values, which costs the database and the server less. Arrays are unnested one beside the other by a `SELECT`: in
/// a `FROM` each row of each array is stored first, and read again.
macro_rules! given {
    (many; $first:literal $of:literal $($number:literal $type:literal)*) => {
        concat!("(SELECT unnest(", $first, "::", $of, "[])", $(", unnest(", $number, "::", $type, "[])",)* ")")
    };
    (one; $first:literal $of:literal $($number:literal $type:literal)*) => {
        concat!("(SELECT ", $first, "::", $of, $(", ", $number, "::", $type,)* ")")
    };
}

macro_rules! load {
    ($name:literal, $rows:ident) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() AS clock_now, token_offset, clock_mark, level FROM ledger.meta
)
SELECT c.clock_now, c.token_offset, c.clock_mark, c.level, ",
            columns!(),
            "
FROM clock c
LEFT JOIN (",
            given!($rows; "$1" "uuid"),
            " AS r(key)
           JOIN ledger.entries e
             ON e.key = ANY (ARRAY[r.key])) ON true"
        )
    };
}
pub(super) const LOAD: &str = load!("load", many);
pub(super) const LOAD_ONE: &str = load!("load_one", one);

/// What all rows of a batch share is sent once: the first value of its list counts for those that have none.
macro_rules! first {
    (many) => {
        ",
           ($6::bigint[])[1] AS lease_until, ($7::int[])[1] AS consumer, ($8::int[])[1] AS source, ($10::int[])[1] AS terms"
    };
    (one) => {
        ""
    };
}
macro_rules! or_first {
    (many, $column:literal) => {
        concat!("coalesce(r.", $column, ", c.", $column, ")")
    };
    (one, $column:literal) => {
        concat!("r.", $column)
    };
}

/// First grants: `clock` is added to what was decided as of instant zero. They are inserted in the order in which they are
/// given, which is that of their keys: so two servers that insert the same keys do not wait for each other crosswise.
macro_rules! first_grants {
    ($name:literal, $rows:ident, $open:literal, $conflict:literal, $returning:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH clock AS MATERIALIZED (
    SELECT now AS clock_now, now + token_offset AS token_clock, token_offset, clock_mark, level",
            first!($rows),
            "
    FROM (SELECT ledger.clock() AS now, token_offset, clock_mark, level FROM ledger.meta OFFSET 0) AS reading
)",
            $open,
            "INSERT INTO ledger.entries AS e (
        key, claim_id, created_at, token, lease_until, consumer, source, principal, terms, attempts, version,
        state, closed_by, id, id_uuid, owner, fingerprint, traceparent)
    SELECT r.key, r.claim_id, c.clock_now, c.token_clock + r.token, c.clock_now + ",
            or_first!($rows, "lease_until"),
            ",
           ",
            or_first!($rows, "consumer"),
            ", ",
            or_first!($rows, "source"),
            ", r.principal, ",
            or_first!($rows, "terms"),
            ", 1, c.token_clock - c.token_clock % 1000, ",
            number!(IN_PROGRESS),
            ", ",
            number!(OPEN),
            ", r.id, r.id_uuid, r.owner, r.fingerprint, r.traceparent
    FROM clock c CROSS JOIN ",
            given!(
                $rows; "$3" "uuid" "$4" "uuid" "$5" "bigint" "$6" "bigint" "$7" "int" "$8" "int" "$9" "int"
                "$10" "int" "$11" "text" "$12" "uuid" "$13" "text" "$14" "bytea" "$15" "bytea"
            ),
            "
         AS r(key, claim_id, token, lease_until, consumer, source, principal, terms, id, id_uuid, owner,
              fingerprint, traceparent)
    WHERE c.token_clock >= greatest(c.clock_mark, $1) AND c.clock_now <= $2 AND c.level <= ",
            level!(),
            $conflict,
            "
    RETURNING ",
            $returning
        )
    };
}

/// The reading with whether the rows were inserted: all, or none at all where the clock forbids it. Where a single row
/// meets an entry, the statement fails. Tokens follow from the reading.
pub(super) const INSERT_NEW: &str = concat!(
    first_grants!("insert_new", many, ", fresh AS (\n    ", "", "1"),
    "
)
SELECT clock_now, token_offset, clock_mark, level, EXISTS (SELECT FROM fresh) AS inserted FROM clock"
);

/// First the reading with the keys and tokens of what was inserted, then the entries that were met: those of keys
/// that were not inserted, as the statement saw them when it began. An entry that was committed after that is met
/// too, and not seen: of such a key the answer says nothing. One that was deleted after that is still seen: its key
/// was inserted, and says so.
pub(super) const INSERT: &str = concat!(
    first_grants!("insert", many, ", fresh AS (\n    ", "\n    ON CONFLICT (key) DO NOTHING", "e.key, e.token"),
    "
)
SELECT c.clock_now, c.token_offset, c.clock_mark, c.level, f.fresh_keys, f.fresh_tokens, ",
    no_columns!(),
    "
FROM clock c CROSS JOIN (SELECT array_agg(key) AS fresh_keys, array_agg(token) AS fresh_tokens FROM fresh) AS f
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, ",
    columns!(),
    "
FROM unnest($3::uuid[]) AS r(key)
JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key])
WHERE (SELECT count(*) FROM fresh) < cardinality($3) AND r.key NOT IN (SELECT f.key FROM fresh f)"
);

/// One row, where the claim of a new message waits for nothing else. It says nothing of what it meets: that takes a
/// load of its own, which is cheap, since nothing was written.
pub(super) const INSERT_ONE: &str =
    first_grants!("insert_one", one, "\n", "\n    ON CONFLICT (key) DO NOTHING", "e.created_at, e.token");

/// The same, failing where it meets an entry.
pub(super) const INSERT_NEW_ONE: &str =
    first_grants!("insert_new_one", one, "\n", "", "e.created_at, e.token");

macro_rules! complete {
    ($name:literal, $rows:ident, $open:literal) => {
        concat!(
            "-- ledger.",
            $name,
            "
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now, level FROM ledger.meta)",
            $open,
            "UPDATE ledger.entries e
SET version = e.version + 1, state = ",
            number!(COMPLETED),
            ", closed_by = ",
            number!(BY_COMPLETE),
            ", attention = NULL, effect_unknown = NULL, updated_at = c.now, closed_at = NULL, result = r.result,
    retain_until = CASE WHEN e.terms = r.terms THEN NULL ELSE (
        SELECT CASE WHEN t.retention >= r.retention THEN NULL ELSE c.now + r.retention END
        FROM ledger.terms t WHERE t.no = e.terms) END
FROM clock c CROSS JOIN ",
            given!($rows; "$1" "uuid" "$2" "bigint" "$3" "int" "$4" "bigint" "$5" "bytea"),
            "
     AS r(key, token, terms, retention, result)
WHERE e.key = ANY (ARRAY[r.key])
  AND e.token = r.token AND e.state = ",
            number!(IN_PROGRESS),
            " AND c.level <= ",
            level!(),
            "
RETURNING e.key, e.lease_until <= c.now AS late, e.attempts"
        )
    };
}
/// First how many were completed, then what is worth telling of them: all, where some were not; otherwise those that
/// were not completed in time, by the first attempt.
pub(super) const COMPLETE: &str = concat!(
    complete!("complete", many, ", done AS (\n"),
    "
)
SELECT count(*) AS done, NULL::uuid AS key, NULL::boolean AS late, NULL::int AS attempts FROM done
UNION ALL
SELECT NULL, d.key, d.late, d.attempts FROM done d
WHERE d.late OR d.attempts <> 1 OR (SELECT count(*) FROM done) < cardinality($1)"
);
pub(super) const COMPLETE_ONE: &str = complete!("complete_one", one, "\n");

/// What may be written only until an instant is not written after it: a grant, by policies that may have changed.
/// Made from the table of columns; its parameters stand in the order of `r`.
pub(super) static REPLACE: LazyLock<String> = LazyLock::new(|| {
    let own = [("key", "uuid"), ("version", "bigint"), ("attention", "smallint"), ("until", "bigint")];
    let all: Vec<(&str, &str)> = own.into_iter().chain(REPLACED.iter().copied()).collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let parameters: Vec<String> =
        all.iter().zip(1..).map(|((_, of), number)| format!("unnest(${number}::{of}[])")).collect();
    let set: Vec<String> = REPLACED.iter().map(|(name, _)| format!("{name} = r.{name}")).collect();
    format!(
        "\
-- ledger.replace
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now, level FROM ledger.meta)
UPDATE ledger.entries e
SET version = e.version + 1, attention = r.attention, {}
FROM clock c CROSS JOIN (SELECT {}) AS r({})
WHERE e.key = ANY (ARRAY[r.key]) AND e.version = r.version - 1
  AND c.now <= r.until AND c.level <= {LEVEL}
RETURNING e.key",
        set.join(", "),
        parameters.join(", "),
        names.join(", ")
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

/// An operator's, whatever the rules.
pub(super) const DELETE: &str = concat!(
    "-- ledger.delete
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() + token_offset AS token_clock, clock_mark, level FROM ledger.meta
)
DELETE FROM ledger.entries e
USING clock c
WHERE e.key = ANY (ARRAY[$1::uuid])
  AND e.version = $2 AND greatest(e.version, e.token) + $4 < c.token_clock
  AND c.token_clock >= greatest(c.clock_mark, $3) AND c.level <= ",
    level!()
);
