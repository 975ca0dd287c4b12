//! Whose schema it is: a schema with the name of ours may belong to another application, and nothing of that is touched.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Row as _};

use super::errors::of_sqlx;
use super::schema_name::SchemaName;
use crate::store::StoreError;

/// A ledger has the table of its migrations, and from the first migration on `meta` with the column `serves_from`.
/// Postgres lists a table's row type and its indexes too: the tables, views and functions say enough.
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
    /// It is not there.
    Absent,
    /// It is there, with nothing in it; or the first migration has begun and not ended.
    Empty,
    /// A ledger.
    Ledger,
    /// Something else, with these objects among others.
    Other(String),
}

/// Looks whose schema it is, and changes nothing.
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
