//! Entries by their keys.

use std::sync::LazyLock;

use async_trait::async_trait;
use sqlx::Row as _;
use uuid::Uuid;

use super::errors::of_sqlx;
use super::{PgSession, column, no_meta, pairs};
use crate::domain::{Entry, Key, KeyHash, Reading, SETTLED, StoreTime};
use crate::store::columns::{REPLACED, Row, columns, empty_list, entry_columns, no_columns, select_list};
use crate::store::numbers::number;
use crate::store::{
    Completion, Entries, Fault, Found, InsertOutcome, Inserted, Loaded, StoreError, in_order,
};

pub(super) const LOAD: &str = concat!(
    "-- ledger.load
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS clock_now, token_offset, clock_mark FROM ledger.meta)
SELECT c.clock_now, c.token_offset, c.clock_mark, ",
    columns!(),
    "
FROM clock c
LEFT JOIN (unnest($1::uuid[]) AS r(key)
           JOIN ledger.entries e
             ON e.key = ANY (ARRAY[r.key])) ON true"
);

/// First the reading with the keys and tokens of what was inserted, then the entries that were met: those of keys
/// that were not inserted, as the statement saw them when it began. An entry that was committed after that is met
/// too, and not seen: of such a key the answer says nothing. One that was deleted after that is still seen: its key
/// was inserted, and says so.
pub(super) const INSERT: &str = concat!(
    "-- ledger.insert
WITH clock AS MATERIALIZED (
    SELECT now AS clock_now, now + token_offset AS token_clock, token_offset, clock_mark
    FROM (SELECT ledger.clock() AS now, token_offset, clock_mark FROM ledger.meta OFFSET 0) AS reading
), fresh AS (
    INSERT INTO ledger.entries AS e (
        key, claim_id, created_at, token, lease_until, consumer, source, principal, terms, attempts, version,
        state, closed_by, id, owner, fingerprint, traceparent)
    SELECT r.key, r.claim_id, c.clock_now, c.token_clock + r.token, c.clock_now + r.lease_until,
           r.consumer, r.source, r.principal, r.terms, 1, c.token_clock - c.token_clock % 1000, ",
    number!(IN_PROGRESS),
    ", ",
    number!(OPEN),
    ", r.id, r.owner, r.fingerprint, r.traceparent
    FROM clock c
    CROSS JOIN unnest($3::uuid[], $4::uuid[], $5::bigint[], $6::bigint[], $7::int[], $8::int[], $9::int[],
                      $10::int[], $11::text[], $12::text[], $13::bytea[], $14::bytea[])
         AS r(key, claim_id, token, lease_until, consumer, source, principal, terms, id, owner, fingerprint,
              traceparent)
    WHERE c.token_clock >= greatest(c.clock_mark, $1) AND c.clock_now <= $2
    ORDER BY r.key
    ON CONFLICT (key) DO NOTHING
    RETURNING e.key, e.token
)
SELECT c.clock_now, c.token_offset, c.clock_mark, f.fresh_keys, f.fresh_tokens, ",
    no_columns!(),
    "
FROM clock c CROSS JOIN (SELECT array_agg(key) AS fresh_keys, array_agg(token) AS fresh_tokens FROM fresh) AS f
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, ",
    columns!(),
    "
FROM unnest($3::uuid[]) AS r(key)
JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key])
WHERE (SELECT count(*) FROM fresh) < cardinality($3) AND r.key NOT IN (SELECT f.key FROM fresh f)"
);

pub(super) const COMPLETE: &str = concat!(
    "-- ledger.complete
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now FROM ledger.meta)
UPDATE ledger.entries e
SET version = e.version + 1, state = ",
    number!(COMPLETED),
    ", closed_by = ",
    number!(BY_COMPLETE),
    ", attention = NULL, effect_unknown = NULL, updated_at = c.now, closed_at = NULL, result = r.result,
    retain_until = CASE WHEN e.terms = r.terms THEN NULL ELSE (
        SELECT CASE WHEN t.retention >= r.retention THEN NULL ELSE c.now + r.retention END
        FROM ledger.terms t WHERE t.no = e.terms) END
FROM clock c CROSS JOIN unnest($1::uuid[], $2::bigint[], $3::int[], $4::bigint[], $5::bytea[])
     AS r(key, token, terms, retention, result)
WHERE e.key = ANY (ARRAY[r.key])
  AND e.token = r.token AND e.state = ",
    number!(IN_PROGRESS),
    "
RETURNING e.key, e.lease_until <= c.now AS late"
);

/// What may be written only until an instant is not written after it: a grant, by policies that may have changed.
/// Made from the table of columns; its parameters stand in the order of `r`.
pub(super) static REPLACE: LazyLock<String> = LazyLock::new(|| {
    let own = [("key", "uuid"), ("version", "bigint"), ("attention", "smallint"), ("until", "bigint")];
    let all: Vec<(&str, &str)> = own.into_iter().chain(REPLACED.iter().copied()).collect();
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let parameters: Vec<String> =
        all.iter().zip(1..).map(|((_, of), number)| format!("${number}::{of}[]")).collect();
    let set: Vec<String> = REPLACED.iter().map(|(name, _)| format!("{name} = r.{name}")).collect();
    format!(
        "\
-- ledger.replace
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now FROM ledger.meta)
UPDATE ledger.entries e
SET version = e.version + 1, attention = r.attention, {}
FROM clock c CROSS JOIN unnest({}) AS r({})
WHERE e.key = ANY (ARRAY[r.key]) AND e.version = r.version - 1
  AND c.now <= r.until
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
pub(super) const DELETE: &str = "\
-- ledger.delete
WITH clock AS MATERIALIZED (SELECT ledger.clock() + token_offset AS token_clock, clock_mark FROM ledger.meta)
DELETE FROM ledger.entries e
USING clock c
WHERE e.key = ANY (ARRAY[$1::uuid])
  AND e.version = $2 AND greatest(e.version, e.token) + $4 < c.token_clock
  AND c.token_clock >= greatest(c.clock_mark, $3)";

macro_rules! bind_replaced {
    ([$query:ident, $rows:ident] fixed { $($_f:tt)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        $query$(.bind(column(&$rows, |row| row.$name.clone())))*
    };
}

impl PgSession {
    /// The rows of entries whose names are learnt.
    fn rows_for(&self, entries: &[Entry]) -> Result<Vec<Row>, StoreError> {
        entries.iter().map(|entry| Row::of(entry, &self.dictionary)).collect()
    }

    /// The rows with these hashes, in their order.
    pub(super) async fn rows_of(
        &mut self,
        hashes: Vec<KeyHash>,
    ) -> Result<(Reading, Vec<Found>), StoreError> {
        let mark = self.mark.get();
        let query = self.query(LOAD).bind(hashes.clone());
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let reading = self.reading(rows.first().ok_or_else(no_meta)?, mark)?;
        let found = self.entries_of(&rows).await?;
        let found = found.into_iter().map(|stored| (stored.key, Found::from(stored.entry))).collect();
        let found = in_order(hashes.into_iter(), found);
        Ok((reading, found.map(|found| found.unwrap_or(Found::Absent)).collect()))
    }
}

#[async_trait]
impl Entries for PgSession {
    async fn load(&mut self, keys: &[Key]) -> Result<Loaded, StoreError> {
        let (reading, found) = self.rows_of(keys.iter().map(Key::hash).collect()).await?;
        let found = found.into_iter().zip(keys).map(|(found, key)| found.under(key));
        Ok(Loaded { reading, found: found.collect() })
    }

    async fn insert(&mut self, rows: &[Entry], until: StoreTime) -> Result<Inserted, StoreError> {
        self.learn_names(rows).await?;
        let mark = self.mark.get();
        let raw = self.rows_for(rows)?;
        let query = self
            .query(INSERT)
            .bind(mark)
            .bind(until.micros())
            .bind(column(&raw, |row| row.key))
            .bind(column(&raw, |row| row.claim_id))
            .bind(column(&raw, |row| row.token))
            .bind(column(&raw, |row| row.lease_until))
            .bind(column(&raw, |row| row.consumer))
            .bind(column(&raw, |row| row.source))
            .bind(column(&raw, |row| row.principal))
            .bind(column(&raw, |row| row.terms))
            .bind(column(&raw, |row| row.id.clone()))
            .bind(column(&raw, |row| row.owner.clone()))
            .bind(column(&raw, |row| row.fingerprint.clone()))
            .bind(column(&raw, |row| row.traceparent.clone()));
        let answers = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let first = answers.first().ok_or_else(no_meta)?;
        let reading = self.reading(first, mark)?;
        if reading.behind() {
            return Err(StoreError::NotApplied(Fault::ClockBehind));
        }
        let keys: Option<Vec<Uuid>> = first.try_get("fresh_keys").map_err(of_sqlx)?;
        let tokens: Option<Vec<i64>> = first.try_get("fresh_tokens").map_err(of_sqlx)?;
        let fresh = keys.unwrap_or_default().into_iter().zip(tokens.unwrap_or_default());
        let fresh = fresh.map(|(key, token)| (key, InsertOutcome::Granted(token)));
        // What was inserted is so whatever becomes of the numbers that these entries are read by: without them the
        // entries are as good as not seen.
        let met = self.entries_of(&answers).await.unwrap_or_default().into_iter();
        let met = met.map(|stored| (stored.key, InsertOutcome::Met(Found::from(stored.entry))));
        let outcomes = in_order(rows.iter().map(|row| row.key.hash()), met.chain(fresh).collect());
        let outcomes = outcomes.zip(rows).map(|(outcome, row)| match outcome {
            Some(InsertOutcome::Met(found)) => InsertOutcome::Met(found.under(&row.key)),
            Some(outcome) => outcome,
            None => InsertOutcome::Unseen,
        });
        Ok(Inserted { reading, outcomes: outcomes.collect() })
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<bool>>, StoreError> {
        let query = self
            .query(COMPLETE)
            .bind(column(completions, |one| one.key.hash()))
            .bind(column(completions, |one| one.token))
            .bind(column(completions, |one| self.dictionary.terms.of(&one.terms)))
            .bind(column(completions, |one| one.terms.retention.micros()))
            .bind(column(completions, |one| (!one.result.is_empty()).then(|| one.result.to_vec())));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let done = pairs(&rows, "late")?;
        Ok(in_order(completions.iter().map(|one| one.key.hash()), done).collect())
    }

    async fn replace_until(
        &mut self,
        entries: &[Entry],
        until: &[StoreTime],
    ) -> Result<Vec<bool>, StoreError> {
        self.learn_names(entries).await?;
        let raw = self.rows_for(entries)?;
        let query = self
            .query(REPLACE.as_str())
            .bind(column(&raw, |row| row.key))
            .bind(column(&raw, |row| row.version))
            .bind(column(&raw, Row::attention))
            .bind(column(until, |until| until.micros()));
        let query = entry_columns!(bind_replaced, query, raw);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let mut done = std::collections::HashSet::with_capacity(rows.len());
        for row in &rows {
            done.insert(row.try_get::<Uuid, _>("key").map_err(of_sqlx)?);
        }
        Ok(raw.iter().map(|row| done.contains(&row.key)).collect())
    }

    async fn locked(&mut self, keys: &[Key]) -> Result<Vec<KeyHash>, StoreError> {
        let query = self.query(LOCKED).bind(column(keys, Key::hash));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        rows.iter().map(|row| row.try_get("key").map_err(of_sqlx)).collect()
    }
}

impl PgSession {
    pub(super) async fn delete(&mut self, key: KeyHash, version: i64) -> Result<bool, StoreError> {
        let query = self.query(DELETE).bind(key).bind(version).bind(self.mark.get()).bind(SETTLED.micros());
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(done.rows_affected() == 1)
    }
}
