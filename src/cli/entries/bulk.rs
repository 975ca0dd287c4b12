//! A change of many entries: a dry run for the number, a confirmation, then the stream with its progress.

mod request;

use std::fmt::Write as _;

use futures_util::StreamExt as _;
use tokio::time::timeout;

pub(super) use self::request::BulkRequest;
use self::request::{SILENCE_MAX, silent};
use super::suggestions::DELIVER_AGAIN;
use crate::cli::client::{Admin, Client};
use crate::cli::confirm::{can_ask, confirm};
use crate::cli::consumer;
use crate::cli::enums;
use crate::cli::problem::{Exit, Problem, rejected};
use crate::cli::progress::OperationProgress;
use crate::cli::text::{clean, counted, quoted};
use crate::common::program::program;
use crate::proto;

pub(super) async fn run(client: &Client, request: BulkRequest, yes: bool) -> Result<Exit, Problem> {
    let (output, dry_run, words) = (client.output, request.is_dry_run(), request.words());
    let asks = !yes && !dry_run;
    if asks {
        can_ask()?;
    }
    let mut admin = client.connect().await?;
    // Printed always, so that the operation can be resumed whatever happens next.
    output.stderr(&format!("operation id: {}", clean(request.operation_id())));
    let consumer = request.consumer();
    if asks {
        let would = count(&mut admin, request.clone().dry()).await?;
        let refused = if would.refused == 0 {
            String::new()
        } else {
            format!(" ({} more would be refused)", would.refused)
        };
        if would.changed == 0 && would.refused == 0 {
            consumer::note_unknown(client, &mut admin, &consumer).await;
        }
        if let Some(risk) = words.risk.filter(|_| would.doubtful > 0) {
            output.stderr(&format!("{}: {risk}", would.in_doubt()));
        }
        let question = format!(
            "{} {} of {}{refused}, at most {} a second?",
            words.verb,
            counted(would.here(), "entry", "entries"),
            clean(&consumer),
            request.rate()
        );
        confirm(client, &question, false)?;
    }
    let maximum = request.maximum();
    let resume = resume(request.operation_id(), client.context());
    let mut tally = BulkCounts { done: words.done, ..BulkCounts::default() };
    if words.risk.is_none() {
        tally.doubtful_counts = false;
    }
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
            if tally.changed == 0 && tally.refused == 0 {
                consumer::note_unknown(client, &mut admin, &consumer).await;
            }
            if tally.maximum_reached {
                output
                    .note(&format!("--max {maximum} is reached; there may be more: start another operation"));
            }
            if words.risk.is_some() && !dry_run && tally.changed > 0 {
                output.note(DELIVER_AGAIN);
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

struct BulkCounts {
    /// What has become of an entry that is changed: `redriven`.
    done: &'static str,
    begun: bool,
    /// By this operation, in earlier calls too.
    changed: i64,
    /// Of these, those of earlier calls; known with the first answer.
    before: Option<i64>,
    refused: i64,
    /// The number of this call's entries whose effect may have happened. Every released server reports it for
    /// each outcome: a missing `effect_doubtful` means no.
    doubtful: i64,
    /// Whether that number matters: the entries are processed again.
    doubtful_counts: bool,
    /// The number of this call's entries whose messages are erased.
    erased: i64,
    maximum_reached: bool,
}

impl Default for BulkCounts {
    fn default() -> BulkCounts {
        BulkCounts {
            done: "",
            begun: false,
            changed: 0,
            before: None,
            refused: 0,
            doubtful: 0,
            doubtful_counts: true,
            erased: 0,
            maximum_reached: false,
        }
    }
}

impl BulkCounts {
    fn take(&mut self, report: &proto::ParkEntriesResponse) {
        let number = |fits: fn(&proto::EntryOutcome) -> bool| {
            let these = report.outcomes.iter().filter(|one| one.changed && fits(one));
            i64::try_from(these.count()).unwrap_or(i64::MAX)
        };
        let now = number(|_| true);
        self.before.get_or_insert_with(|| report.changed.saturating_sub(now).max(0));
        (self.changed, self.refused) = (report.changed, report.refused);
        if self.doubtful_counts {
            self.doubtful += number(|one| one.effect_doubtful);
        }
        self.erased += number(|one| one.message_erased);
        self.maximum_reached = report.maximum_reached;
    }

    /// The number that was changed in this call.
    fn here(&self) -> i64 {
        self.changed.saturating_sub(self.before.unwrap_or(0)).max(0)
    }

    fn in_doubt(&self) -> String {
        counted(self.doubtful, "of these may have had its effect", "of these may have had their effect")
    }

    fn render(&self, dry_run: bool) -> String {
        let (would, bare) = if dry_run { ("would be ", "dry run: ") } else { ("", "") };
        let mut text = format!("{bare}{} {would}{}, {} refused", self.here(), self.done, self.refused);
        if self.doubtful > 0 {
            let _written = write!(text, "; {}", self.in_doubt());
        }
        if self.erased > 0 {
            let these = counted(self.erased, "message is erased", "messages are erased");
            let _written = write!(text, "; {these}: only another delivery has it processed again");
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
    request: BulkRequest,
    progress: &mut OperationProgress,
    tally: &mut BulkCounts,
) -> Result<(), Problem> {
    let (output, dry_run) = (client.output, request.is_dry_run());
    // From here on entries may have been changed.
    tally.begun = true;
    let mut reports = request.begin(admin).await?;
    loop {
        let next = timeout(SILENCE_MAX, reports.next()).await.map_err(|_| silent())?;
        let Some(report) = next.transpose().map_err(|status| Problem::of(&status))? else {
            return Err(Problem::new(Exit::Unavailable, "the server ended the operation before it was done"));
        };
        let json = if output.json() { Some(report.json(dry_run)?) } else { None };
        let report = report.plain();
        tally.take(&report);
        if let Some(json) = json {
            output.line(&json)?;
        } else {
            let mut shown = Ok(());
            progress.print(|| shown = refusals(client, &report.outcomes));
            shown?;
        }
        if report.finished {
            return Ok(());
        }
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        let (done, left) = (count(report.changed), count(report.at_most_left));
        let text = format!("{done} {}, {} refused, at most {left} to go", tally.done, report.refused);
        progress.at(done, done.saturating_add(left), &text);
    }
}

fn refusals(client: &Client, outcomes: &[proto::EntryOutcome]) -> Result<(), Problem> {
    for outcome in outcomes.iter().filter(|outcome| !outcome.changed) {
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

/// Counts the entries by a dry run.
async fn count(admin: &mut Admin, request: BulkRequest) -> Result<BulkCounts, Problem> {
    let mut reports = request.begin(admin).await?;
    let mut tally = BulkCounts::default();
    loop {
        let next = timeout(SILENCE_MAX, reports.next()).await;
        match next.map_err(|_| silent())? {
            Some(Ok(report)) => tally.take(&report.plain()),
            None => return Ok(tally),
            Some(Err(status)) => return Err(Problem::of(&status)),
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
    use super::{BulkCounts, again, program, proto};

    #[test]
    fn summary_separates_this_call_from_earlier_ones() {
        let outcome = |changed, effect_doubtful| proto::EntryOutcome {
            changed,
            effect_doubtful,
            ..proto::EntryOutcome::default()
        };
        let mut tally = BulkCounts { done: "redriven", ..BulkCounts::default() };
        for (outcomes, changed) in [
            (vec![outcome(true, true), outcome(true, false), outcome(false, true)], 65),
            (vec![outcome(true, true)], 66),
        ] {
            tally.take(&proto::ParkEntriesResponse { outcomes, changed, refused: 1, ..Default::default() });
        }
        let says = "3 redriven, 1 refused; 2 of these may have had their effect; 63 by earlier calls of this operation";
        assert_eq!(tally.render(false), says);
        assert!(tally.render(true).starts_with("dry run: 3 would be redriven, 1 refused"));
        let erased = proto::EntryOutcome { changed: true, message_erased: true, ..Default::default() };
        let outcomes = vec![erased.clone(), proto::EntryOutcome { changed: false, ..erased }];
        tally.take(&proto::ParkEntriesResponse { outcomes, changed: 67, refused: 2, ..Default::default() });
        let says = "; 1 message is erased: only another delivery has it processed again";
        assert!(tally.render(false).contains(says), "{}", tally.render(false));
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
