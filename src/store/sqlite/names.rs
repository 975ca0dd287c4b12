//! Consumers and sources as numbers.

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use super::errors::of_sqlx;
use crate::store::StoreError;

pub(super) const CONSUMER_ADD: &str = "\
-- ledger.consumer_add
INSERT INTO consumers (name) VALUES (?1) ON CONFLICT DO NOTHING";

pub(super) const CONSUMER_FIND: &str = "\
-- ledger.consumer_find
SELECT no FROM consumers WHERE name = ?1";

pub(super) const SOURCE_ADD: &str = "\
-- ledger.source_add
INSERT INTO sources (name) VALUES (?1) ON CONFLICT DO NOTHING";

pub(super) const SOURCE_FIND: &str = "\
-- ledger.source_find
SELECT no FROM sources WHERE name = ?1";

/// The number of a name, given on its first use.
pub(super) async fn number(
    connection: &mut SqliteConnection,
    name: &str,
    add: &'static str,
    find: &'static str,
) -> Result<i64, StoreError> {
    let found = sqlx::query(find).bind(name.to_owned()).fetch_optional(&mut *connection).await;
    if let Some(row) = found.map_err(|error| of_sqlx(&error))? {
        return Ok(row.get(0));
    }
    let added = sqlx::query(add).bind(name.to_owned()).execute(connection).await;
    Ok(added.map_err(|error| of_sqlx(&error))?.last_insert_rowid())
}
