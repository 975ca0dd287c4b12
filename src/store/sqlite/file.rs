//! One file and its two connections: one for what may write, one for what may read much.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, oneshot};
use tokio::task::{spawn, spawn_blocking};

use super::connect;
use super::errors::{of_commit, of_sqlx};
use super::statements as sql;
use crate::domain::Reading;
use crate::store::dictionary::Dictionary;
use crate::store::migrations::{SQLITE as MIGRATIONS, newest};
use crate::store::schema::still;
use crate::store::{Clock, Fault, Mark, StoreError};

pub(super) struct SqliteFile {
    path: PathBuf,
    clock: Arc<dyn Clock>,
    mark: Mark,
    writer: Mutex<Option<Opened>>,
    reader: Mutex<Option<Opened>>,
    /// Held for as long as the store lives.
    _lock: std::fs::File,
}

/// What happens within one transaction.
pub(super) type Work<T> = Box<
    dyn for<'c> FnOnce(
            &'c mut SqliteConnection,
            &'c mut Dictionary,
            Reading,
        ) -> BoxFuture<'c, Result<T, StoreError>>
        + Send,
>;

/// A connection, and what it has learnt: both go together.
struct Opened {
    connection: SqliteConnection,
    dictionary: Dictionary,
}

/// For what a transaction is begun, and so on which connection.
#[derive(Clone, Copy)]
enum Purpose {
    Write,
    /// The same, for several rows.
    WriteMany,
    Look,
}

impl SqliteFile {
    pub(super) fn new(path: &Path, clock: Arc<dyn Clock>) -> Result<SqliteFile, String> {
        Ok(SqliteFile {
            path: path.to_owned(),
            clock,
            mark: Mark::default(),
            writer: Mutex::new(None),
            reader: Mutex::new(None),
            _lock: connect::lock(path)?,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// A transaction that may write; one at a time.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        self.run(Purpose::Write, work).await
    }

    /// The same, with work on so many rows.
    pub(super) async fn write_rows<T: Send + 'static>(
        self: &Arc<Self>,
        rows: usize,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        self.run(if rows > 1 { Purpose::WriteMany } else { Purpose::Write }, work).await
    }

    /// A transaction that only reads; one at a time, beside the one that may write.
    pub(super) async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        self.run(Purpose::Look, work).await
    }

    /// Carries out the work, and hands over what came of it once it is committed.
    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        purpose: Purpose,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        let (keep, mut kept) = oneshot::channel();
        let work: Work<()> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                // A caller that went away needs no result.
                let _gone = keep.send(work(connection, dictionary, reading).await?);
                Ok(())
            })
        });
        let reading = self.run_alone(purpose, work).await?;
        match kept.try_recv() {
            Ok(done) => Ok((reading, done)),
            Err(_) => Err(StoreError::Unknown("a transaction without a result".into())),
        }
    }

    /// In a task of its own, so that a caller that goes away cannot leave a transaction open. The same future for work of
    /// every kind: each kind is compiled anew.
    ///
    /// Where several rows come together, other calls come too: in a thread of its own no journey to the thread of the
    /// connection waits behind them, which took a sixth of the claims. One row alone is sooner done without it.
    async fn run_alone(self: &Arc<Self>, purpose: Purpose, work: Work<()>) -> Result<Reading, StoreError> {
        let file = Arc::clone(self);
        let alone = async move {
            let mut slot = match purpose {
                Purpose::Write | Purpose::WriteMany => file.writer.lock().await,
                Purpose::Look => file.reader.lock().await,
            };
            let mut opened = match slot.take() {
                Some(opened) => opened,
                None => {
                    Opened { connection: connect::open(&file.path).await?, dictionary: Dictionary::default() }
                }
            };
            let (done, is_clean) = file.carry_out(&mut opened, purpose, work).await;
            if is_clean {
                *slot = Some(opened);
            }
            done
        };
        let runtime = Handle::current();
        let task = match purpose {
            Purpose::WriteMany => spawn_blocking(move || runtime.block_on(alone)),
            Purpose::Write | Purpose::Look => spawn(alone),
        };
        task.await.unwrap_or_else(|error| Err(StoreError::Unknown(error.to_string())))
    }

    /// A transaction, and whether its connection is clean after it. A full disk, say, ends a transaction behind the
    /// driver's back: after an error of `SQLite`'s nothing but a new connection is known to be clean.
    async fn carry_out(
        &self,
        opened: &mut Opened,
        purpose: Purpose,
        work: Work<()>,
    ) -> (Result<Reading, StoreError>, bool) {
        let done = self.begin_and_work(opened, purpose, work).await;
        let connection = &mut opened.connection;
        match done {
            Ok(reading) => {
                let committed = sqlx::query(sql::COMMIT).execute(connection).await;
                let is_clean = committed.is_ok();
                (committed.map(|_| reading).map_err(|error| of_commit(&error)), is_clean)
            }
            Err(refused @ StoreError::NotApplied(Fault::ClockBehind | Fault::Outdated(_))) => {
                let is_clean = sqlx::query(sql::ROLLBACK).execute(connection).await.is_ok();
                (Err(refused), is_clean)
            }
            Err(error) => (Err(error), false),
        }
    }

    async fn begin_and_work(
        &self,
        Opened { connection, dictionary }: &mut Opened,
        purpose: Purpose,
        work: Work<()>,
    ) -> Result<Reading, StoreError> {
        let begin = match purpose {
            Purpose::Write | Purpose::WriteMany => sql::BEGIN_TO_WRITE,
            Purpose::Look => sql::BEGIN_TO_LOOK,
        };
        let mark = self.mark.get();
        let meta = sqlx::query(begin).fetch_one(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        // Nobody raises them while a transaction that may write is under way.
        still(meta.get(2), meta.get(3), newest(&MIGRATIONS)).map_err(StoreError::NotApplied)?;
        let reading =
            Reading { now: self.clock.now(), token_offset: meta.get(0), mark: mark.max(meta.get(1)) };
        self.mark.raise(&reading);
        work(connection, dictionary, reading).await?;
        Ok(reading)
    }
}
