//! Sends the messages: a bounded number is in flight, and they are answered in order.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt as _, stream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{timeout, timeout_at};
use tonic::Status;

use super::chunk::{Chunk, Found};
use super::sending::{SILENCE_MAX, Sending, Sent};
use crate::cli::client::Client;
use crate::cli::problem::{Exit, Problem, rejected};
use crate::cli::progress::OperationProgress;
use crate::cli::text::{clean, counted};
use crate::proto;

/// The number of messages that may be in flight.
const UNDER_WAY_MAX: usize = 4;
/// While the file, such as a pipe, has no rows to send, a message without rows goes this often: the server ends an import for which
/// no message came for a minute.
const KEEP_OPEN_EVERY: Duration = Duration::from_secs(20);

/// The counts of an import.
#[derive(Debug, Default)]
pub(super) struct ImportCounts {
    rows: u64,
    stored: i64,
    already: i64,
    over: i64,
    pub(super) rejected: u64,
    pub(super) bad: u64,
    /// The first of the lines whose message had a row that is too old, and the last of them.
    old: Option<(u64, u64)>,
    /// The number of rows that had a field with a line break.
    pub(super) spanning: u64,
    /// Why the file could not be read to its end.
    pub(super) broken: Option<String>,
}

/// The number of bad rows that are printed.
const BAD_MAX: u64 = 20;

/// Why the import ended early, and the line to continue from, if anything may be stored.
pub(super) struct Broken {
    pub(super) problem: Problem,
    pub(super) line: Option<u64>,
}

impl From<Problem> for Broken {
    fn from(problem: Problem) -> Broken {
        Broken { problem, line: None }
    }
}

impl ImportCounts {
    pub(super) fn print(&self, client: &Client, operation_id: &str, dry_run: bool) -> Result<(), Problem> {
        let output = client.output;
        if self.bad > BAD_MAX {
            let more = counted(self.bad - BAD_MAX, "more bad row", "more bad rows");
            output.stderr(&format!("… and {more}"));
        }
        if self.spanning > 0 {
            output.note(&format!(
                "{} over several lines: if this is not meant, a quotation mark is missing",
                counted(self.spanning, "row goes", "rows go")
            ));
        }
        if let Some((first, last)) = self.old {
            let lines = if first == last {
                format!("on line {first}")
            } else {
                format!("within lines {first} to {last}")
            };
            output.note(&format!("too old to keep: {}, the first {lines}; its retention is over", self.over));
        }
        if output.json() {
            let report = serde_json::json!({
                "operationId": if dry_run { "" } else { operation_id },
                "dryRun": dry_run,
                "rows": self.rows,
                "stored": self.stored,
                "alreadyCompleted": self.already,
                "retentionOver": self.over,
                "rejected": self.rejected,
                "badRows": self.bad,
                "rowsOverSeveralLines": self.spanning,
                "complete": self.broken.is_none(),
            });
            return output.line(&report.to_string());
        }
        if dry_run {
            return output.line(&format!(
                "dry run: {} would be sent, {}; nothing was stored",
                counted(self.rows, "row", "rows"),
                counted(self.bad, "is bad", "are bad")
            ));
        }
        output.line(&format!(
            "{} stored, {} completed already, {} too old to keep, {} rejected, {}",
            self.stored,
            counted(self.already, "was", "were"),
            self.over,
            self.rejected,
            counted(self.bad, "bad row", "bad rows")
        ))
    }

    fn bad(&mut self, client: &Client, line: u64, why: &str) {
        self.bad += 1;
        if self.bad <= BAD_MAX {
            client.output.stderr(&format!("line {line}: {why}"));
        }
    }
}

/// Reads and checks the file, and sends nothing.
pub(super) async fn check(client: &Client, mut finds: mpsc::Receiver<Found>) -> Result<ImportCounts, Broken> {
    let mut tally = ImportCounts::default();
    while let Some(found) = finds.recv().await {
        match found {
            Found::Chunk(chunk) => tally.rows += chunk.entries.len() as u64,
            Found::Bad(line, why) => tally.bad(client, line, &why),
            Found::Broken(why) => tally.broken = Some(why),
        }
    }
    Ok(tally)
}

type Both = Arc<Mutex<Sending>>;

fn lock(both: &Both) -> std::sync::MutexGuard<'_, Sending> {
    both.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub(super) async fn send(
    client: &Client,
    operation_id: &str,
    reason: &str,
    finds: mpsc::Receiver<Found>,
    size: Option<u64>,
) -> Result<ImportCounts, Broken> {
    let mut admin = client.connect().await?;
    let both = Both::default();
    let places = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    let make = {
        let (operation_id, reason) = (operation_id.to_owned(), reason.to_owned());
        move |entries| proto::ImportEntriesRequest {
            operation_id: operation_id.clone(),
            reason: reason.clone(),
            entries,
        }
    };
    let requests = requests(finds, Arc::clone(&both), Arc::clone(&places), KEEP_OPEN_EVERY, make);
    let mut tally = ImportCounts::default();
    let mut progress = OperationProgress::new(client.output);
    let received = async {
        let asked = timeout(SILENCE_MAX, admin.import_entries(requests)).await.map_err(|_| silent())?;
        let mut answers = asked.map_err(|status| Problem::of(&status))?.into_inner();
        loop {
            let next = next_answer(&mut answers, &both).await;
            bad_rows(client, &both, &progress, &mut tally);
            let Some(answer) = next? else {
                let left = lock(&both).sent.len();
                let ended = "the server ended the import before all was answered";
                return if left == 0 { Ok(()) } else { Err(Problem::new(Exit::Unavailable, ended)) };
            };
            places.add_permits(1);
            let Some(message) = lock(&both).answered(Instant::now()) else {
                return Err(Problem::failed("the server answered what was not sent"));
            };
            let Sent::Rows(Chunk { lines, position, .. }) = message else { continue };
            tally.rows += lines.len() as u64;
            tally.stored += answer.stored;
            tally.already += answer.already_completed;
            tally.over += answer.retention_over;
            if answer.retention_over > 0 && tally.old.is_none() {
                tally.old = lines.iter().copied().min().zip(lines.iter().copied().max());
            }
            progress.print(|| rejections(client, &lines, &answer.rejections));
            tally.rejected += answer.rejections.len() as u64;
            let text = format!(
                "{} done, up to line {}",
                counted(tally.rows, "row", "rows"),
                lines.iter().max().unwrap_or(&0)
            );
            progress.at(position, size.unwrap_or(0).max(position), &text);
        }
    };
    let done = tokio::select! {
        done = received => done,
        _ = tokio::signal::ctrl_c() => {
            Err(Problem::new(Exit::Partly, "interrupted; what is stored stays stored"))
        }
    };
    bad_rows(client, &both, &progress, &mut tally);
    progress.end();
    let shared = lock(&both);
    match (done, &shared.broken) {
        (Ok(()), why) => Ok(ImportCounts { broken: why.clone(), ..tally }),
        (Err(problem), _) => Err(Broken { problem, line: shared.next_line() }),
    }
}

fn silent() -> Problem {
    Problem::new(Exit::Unavailable, format!("the server was silent for {SILENCE_MAX:?}"))
}

/// The next answer. `None` at the end of the answers.
///
/// # Errors
/// The server's refusal, or its silence for [`SILENCE_MAX`] while it owes an answer.
async fn next_answer<T>(
    answers: &mut (impl Stream<Item = Result<T, Status>> + Unpin),
    both: &Both,
) -> Result<Option<T>, Problem> {
    loop {
        let patience = lock(both).patience(Instant::now());
        if let Ok(next) = timeout(patience, answers.next()).await {
            return next.transpose().map_err(|status| Problem::of(&status));
        }
        if lock(both).patience(Instant::now()).is_zero() {
            return Err(silent());
        }
    }
}

/// The stream of messages: the next one is sent only when a permit is free, and one without rows where the file has no row for that
/// time.
fn requests(
    finds: mpsc::Receiver<Found>,
    both: Both,
    places: Arc<Semaphore>,
    keep_open_every: Duration,
    make: impl Fn(Vec<proto::ImportedEntry>) -> proto::ImportEntriesRequest + Send + 'static,
) -> impl futures_util::Stream<Item = proto::ImportEntriesRequest> + Send + 'static {
    stream::unfold((finds, both, places, make), move |(mut finds, both, places, make)| async move {
        // A bad row sends nothing, and does not put it off.
        let keep_open_at = tokio::time::Instant::now() + keep_open_every;
        loop {
            let Ok(found) = timeout_at(keep_open_at, finds.recv()).await else {
                places.acquire().await.ok()?.forget();
                lock(&both).sends(Sent::KeepsOpen, Instant::now());
                return Some((make(Vec::new()), (finds, both, places, make)));
            };
            match found {
                None => {
                    lock(&both).ends(None, Instant::now());
                    return None;
                }
                Some(Found::Broken(why)) => {
                    lock(&both).ends(Some(why), Instant::now());
                    return None;
                }
                Some(Found::Bad(line, why)) => lock(&both).bad.push((line, why)),
                Some(Found::Chunk(mut chunk)) => {
                    // The permit is returned with the answer.
                    places.acquire().await.ok()?.forget();
                    let request = make(std::mem::take(&mut chunk.entries));
                    lock(&both).sends(Sent::Rows(chunk), Instant::now());
                    return Some((request, (finds, both, places, make)));
                }
            }
        }
    })
}

fn bad_rows(client: &Client, both: &Both, progress: &OperationProgress, tally: &mut ImportCounts) {
    let bad = std::mem::take(&mut lock(both).bad);
    progress.print(|| bad.iter().for_each(|(line, why)| tally.bad(client, *line, why)));
}

fn rejections(client: &Client, lines: &[u64], rejections: &[proto::ImportRejection]) {
    for rejection in rejections {
        let line = usize::try_from(rejection.index).ok().and_then(|index| lines.get(index));
        let line = line.map_or_else(|| "?".to_owned(), ToString::to_string);
        let why = rejection.rejected.as_ref().map_or_else(String::new, rejected);
        client.output.stderr(&format!("line {line}: {}", clean(&why)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While the file has no rows, messages without rows go; each takes a place until it is answered, as others do.
    #[tokio::test]
    async fn stream_of_a_slow_file_is_kept_open() {
        let (found, finds) = mpsc::channel(1);
        let (both, places) = (Both::default(), Arc::new(Semaphore::new(2)));
        let make = |entries| proto::ImportEntriesRequest { entries, ..Default::default() };
        let every = Duration::from_millis(1);
        let mut requests = Box::pin(requests(finds, Arc::clone(&both), Arc::clone(&places), every, make));
        let first =
            timeout(Duration::from_secs(30), requests.next()).await.expect("it is sent without a row");
        assert_eq!(first.map(|request| request.entries.len()), Some(0));
        let chunk =
            Chunk { lines: vec![1], entries: vec![proto::ImportedEntry::default()], ..Chunk::default() };
        found.send(Found::Chunk(chunk)).await.expect("the stream reads");
        // A chunk is found, unless the next message without rows is due before.
        let mut rows = 0;
        while rows == 0 {
            rows = requests.next().await.expect("a message").entries.len();
            lock(&both).answered(Instant::now());
            places.add_permits(1);
        }
        assert_eq!(rows, 1);
        drop(found);
        assert!(requests.next().await.is_none(), "the file has ended");
        assert!(lock(&both).ended);
    }
}
