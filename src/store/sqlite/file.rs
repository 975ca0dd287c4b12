//! One file and its two connections: one for transactions that may write, one for long reads. A database in memory has a
//! single connection for both.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::{Mutex, mpsc};
use tokio::task::spawn;

use super::at_path::WalId;
use super::connect;
use super::errors::{is_foreign, of_commit, of_sqlx};
use super::for_rows::ROWS_PER_STATEMENT_MAX;
use super::location::Location;
use super::losses::Losses;
use super::one_trip::{Meta, Mode, RowWork};
use super::statements as sql;
use crate::domain::Reading;
use crate::store::dictionary::Dictionary;
use crate::store::migrations::{SQLITE as MIGRATIONS, newest};
use crate::store::schema::still;
use crate::store::{Clock, Fault, Mark, StoreError};

pub(super) struct SqliteFile {
    location: Location,
    clock: Arc<dyn Clock>,
    mark: Mark,
    writer: Mutex<Option<Opened>>,
    reader: Mutex<Option<Opened>>,
    /// Whether the last transaction that may write timed out on a lock of another process.
    foreign: AtomicBool,
}

/// The work of one transaction.
pub(super) type Work<T> = Box<
    dyn for<'c> FnOnce(
            &'c mut SqliteConnection,
            &'c mut Dictionary,
            Reading,
        ) -> BoxFuture<'c, Result<T, StoreError>>
        + Send,
>;

/// A connection with its dictionary, which is dropped with it.
struct Opened {
    connection: SqliteConnection,
    /// The WAL of the connection; `None` in memory.
    wal: Option<Arc<WalId>>,
    dictionary: Dictionary,
    /// `meta`, as a transaction read it last.
    meta: Option<Meta>,
}

/// The kind of a transaction, which selects the connection.
#[derive(Clone, Copy)]
enum Access {
    Write,
    Read,
}

impl SqliteFile {
    pub(super) fn new(path: &Path, clock: Arc<dyn Clock>) -> Result<SqliteFile, String> {
        Ok(SqliteFile::at(Location::file(path)?, clock))
    }

    /// A database in memory.
    pub(super) fn in_memory(clock: Arc<dyn Clock>) -> SqliteFile {
        SqliteFile::at(Location::memory(), clock)
    }

    fn at(location: Location, clock: Arc<dyn Clock>) -> SqliteFile {
        SqliteFile {
            location,
            clock,
            mark: Mark::default(),
            writer: Mutex::new(None),
            reader: Mutex::new(None),
            foreign: AtomicBool::new(false),
        }
    }

    pub(super) fn location(&self) -> &Location {
        &self.location
    }

    /// Whether grants are withheld until a person accepts a loss.
    pub(super) fn withheld(&self) -> Arc<AtomicBool> {
        self.location.losses().map(Losses::withheld).unwrap_or_default()
    }

    /// Runs a transaction that may write; one at a time.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        self.run(Access::Write, work).await
    }

    /// Runs a read-only transaction; one at a time, concurrently with the one that may write.
    pub(super) async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        self.run(Access::Read, work).await
    }

    /// Runs a statement that may write, with this number of rows: in one trip if possible.
    pub(super) async fn write_rows<T: Send + 'static>(
        self: &Arc<Self>,
        rows: usize,
        work: RowWork<T>,
    ) -> Result<(Reading, T), StoreError> {
        let (keep, kept) = mpsc::channel(1);
        let work: RowWork<()> = Box::new(move |connection, dictionary, reading, mode| {
            let (keep, work) = (keep.clone(), work(connection, dictionary, reading, mode));
            Box::pin(async move { Ok(work.await?.map(|done| drop(keep.try_send(done)))) })
        });
        let work = Arc::new(work);
        let begun = begun_work(Arc::clone(&work));
        let one_trip = (rows <= ROWS_PER_STATEMENT_MAX).then_some(work);
        Self::done(self.run_in_task(Access::Write, one_trip, begun).await?, kept)
    }

    /// Runs a read-only statement, concurrently with the one that may write.
    pub(super) async fn look_at_rows<T: Send + 'static>(
        self: &Arc<Self>,
        work: RowWork<T>,
    ) -> Result<(Reading, T), StoreError> {
        let (keep, kept) = mpsc::channel(1);
        let work: RowWork<()> = Box::new(move |connection, dictionary, reading, mode| {
            let (keep, work) = (keep.clone(), work(connection, dictionary, reading, mode));
            Box::pin(async move { Ok(work.await?.map(|done| drop(keep.try_send(done)))) })
        });
        let begun = begun_work(Arc::new(work));
        Self::done(self.run_in_task(Access::Read, None, begun).await?, kept)
    }

    /// Runs the work, and returns its result after the commit.
    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        access: Access,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        let (keep, kept) = mpsc::channel(1);
        let work: Work<()> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                // The caller may have been cancelled: then the result is dropped.
                let _gone = keep.try_send(work(connection, dictionary, reading).await?);
                Ok(())
            })
        });
        Self::done(self.run_in_task(access, None, work).await?, kept)
    }

    fn done<T>(reading: Reading, mut kept: mpsc::Receiver<T>) -> Result<(Reading, T), StoreError> {
        let done = kept.try_recv();
        let done = done.map_err(|_| StoreError::Unknown("a transaction without a result".into()))?;
        Ok((reading, done))
    }

    /// Runs the work in a separate task, so that a cancelled caller cannot leave a transaction open. The work is boxed, so that
    /// this future is compiled once and not for each type of work.
    async fn run_in_task(
        self: &Arc<Self>,
        access: Access,
        one_trip: Option<Arc<RowWork<()>>>,
        work: Work<()>,
    ) -> Result<Reading, StoreError> {
        let file = Arc::clone(self);
        let alone = async move {
            let mut slot = match access {
                Access::Write => file.writer.lock().await,
                // In memory, a reader and a writer would block each other.
                Access::Read if file.location.is_memory() => file.writer.lock().await,
                Access::Read => file.reader.lock().await,
            };
            let mut opened = match slot.take() {
                Some(opened) => opened,
                None => file.opened().await?,
            };
            file.location.check(opened.wal.as_deref())?;
            let (done, is_clean) = file.run_work(&mut opened, access, one_trip, work).await;
            let has_usual_timeout = file.note_foreign(access, &done);
            // Checked between commit and answer: a commit that a restart would not find must not be acknowledged.
            let there = done.is_err() || file.location.check(opened.wal.as_deref()).is_ok();
            if is_clean && has_usual_timeout && there {
                *slot = Some(opened);
            }
            if there {
                done
            } else {
                Err(StoreError::Unknown("the file was torn apart while it was written".into()))
            }
        };
        spawn(alone).await.unwrap_or_else(|error| Err(StoreError::Unknown(error.to_string())))
    }

    async fn opened(&self) -> Result<Opened, StoreError> {
        let foreign = self.foreign.load(Ordering::SeqCst);
        let busy_timeout = if foreign { connect::BUSY_TIMEOUT_SHORT } else { connect::BUSY_TIMEOUT };
        let (connection, wal) = self.location.open(busy_timeout).await?;
        Ok(Opened { connection, wal, dictionary: Dictionary::default(), meta: None })
    }

    /// Records whether another process has locked the file; returns whether the connection has the usual `busy_timeout`.
    fn note_foreign(&self, access: Access, done: &Result<Reading, StoreError>) -> bool {
        match (access, done) {
            (Access::Read, _) => true,
            (Access::Write, Ok(_)) => !self.foreign.swap(false, Ordering::SeqCst),
            (Access::Write, Err(error)) => {
                self.foreign.store(is_foreign(error), Ordering::SeqCst);
                true
            }
        }
    }

    /// Runs the work in one trip if possible, else in a transaction; also returns whether the connection is clean afterwards.
    async fn run_work(
        &self,
        opened: &mut Opened,
        access: Access,
        one_trip: Option<Arc<RowWork<()>>>,
        work: Work<()>,
    ) -> (Result<Reading, StoreError>, bool) {
        if let Some(one_trip) = one_trip {
            match self.run_in_one_trip(opened, &one_trip).await {
                Ok(Some(reading)) => return (Ok(reading), true),
                Ok(None) => {}
                // After an error the connection is dropped, as in `run_in_transaction`.
                Err(error) => return (Err(error), false),
            }
        }
        self.run_in_transaction(opened, access, work).await
    }

    /// Runs the work in one trip. `None` if that is not possible; then nothing was done.
    async fn run_in_one_trip(
        &self,
        Opened { connection, dictionary, meta, .. }: &mut Opened,
        work: &RowWork<()>,
    ) -> Result<Option<Reading>, StoreError> {
        let Some(meta) = *meta else { return Ok(None) };
        // Before BEGIN is enough: this process has one writer at a time, so no other transaction comes in between.
        let reading = self.read(meta, self.mark.get());
        if !reading.is_sound() {
            return Ok(None);
        }
        let done = work(connection, dictionary, reading, Mode::OneTrip(meta)).await?;
        Ok(done.map(|()| reading))
    }

    /// Runs a transaction; also returns whether the connection is clean afterwards. `SQLite` may roll a transaction back
    /// without the driver noticing, for example when the disk is full: after an error, only a new connection is known to be
    /// clean.
    async fn run_in_transaction(
        &self,
        opened: &mut Opened,
        access: Access,
        work: Work<()>,
    ) -> (Result<Reading, StoreError>, bool) {
        let done = self.begin_and_run(opened, access, work).await;
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

    async fn begin_and_run(
        &self,
        Opened { connection, dictionary, meta, .. }: &mut Opened,
        access: Access,
        work: Work<()>,
    ) -> Result<Reading, StoreError> {
        let begin = match access {
            Access::Write => sql::BEGIN_TO_WRITE,
            Access::Read => sql::BEGIN_TO_LOOK,
        };
        let mark = self.mark.get();
        let row = sqlx::query(begin).fetch_one(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        let looked = Meta::of(&row);
        // No other process can raise them during a transaction that may write.
        still(looked.serves_from, looked.level, newest(&MIGRATIONS)).map_err(StoreError::NotApplied)?;
        *meta = Some(looked);
        let reading = self.read(looked, mark);
        work(connection, dictionary, reading).await?;
        Ok(reading)
    }

    fn read(&self, meta: Meta, mark: i64) -> Reading {
        let Meta { token_offset, clock_mark, .. } = meta;
        let limits = self.clock.limits();
        let reading = Reading { now: self.clock.now(), token_offset, mark: mark.max(clock_mark), limits };
        self.mark.raise(&reading);
        reading
    }
}

/// The work of a statement, for a transaction that has begun.
fn begun_work(work: Arc<RowWork<()>>) -> Work<()> {
    Box::new(move |connection, dictionary, reading| {
        Box::pin(async move { work(connection, dictionary, reading, Mode::InTransaction).await.map(drop) })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::store::SystemClock;

    /// After `meta` was read once. Work that is not possible in one trip runs in a transaction that has begun.
    #[tokio::test]
    async fn write_rows_after_first_look_takes_one_trip() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger.db");
        connect::migrate(connect::on_disk(&path, true), Some(&path)).await.expect("a schema");
        let file = Arc::new(SqliteFile::new(&path, Arc::new(SystemClock)).expect("a file"));
        let work = |ways: &Arc<Mutex<Vec<bool>>>, can_be: bool| -> RowWork<()> {
            let ways = Arc::clone(ways);
            Box::new(move |_, _, _, mode| {
                let one_trip = matches!(mode, Mode::OneTrip(_));
                ways.lock().expect("a list").push(one_trip);
                Box::pin(async move { Ok((can_be || !one_trip).then_some(())) })
            })
        };
        for (rows, can_be, expected) in [
            (1, true, &[false][..]),
            (1, true, &[true]),
            (1, false, &[true, false]),
            (ROWS_PER_STATEMENT_MAX, true, &[true]),
            (ROWS_PER_STATEMENT_MAX + 1, true, &[false]),
        ] {
            let ways = Arc::default();
            file.write_rows(rows, work(&ways, can_be)).await.expect("it is done");
            assert_eq!(*ways.lock().expect("a list"), expected);
        }
    }

    /// A write is not acknowledged if the file was replaced after the first check and before the answer.
    #[tokio::test]
    async fn write_rows_after_replaced_file_is_unknown() {
        for (one_trip, end) in
            [(false, ""), (true, ""), (false, "-wal"), (true, "-wal"), (true, "-shm"), (true, ".lock")]
        {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("ledger.db");
            connect::migrate(connect::on_disk(&path, true), Some(&path)).await.expect("a schema");
            let file = Arc::new(SqliteFile::new(&path, Arc::new(SystemClock)).expect("a file"));
            let nothing: Work<()> = Box::new(|_, _, _| Box::pin(async { Ok(()) }));
            file.write(nothing).await.expect("it is done");
            let torn = folder.path().join(format!("ledger.db{end}"));
            let work: RowWork<()> = Box::new(move |_, _, _, mode| {
                assert_eq!(matches!(mode, Mode::OneTrip(_)), one_trip);
                std::fs::rename(&torn, torn.with_extension("away")).expect("it is renamed");
                Box::pin(async { Ok(Some(())) })
            });
            let done = file.write_rows(if one_trip { 1 } else { ROWS_PER_STATEMENT_MAX + 1 }, work).await;
            assert!(matches!(done, Err(StoreError::Unknown(_))), "{one_trip} {end}: {done:?}");
            let nothing: Work<()> = Box::new(|_, _, _| Box::pin(async { Ok(()) }));
            let done = file.look(nothing).await;
            assert!(matches!(done, Err(StoreError::NotApplied(Fault::Unavailable(_)))), "{done:?}");
        }
    }
}
