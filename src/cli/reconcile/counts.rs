//! The outcomes of the rows, counted; those that a person must look at are shown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use prost_types::Duration;

use super::parts::Placed;
use crate::cli::client::Client;
use crate::cli::problem::{Problem, rejected};
use crate::cli::text::{clean, counted};
use crate::proto::{ReconcileOutcome, ReconcileResult};

/// The number of lines that are shown of each outcome, and of bad lines.
const SHOWN_MAX: u64 = 20;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) rows: u64,
    /// By the number of the outcome, so in the order of the contract's table.
    outcomes: BTreeMap<i32, u64>,
    rejected: u64,
    bad: u64,
    shown: Vec<String>,
    retry_after: Option<Duration>,
    /// The last line if it was cut off.
    pub(super) torn: Option<u64>,
    /// Why the file could not be read to its end.
    pub(super) broken: Option<String>,
}

impl Counts {
    pub(super) fn take(&mut self, placed: &Placed, result: &ReconcileResult) {
        self.rows += 1;
        let place = || {
            let key = placed.row.key.clone().unwrap_or_default();
            format!(
                "line {}: {} {} {}",
                placed.line,
                clean(&key.consumer),
                clean(&key.source),
                clean(&key.id)
            )
        };
        if let Some(why) = &result.rejected {
            self.rejected += 1;
            if self.rejected <= SHOWN_MAX {
                self.shown.push(format!("{}: {}", place(), rejected(why)));
            }
            return;
        }
        let count = self.outcomes.entry(result.outcome).or_default();
        *count += 1;
        if let Some(what) = meaning(result.outcome())
            && *count <= SHOWN_MAX
        {
            self.shown.push(format!("{}: {}: {what}", place(), word(result.outcome)));
        }
        let longer = |one: &Duration| {
            self.retry_after.is_none_or(|now| (now.seconds, now.nanos) < (one.seconds, one.nanos))
        };
        self.retry_after = result.retry_after.filter(longer).or(self.retry_after);
    }

    pub(super) fn bad(&mut self, bad: &mut Vec<(u64, String)>) {
        for (line, why) in bad.drain(..) {
            self.bad += 1;
            if self.bad <= SHOWN_MAX {
                self.shown.push(format!("line {line}: {why}"));
            }
        }
    }

    /// Whether each row is in the ledger now, so that the file need not be sent again.
    pub(super) fn all_in(&self) -> bool {
        let out = [ReconcileOutcome::NotNow, ReconcileOutcome::Contradicts, ReconcileOutcome::Mismatch];
        self.rejected == 0
            && self.bad == 0
            && out.iter().all(|one| !self.outcomes.contains_key(&(*one).into()))
    }

    /// The outcomes with their numbers.
    pub(super) fn outcomes(&self) -> String {
        let mut text = String::new();
        for (outcome, count) in &self.outcomes {
            let _written =
                write!(text, "{}{count} {}", if text.is_empty() { "" } else { ", " }, word(*outcome));
        }
        if self.rejected > 0 {
            let _written =
                write!(text, "{}{} rejected", if text.is_empty() { "" } else { ", " }, self.rejected);
        }
        if text.is_empty() { "no outcome".to_owned() } else { text }
    }

    pub(super) fn report(&self, dry_run: bool) -> String {
        let (bare, would) = if dry_run { ("dry run: ", "; nothing was changed") } else { ("", "") };
        let rows = counted(self.rows, "row", "rows");
        let bad = counted(self.bad, "bad line", "bad lines");
        format!("{bare}{rows}: {}; {bad}{would}", self.outcomes())
    }

    /// Shows the rows and lines that a person must look at.
    pub(super) fn print_faults(&self, client: &Client) {
        for line in &self.shown {
            client.output.stderr(line);
        }
        let all = self.outcomes.iter().filter(|(outcome, _)| {
            ReconcileOutcome::try_from(**outcome).is_ok_and(|outcome| meaning(outcome).is_some())
        });
        let all = all.map(|(_, count)| count).sum::<u64>() + self.rejected + self.bad;
        if let Some(more @ 1..) = all.checked_sub(self.shown.len() as u64) {
            client.output.stderr(&format!("… and {}", counted(more, "more line", "more lines")));
        }
        if let Some(line) = self.torn {
            let text = format!("line {line}: was cut off, as by a crash: nothing follows from it");
            client.output.stderr(&text);
        }
        if let Some(wait) = &self.retry_after {
            client.output.stderr(&format!(
                "leases run for another {} s at most: reconcile the file again then",
                wait.seconds + i64::from(wait.nanos > 0)
            ));
        }
    }

    pub(super) fn print(&self, client: &Client, dry_run: bool) -> Result<(), Problem> {
        self.print_faults(client);
        if !client.output.json() {
            return client.output.line(&self.report(dry_run));
        }
        let outcomes: serde_json::Map<String, serde_json::Value> =
            self.outcomes.iter().map(|(outcome, count)| (word(*outcome), (*count).into())).collect();
        let report = serde_json::json!({
            "dryRun": dry_run,
            "rows": self.rows,
            "outcomes": outcomes,
            "rejected": self.rejected,
            "badLines": self.bad,
            "complete": self.broken.is_none(),
        });
        client.output.line(&report.to_string())
    }
}

/// The outcome as the contract names it.
fn word(outcome: i32) -> String {
    ReconcileOutcome::try_from(outcome).map_or_else(
        |_| format!("outcome {outcome}"),
        |known| known.as_str_name().trim_start_matches("RECONCILE_OUTCOME_").to_owned(),
    )
}

/// What an outcome means for a person; `None` if there is nothing to do.
fn meaning(outcome: ReconcileOutcome) -> Option<&'static str> {
    match outcome {
        ReconcileOutcome::Parked => Some("its effect may have happened: look, then `entries resolve` it"),
        ReconcileOutcome::Doubled => {
            Some("something else has completed it: its effect may have happened twice")
        }
        ReconcileOutcome::NotNow => Some("its holder may be at work"),
        ReconcileOutcome::Contradicts => Some("its entry is FAILED_TERMINAL: one of the two is wrong"),
        ReconcileOutcome::Mismatch => Some("its entry has another fingerprint"),
        ReconcileOutcome::RetentionOver => Some("its retention is over: it was not stored"),
        ReconcileOutcome::Completed
        | ReconcileOutcome::Resolved
        | ReconcileOutcome::Confirmed
        | ReconcileOutcome::Known
        | ReconcileOutcome::Unspecified => None,
    }
}
