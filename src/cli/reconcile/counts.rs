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
        let out = [
            ReconcileOutcome::Unspecified,
            ReconcileOutcome::NotNow,
            ReconcileOutcome::Contradicts,
            ReconcileOutcome::Mismatch,
        ];
        // An outcome of a newer server may be one that stores nothing.
        let is_in = |outcome: &i32| ReconcileOutcome::try_from(*outcome).is_ok_and(|one| !out.contains(&one));
        self.rejected == 0 && self.bad == 0 && self.outcomes.keys().all(is_in)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{EntryKey, ErrorReason, ReconcileRow, Rejected};

    /// Rows of the key `c s ID`, one a line, each with this result.
    fn counts(results: Vec<ReconcileResult>) -> Counts {
        let mut counts = Counts::default();
        for (line, result) in (2..).zip(results) {
            let key = EntryKey {
                consumer: "c".into(),
                source: "s".into(),
                id: format!("{line}"),
                ..EntryKey::default()
            };
            counts
                .take(&Placed { line, row: ReconcileRow { key: Some(key), ..Default::default() } }, &result);
        }
        counts
    }

    fn of(outcome: impl Into<i32>) -> ReconcileResult {
        ReconcileResult { outcome: outcome.into(), ..ReconcileResult::default() }
    }

    fn refused() -> ReconcileResult {
        let (reason, message) = (ErrorReason::InvalidField.into(), "a field is wrong".into());
        let rejected = Some(Rejected { reason, message, ..Rejected::default() });
        ReconcileResult { rejected, ..ReconcileResult::default() }
    }

    #[test]
    fn rows_that_need_a_person_are_shown_with_their_place() {
        let counts = counts(vec![
            of(ReconcileOutcome::Completed),
            of(ReconcileOutcome::Contradicts),
            refused(),
            of(99),
        ]);
        assert_eq!(
            counts.shown,
            [
                "line 3: c s 3: CONTRADICTS: its entry is FAILED_TERMINAL: one of the two is wrong",
                "line 4: c s 4: INVALID_FIELD: a field is wrong",
            ]
        );
        let says = "dry run: 4 rows: 1 COMPLETED, 1 CONTRADICTS, 1 outcome 99, 1 rejected; 0 bad lines; nothing was changed";
        assert_eq!(counts.report(true), says);
        assert_eq!(Counts::default().outcomes(), "no outcome");
    }

    #[test]
    fn file_is_sent_again_while_a_row_is_not_in() {
        for (result, all_in) in [
            (of(ReconcileOutcome::Completed), true),
            (of(ReconcileOutcome::Known), true),
            (of(ReconcileOutcome::RetentionOver), true),
            (of(ReconcileOutcome::NotNow), false),
            (of(ReconcileOutcome::Contradicts), false),
            (of(ReconcileOutcome::Mismatch), false),
            (refused(), false),
            // What it means is known to a newer command line alone.
            (of(99), false),
            (of(ReconcileOutcome::Unspecified), false),
        ] {
            let counts = counts(vec![of(ReconcileOutcome::Completed), result]);
            assert_eq!(counts.all_in(), all_in, "{}", counts.outcomes());
        }
    }

    #[test]
    fn wait_is_for_the_lease_that_runs_longest() {
        let not_now = |(seconds, nanos)| ReconcileResult {
            retry_after: Some(Duration { seconds, nanos }),
            ..of(ReconcileOutcome::NotNow)
        };
        for (waits, (seconds, nanos)) in [
            ([(20, 0), (50, 0), (40, 0)], (50, 0)),
            ([(50, 0), (20, 0), (40, 0)], (50, 0)),
            ([(20, 0), (40, 0), (50, 0)], (50, 0)),
            ([(40, 1), (40, 3), (40, 2)], (40, 3)),
            ([(9, 900_000_000), (10, 0), (9, 0)], (10, 0)),
        ] {
            let mut results = waits.map(not_now).to_vec();
            // A row that need not wait changes nothing.
            results.push(of(ReconcileOutcome::Completed));
            let counts = counts(results);
            assert_eq!(counts.retry_after, Some(Duration { seconds, nanos }), "{waits:?}");
        }
    }

    #[test]
    fn shown_rows_of_one_outcome_are_bounded() {
        for result in [of(ReconcileOutcome::Mismatch), refused()] {
            let counts = counts(vec![result; 21]);
            assert_eq!((counts.shown.len(), counts.rows), (20, 21));
        }
    }
}
