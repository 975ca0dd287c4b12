//! A connection on which statements are sent, one after the other.
//!
//! Behind a transaction pooler, another backend may run the next transaction, even a backend of another server. There,
//! each statement is an unnamed statement in a separate transaction, which sets its own settings (`SET LOCAL`) and checks
//! which server runs it. The answer of such a statement counts only once its commit was answered too.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::{self, BoxStream, TryStreamExt as _};
use sqlx::postgres::{PgConnection, PgQueryResult, PgRow, PgStatement, PgTypeInfo};
use sqlx::{
    AssertSqlSafe, Connection as _, Either, Execute, Executor, Postgres, Row as _, SqlSafeStr as _, SqlStr,
};

use crate::store::postgres::connection::backend::{ActiveBackend, Backend};
use crate::store::postgres::errors::{of_commit, of_sqlx};
use crate::store::postgres::schema_name::SchemaName;
use crate::store::postgres::statements as sql;
use crate::store::{Fault, StoreError};

/// See the module.
#[derive(Debug)]
pub(in crate::store::postgres) struct Link {
    connection: PgConnection,
    schema: SchemaName,
    pooled: Option<Pooled>,
    /// Whether statements belong to an open transaction, which ends by an explicit commit or rollback.
    within: bool,
    active_backend: ActiveBackend,
}

/// State for transactions behind a pooler.
#[derive(Debug)]
struct Pooled {
    /// The statements that begin a transaction.
    begin: Arc<str>,
    /// When the server of the first transaction was started: transactions on any other server are refused.
    server_started: Option<i64>,
}

impl Link {
    /// A direct connection to one backend, whose session has its settings.
    pub(in crate::store::postgres) fn to_backend(connection: PgConnection, schema: SchemaName) -> Link {
        Link { connection, schema, pooled: None, within: false, active_backend: ActiveBackend::default() }
    }

    /// A connection to a transaction pooler: each transaction sets these settings, which are written as session settings.
    pub(in crate::store::postgres) fn to_pooler(
        connection: PgConnection,
        schema: SchemaName,
        settings: &str,
    ) -> Link {
        let settings = settings.replace("SET ", "SET LOCAL ");
        let begin = format!("BEGIN; {settings}; {}", sql::BEGUN).into();
        let pooled = Some(Pooled { begin, server_started: None });
        Link { connection, schema, pooled, within: false, active_backend: ActiveBackend::default() }
    }

    /// Adds a setting that each later transaction sets.
    pub(in crate::store::postgres) fn keep(&mut self, setting: &str, value: &str) {
        if let Some(pooled) = &mut self.pooled {
            pooled.begin =
                pooled.begin.replacen("BEGIN;", &format!("BEGIN; SET LOCAL {setting} = {value};"), 1).into();
        }
    }

    /// The backend that may be running a statement for this connection.
    pub(in crate::store::postgres) fn active_backend(&self) -> &ActiveBackend {
        &self.active_backend
    }

    /// Begins a transaction for several statements.
    pub(in crate::store::postgres) async fn begin(&mut self) -> Result<(), StoreError> {
        self.start().await?;
        self.within = true;
        Ok(())
    }

    async fn start(&mut self) -> Result<(), StoreError> {
        let Some(pooled) = &mut self.pooled else {
            self.connection.execute("BEGIN").await.map_err(of_sqlx)?;
            return Ok(());
        };
        if self.active_backend.get().is_some() {
            let text = "the transaction before was given up, and what follows would be a part of it";
            return Err(StoreError::NotApplied(Fault::Stale(text.into())));
        }
        let begin = sqlx::raw_sql(AssertSqlSafe(Arc::clone(&pooled.begin)));
        let row = begin.fetch_one(&mut self.connection).await.map_err(not_begun)?;
        let pid = row.try_get("pid").map_err(not_begun)?;
        let backend = Backend { pid, started: row.try_get("started").map_err(not_begun)? };
        self.active_backend.set(Some(backend));
        let server = row.try_get("server_started").map_err(not_begun)?;
        if *pooled.server_started.get_or_insert(server) == server {
            return Ok(());
        }
        let text = "the pooler has gone over to another server than the one that the session is with";
        drop(self.rollback().await);
        Err(StoreError::NotApplied(Fault::Stale(text.into())))
    }

    /// Commits the transaction. `Ok` means that it was applied.
    pub(in crate::store::postgres) async fn commit(&mut self) -> Result<(), StoreError> {
        self.end("COMMIT").await.map_err(of_commit)
    }

    /// Rolls the transaction back.
    pub(in crate::store::postgres) async fn rollback(&mut self) -> Result<(), StoreError> {
        self.end("ROLLBACK").await.map_err(of_sqlx)
    }

    async fn end(&mut self, how: &'static str) -> Result<(), sqlx::Error> {
        let ended = self.connection.execute(how).await;
        let is_answered = ended.as_ref().map_or_else(|error| error.as_database_error().is_some(), |_| true);
        if is_answered {
            self.within = false;
            if self.pooled.is_some() {
                self.active_backend.set(None);
            }
        }
        ended.map(drop)
    }

    /// Closes the connection gracefully. `Ok` means that no backend works for it any more.
    pub(in crate::store::postgres) async fn close(self) -> Result<(), sqlx::Error> {
        self.connection.close().await?;
        self.active_backend.set(None);
        Ok(())
    }

    /// Whether a transaction of several statements is open.
    pub(in crate::store::postgres) fn is_in_transaction(&self) -> bool {
        self.within
    }

    /// Whether each statement needs a separate transaction.
    fn is_alone(&self) -> bool {
        self.pooled.is_some() && !self.within
    }

    /// Ends the transaction of a single statement: commits if the statement succeeded, else rolls back.
    async fn end_alone<T>(&mut self, done: Result<T, sqlx::Error>) -> Result<T, sqlx::Error> {
        match &done {
            Ok(_) => self.commit().await.map_err(carried)?,
            // The statement's own error is returned: without a commit nothing was applied.
            Err(error) if error.as_database_error().is_some() => drop(self.rollback().await),
            Err(_) => {}
        }
        done
    }
}

/// The error of a transaction that did not begin: nothing was applied, so that another session may repeat it.
fn not_begun(error: sqlx::Error) -> StoreError {
    match of_sqlx(error) {
        error @ StoreError::NotApplied(Fault::Unavailable(_) | Fault::Schema(_)) => error,
        StoreError::NotApplied(fault) => StoreError::NotApplied(Fault::Stale(fault.to_string())),
        StoreError::Unknown(text) => StoreError::NotApplied(Fault::Stale(text)),
    }
}

/// Wraps one of our errors in the driver's error type; [`of_sqlx`] unwraps it.
fn carried(error: StoreError) -> sqlx::Error {
    sqlx::Error::AnyDriverError(Box::new(error))
}

impl<'c> Executor<'c> for &'c mut Link {
    type Database = Postgres;

    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<PgQueryResult, PgRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let query = match self.schema.statement(query) {
            Ok(query) => query,
            Err(error) => return Box::pin(stream::once(async { Err(error) })),
        };
        if !self.is_alone() {
            return self.connection.fetch_many(query);
        }
        let all = async move {
            self.start().await.map_err(carried)?;
            let all: Result<Vec<_>, _> = self.connection.fetch_many(query).try_collect().await;
            let all = self.end_alone(all).await?;
            Ok::<_, sqlx::Error>(stream::iter(all.into_iter().map(Ok)))
        };
        Box::pin(stream::once(all).try_flatten())
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<PgRow>, sqlx::Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Postgres>,
    {
        let query = match self.schema.statement(query) {
            Ok(query) => query,
            Err(error) => return Box::pin(async { Err(error) }),
        };
        if !self.is_alone() {
            return self.connection.fetch_optional(query);
        }
        Box::pin(async move {
            self.start().await.map_err(carried)?;
            let row = self.connection.fetch_optional(query).await;
            self.end_alone(row).await
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [PgTypeInfo],
    ) -> BoxFuture<'e, Result<PgStatement, sqlx::Error>>
    where
        'c: 'e,
    {
        let rendered = self.schema.render(sql.as_str()).into_owned();
        self.connection.prepare_with(AssertSqlSafe(rendered).into_sql_str(), parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::for_tests::refused;

    /// Nothing was sent in the transaction yet, so the outcome is never unknown, and a new session may repeat it.
    #[test]
    fn not_begun_is_never_unknown() {
        for (error, expected) in [
            (refused("57P01"), "stale"),
            (refused("08006"), "stale"),
            (refused("40001"), "stale"),
            (sqlx::Error::WorkerCrashed, "stale"),
            (refused("53300"), "unavailable"),
            (refused("3D000"), "schema"),
        ] {
            let case = format!("{error:?}");
            let found = match not_begun(error) {
                StoreError::NotApplied(Fault::Stale(_)) => "stale",
                StoreError::NotApplied(Fault::Unavailable(_)) => "unavailable",
                StoreError::NotApplied(Fault::Schema(_)) => "schema",
                other @ (StoreError::NotApplied(_) | StoreError::Unknown(_)) => panic!("{other}"),
            };
            assert_eq!(found, expected, "{case}");
        }
    }
}
