//! A test store's database, behind the ledger's back.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::{Connection as _, Executor as _, PgConnection, Row as _};
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard};

use super::postgres;
use super::server::TestStore;

/// A connection to a test store's own database. It is made when it is needed first, and kept: Postgres begins a process for
/// each, which costs more than what most of them are there for.
#[derive(Default)]
pub(super) struct Behind(Mutex<Option<PgConnection>>);

impl Behind {
    async fn connection(&self, database: &str) -> MappedMutexGuard<'_, PgConnection> {
        let mut kept = self.0.lock().await;
        if kept.is_none() {
            *kept = Some(postgres::shared().connect(database).await);
        }
        MutexGuard::map(kept, |kept| kept.as_mut().expect("it was made"))
    }
}

impl TestStore {
    /// Changes rows behind the ledger's back; `@entries` stands for the table, `@ledger.` for the schema where
    /// there is one.
    pub(crate) async fn execute(&self, statement: &str) {
        if let Some(database) = &self.database {
            let statement = statement.replace("@entries", "ledger.entries").replace("@ledger.", "ledger.");
            self.behind.connection(database).await.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
            return;
        }
        let mut connection = self.sqlite().await;
        let statement = statement.replace("@entries", "entries").replace("@ledger.", "");
        connection.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Waits until the purge has had a turn with every consumer that is due, at an instant at which the clock
    /// stands still.
    pub(crate) async fn until_purged(&self) {
        let now = self.now().micros();
        let waiting = format!(
            "SELECT count(*) FROM @ledger.consumers WHERE name <> '' AND (purge_due <= {now} OR purge_held > {now})"
        );
        for _ in 0..1_000 {
            if self.number(&waiting).await == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the purge did not come around");
    }

    /// One number that the statement reads; `@entries` and `@ledger.` as in `execute`.
    pub(crate) async fn number(&self, statement: &str) -> i64 {
        if let Some(database) = &self.database {
            let statement = statement.replace("@entries", "ledger.entries").replace("@ledger.", "ledger.");
            let mut connection = self.behind.connection(database).await;
            return connection.fetch_one(sqlx::AssertSqlSafe(statement)).await.unwrap().get(0);
        }
        let statement = statement.replace("@entries", "entries").replace("@ledger.", "");
        self.sqlite().await.fetch_one(sqlx::AssertSqlSafe(statement)).await.unwrap().get(0)
    }

    /// The row of an entry as it stands in the table: every column but its key and id, as text.
    pub(crate) async fn row(&self, id: &str) -> BTreeMap<String, Option<String>> {
        let pairs: Vec<(String, Option<String>)> = if let Some(database) = &self.database {
            let mut connection = self.behind.connection(database).await;
            let statement =
                "SELECT c.key, c.value FROM ledger.entries e, jsonb_each_text(to_jsonb(e)) c WHERE e.id = $1";
            sqlx::query_as(statement).bind(id).fetch_all(&mut *connection).await.unwrap()
        } else {
            let mut connection = self.sqlite().await;
            let statement =
                "SELECT group_concat('SELECT ''' || name || ''', nullif(quote(' || name || '), ''NULL'')
                                                  FROM entries WHERE id = ?1', ' UNION ALL ')
                             FROM pragma_table_info('entries')";
            let all: String = sqlx::query_scalar(statement).fetch_one(&mut connection).await.unwrap();
            sqlx::query_as(sqlx::AssertSqlSafe(all)).bind(id).fetch_all(&mut connection).await.unwrap()
        };
        assert!(!pairs.is_empty(), "no entry has the id {id}");
        pairs.into_iter().filter(|(column, _)| !["key", "id"].contains(&column.as_str())).collect()
    }

    pub(crate) async fn sqlite(&self) -> sqlx::SqliteConnection {
        let path = self.folder.path().join("ledger.db");
        sqlx::SqliteConnection::connect(&format!("sqlite://{}", path.display())).await.unwrap()
    }

    /// While what this returns lives, nobody can write an entry.
    pub(crate) async fn hold_writes(&self) -> Box<dyn std::any::Any> {
        if let Some(database) = &self.database {
            let mut connection = postgres::shared().connect(database).await;
            let statement = "BEGIN; LOCK TABLE ledger.entries IN SHARE ROW EXCLUSIVE MODE";
            connection.execute(sqlx::raw_sql(statement)).await.unwrap();
            return Box::new(connection);
        }
        let mut connection = self.sqlite().await;
        connection.execute(sqlx::raw_sql("BEGIN IMMEDIATE")).await.unwrap();
        Box::new(connection)
    }
}
