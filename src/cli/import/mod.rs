//! `entries import`: messages that were processed elsewhere, stored as COMPLETED. The file is streamed.

mod chunk;
mod row;
mod row_limit;
mod rows;
mod send;
mod sending;

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::sync::atomic::Ordering;

use clap::Args;
use tokio::sync::mpsc;

use self::chunk::{Chunks, Found};
pub(super) use self::row::Defaults;
use self::rows::Rows;
pub(super) use self::rows::{Format, Next as NextRow, Rows as ImportRows};
use super::client::Client;
use super::problem::{Exit, Problem};
use super::retry;
use super::text::{clean, quoted};

/// The number of chunks that may wait between reading and sending.
const READ_AHEAD: usize = 2;

/// What to import.
#[derive(Args)]
pub(super) struct Import {
    /// The file, or - for standard input
    file: String,
    /// Its form [default: by its extension: .csv, .jsonl or .ndjson]
    #[arg(long)]
    format: Option<Format>,
    /// The consumer of rows that name no consumer
    #[arg(long)]
    consumer: Option<String>,
    /// The source of rows that name no source
    #[arg(long)]
    source: Option<String>,
    /// Why, for the audit
    #[arg(long)]
    reason: String,
    /// Your own id of the import, for the audit [default: a random one]
    #[arg(long, value_name = "ID")]
    operation_id: Option<String>,
    /// Continue at this line of the file, where an import was interrupted
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    from_line: u64,
    /// Read and check the file, and store nothing; no server is needed
    #[arg(long)]
    dry_run: bool,
}

impl Import {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let format = Format::of(self.format, &self.file)?;
        let (input, size) = open(&self.file)?;
        let defaults = row::Defaults {
            consumer: self.consumer.clone().unwrap_or_default(),
            source: self.source.clone().unwrap_or_default(),
        };
        let rows = Rows::new(format, input, defaults, self.from_line)
            .map_err(|error| Problem { text: format!("{}: {}", clean(&self.file), error.text), ..error })?;
        let spanning = rows.spanning();
        let (found, finds) = mpsc::channel(READ_AHEAD);
        // Reading a file blocks.
        let reader = tokio::task::spawn_blocking(move || read(rows, &found));
        let operation_id = self.operation_id.clone().unwrap_or_else(retry::id);
        let done = if self.dry_run {
            send::check(client, finds).await
        } else {
            client.output.stderr(&format!("operation id: {}", clean(&operation_id)));
            send::send(client, &operation_id, &self.reason, finds, size).await
        };
        let mut tally = match done {
            Ok(tally) => tally,
            Err(broken) => return Err(resumable(broken, &operation_id)),
        };
        let _ended = reader.await;
        tally.spanning = spanning.load(Ordering::Relaxed);
        tally.print(client, &operation_id, self.dry_run)?;
        if let Some(why) = tally.broken {
            if why.starts_with("--from-line") {
                return Err(Problem::usage(why));
            }
            let next = "correct the file, and import it again: stored entries are not changed";
            return Err(Problem::new(Exit::Partly, format!("{}: {why}", clean(&self.file))).next(next));
        }
        Ok(if tally.bad == 0 && tally.rejected == 0 { Exit::Done } else { Exit::Partly })
    }
}

fn resumable(broken: send::Broken, operation_id: &str) -> Problem {
    let Some(line) = broken.line else { return broken.problem };
    let next = format!(
        "repeat the same command with --from-line {line} --operation-id {} (or from the start: what is \
         stored is not changed)",
        quoted(operation_id)
    );
    broken.problem.next(next)
}

/// The file, and its size if it has one.
fn open(file: &str) -> Result<(Box<dyn Read + Send>, Option<u64>), Problem> {
    if file == "-" {
        return Ok((Box::new(io::stdin()), None));
    }
    let wrong = |error| Problem::failed(format!("{}: {error}", clean(file)));
    let opened = File::open(file).map_err(wrong)?;
    let size = opened.metadata().map_err(wrong)?;
    Ok((Box::new(BufReader::new(opened)), size.is_file().then_some(size.len())))
}

/// Reads to the end, or until the receiver is closed.
fn read(rows: Rows, found: &mpsc::Sender<Found>) {
    let mut chunks = Chunks::default();
    for row in rows {
        let full = match row {
            rows::Next::Row(line, position, row) => chunks.push(line, position, row),
            rows::Next::Bad(line, why) => {
                if found.blocking_send(Found::Bad(line, why)).is_err() {
                    return;
                }
                continue;
            }
            rows::Next::Broken(why) => {
                chunks.flush(|chunk| found.blocking_send(Found::Chunk(chunk)).is_ok());
                let _gone = found.blocking_send(Found::Broken(why));
                return;
            }
        };
        if let Some(chunk) = full
            && found.blocking_send(Found::Chunk(chunk)).is_err()
        {
            return;
        }
    }
    chunks.flush(|chunk| found.blocking_send(Found::Chunk(chunk)).is_ok());
}
