//! Numbers for values that repeat in rows: assigned at the first use, and read once by each connection.

use sqlx::sqlite::SqliteConnection;

use super::errors::of_sqlx;
use crate::domain::{Entry, Terms};
use crate::store::StoreError;
use crate::store::dictionary::{Dictionary, NameRow, Numbers, TermsRow};
use crate::store::numbers::of_on_expiry;
use crate::store::row::Raw;

/// The three statements about a table of names.
macro_rules! names {
    ($table:literal, $add:ident, $find:ident, $tell:ident) => {
        pub(super) const $add: &str = concat!(
            "-- ledger.",
            $table,
            "_add
INSERT INTO ",
            $table,
            " (name) VALUES (?1) ON CONFLICT DO NOTHING"
        );
        pub(super) const $find: &str = concat!(
            "-- ledger.",
            $table,
            "_find
SELECT no, name FROM ",
            $table,
            " WHERE name = ?1"
        );
        pub(super) const $tell: &str = concat!(
            "-- ledger.",
            $table,
            "_tell
SELECT no, name FROM ",
            $table,
            " WHERE no = ?1"
        );
    };
}
names!("consumers", CONSUMERS_ADD, CONSUMERS_FIND, CONSUMERS_TELL);
names!("sources", SOURCES_ADD, SOURCES_FIND, SOURCES_TELL);
names!("principals", PRINCIPALS_ADD, PRINCIPALS_FIND, PRINCIPALS_TELL);

pub(super) const TERMS_ADD: &str = "\
-- ledger.terms_add
INSERT INTO terms (policy_version, grace, max_hold, on_expiry, retention, failed_retention, abandoned_retention)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";

pub(super) const TERMS_FIND: &str = "\
-- ledger.terms_find
SELECT no, policy_version, grace, max_hold, on_expiry, retention, failed_retention, abandoned_retention
FROM terms
WHERE policy_version = ?1 AND grace = ?2 AND max_hold = ?3 AND on_expiry = ?4 AND retention = ?5
  AND failed_retention = ?6 AND abandoned_retention = ?7";

pub(super) const TERMS_TELL: &str = "\
-- ledger.terms_tell
SELECT no, policy_version, grace, max_hold, on_expiry, retention, failed_retention, abandoned_retention
FROM terms WHERE no = ?1";

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

/// Learns the numbers that are needed to write these entries.
pub(super) async fn learn_names(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    entries: &[Entry],
) -> Result<(), StoreError> {
    let missing = dictionary.missing_for(entries);
    for (kind, names) in
        [(CONSUMERS, missing.consumers), (SOURCES, missing.sources), (PRINCIPALS, missing.principals)]
    {
        for name in names {
            number(connection, dictionary, kind, name).await?;
        }
    }
    for terms in missing.terms {
        number_terms(connection, dictionary, terms).await?;
    }
    Ok(())
}

/// Assigns a number to a consumer without one.
pub(super) async fn learn_consumer(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    name: &str,
) -> Result<(), StoreError> {
    match dictionary.consumers.of(name) {
        Some(_) => Ok(()),
        None => number(connection, dictionary, CONSUMERS, name.to_owned()).await,
    }
}

/// Learns the names and terms that are needed to read these rows.
pub(super) async fn learn_values(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    rows: &[Raw],
) -> Result<(), StoreError> {
    let missing = dictionary.unknown_in(rows.iter().filter_map(Raw::row));
    for (kind, numbers) in
        [(CONSUMERS, missing.consumers), (SOURCES, missing.sources), (PRINCIPALS, missing.principals)]
    {
        for no in numbers {
            let query = sqlx::query_as::<_, NameRow>(kind.tell).bind(no);
            let row = query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
            if let Some(row) = row {
                row.teach((kind.of)(dictionary));
            }
        }
    }
    for no in missing.terms {
        let query = sqlx::query_as::<_, TermsRow>(TERMS_TELL).bind(no);
        let row = query.fetch_optional(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        if let Some(row) = row {
            row.teach(&mut dictionary.terms);
        }
    }
    Ok(())
}

async fn number(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    kind: Kind,
    name: String,
) -> Result<(), StoreError> {
    let add = sqlx::query(kind.add).bind(name.clone());
    add.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let find = sqlx::query_as::<_, NameRow>(kind.find).bind(name);
    let row = find.fetch_one(connection).await.map_err(|error| of_sqlx(&error))?;
    row.teach((kind.of)(dictionary));
    Ok(())
}

async fn number_terms(
    connection: &mut SqliteConnection,
    dictionary: &mut Dictionary,
    terms: Terms,
) -> Result<(), StoreError> {
    macro_rules! bound {
        ($query:expr) => {
            $query
                .bind(terms.policy_version)
                .bind(terms.grace.micros())
                .bind(terms.max_hold.micros())
                .bind(of_on_expiry(terms.on_expiry))
                .bind(terms.retention.micros())
                .bind(terms.failed_retention.micros())
                .bind(terms.abandoned_retention.micros())
        };
    }
    let add = bound!(sqlx::query(TERMS_ADD));
    add.execute(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
    let find = bound!(sqlx::query_as::<_, TermsRow>(TERMS_FIND));
    let row = find.fetch_one(connection).await.map_err(|error| of_sqlx(&error))?;
    row.teach(&mut dictionary.terms);
    Ok(())
}
