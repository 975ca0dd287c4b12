//! A statement together with its transaction: one journey to the thread of the connection and back, where BEGIN, the
//! statement and COMMIT by themselves are three. A journey takes as long as several rows do.
//!
//! A transaction begins by looking at `meta`: at the clock's mark and offset, and whether the schema still serves this
//! binary. At once, `meta` is taken to be what it was when it was last looked at. The statement asks whether it still is,
//! and does nothing where it is not; then the work is done again within a transaction that has looked.

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

/// The row of `meta`, as far as each transaction looks at it.
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

/// In which way a statement is carried out.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// Within a transaction that has begun.
    Begun,
    /// With a transaction of its own, as long as `meta` is this.
    AtOnce(Meta),
}

impl Way {
    /// An error of something that is asked after the statement: at once, the statement is committed by then.
    pub(super) fn of_later(self, error: StoreError) -> StoreError {
        match self {
            Way::Begun => error,
            Way::AtOnce(_) => StoreError::Unknown(error.to_string()),
        }
    }
}

/// Work on rows, which consists of one statement. None: it cannot be done at once, and nothing was done.
pub(super) type RowWork<T> = Box<
    dyn for<'c> Fn(
            &'c mut SqliteConnection,
            &'c mut Dictionary,
            Reading,
            Way,
        ) -> BoxFuture<'c, Result<Option<T>, StoreError>>
        + Send
        + Sync,
>;

/// A statement that carries rows, for both ways.
pub(super) struct RowStatement {
    begun: ForRows,
    at_once: ForRows,
}

impl RowStatement {
    /// As [`ForRows::new`]. `{same}` stands where a first common table expression may, `{is_same}` in its condition.
    pub(super) fn new(text: &str, width: usize) -> RowStatement {
        let begun = text.replace("{same}", "").replace("{is_same}", "true");
        let (name, text) = text.split_once('\n').unwrap_or_default();
        let same = "same (yes) AS (
    SELECT 1 FROM meta WHERE token_offset = ? AND clock_mark = ? AND serves_from = ? AND level = ?),
";
        let text = text.replace("{same}", same).replace("{is_same}", "EXISTS (SELECT 1 FROM same)");
        let look = meta!();
        let at_once = format!("{name}_at_once\nBEGIN IMMEDIATE;\n{text};\n{look};\nCOMMIT");
        RowStatement { begun: ForRows::new(&begun, width), at_once: ForRows::new(&at_once, width) }
    }

    /// The statement in all its sizes, for both ways.
    pub(super) fn all(&self) -> impl Iterator<Item = &str> {
        self.begun.all().chain(self.at_once.all())
    }

    /// Carries it out. None: it cannot be done at once, and nothing was done.
    pub(super) async fn carry_out<T>(
        &'static self,
        connection: &mut SqliteConnection,
        way: Way,
        rows: Vec<T>,
        bind: impl Fn(RowQuery, T) -> RowQuery,
    ) -> Result<Option<Done>, StoreError> {
        match way {
            Way::Begun => {
                let mut done = Done::default();
                for (text, rows) in self.begun.parts(rows) {
                    let query = rows.into_iter().fold(sqlx::query(text), &bind);
                    done.add(connection, query, &[Step::Statement]).await?;
                }
                Ok(Some(done))
            }
            Way::AtOnce(meta) => {
                // More rows than one statement carries would be several transactions.
                let mut parts = self.at_once.parts(rows);
                let Some((text, rows)) = parts.pop().filter(|_| parts.is_empty()) else { return Ok(None) };
                let Meta { token_offset, clock_mark, serves_from, level } = meta;
                let query = sqlx::query(text);
                let query = query.bind(token_offset).bind(clock_mark).bind(serves_from).bind(level);
                let mut done = Done::default();
                done.add(connection, rows.into_iter().fold(query, bind), &Step::ALL).await?;
                // The last row is what the look has found.
                let found = done.rows.pop().map(|row| Meta::of(&row));
                Ok((found == Some(meta)).then_some(done))
            }
        }
    }
}

/// A query whose rows are being bound.
pub(super) type RowQuery = Query<'static, Sqlite, SqliteArguments>;

/// One of the statements that go together.
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

/// What a statement has done.
#[derive(Default)]
pub(super) struct Done {
    /// What it gave back.
    pub(super) rows: Vec<SqliteRow>,
    /// How many rows it has changed; and the number of the last one that it has inserted, if it has.
    pub(super) changed: u64,
    pub(super) last_rowid: i64,
}

impl Done {
    /// Carries out what consists of these steps.
    async fn add(
        &mut self,
        connection: &mut SqliteConnection,
        query: RowQuery,
        steps: &[Step],
    ) -> Result<(), StoreError> {
        let mut told = connection.fetch_many(query);
        for step in steps {
            loop {
                match told.try_next().await {
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
