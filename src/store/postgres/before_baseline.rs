//! From the schema before the baseline, which was never released, to the baseline: in one transaction, while nobody
//! works with the ledger.

use sqlx::migrate::Migrator;
use sqlx::postgres::PgConnection;
use sqlx::{Connection as _, Executor as _, Row as _};

use super::connect::schema;
use super::errors::{of_sqlx, said_of_migration};
use crate::domain::{Key, KeyHash};
use crate::store::StoreError;

/// Its bookkeeping lay in `public`, where the versions and names tell it from that of others.
const FOUND: &str = "\
-- ledger.before_baseline
SELECT to_regclass('ledger.meta') IS NOT NULL AND to_regclass('ledger.migrations') IS NULL AS before,
       EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'public' AND c.relname = '_sqlx_migrations') AS bookkeeping,
       to_regclass('ledger.replicas') IS NOT NULL AS whole";

/// Nobody is at work with its tables any more, and nobody comes.
const STAND_ASIDE: &str = "\
SET LOCAL lock_timeout = '60s';
LOCK TABLE ledger.meta, ledger.consumers, ledger.sources, ledger.entries, ledger.policies, ledger.audit,
           ledger.purges, ledger.replicas IN ACCESS EXCLUSIVE MODE;
ALTER SCHEMA ledger RENAME TO ledger_before;
CREATE SCHEMA ledger";

const CARRY_OVER: &str = include_str!("../../../migrations/postgres/before_baseline.sql");

/// What others keep in the same table stays.
const FORGET: &str = "\
DELETE FROM public._sqlx_migrations
WHERE (version, description) IN ((1, 'ledger'), (2, 'operators'), (3, 'replicas'));
DO $$ BEGIN
    IF NOT EXISTS (SELECT 1 FROM public._sqlx_migrations) THEN DROP TABLE public._sqlx_migrations; END IF;
END $$";

const KEYS: &str = "\
-- ledger.keys_before_baseline
SELECT e.key, n.name AS consumer, s.name AS source, e.id
FROM ledger.entries e JOIN ledger.consumers n ON n.no = e.consumer JOIN ledger.sources s ON s.no = e.source
WHERE e.key > $1 ORDER BY e.key LIMIT $2";

const NEW_KEYS: &str = "\
-- ledger.new_keys
WITH changed AS (SELECT * FROM unnest($1::uuid[], $2::uuid[]) AS r(old, new)),
told AS (UPDATE ledger.audit a SET key = c.new FROM changed c WHERE a.key = c.old)
UPDATE ledger.entries e SET key = c.new FROM changed c WHERE e.key = c.old";

const KEYS_AT_ONCE: i64 = 1_000;

/// Brings the schema before the baseline to the baseline, if it is there; says whether it was.
pub(super) async fn carry_over(
    connection: &mut PgConnection,
    migrations: &Migrator,
) -> Result<bool, StoreError> {
    let found = sqlx::raw_sql(FOUND).fetch_one(&mut *connection).await.map_err(of_sqlx)?;
    let is = |name| found.try_get::<bool, _>(name).map_err(of_sqlx);
    if !is("before")? {
        return Ok(false);
    }
    if !is("whole")? || !is("bookkeeping")? {
        return Err(schema("the schema `ledger` is not a ledger's; nothing was changed: give the ledger another schema (--schema NAME)".into()));
    }
    let mut transaction = connection.begin().await.map_err(of_sqlx)?;
    transaction.execute(sqlx::raw_sql(STAND_ASIDE)).await.map_err(of_sqlx)?;
    let baseline = migrations.iter().next().map(|migration| migration.version);
    let made = migrations.run_direct(baseline, &mut *transaction, false).await;
    made.map_err(|error| schema(said_of_migration(&error)))?;
    transaction.execute(sqlx::raw_sql(CARRY_OVER)).await.map_err(of_sqlx)?;
    new_keys(&mut transaction).await?;
    transaction.execute(sqlx::raw_sql(FORGET)).await.map_err(of_sqlx)?;
    transaction.commit().await.map_err(of_sqlx)?;
    Ok(true)
}

/// Entries whose ids carry their time lie in another place since.
async fn new_keys(connection: &mut PgConnection) -> Result<(), StoreError> {
    let mut after = KeyHash::nil();
    loop {
        let query = sqlx::query(KEYS).persistent(false).bind(after).bind(KEYS_AT_ONCE);
        let rows = query.fetch_all(&mut *connection).await.map_err(of_sqlx)?;
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for row in &rows {
            let text = |name| row.try_get::<String, _>(name).map_err(of_sqlx);
            after = row.try_get("key").map_err(of_sqlx)?;
            let key = Key::new(&text("consumer")?, &text("source")?, &text("id")?).hash();
            if key != after {
                old.push(after);
                new.push(key);
            }
        }
        if rows.is_empty() {
            return Ok(());
        }
        let query = sqlx::query(NEW_KEYS).persistent(false).bind(old).bind(new);
        query.execute(&mut *connection).await.map_err(of_sqlx)?;
    }
}
