//! Optimistic transactions of one round trip: BEGIN, a statement and COMMIT are sent to the connection's thread together, instead
//! of in three round trips. One round trip takes as long as several rows.
//!
//! A transaction has to read `meta`: the clock's mark and offset, and whether the schema still serves this binary. In one trip,
//! `meta` is assumed to be as it was read last. The statement checks that, and does nothing if `meta` has changed; then the
//! work is repeated within a transaction that reads `meta` first.

use futures_util::TryStreamExt as _;
use futures_util::future::BoxFuture;
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnection, SqliteRow};
use sqlx::{Either, Executor as _, Row as _, Sqlite};

use super::errors::{of_commit, of_sqlx};
use super::for_rows::ForRows;
use super::statements::meta;
use crate::domain::Reading;
use crate::store::StoreError;
use crate::store::dictionary::Dictionary;

/// The columns of `meta` that each transaction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    pub(super) token_offset: i64,
    pub(super) clock_mark: i64,
    pub(super) serves_from: i32,
    pub(super) level: i32,
}

impl Meta {
    pub(super) fn of(row: &SqliteRow) -> Meta {
        Meta { token_offset: row.get(0), clock_mark: row.get(1), serves_from: row.get(2), level: row.get(3) }
    }
}

/// How a statement is executed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mode {
    /// Within a transaction that has begun, and has read `meta`.
    InTransaction,
    /// Together with its own transaction, if `meta` still has this value.
    OneTrip(Meta),
}

impl Mode {
    /// The error of a query after the statement: in one trip, the statement is committed by then.
    pub(super) fn after_statement(self, error: StoreError) -> StoreError {
        match self {
            Mode::InTransaction => error,
            Mode::OneTrip(_) => StoreError::Unknown(error.to_string()),
        }
    }
}

/// Work on rows that consists of one statement. `None` if it is not possible in one trip; then nothing was done.
pub(super) type RowWork<T> = Box<
    dyn for<'c> Fn(
            &'c mut SqliteConnection,
            &'c mut Dictionary,
            Reading,
            Mode,
        ) -> BoxFuture<'c, Result<Option<T>, StoreError>>
        + Send
        + Sync,
>;

/// A statement with rows, for both modes.
pub(super) struct RowStatement {
    in_transaction: ForRows,
    one_trip: ForRows,
}

impl RowStatement {
    /// As [`ForRows::new`]. `{same}` marks the place of a first common table expression, `{is_same}` a place in the condition.
    pub(super) fn new(text: &str, width: usize) -> RowStatement {
        let in_transaction = text.replace("{same}", "").replace("{is_same}", "true");
        let (name, text) = text.split_once('\n').unwrap_or_default();
        let same = "same (yes) AS (
    SELECT 1 FROM meta WHERE token_offset = ? AND clock_mark = ? AND serves_from = ? AND level = ?),
";
        let text = text.replace("{same}", same).replace("{is_same}", "EXISTS (SELECT 1 FROM same)");
        let look = meta!();
        let one_trip = format!("{name}_at_once\nBEGIN IMMEDIATE;\n{text};\n{look};\nCOMMIT");
        RowStatement {
            in_transaction: ForRows::new(&in_transaction, width),
            one_trip: ForRows::new(&one_trip, width),
        }
    }

    /// The statement in all sizes, for both modes.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.in_transaction.all().chain(self.one_trip.all())
    }

    /// Executes the statement. `None` if it is not possible in one trip; then nothing was done.
    pub(super) async fn carry_out<T>(
        &'static self,
        connection: &mut SqliteConnection,
        mode: Mode,
        rows: Vec<T>,
        bind: impl Fn(RowQuery, T) -> RowQuery,
    ) -> Result<Option<Done>, StoreError> {
        match mode {
            Mode::InTransaction => {
                let mut done = Done::default();
                for (text, rows) in self.in_transaction.parts(rows) {
                    let query = rows.into_iter().fold(sqlx::query(text), &bind);
                    done.add(connection, query, &[Step::Statement]).await?;
                }
                Ok(Some(done))
            }
            Mode::OneTrip(meta) => {
                // Rows beyond the maximum of one statement would need several transactions.
                let mut parts = self.one_trip.parts(rows);
                let Some((text, rows)) = parts.pop().filter(|_| parts.is_empty()) else { return Ok(None) };
                let Meta { token_offset, clock_mark, serves_from, level } = meta;
                let query = sqlx::query(text);
                let query = query.bind(token_offset).bind(clock_mark).bind(serves_from).bind(level);
                let mut done = Done::default();
                done.add(connection, rows.into_iter().fold(query, bind), &Step::ALL).await?;
                // The last row is `meta`, as it is now.
                let found = done.rows.pop().map(|row| Meta::of(&row));
                Ok((found == Some(meta)).then_some(done))
            }
        }
    }
}

/// A query to which rows are bound.
pub(super) type RowQuery = Query<'static, Sqlite, SqliteArguments>;

/// One of the statements that are sent together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Begin,
    Statement,
    Look,
    Commit,
}

impl Step {
    const ALL: [Step; 4] = [Step::Begin, Step::Statement, Step::Look, Step::Commit];
}

/// The result of a statement.
#[derive(Default)]
pub(super) struct Done {
    /// The returned rows.
    pub(super) rows: Vec<SqliteRow>,
    /// The number of changed rows, and the rowid of the last inserted one, if any.
    pub(super) changed: u64,
    pub(super) last_rowid: i64,
}

impl Done {
    /// Executes a query that consists of these steps.
    async fn add(
        &mut self,
        connection: &mut SqliteConnection,
        query: RowQuery,
        steps: &[Step],
    ) -> Result<(), StoreError> {
        let mut results = connection.fetch_many(query);
        for step in steps {
            loop {
                match results.try_next().await {
                    Ok(Some(Either::Right(row))) => self.rows.push(row),
                    Ok(Some(Either::Left(done))) => {
                        if *step == Step::Statement {
                            self.changed += done.rows_affected();
                            self.last_rowid = done.last_insert_rowid();
                        }
                        break;
                    }
                    Ok(None) => return Err(StoreError::Unknown("the connection has ended".into())),
                    Err(error) if *step == Step::Commit => return Err(of_commit(&error)),
                    Err(error) => return Err(of_sqlx(&error)),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Fault;

    #[test]
    fn an_error_after_a_commit_is_unknown() {
        let meta = Meta { token_offset: 0, clock_mark: 0, serves_from: 1, level: 1 };
        for (mode, is_unknown) in [(Mode::InTransaction, false), (Mode::OneTrip(meta), true)] {
            let error = StoreError::NotApplied(Fault::Unavailable("the disk is full".into()));
            let error = mode.after_statement(error);
            assert_eq!(matches!(error, StoreError::Unknown(_)), is_unknown, "{mode:?}");
            assert!(error.to_string().contains("the disk is full"), "{error}");
        }
    }
}
