//! Entries by their keys.

use std::collections::HashMap;
use std::sync::LazyLock;

use async_trait::async_trait;
use sqlx::Row as _;
use uuid::Uuid;

use super::errors::of_sqlx;
use super::statements::names;
use super::{PgSession, column, no_meta, pairs};
use crate::domain::{Entry, Key, KeyHash, Reading, SETTLED, StoreTime};
use crate::store::columns::{REPLACED, Row, columns, entry_columns, select_list};
use crate::store::numbers::number;
use crate::store::row::read;
use crate::store::{Completion, Entries, Fault, Found, Inserted, Loaded, StoreError, in_order};

pub(super) const LOAD: &str = concat!(
    "-- ledger.load
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS clock_now, token_offset, clock_mark FROM ledger.meta)
SELECT c.clock_now, c.token_offset, c.clock_mark, ",
    columns!(),
    "
FROM clock c
LEFT JOIN (unnest($1::uuid[]) WITH ORDINALITY AS r(key, place)
           JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key]) AND e.created_at >= ANY (ARRAY[0 * r.place])
           ",
    names!(),
    ") ON true"
);

pub(super) const INSERT: &str = concat!(
    "-- ledger.insert
WITH clock AS MATERIALIZED (
    SELECT now AS clock_now, now + token_offset AS token_clock, token_offset, clock_mark
    FROM (SELECT ledger.clock() AS now, token_offset, clock_mark FROM ledger.meta OFFSET 0) AS reading
), fresh AS (
    INSERT INTO ledger.entries AS e (
        key, version, token, granted_at, lease_until, grace, hold_until, retention, not_before, sweep_at,
        created_at, updated_at, retain_until, claim_id, consumer, source, policy_version, attempts,
        state, cause, closed_by, on_expiry, rearmed, effect_started, prior_effect_started, effect_unknown,
        id, principal, owner, traceparent, fingerprint)
    SELECT r.key, c.token_clock - c.token_clock % 1000, c.token_clock + r.token, c.clock_now + r.at,
           c.clock_now + r.lease_until, r.grace, c.clock_now + r.hold_until, r.retention,
           c.clock_now + r.at, c.clock_now + r.sweep_at,
           c.clock_now + r.at - (c.clock_now + r.at) % 1000, c.clock_now + r.at,
           c.clock_now + r.retain_until, r.claim_id, r.consumer, r.source,
           r.policy_version, 1, ",
    number!(IN_PROGRESS),
    ", ",
    number!(NO_CAUSE),
    ", ",
    number!(OPEN),
    ", r.on_expiry, false, false, false, false,
           r.id, r.principal, r.owner, r.traceparent, r.fingerprint
    FROM clock c
    CROSS JOIN unnest($3::uuid[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[],
                      $9::bigint[], $10::bigint[], $11::bigint[], $12::uuid[], $13::int[], $14::int[],
                      $15::int[], $16::smallint[], $17::text[], $18::text[], $19::text[], $20::text[],
                      $21::bytea[])
         AS r(key, token, at, lease_until, grace, hold_until, retention, sweep_at, retain_until, claim_id,
              consumer, source, policy_version, on_expiry, id, principal, owner, traceparent, fingerprint)
    WHERE c.token_clock >= greatest(c.clock_mark, $1) AND c.clock_now <= $2
    ORDER BY r.key
    ON CONFLICT (key) DO NOTHING
    RETURNING e.key, e.token
)
SELECT c.clock_now, c.token_offset, c.clock_mark, f.key, f.token
FROM clock c LEFT JOIN fresh f ON true"
);

pub(super) const COMPLETE: &str = concat!(
    "-- ledger.complete
WITH clock AS MATERIALIZED (SELECT ledger.clock() AS now)
UPDATE ledger.entries e
SET version = e.version + 1, state = ",
    number!(COMPLETED),
    ", closed_by = ",
    number!(BY_COMPLETE),
    ", attention = NULL, closed_at = c.now, updated_at = c.now,
    retain_until = c.now + greatest(e.retention, r.retention), effect_unknown = false, result = r.result
FROM clock c CROSS JOIN unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bytea[])
     AS r(key, token, retention, result)
WHERE e.key = ANY (ARRAY[r.key]) AND e.created_at >= ANY (ARRAY[0 * r.token])
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
WHERE e.key = ANY (ARRAY[r.key]) AND e.created_at >= ANY (ARRAY[0 * r.version]) AND e.version = r.version - 1
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
FROM unnest($1::uuid[]) WITH ORDINALITY AS r(key, place)
JOIN ledger.entries e ON e.key = ANY (ARRAY[r.key]) AND e.created_at >= ANY (ARRAY[0 * r.place])
WHERE e.key NOT IN (
    SELECT f.key FROM unnest($1::uuid[]) WITH ORDINALITY AS r(key, place)
    JOIN ledger.entries f ON f.key = ANY (ARRAY[r.key]) AND f.created_at >= ANY (ARRAY[0 * r.place])
    FOR NO KEY UPDATE OF f SKIP LOCKED)";

/// An operator's, whatever the rules.
pub(super) const DELETE: &str = "\
-- ledger.delete
WITH clock AS MATERIALIZED (SELECT ledger.clock() + token_offset AS token_clock, clock_mark FROM ledger.meta)
DELETE FROM ledger.entries e
USING clock c
WHERE e.key = ANY (ARRAY[$1::uuid]) AND e.created_at >= ANY (ARRAY[0::bigint])
  AND e.version = $2 AND greatest(e.version, e.token) + $4 < c.token_clock
  AND c.token_clock >= greatest(c.clock_mark, $3)";

macro_rules! bind_replaced {
    ([$query:ident, $rows:ident] fixed { $($_f:tt)* } replaced { $($name:ident: $_t:ty, $_l:literal;)* }) => {
        $query$(.bind(column(&$rows, |row| row.$name.clone())))*
    };
}

impl PgSession {
    /// The rows with these hashes, in their order.
    pub(super) async fn rows_of(
        &mut self,
        hashes: Vec<KeyHash>,
    ) -> Result<(Reading, Vec<Found>), StoreError> {
        let mark = self.mark.get();
        let query = self.query(LOAD).bind(hashes.clone());
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let reading = self.reading(rows.first().ok_or_else(no_meta)?, mark)?;
        let mut found = Vec::with_capacity(rows.len());
        for row in &rows {
            let hash: Option<Uuid> = row.try_get("key").map_err(of_sqlx)?;
            if let Some(hash) = hash {
                found.push((hash, Found::from(read(row))));
            }
        }
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
        let raw: Vec<Row> = rows.iter().map(Row::from).collect();
        let numbers = |names: &HashMap<String, i32>, name: fn(&Row) -> &String| -> Vec<i32> {
            raw.iter().map(|row| names.get(name(row)).copied().unwrap_or_default()).collect()
        };
        let query = self
            .query(INSERT)
            .bind(mark)
            .bind(until.micros())
            .bind(column(&raw, |row| row.key))
            .bind(column(&raw, |row| row.token))
            .bind(column(&raw, |row| row.granted_at))
            .bind(column(&raw, |row| row.lease_until))
            .bind(column(&raw, |row| row.grace))
            .bind(column(&raw, |row| row.hold_until))
            .bind(column(&raw, |row| row.retention))
            .bind(column(&raw, |row| row.sweep_at))
            .bind(column(&raw, |row| row.retain_until))
            .bind(column(&raw, |row| row.claim_id))
            .bind(numbers(&self.consumers, |row| &row.consumer))
            .bind(numbers(&self.sources, |row| &row.source))
            .bind(column(&raw, |row| row.policy_version))
            .bind(column(&raw, |row| row.on_expiry))
            .bind(column(&raw, |row| row.id.clone()))
            .bind(column(&raw, |row| row.principal.clone()))
            .bind(column(&raw, |row| row.owner.clone()))
            .bind(column(&raw, |row| row.traceparent.clone()))
            .bind(column(&raw, |row| row.fingerprint.clone()));
        let answers = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        let reading = self.reading(answers.first().ok_or_else(no_meta)?, mark)?;
        if reading.behind() {
            return Err(StoreError::NotApplied(Fault::ClockBehind));
        }
        let mut fresh: Vec<(Uuid, i64)> = Vec::with_capacity(answers.len());
        for answer in &answers {
            let key: Option<Uuid> = answer.try_get("key").map_err(of_sqlx)?;
            if let Some(key) = key {
                fresh.push((key, answer.try_get("token").map_err(of_sqlx)?));
            }
        }
        let tokens = in_order(rows.iter().map(|row| row.key.hash()), fresh).collect();
        Ok(Inserted { reading, tokens })
    }

    async fn complete(&mut self, completions: &[Completion]) -> Result<Vec<Option<bool>>, StoreError> {
        let query = self
            .query(COMPLETE)
            .bind(column(completions, |one| one.key.hash()))
            .bind(column(completions, |one| one.token))
            .bind(column(completions, |one| one.retention.micros()))
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
        let raw: Vec<Row> = entries.iter().map(Row::from).collect();
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
