//! Numbers for values that repeat in rows: assigned at the first use, and read once by each connection.

use sqlx::postgres::PgRow;

use super::errors::of_sqlx;
use super::{PgSession, column};
use crate::domain::{Entry, Terms};
use crate::store::dictionary::{Dictionary, NameRow, Numbers, TermsRow};
use crate::store::numbers::of_on_expiry;
use crate::store::row::{Raw, Stored};
use crate::store::{Fault, StoreError};

/// Attempts before a session gives up, if other sessions keep taking the same number.
const ROUNDS_MAX: usize = 20;

/// The three statements about a table of names.
macro_rules! names {
    ($table:literal, $add:ident, $find:ident, $tell:ident) => {
        pub(super) const $add: &str = concat!(
            "-- ledger.",
            $table,
            "_add
INSERT INTO ledger.",
            $table,
            " (no, name)
SELECT coalesce((SELECT max(no) FROM ledger.",
            $table,
            "), 0) + row_number() OVER (), r.name
FROM unnest($1::text[]) AS r(name)
WHERE NOT EXISTS (SELECT 1 FROM ledger.",
            $table,
            " n WHERE n.name = r.name)
ON CONFLICT DO NOTHING"
        );
        pub(super) const $find: &str = concat!(
            "-- ledger.",
            $table,
            "_find
SELECT no, name FROM ledger.",
            $table,
            " WHERE name = ANY ($1::text[])"
        );
        pub(super) const $tell: &str = concat!(
            "-- ledger.",
            $table,
            "_tell
SELECT no, name FROM ledger.",
            $table,
            " WHERE no = ANY ($1::int[])"
        );
    };
}
names!("consumers", CONSUMERS_ADD, CONSUMERS_FIND, CONSUMERS_TELL);
names!("sources", SOURCES_ADD, SOURCES_FIND, SOURCES_TELL);
names!("principals", PRINCIPALS_ADD, PRINCIPALS_FIND, PRINCIPALS_TELL);

/// Whether terms `t` equal those of `r`.
macro_rules! same_terms {
    () => {
        "t.policy_version = r.policy_version AND t.grace = r.grace AND t.max_hold = r.max_hold
      AND t.on_expiry = r.on_expiry AND t.retention = r.retention
      AND t.failed_retention = r.failed_retention AND t.abandoned_retention = r.abandoned_retention"
    };
}
/// Terms as parameters.
macro_rules! given_terms {
    () => {
        "unnest($1::int[], $2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bigint[])
     AS r(policy_version, grace, max_hold, on_expiry, retention, failed_retention, abandoned_retention)"
    };
}

pub(super) const TERMS_ADD: &str = concat!(
    "-- ledger.terms_add
INSERT INTO ledger.terms (
    no, policy_version, grace, max_hold, on_expiry, retention, failed_retention, abandoned_retention)
SELECT coalesce((SELECT max(no) FROM ledger.terms), 0) + row_number() OVER (), r.policy_version, r.grace,
       r.max_hold, r.on_expiry, r.retention, r.failed_retention, r.abandoned_retention
FROM ",
    given_terms!(),
    "
WHERE NOT EXISTS (
    SELECT 1 FROM ledger.terms t
    WHERE ",
    same_terms!(),
    ")
ON CONFLICT DO NOTHING"
);

pub(super) const TERMS_FIND: &str = concat!(
    "-- ledger.terms_find
SELECT t.no, t.policy_version, t.grace, t.max_hold, t.on_expiry, t.retention, t.failed_retention,
       t.abandoned_retention
FROM ",
    given_terms!(),
    " JOIN ledger.terms t
  ON ",
    same_terms!()
);

pub(super) const TERMS_TELL: &str = "\
-- ledger.terms_tell
SELECT no, policy_version, grace, max_hold, on_expiry, retention, failed_retention, abandoned_retention
FROM ledger.terms WHERE no = ANY ($1::int[])";

/// One kind of names: the statements that assign numbers, find numbers by name, and find names by number.
#[derive(Clone, Copy)]
struct Kind {
    add: &'static str,
    find: &'static str,
    tell: &'static str,
    of: fn(&mut Dictionary) -> &mut Numbers<String>,
}

const CONSUMERS: Kind = Kind {
    add: CONSUMERS_ADD,
    find: CONSUMERS_FIND,
    tell: CONSUMERS_TELL,
    of: |dictionary| &mut dictionary.consumers,
};
const SOURCES: Kind = Kind {
    add: SOURCES_ADD,
    find: SOURCES_FIND,
    tell: SOURCES_TELL,
    of: |dictionary| &mut dictionary.sources,
};
const PRINCIPALS: Kind = Kind {
    add: PRINCIPALS_ADD,
    find: PRINCIPALS_FIND,
    tell: PRINCIPALS_TELL,
    of: |dictionary| &mut dictionary.principals,
};

impl PgSession {
    /// Looks up the numbers of the names in these entries, and inserts the names that are missing.
    pub(super) async fn learn_names(&mut self, rows: &[Entry]) -> Result<(), StoreError> {
        let missing = self.dictionary.missing_for(rows);
        self.number(CONSUMERS, missing.consumers).await?;
        self.number(SOURCES, missing.sources).await?;
        self.number(PRINCIPALS, missing.principals).await?;
        self.number_terms(&missing.terms).await
    }

    /// Learns the numbers of consumers.
    pub(super) async fn learn_consumers(
        &mut self,
        names: impl Iterator<Item = &str> + Send,
    ) -> Result<(), StoreError> {
        let known = &self.dictionary.consumers;
        let missing: std::collections::BTreeSet<&str> =
            names.filter(|name| known.of(*name).is_none()).collect();
        let missing = missing.into_iter().map(str::to_owned).collect();
        self.number(CONSUMERS, missing).await
    }

    /// The entries in these rows, in the same order.
    pub(super) async fn entries_of(&mut self, rows: &[PgRow]) -> Result<Vec<Stored>, StoreError> {
        let raw = self.raw_of(rows).await?;
        Ok(raw.into_iter().map(|raw| raw.stored(&self.dictionary)).collect())
    }

    /// The raw rows of these rows, in the same order. Learns the names that are needed to read them.
    pub(super) async fn raw_of(&mut self, rows: &[PgRow]) -> Result<Vec<Raw>, StoreError> {
        let raw = Raw::all(rows);
        self.learn_values(&raw).await?;
        Ok(raw)
    }

    async fn number(&mut self, kind: Kind, missing: Vec<String>) -> Result<(), StoreError> {
        if missing.is_empty() {
            return Ok(());
        }
        for _ in 0..ROUNDS_MAX {
            let query = sqlx::query_as::<_, NameRow>(kind.find).persistent(self.persistent);
            let found = query.bind(missing.clone()).fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
            if found.len() == missing.len() {
                for row in found {
                    row.teach((kind.of)(&mut self.dictionary));
                }
                return Ok(());
            }
            let query = self.query(kind.add).bind(missing.clone());
            query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        }
        Err(too_many())
    }

    async fn number_terms(&mut self, missing: &[Terms]) -> Result<(), StoreError> {
        if missing.is_empty() {
            return Ok(());
        }
        macro_rules! bound {
            ($query:expr) => {
                $query
                    .bind(column(missing, |terms| terms.policy_version))
                    .bind(column(missing, |terms| terms.grace.micros()))
                    .bind(column(missing, |terms| terms.max_hold.micros()))
                    .bind(column(missing, |terms| of_on_expiry(terms.on_expiry)))
                    .bind(column(missing, |terms| terms.retention.micros()))
                    .bind(column(missing, |terms| terms.failed_retention.micros()))
                    .bind(column(missing, |terms| terms.abandoned_retention.micros()))
            };
        }
        for _ in 0..ROUNDS_MAX {
            let query = bound!(sqlx::query_as::<_, TermsRow>(TERMS_FIND).persistent(self.persistent));
            let found = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
            if found.len() == missing.len() {
                for row in found {
                    row.teach(&mut self.dictionary.terms);
                }
                return Ok(());
            }
            let query = bound!(self.query(TERMS_ADD));
            query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        }
        Err(too_many())
    }

    /// Learns the names and terms that are needed to read these rows.
    async fn learn_values(&mut self, rows: &[Raw]) -> Result<(), StoreError> {
        let missing = self.dictionary.unknown_in(rows.iter().filter_map(Raw::row));
        for (kind, numbers) in
            [(CONSUMERS, missing.consumers), (SOURCES, missing.sources), (PRINCIPALS, missing.principals)]
        {
            if !numbers.is_empty() {
                let query = sqlx::query_as::<_, NameRow>(kind.tell).persistent(self.persistent);
                let found = query.bind(numbers).fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
                for row in found {
                    row.teach((kind.of)(&mut self.dictionary));
                }
            }
        }
        if !missing.terms.is_empty() {
            let query = sqlx::query_as::<_, TermsRow>(TERMS_TELL).persistent(self.persistent);
            let found = query.bind(missing.terms).fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
            for row in found {
                row.teach(&mut self.dictionary.terms);
            }
        }
        Ok(())
    }
}

fn too_many() -> StoreError {
    StoreError::NotApplied(Fault::Conflict("too many new names concurrently".into()))
}
