//! The redrive of many entries: a dry run for the number, a confirmation, then the stream with its progress.

use std::fmt::Write as _;
use std::time::Duration;

use tokio::time::timeout;

use crate::cli::client::{Admin, Client};
use crate::cli::confirm::{can_ask, confirm};
use crate::cli::consumer;
use crate::cli::enums;
use crate::cli::json::marked;
use crate::cli::problem::{Exit, Problem, rejected};
use crate::cli::progress::OperationProgress;
use crate::cli::text::{clean, counted, quoted};
use crate::common::program::program;
use crate::proto;

/// A stream that is silent for this long is broken.
const SILENCE_MAX: Duration = Duration::from_mins(2);

pub(super) async fn run(
    client: &Client,
    request: proto::RedriveEntriesRequest,
    yes: bool,
) -> Result<Exit, Problem> {
    if !yes && !request.dry_run {
        can_ask()?;
    }
    let output = client.output;
    let mut admin = client.connect().await?;
    // Printed always, so that the operation can be resumed whatever happens next.
    output.stderr(&format!("operation id: {}", clean(&request.operation_id)));
    if !yes && !request.dry_run {
        let dry = proto::RedriveEntriesRequest { dry_run: true, ..request.clone() };
        let would = count(&mut admin, dry).await?;
        let filter = request.filter.clone().unwrap_or_default();
        let refused = if would.refused == 0 {
            String::new()
        } else {
            format!(" ({} more would be refused)", would.refused)
        };
        if would.redriven == 0 && would.refused == 0 {
            consumer::note_unknown(client, &mut admin, &filter.consumer).await;
        }
        if would.doubtful > 0 {
            output.stderr(&format!(
                "{}: a redrive may bring a second one; use `entries resolve` where you know what became of it",
                would.in_doubt()
            ));
        }
        let question = format!(
            "Redrive {} of {}{refused}, at most {} a second?",
            counted(would.here(), "entry", "entries"),
            clean(&filter.consumer),
            request.rate
        );
        confirm(client, &question, false)?;
    }
    let consumer = request.filter.as_ref().map(|filter| filter.consumer.clone()).unwrap_or_default();
    let (dry_run, maximum) = (request.dry_run, request.maximum);
    let resume = resume(&request.operation_id, client.context());
    let mut tally = RedriveCounts::default();
    let mut progress = OperationProgress::new(output);
    let done = tokio::select! {
        done = follow(client, &mut admin, request, &mut progress, &mut tally) => done,
        _ = tokio::signal::ctrl_c() => {
            Err(Problem::new(Exit::Partly, "interrupted; what is done stays done"))
        }
    };
    progress.end();
    let counted = tally.render(dry_run);
    match done {
        Ok(()) => {
            if !output.json() {
                output.line(&counted)?;
            }
            if tally.doubtful > 0 && output.json() {
                output.stderr(&counted);
            }
            if tally.redriven == 0 && tally.refused == 0 {
                consumer::note_unknown(client, &mut admin, &consumer).await;
            }
            if tally.maximum_reached {
                output
                    .note(&format!("--max {maximum} is reached; there may be more: start another operation"));
            }
            Ok(if tally.refused == 0 && !tally.maximum_reached { Exit::Done } else { Exit::Partly })
        }
        // An operation that was refused as a whole, or that the reader has ended, is not resumed.
        Err(problem) if tally.begun && [Exit::Unavailable, Exit::Partly].contains(&problem.exit) => {
            output.note(&counted);
            Err(problem.next(format!("go on where it was broken off: {resume}")))
        }
        Err(problem) => Err(problem),
    }
}

#[derive(Default)]
struct RedriveCounts {
    begun: bool,
    /// By this operation, in earlier calls too.
    redriven: i64,
    /// Of these, those of earlier calls; known with the first answer.
    before: Option<i64>,
    refused: i64,
    /// The number of this call's entries whose effect may have happened. Every released server reports it for
    /// each outcome: a missing `effect_doubtful` means no.
    doubtful: i64,
    maximum_reached: bool,
}

impl RedriveCounts {
    fn take(&mut self, report: &proto::RedriveEntriesResponse) {
        let number = |doubtful: bool| {
            let these =
                report.outcomes.iter().filter(|one| one.redriven && (one.effect_doubtful || !doubtful));
            i64::try_from(these.count()).unwrap_or(i64::MAX)
        };
        let now = number(false);
        self.before.get_or_insert_with(|| report.redriven.saturating_sub(now).max(0));
        (self.redriven, self.refused) = (report.redriven, report.refused);
        self.doubtful += number(true);
        self.maximum_reached = report.maximum_reached;
    }

    /// The number that was redriven in this call.
    fn here(&self) -> i64 {
        self.redriven.saturating_sub(self.before.unwrap_or(0)).max(0)
    }

    fn in_doubt(&self) -> String {
        counted(self.doubtful, "of these may have had its effect", "of these may have had their effect")
    }

    fn render(&self, dry_run: bool) -> String {
        let (verb, bare) = if dry_run { ("would be redriven", "dry run: ") } else { ("redriven", "") };
        let mut text = format!("{bare}{} {verb}, {} refused", self.here(), self.refused);
        if self.doubtful > 0 {
            let _written = write!(text, "; {}", self.in_doubt());
        }
        if let Some(before @ 1..) = self.before {
            let _written = write!(text, "; {before} by earlier calls of this operation");
        }
        text
    }
}

async fn follow(
    client: &Client,
    admin: &mut Admin,
    request: proto::RedriveEntriesRequest,
    progress: &mut OperationProgress,
    tally: &mut RedriveCounts,
) -> Result<(), Problem> {
    let (output, dry_run) = (client.output, request.dry_run);
    // From here on entries may have been changed.
    tally.begun = true;
    let mut stream = begin(admin, request).await?;
    loop {
        let next = timeout(SILENCE_MAX, stream.message()).await.map_err(|_| silent())?;
        let report = next.map_err(|status| Problem::of(&status))?;
        let Some(report) = report else {
            return Err(Problem::new(Exit::Unavailable, "the server ended the operation before it was done"));
        };
        tally.take(&report);
        if output.json() {
            output.line(&marked("RedriveEntriesResponse", &report, dry_run)?)?;
        } else {
            let mut shown = Ok(());
            progress.print(|| shown = refusals(client, &report.outcomes));
            shown?;
        }
        if report.finished {
            return Ok(());
        }
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        let (done, left) = (count(report.redriven), count(report.at_most_left));
        let text = format!("{done} redriven, {} refused, at most {left} to go", report.refused);
        progress.at(done, done.saturating_add(left), &text);
    }
}

fn refusals(client: &Client, outcomes: &[proto::RedriveOutcome]) -> Result<(), Problem> {
    for outcome in outcomes.iter().filter(|outcome| !outcome.redriven) {
        let why = outcome.rejected.as_ref().map_or_else(String::new, rejected);
        let what = match &outcome.key {
            Some(key) => format!(
                "{} {} {} ({})",
                clean(&key.consumer),
                clean(&key.source),
                clean(&key.id),
                enums::state(outcome.state)
            ),
            // An entry that cannot be read has no other name.
            None => format!("key hash {}", clean(&outcome.key_hash)),
        };
        let line = format!("refused: {what}: {why}");
        client.output.line(&line)?;
    }
    Ok(())
}

async fn begin(
    admin: &mut Admin,
    request: proto::RedriveEntriesRequest,
) -> Result<tonic::Streaming<proto::RedriveEntriesResponse>, Problem> {
    let begun = timeout(SILENCE_MAX, admin.redrive_entries(request)).await.map_err(|_| silent())?;
    Ok(begun.map_err(|status| Problem::of(&status))?.into_inner())
}

fn silent() -> Problem {
    Problem::new(Exit::Unavailable, format!("the server was silent for {SILENCE_MAX:?}"))
}

/// Counts the entries by a dry run.
async fn count(admin: &mut Admin, request: proto::RedriveEntriesRequest) -> Result<RedriveCounts, Problem> {
    let mut stream = begin(admin, request).await?;
    let mut tally = RedriveCounts::default();
    loop {
        let next = timeout(SILENCE_MAX, stream.message()).await;
        match next.map_err(|_| silent())? {
            Ok(Some(report)) => tally.take(&report),
            Ok(None) => return Ok(tally),
            Err(status) => return Err(Problem::of(&status)),
        }
    }
}

/// The command as it was typed, with the operation's id; never with a token.
fn resume(operation_id: &str, context: Option<&str>) -> String {
    again(std::env::args().skip(1), operation_id, context)
}

fn again(arguments: impl Iterator<Item = String>, operation_id: &str, context: Option<&str>) -> String {
    let mut words = vec![program()];
    let (mut named, mut in_context) = (false, false);
    let mut secret = false;
    for argument in arguments {
        if std::mem::take(&mut secret) {
            words.push("TOKEN".to_owned());
            continue;
        }
        named |= argument == "--operation-id" || argument.starts_with("--operation-id=");
        in_context |= argument == "--context" || argument.starts_with("--context=");
        secret = argument == "--token";
        let hidden = if argument.starts_with("--token=") { "--token=TOKEN".to_owned() } else { argument };
        words.push(quoted(&hidden));
    }
    if !named {
        words.push(format!("--operation-id {}", quoted(operation_id)));
    }
    // The current context may be another one by then: its server would take the id for a new operation.
    if let Some(context) = context.filter(|_| !in_context) {
        words.push(format!("--context {}", quoted(context)));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::{RedriveCounts, again, program, proto};

    #[test]
    fn summary_separates_this_call_from_earlier_ones() {
        let outcome = |redriven, effect_doubtful| proto::RedriveOutcome {
            redriven,
            effect_doubtful,
            ..proto::RedriveOutcome::default()
        };
        let mut tally = RedriveCounts::default();
        for (outcomes, redriven) in [
            (vec![outcome(true, true), outcome(true, false), outcome(false, true)], 65),
            (vec![outcome(true, true)], 66),
        ] {
            tally.take(&proto::RedriveEntriesResponse {
                outcomes,
                redriven,
                refused: 1,
                ..Default::default()
            });
        }
        let says = "3 redriven, 1 refused; 2 of these may have had their effect; 63 by earlier calls of this operation";
        assert_eq!(tally.render(false), says);
        assert!(tally.render(true).starts_with("dry run: 3 would be redriven, 1 refused"));
    }

    #[test]
    fn resume_repeats_the_typed_command() {
        let said = |words: &[&str]| again(words.iter().map(ToString::to_string), "op 1", None);
        assert_eq!(
            said(&["entries", "redrive", "--reason", "is back", "--token", "s3cret"]),
            program() + " entries redrive --reason 'is back' --token TOKEN --operation-id 'op 1'"
        );
        assert_eq!(
            said(&["redrive", "--token=s3cret", "--operation-id=x"]),
            program() + " redrive '--token=TOKEN' '--operation-id=x'"
        );
        // The resumed command uses the same server, whichever context is then the current one.
        for (typed, says) in [
            (&["redrive"][..], " redrive --operation-id op --context prod"),
            (&["redrive", "--context", "prod"], " redrive --context prod --operation-id op"),
            (&["redrive", "--context=prod"], " redrive '--context=prod' --operation-id op"),
        ] {
            let said = again(typed.iter().map(ToString::to_string), "op", Some("prod"));
            assert_eq!(said, program() + says);
        }
    }
}
