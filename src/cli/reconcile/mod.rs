//! `entries reconcile`: effects that happened without a claim, from a spool or a guard table.

mod counts;
mod guard;
mod parts;
mod spool;

use std::fs::File;
use std::io::BufReader;
use std::time::Duration;

use clap::Args;

use self::counts::Counts;
use self::parts::{Next, Parts};
use self::spool::Spool;
use super::client::{Admin, Client};
use super::confirm::{can_ask, confirm};
use super::import::{Defaults, Format};
use super::problem::{Exit, Problem};
use super::progress::OperationProgress;
use super::retry;
use super::text::{clean, counted};
use crate::proto;

/// How long a request is repeated while the server does not carry it out.
const CONFIRMED_WITHIN: Duration = Duration::from_mins(1);

/// What to reconcile.
#[derive(Args)]
pub(super) struct Reconcile {
    /// The file: a spool, or with --guard an export of a guard table
    file: String,
    /// The file has rows of a guard table, with `completed_at`, in the form of `entries import`
    #[arg(long)]
    guard: bool,
    /// The form of a guard table's export [default: by its extension: .csv, .jsonl or .ndjson]
    #[arg(long, requires = "guard")]
    format: Option<Format>,
    /// The consumer of a guard table's rows that name no consumer
    #[arg(long, requires = "guard")]
    consumer: Option<String>,
    /// The source of a guard table's rows that name no source
    #[arg(long, requires = "guard")]
    source: Option<String>,
    /// Why, for the audit
    #[arg(long)]
    reason: String,
    /// Change nothing; show what would be done
    #[arg(long)]
    dry_run: bool,
    /// Skip the dry run that comes first, and the confirmation prompt
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
}

/// The rows of the file.
type Rows = Box<dyn Iterator<Item = Next>>;

impl Reconcile {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        // A file that cannot be read is reported before any question.
        drop(self.rows()?);
        if !self.yes && !self.dry_run {
            can_ask()?;
        }
        let mut admin = client.connect().await?;
        let mut expected = 0;
        if !self.yes {
            let would = self.send(client, &mut admin, true, 0).await?;
            if self.dry_run || would.rows == 0 {
                return self.ended(client, &would, true);
            }
            would.print_faults(client);
            let rows = counted(would.rows, "row", "rows");
            let question = format!("Reconcile {rows} of {} ({})?", clean(&self.file), would.outcomes());
            confirm(client, &question, false)?;
            expected = would.rows;
        }
        let done = self.send(client, &mut admin, false, expected).await?;
        self.ended(client, &done, false)
    }

    fn ended(&self, client: &Client, counts: &Counts, dry_run: bool) -> Result<Exit, Problem> {
        counts.print(client, dry_run)?;
        if let Some(why) = &counts.broken {
            let next = "correct the file, and reconcile it again: rows that were reconciled are KNOWN";
            return Err(Problem::new(Exit::Partly, format!("{}: {why}", clean(&self.file))).next(next));
        }
        Ok(if counts.all_in() { Exit::Done } else { Exit::Partly })
    }

    /// Sends all rows of the file, one request after the other.
    async fn send(
        &self,
        client: &Client,
        admin: &mut Admin,
        dry_run: bool,
        expected: u64,
    ) -> Result<Counts, Problem> {
        let mut parts = Parts::new(self.rows()?);
        let mut counts = Counts::default();
        let mut progress = OperationProgress::new(client.output);
        let sent = async {
            while let Some(part) = parts.next() {
                let rows = part.iter().map(|placed| placed.row.clone()).collect();
                let reason = self.reason.clone();
                let request = proto::ReconcileEntriesRequest { reason, dry_run, rows };
                let call = || {
                    let (mut admin, request) = (admin.clone(), client.request(request.clone()));
                    async move { admin.reconcile_entries(request).await }
                };
                let answer = retry::until_confirmed(CONFIRMED_WITHIN, call).await;
                let answer = answer.map_err(|status| Problem::of(&status))?;
                if answer.results.len() != part.len() {
                    return Err(Problem::failed("the server did not answer each row"));
                }
                for (placed, result) in part.iter().zip(&answer.results) {
                    counts.take(placed, result);
                }
                counts.bad(&mut parts.bad);
                let word = if dry_run { "looked at" } else { "reconciled" };
                progress.at(
                    counts.rows,
                    expected,
                    &format!("{} {word}", counted(counts.rows, "row", "rows")),
                );
            }
            Ok(())
        };
        let done = tokio::select! {
            done = sent => done,
            _ = tokio::signal::ctrl_c() => Err(Problem::new(Exit::Partly, "interrupted; what is done stays done")),
        };
        progress.end();
        if let Err(problem) = done {
            if dry_run || problem.exit == Exit::Usage {
                return Err(problem);
            }
            client.output.note(&counts.report(dry_run));
            return Err(problem.next("repeat the same command: rows that were reconciled are KNOWN"));
        }
        counts.bad(&mut parts.bad);
        (counts.torn, counts.broken) = (parts.torn, parts.broken);
        Ok(counts)
    }

    fn rows(&self) -> Result<Rows, Problem> {
        let wrong = |error| Problem::failed(format!("{}: {error}", clean(&self.file)));
        let file = File::open(&self.file).map_err(wrong)?;
        // It is read twice, the first time for the dry run.
        if !file.metadata().map_err(wrong)?.is_file() {
            return Err(Problem::usage(format!(
                "{}: is not a regular file: save it first",
                clean(&self.file)
            )));
        }
        let input = BufReader::new(file);
        if !self.guard {
            return Ok(Box::new(Spool::new(input)));
        }
        let defaults = Defaults {
            consumer: self.consumer.clone().unwrap_or_default(),
            source: self.source.clone().unwrap_or_default(),
        };
        let rows = guard::rows(Format::of(self.format, &self.file)?, Box::new(input), defaults);
        rows.map_err(|error| Problem { text: format!("{}: {}", clean(&self.file), error.text), ..error })
    }
}
