//! One file and its two connections: one for what may write, one for what may read much. A database in memory has one
//! connection for both.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::BoxFuture;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::{Mutex, mpsc};
use tokio::task::spawn;

use super::at_once::{Meta, RowWork, Way};
use super::at_path::WalId;
use super::connect;
use super::errors::{is_foreign, of_commit, of_sqlx};
use super::for_rows::ROWS_AT_ONCE_MAX;
use super::losses::Losses;
use super::place::Place;
use super::statements as sql;
use crate::domain::Reading;
use crate::store::dictionary::Dictionary;
use crate::store::migrations::{SQLITE as MIGRATIONS, newest};
use crate::store::schema::still;
use crate::store::{Clock, Fault, Mark, StoreError};

pub(super) struct SqliteFile {
    place: Place,
    clock: Arc<dyn Clock>,
    mark: Mark,
    writer: Mutex<Option<Opened>>,
    reader: Mutex<Option<Opened>>,
    /// Another process did not let go of the file when a transaction that may write was begun last.
    foreign: AtomicBool,
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
    /// Its WAL; `None` in memory.
    wal: Option<Arc<WalId>>,
    dictionary: Dictionary,
    /// As a transaction looked at it last.
    meta: Option<Meta>,
}

/// For what a transaction is begun, and so on which connection.
#[derive(Clone, Copy)]
enum Purpose {
    Write,
    Look,
}

impl SqliteFile {
    pub(super) fn new(path: &Path, clock: Arc<dyn Clock>) -> Result<SqliteFile, String> {
        Ok(SqliteFile::at(Place::file(path)?, clock))
    }

    /// A database in memory.
    pub(super) fn in_memory(clock: Arc<dyn Clock>) -> SqliteFile {
        SqliteFile::at(Place::memory(), clock)
    }

    fn at(place: Place, clock: Arc<dyn Clock>) -> SqliteFile {
        SqliteFile {
            place,
            clock,
            mark: Mark::default(),
            writer: Mutex::new(None),
            reader: Mutex::new(None),
            foreign: AtomicBool::new(false),
        }
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Whether grants wait for a person.
    pub(super) fn withheld(&self) -> Arc<AtomicBool> {
        self.place.losses().map(Losses::withheld).unwrap_or_default()
    }

    /// A transaction that may write; one at a time.
    pub(super) async fn write<T: Send + 'static>(
        self: &Arc<Self>,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        self.run(Purpose::Write, work).await
    }

    /// A transaction that only reads; one at a time, beside the one that may write.
    pub(super) async fn look<T: Send + 'static>(
        self: &Arc<Self>,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        self.run(Purpose::Look, work).await
    }

    /// A statement that may write, with so many rows: at once where that can be.
    pub(super) async fn write_rows<T: Send + 'static>(
        self: &Arc<Self>,
        rows: usize,
        work: RowWork<T>,
    ) -> Result<(Reading, T), StoreError> {
        let (keep, kept) = mpsc::channel(1);
        let work: RowWork<()> = Box::new(move |connection, dictionary, reading, way| {
            let (keep, work) = (keep.clone(), work(connection, dictionary, reading, way));
            Box::pin(async move { Ok(work.await?.map(|done| drop(keep.try_send(done)))) })
        });
        let work = Arc::new(work);
        let begun = in_transaction(Arc::clone(&work));
        let at_once = (rows <= ROWS_AT_ONCE_MAX).then_some(work);
        Self::done(self.run_alone(Purpose::Write, at_once, begun).await?, kept)
    }

    /// A statement that only reads, next to the one that may write.
    pub(super) async fn look_at_rows<T: Send + 'static>(
        self: &Arc<Self>,
        work: RowWork<T>,
    ) -> Result<(Reading, T), StoreError> {
        let (keep, kept) = mpsc::channel(1);
        let work: RowWork<()> = Box::new(move |connection, dictionary, reading, way| {
            let (keep, work) = (keep.clone(), work(connection, dictionary, reading, way));
            Box::pin(async move { Ok(work.await?.map(|done| drop(keep.try_send(done)))) })
        });
        let begun = in_transaction(Arc::new(work));
        Self::done(self.run_alone(Purpose::Look, None, begun).await?, kept)
    }

    /// Carries out the work, and hands over what came of it once it is committed.
    async fn run<T: Send + 'static>(
        self: &Arc<Self>,
        purpose: Purpose,
        work: Work<T>,
    ) -> Result<(Reading, T), StoreError> {
        let (keep, kept) = mpsc::channel(1);
        let work: Work<()> = Box::new(move |connection, dictionary, reading| {
            Box::pin(async move {
                // A caller that went away needs no result.
                let _gone = keep.try_send(work(connection, dictionary, reading).await?);
                Ok(())
            })
        });
        Self::done(self.run_alone(purpose, None, work).await?, kept)
    }

    fn done<T>(reading: Reading, mut kept: mpsc::Receiver<T>) -> Result<(Reading, T), StoreError> {
        let done = kept.try_recv();
        let done = done.map_err(|_| StoreError::Unknown("a transaction without a result".into()))?;
        Ok((reading, done))
    }

    /// In a task of its own, so that a caller that goes away cannot leave a transaction open. The same future for work of
    /// every kind: each kind is compiled anew.
    async fn run_alone(
        self: &Arc<Self>,
        purpose: Purpose,
        at_once: Option<Arc<RowWork<()>>>,
        work: Work<()>,
    ) -> Result<Reading, StoreError> {
        let file = Arc::clone(self);
        let alone = async move {
            let mut slot = match purpose {
                Purpose::Write => file.writer.lock().await,
                // In memory a reader and a writer would lock each other out.
                Purpose::Look if file.place.is_memory() => file.writer.lock().await,
                Purpose::Look => file.reader.lock().await,
            };
            let mut opened = match slot.take() {
                Some(opened) => opened,
                None => file.opened().await?,
            };
            file.place.check(opened.wal.as_deref())?;
            let (done, is_clean) = file.carry_out_either_way(&mut opened, purpose, at_once, work).await;
            let is_patient = file.note_foreign(purpose, &done);
            // Between commit and answer: nothing is acknowledged that a restart would not find.
            let there = done.is_err() || file.place.check(opened.wal.as_deref()).is_ok();
            if is_clean && is_patient && there {
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
        let waits = if foreign { connect::IMPATIENT } else { connect::PATIENT };
        let (connection, wal) = self.place.open(waits).await?;
        Ok(Opened { connection, wal, dictionary: Dictionary::default(), meta: None })
    }

    /// Notes whether another process writes the file; returns whether the connection waits for as long as it usually does.
    fn note_foreign(&self, purpose: Purpose, done: &Result<Reading, StoreError>) -> bool {
        match (purpose, done) {
            (Purpose::Look, _) => true,
            (Purpose::Write, Ok(_)) => !self.foreign.swap(false, Ordering::SeqCst),
            (Purpose::Write, Err(error)) => {
                self.foreign.store(is_foreign(error), Ordering::SeqCst);
                true
            }
        }
    }

    /// At once where that can be, else in a transaction that has begun; and whether the connection is clean after it.
    async fn carry_out_either_way(
        &self,
        opened: &mut Opened,
        purpose: Purpose,
        at_once: Option<Arc<RowWork<()>>>,
        work: Work<()>,
    ) -> (Result<Reading, StoreError>, bool) {
        if let Some(at_once) = at_once {
            match self.carry_out_at_once(opened, &at_once).await {
                Ok(Some(reading)) => return (Ok(reading), true),
                Ok(None) => {}
                // After an error the connection goes, as in `carry_out`.
                Err(error) => return (Err(error), false),
            }
        }
        self.carry_out(opened, purpose, work).await
    }

    /// None: it could not be done at once, and nothing was done.
    async fn carry_out_at_once(
        &self,
        Opened { connection, dictionary, meta, .. }: &mut Opened,
        work: &RowWork<()>,
    ) -> Result<Option<Reading>, StoreError> {
        let Some(meta) = *meta else { return Ok(None) };
        // Before BEGIN: no other transaction comes between them.
        let reading = self.read(meta, self.mark.get());
        if !reading.is_sound() {
            return Ok(None);
        }
        let done = work(connection, dictionary, reading, Way::AtOnce(meta)).await?;
        Ok(done.map(|()| reading))
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
        Opened { connection, dictionary, meta, .. }: &mut Opened,
        purpose: Purpose,
        work: Work<()>,
    ) -> Result<Reading, StoreError> {
        let begin = match purpose {
            Purpose::Write => sql::BEGIN_TO_WRITE,
            Purpose::Look => sql::BEGIN_TO_LOOK,
        };
        let mark = self.mark.get();
        let row = sqlx::query(begin).fetch_one(&mut *connection).await.map_err(|error| of_sqlx(&error))?;
        let looked = Meta::of(&row);
        // Nobody raises them while a transaction that may write is under way.
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

/// The same work in a transaction that was begun before.
fn in_transaction(work: Arc<RowWork<()>>) -> Work<()> {
    Box::new(move |connection, dictionary, reading| {
        Box::pin(async move { work(connection, dictionary, reading, Way::Begun).await.map(drop) })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::store::SystemClock;

    /// Once `meta` was looked at. What cannot be done at once is done in a transaction that has begun.
    #[tokio::test]
    async fn statements_are_carried_out_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("ledger.db");
        connect::migrate(connect::on_disk(&path, true), Some(&path)).await.expect("a schema");
        let file = Arc::new(SqliteFile::new(&path, Arc::new(SystemClock)).expect("a file"));
        let work = |ways: &Arc<Mutex<Vec<bool>>>, can_be: bool| -> RowWork<()> {
            let ways = Arc::clone(ways);
            Box::new(move |_, _, _, way| {
                let at_once = matches!(way, Way::AtOnce(_));
                ways.lock().expect("a list").push(at_once);
                Box::pin(async move { Ok((can_be || !at_once).then_some(())) })
            })
        };
        for (rows, can_be, expected) in [
            (1, true, &[false][..]),
            (1, true, &[true]),
            (1, false, &[true, false]),
            (ROWS_AT_ONCE_MAX, true, &[true]),
            (ROWS_AT_ONCE_MAX + 1, true, &[false]),
        ] {
            let ways = Arc::default();
            file.write_rows(rows, work(&ways, can_be)).await.expect("it is done");
            assert_eq!(*ways.lock().expect("a list"), expected);
        }
    }

    /// What is torn apart after the first look, and before the answer, is not acknowledged.
    #[tokio::test]
    async fn nothing_is_acknowledged_once_the_file_is_torn_apart() {
        for (at_once, end) in
            [(false, ""), (true, ""), (false, "-wal"), (true, "-wal"), (true, "-shm"), (true, ".lock")]
        {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("ledger.db");
            connect::migrate(connect::on_disk(&path, true), Some(&path)).await.expect("a schema");
            let file = Arc::new(SqliteFile::new(&path, Arc::new(SystemClock)).expect("a file"));
            let nothing: Work<()> = Box::new(|_, _, _| Box::pin(async { Ok(()) }));
            file.write(nothing).await.expect("it is done");
            let torn = folder.path().join(format!("ledger.db{end}"));
            let work: RowWork<()> = Box::new(move |_, _, _, way| {
                assert_eq!(matches!(way, Way::AtOnce(_)), at_once);
                std::fs::rename(&torn, torn.with_extension("away")).expect("it is renamed");
                Box::pin(async { Ok(Some(())) })
            });
            let done = file.write_rows(if at_once { 1 } else { ROWS_AT_ONCE_MAX + 1 }, work).await;
            assert!(matches!(done, Err(StoreError::Unknown(_))), "{at_once} {end}: {done:?}");
            let nothing: Work<()> = Box::new(|_, _, _| Box::pin(async { Ok(()) }));
            let done = file.look(nothing).await;
            assert!(matches!(done, Err(StoreError::NotApplied(Fault::Unavailable(_)))), "{done:?}");
        }
    }
}
