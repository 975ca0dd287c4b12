//! Determines the owner of the schema: a schema with the ledger's name may belong to another application, and must not be
//! touched.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row as _};

use super::errors::of_sqlx;
use super::schema_name::SchemaName;
use crate::store::StoreError;

/// A ledger has its table of migrations, and from the first migration on the table `meta` with the column `serves_from`.
/// Postgres lists row types and indexes of tables too: tables, views and functions are enough here.
const WHOSE: &str = "\
-- ledger.whose
SELECT to_regnamespace('ledger') IS NOT NULL AS there,
       (SELECT count(*) FROM pg_attribute a
        WHERE a.attrelid = to_regclass('ledger.migrations') AND NOT a.attisdropped
          AND a.attname IN ('version', 'description', 'installed_on', 'success', 'checksum', 'execution_time')
       ) = 6 AS bookkeeping,
       EXISTS (SELECT 1 FROM pg_attribute a
               WHERE a.attrelid = to_regclass('ledger.meta') AND a.attname = 'serves_from'
                 AND NOT a.attisdropped) AS meta,
       (SELECT coalesce(string_agg(o.name, ', ' ORDER BY o.name), '')
        FROM (SELECT c.relname::text AS name FROM pg_class c
              WHERE c.relnamespace = to_regnamespace('ledger') AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')
                AND c.relname <> 'migrations'
              UNION SELECT p.proname::text || '()' FROM pg_proc p WHERE p.pronamespace = to_regnamespace('ledger')
              UNION SELECT t.typname::text FROM pg_type t
              WHERE t.typnamespace = to_regnamespace('ledger') AND t.typtype IN ('e', 'd', 'r')
              ORDER BY name LIMIT 5) o) AS others";

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// The schema does not exist.
    Absent,
    /// The schema exists and is empty; or the first migration began and did not end.
    Empty,
    /// The schema of a ledger.
    Ledger,
    /// The schema of another application, with these objects among others.
    Other(String),
}

/// Determines the owner of the schema; changes nothing.
pub(super) async fn whose(connection: &mut PgConnection, name: &SchemaName) -> Result<Whose, StoreError> {
    let statement = AssertSqlSafe(name.render(WHOSE).into_owned());
    let row = sqlx::raw_sql(statement).fetch_one(connection).await.map_err(of_sqlx)?;
    let is = |column| row.try_get::<bool, _>(column).map_err(of_sqlx);
    let others: String = row.try_get("others").map_err(of_sqlx)?;
    Ok(match (is("there")?, is("bookkeeping")?, is("meta")?) {
        (false, ..) => Whose::Absent,
        (true, true, true) => Whose::Ledger,
        (true, ..) if others.is_empty() => Whose::Empty,
        (true, ..) => Whose::Other(others),
    })
}
