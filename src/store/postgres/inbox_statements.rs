//! Statements about messages and handouts.
//!
//! A session for them has hash joins on and nested loops off (`connect.rs`): a batch of a thousand rows is joined with those that
//! were written, which a nested loop does in a million steps. Look-ups by key are not affected: `= ANY` knows no hash join.

use std::sync::LazyLock;

use crate::store::columns::{REPLACED, columns, select_list};
use crate::store::numbers::number;
use crate::store::schema::{LEVEL, known, level};

/// Keeps the messages `r` of the entries `w` that were written: `ON CONFLICT`, since the message of an earlier life of the key may
/// still be there.
macro_rules! keep_messages {
    ($generation:literal, $at:literal) => {
        concat!(
            "INSERT INTO ledger.messages (key, generation, stored_at, bytes, message)
    SELECT r.key, ",
            $generation,
            ", ",
            $at,
            ", octet_length(r.message), r.message FROM given r JOIN written w ON w.key = r.key
    ON CONFLICT (key) DO UPDATE SET generation = excluded.generation, stored_at = excluded.stored_at,
        bytes = excluded.bytes, message = excluded.message"
        )
    };
}

/// Entries of new messages, and the messages. The instants were decided as of instant zero. Rows are inserted in the order of
/// their keys. The first row of the answer has the reading alone where nothing was inserted.
pub(super) const INBOX_STORE: &str = concat!(
    "-- ledger.inbox_store
WITH clock AS MATERIALIZED (
    SELECT now AS clock_now, now + token_offset AS token_clock, token_offset, clock_mark, level, serves_from,
           now + token_offset >= greatest(clock_mark, $1) AND now <= $2 AND now >= $3
           AND (greatest(clock_mark, $1) = 0 OR now + token_offset - greatest(clock_mark, $1) <= $4)
           AND now + token_offset <= $5 AND level <= ",
    level!(),
    " AND serves_from <= ",
    known!(),
    " AS may_write
    FROM (SELECT ledger.clock() AS now, token_offset, clock_mark, level, serves_from FROM ledger.meta OFFSET 0) AS reading
),
given AS MATERIALIZED (
    SELECT c.clock_now, c.token_clock, unnest($6::uuid[]) AS key, unnest($7::bigint[]) AS token,
           unnest($8::int[]) AS consumer, unnest($9::int[]) AS source, unnest($10::int[]) AS terms,
           unnest($11::text[]) AS id, unnest($12::uuid[]) AS id_uuid, unnest($13::bytea[]) AS fingerprint,
           unnest($14::bytea[]) AS traceparent, unnest($15::bytea[]) AS message
    FROM clock c WHERE c.may_write
),
written AS (
    INSERT INTO ledger.entries AS e (
        key, created_at, token, lease_until, consumer, source, terms, attempts, version, state, closed_by, attention,
        next_at, body, id, id_uuid, fingerprint, traceparent)
    SELECT r.key, r.clock_now, r.token_clock + r.token, r.clock_now, r.consumer, r.source, r.terms, 0,
           r.token_clock - r.token_clock % 1000, ",
    number!(RECEIVED),
    ", ",
    number!(BY_STORE),
    ", ",
    number!(RECEIVED),
    ", r.clock_now, ",
    number!(KEPT),
    ", r.id, r.id_uuid, r.fingerprint, r.traceparent
    FROM given r
    ON CONFLICT (key) DO NOTHING
    RETURNING e.key, e.token, e.version, e.created_at
),
kept AS (
    ",
    keep_messages!("w.version", "w.created_at"),
    "
)
SELECT c.clock_now, c.token_offset, c.clock_mark, c.level, c.serves_from, w.key AS fresh_key, w.token AS fresh_token
FROM clock c LEFT JOIN written w ON true"
);

/// Replaces entries, and keeps their messages. Generated from the table of columns; the parameters have the order of `given`.
pub(super) static INBOX_ATTACH: LazyLock<String> = LazyLock::new(|| {
    let own = [
        ("key", "uuid"),
        ("version", "bigint"),
        ("attention", "smallint"),
        ("until", "bigint"),
        ("message", "bytea"),
    ];
    let all: Vec<(&str, &str)> = own.into_iter().chain(REPLACED.iter().copied()).collect();
    let given =
        all.iter().zip(1..).map(|((name, of), number)| format!("unnest(${number}::{of}[]) AS {name}"));
    let given: Vec<String> = given.collect();
    let set: Vec<String> = REPLACED.iter().map(|(name, _)| format!("{name} = r.{name}")).collect();
    format!(
        "\
-- ledger.inbox_attach
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now, level, serves_from FROM ledger.meta),
given AS MATERIALIZED (SELECT c.now, {} FROM clock c WHERE c.level <= {LEVEL} AND c.serves_from <= {}),
written AS (
    UPDATE ledger.entries e SET version = e.version + 1, attention = r.attention, {}
    FROM given r
    WHERE e.key = ANY (ARRAY[r.key]) AND e.version = r.version - 1 AND r.now <= r.until
    RETURNING e.key
),
kept AS (
    {}
)
SELECT key FROM written",
        given.join(", "),
        known!(),
        set.join(", "),
        keep_messages!("r.version", "r.now"),
    )
});

/// The clock, and the handout of this claim, if there is one.
pub(super) const INBOX_LOOK: &str = "\
-- ledger.inbox_look
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() AS clock_now, token_offset, clock_mark, level, serves_from FROM ledger.meta
)
SELECT c.clock_now, c.token_offset, c.clock_mark, c.level, c.serves_from, h.consumer, h.principal, h.owner, h.keys
FROM clock c LEFT JOIN ledger.handouts h ON h.claim_id = ANY (ARRAY[$1::uuid])";

/// The columns of a candidate: those of its entry, when it was due, and the size of its message.
macro_rules! candidate {
    () => {
        concat!(
            columns!(),
            ", e.next_at AS due_at,
    (SELECT m.bytes FROM ledger.messages m WHERE m.key = e.key) AS message_bytes"
        )
    };
}

/// The due entries of a consumer behind the cursor, and locks their rows.
pub(super) const INBOX_TAKE: &str = concat!(
    "-- ledger.inbox_take
SELECT ",
    candidate!(),
    "
FROM ledger.entries e
WHERE e.consumer = (SELECT n.no FROM ledger.consumers n WHERE n.name = $1)
  AND e.next_at <= $2 AND (e.next_at, e.key) > ($3, $4::uuid)
ORDER BY e.next_at, e.key LIMIT $5
FOR NO KEY UPDATE OF e SKIP LOCKED"
);

/// The entries of an earlier handout.
pub(super) const INBOX_TAKEN: &str = concat!(
    "-- ledger.inbox_taken
SELECT ",
    candidate!(),
    "
FROM unnest($1::uuid[]) AS r(key)
JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key])"
);

/// Records a handout. Inserts nothing if this claim has one: another server carries out the same call.
pub(super) const INBOX_HANDED_OUT: &str = "\
-- ledger.inbox_handed_out
INSERT INTO ledger.handouts (claim_id, consumer, principal, owner, at, keys)
VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (claim_id) DO NOTHING";

/// The messages of entries up to these versions. A repeat of a handout locks no row: an operator may have dropped the message of an
/// entry since it was read, and a Store attached another one, which belongs to the next claim.
pub(super) const INBOX_MESSAGES: &str = "\
-- ledger.inbox_messages
SELECT m.key, m.stored_at, m.message
FROM unnest($1::uuid[], $2::bigint[]) AS r(key, version)
JOIN ledger.messages m ON m.key = ANY (ARRAY[r.key]) AND m.generation <= r.version";

/// When the next entry of a consumer is due.
pub(super) const INBOX_NEXT: &str = "\
-- ledger.inbox_next
SELECT e.next_at FROM ledger.entries e
WHERE e.consumer = (SELECT n.no FROM ledger.consumers n WHERE n.name = $1) AND e.next_at > $2
ORDER BY e.next_at, e.key LIMIT 1";

pub(super) const INBOX_STORED_AT: &str = "\
-- ledger.inbox_stored_at
SELECT m.key, m.stored_at
FROM unnest($1::uuid[]) AS r(key)
JOIN ledger.messages m ON m.key = ANY (ARRAY[r.key])";

/// The entries of a consumer that wait for the longest time. Some of them may be unreadable. The comparison of rows holds for all of
/// them: it and the limit, as parameters, make the planner read the index of due entries in its order. With constants a plan that
/// was made on a table of 60 rows sorted all entries of the consumer: 1,657 pages of a table of 50,000 rows.
pub(super) const INBOX_OLDEST: &str = concat!(
    "-- ledger.inbox_oldest
SELECT ",
    columns!(),
    ", e.next_at AS due_at
FROM ledger.entries e
WHERE e.consumer = (SELECT n.no FROM ledger.consumers n WHERE n.name = $1) AND e.next_at <= $2
  AND (e.next_at, e.key) > ($3, $4::uuid)
ORDER BY e.next_at, e.key LIMIT $5"
);

/// Reads an index alone, as far as the limit.
pub(super) const INBOX_COUNT: &str = "\
-- ledger.inbox_count
WITH one AS MATERIALIZED (SELECT n.no FROM ledger.consumers n WHERE n.name = $1),
clock AS MATERIALIZED (SELECT ledger.clock() AS now FROM ledger.meta)
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM ledger.entries e
        WHERE e.consumer = (SELECT no FROM one) AND e.next_at <= (SELECT now FROM clock)
          AND (e.next_at, e.key) > (-1, '00000000-0000-0000-0000-000000000000'::uuid)
        ORDER BY e.next_at, e.key LIMIT $2) AS d) AS due,
    (SELECT count(*) FROM (
        SELECT 1 FROM ledger.entries e
        WHERE e.consumer = (SELECT no FROM one) AND e.next_at > (SELECT now FROM clock)
        ORDER BY e.next_at, e.key LIMIT $2) AS l) AS later";

/// Reads an index alone.
pub(super) const INBOX_BYTES: &str = "\
-- ledger.inbox_bytes
SELECT coalesce(sum(m.bytes), 0)::bigint AS bytes FROM ledger.messages m WHERE m.stored_at >= 0";

/// Erases the messages that are due for it. An entry that was changed meanwhile is left for another time. The message goes only if
/// it is of this life of the key: an entry's version is higher than those of all messages before it.
pub(super) const INBOX_ERASE: &str = concat!(
    "-- ledger.inbox_erase
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() AS now FROM ledger.meta WHERE level <= ",
    level!(),
    " AND serves_from <= ",
    known!(),
    "
),
due AS MATERIALIZED (
    SELECT e.key, e.version, e.erase_at FROM ledger.entries e
    WHERE e.erase_at <= (SELECT now FROM clock)
    ORDER BY e.erase_at, e.key LIMIT $1 FOR NO KEY UPDATE OF e SKIP LOCKED
),
erased AS (
    UPDATE ledger.entries e SET body = ",
    number!(ERASED),
    ", erase_at = NULL, version = e.version + 1
    FROM due d WHERE e.key = ANY (ARRAY[d.key]) AND e.version = d.version
    RETURNING e.key, e.version
),
gone AS (
    DELETE FROM ledger.messages m USING erased x
    WHERE m.key = ANY (ARRAY[x.key]) AND m.generation < x.version
)
SELECT (SELECT count(*) FROM erased) AS count, (SELECT min(erase_at) FROM due) AS oldest, (SELECT now FROM clock) AS now"
);

pub(super) const INBOX_FORGET: &str = "\
-- ledger.inbox_forget
DELETE FROM ledger.handouts
WHERE claim_id IN (SELECT h.claim_id FROM ledger.handouts h WHERE h.at < $1 ORDER BY h.at LIMIT $2 FOR UPDATE SKIP LOCKED)";

/// Deletes messages of a page whose entry does not keep them. A message that is stored again meanwhile has another generation.
pub(super) const INBOX_SWEEP: &str = concat!(
    "-- ledger.inbox_sweep
WITH page AS MATERIALIZED (
    SELECT m.key, m.generation, m.stored_at FROM ledger.messages m
    WHERE (m.stored_at, m.key) > ($1, $2::uuid)
      AND m.stored_at < (SELECT ledger.clock() - $3 FROM ledger.meta)
    ORDER BY m.stored_at, m.key LIMIT $4
),
gone AS (
    DELETE FROM ledger.messages m USING page p
    WHERE m.key = ANY (ARRAY[p.key]) AND m.generation = p.generation
      AND NOT EXISTS (SELECT FROM ledger.entries e WHERE e.key = ANY (ARRAY[p.key]) AND e.body = ",
    number!(KEPT),
    ")
)
SELECT p.stored_at, p.key FROM page p ORDER BY p.stored_at DESC, p.key DESC LIMIT 1"
);
