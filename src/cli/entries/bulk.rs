//! The redrive of many: a dry run for the number, a question, then the stream with its progress.

use std::time::Duration;

use tokio::time::timeout;

use crate::cli::client::{Admin, Client};
use crate::cli::confirm::{can_ask, confirm};
use crate::cli::problem::{Exit, Problem, rejected};
use crate::cli::progress::Progress;
use crate::cli::text::{clean, quoted};
use crate::cli::words;
use crate::rpc::proto;

/// A stream that is silent for so long is broken.
const SILENCE_MAX: Duration = Duration::from_mins(2);

pub(super) async fn run(
    client: &Client,
    request: proto::RedriveEntriesRequest,
    yes: bool,
) -> Result<Exit, Problem> {
    if !yes && !request.dry_run {
        can_ask()?;
    }
    let screen = client.screen;
    let mut admin = client.connect().await?;
    // Always, so that it can be resumed whatever happens next.
    screen.aside(&format!("operation id: {}", clean(&request.operation_id)));
    if !yes && !request.dry_run {
        let dry = proto::RedriveEntriesRequest { dry_run: true, ..request.clone() };
        let would = last(&mut admin, dry).await?;
        let filter = request.filter.clone().unwrap_or_default();
        let refused = if would.refused == 0 {
            String::new()
        } else {
            format!(" ({} more would be refused)", would.refused)
        };
        let question = format!(
            "Redrive {} entries of {}{refused}, {} a second at the most?",
            would.redriven,
            clean(&filter.consumer),
            request.rate
        );
        confirm(&question, false)?;
    }
    let (dry_run, maximum) = (request.dry_run, request.maximum);
    let resume = resume(&request.operation_id);
    let mut tally = Tally::default();
    let mut progress = Progress::new(screen);
    let done = tokio::select! {
        done = follow(client, &mut admin, request, &mut progress, &mut tally) => done,
        _ = tokio::signal::ctrl_c() => {
            Err(Problem::new(Exit::Partly, "interrupted; what is done stays done"))
        }
    };
    progress.end();
    let (verb, bare) = if dry_run { ("would be redriven", "dry run: ") } else { ("redriven", "") };
    let counted = format!("{bare}{} {verb}, {} refused", tally.redriven, tally.refused);
    match done {
        Ok(()) => {
            if !screen.json() {
                screen.line(&counted)?;
            }
            if tally.maximum_reached {
                screen
                    .note(&format!("--max {maximum} is reached; there may be more: start another operation"));
            }
            Ok(if tally.refused == 0 { Exit::Done } else { Exit::Partly })
        }
        // What was refused as a whole, or seen enough of, is not gone on with.
        Err(problem) if tally.begun && [Exit::Unavailable, Exit::Partly].contains(&problem.exit) => {
            screen.note(&counted);
            Err(problem.next(format!("go on where it was broken off: {resume}")))
        }
        Err(problem) => Err(problem),
    }
}

#[derive(Default)]
struct Tally {
    begun: bool,
    redriven: i64,
    refused: i64,
    maximum_reached: bool,
}

async fn follow(
    client: &Client,
    admin: &mut Admin,
    request: proto::RedriveEntriesRequest,
    progress: &mut Progress,
    tally: &mut Tally,
) -> Result<(), Problem> {
    let screen = client.screen;
    // From here on something may be done.
    tally.begun = true;
    let mut stream = begin(admin, request).await?;
    loop {
        let next = timeout(SILENCE_MAX, stream.message()).await.map_err(|_| silent())?;
        let told = next.map_err(|status| Problem::of(&status))?;
        let Some(told) = told else {
            return Err(Problem::new(Exit::Unavailable, "the server ended the operation before it was done"));
        };
        (tally.redriven, tally.refused) = (told.redriven, told.refused);
        tally.maximum_reached = told.maximum_reached;
        if screen.json() {
            screen.message("RedriveEntriesResponse", &told)?;
        } else {
            let mut shown = Ok(());
            progress.say(|| shown = refusals(client, &told.outcomes));
            shown?;
        }
        if told.finished {
            return Ok(());
        }
        let count = |value: i64| u64::try_from(value).unwrap_or(0);
        let (done, left) = (count(told.redriven), count(told.at_most_left));
        let text = format!("{done} redriven, {} refused, at most {left} to go", told.refused);
        progress.at(done, done.saturating_add(left), &text);
    }
}

fn refusals(client: &Client, outcomes: &[proto::RedriveOutcome]) -> Result<(), Problem> {
    for outcome in outcomes.iter().filter(|outcome| !outcome.redriven) {
        let key = outcome.key.clone().unwrap_or_default();
        let why = outcome.rejected.as_ref().map_or_else(String::new, rejected);
        let line = format!(
            "refused: {} {} {} ({}): {why}",
            clean(&key.consumer),
            clean(&key.source),
            clean(&key.id),
            words::state(outcome.state)
        );
        client.screen.line(&line)?;
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

/// The end of a dry run: how many there are.
async fn last(
    admin: &mut Admin,
    request: proto::RedriveEntriesRequest,
) -> Result<proto::RedriveEntriesResponse, Problem> {
    let mut stream = begin(admin, request).await?;
    let mut last = proto::RedriveEntriesResponse::default();
    loop {
        let next = timeout(SILENCE_MAX, stream.message()).await;
        match next.map_err(|_| silent())? {
            Ok(Some(told)) => last = told,
            Ok(None) => return Ok(last),
            Err(status) => return Err(Problem::of(&status)),
        }
    }
}

/// The command that was typed, with the operation's id; never with a token.
fn resume(operation_id: &str) -> String {
    again(std::env::args().skip(1), operation_id)
}

fn again(arguments: impl Iterator<Item = String>, operation_id: &str) -> String {
    let mut words = vec!["idempotency-ledger".to_owned()];
    let mut named = false;
    let mut secret = false;
    for argument in arguments {
        if std::mem::take(&mut secret) {
            words.push("TOKEN".to_owned());
            continue;
        }
        named |= argument == "--operation-id" || argument.starts_with("--operation-id=");
        secret = argument == "--token";
        let hidden = if argument.starts_with("--token=") { "--token=TOKEN".to_owned() } else { argument };
        words.push(quoted(&hidden));
    }
    if !named {
        words.push(format!("--operation-id {}", quoted(operation_id)));
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::again;

    #[test]
    fn the_command_to_resume_is_the_one_that_was_typed() {
        let said = |words: &[&str]| again(words.iter().map(ToString::to_string), "op 1");
        assert_eq!(
            said(&["entries", "redrive", "--reason", "is back", "--token", "s3cret"]),
            "idempotency-ledger entries redrive --reason 'is back' --token TOKEN --operation-id 'op 1'"
        );
        assert_eq!(
            said(&["redrive", "--token=s3cret", "--operation-id=x"]),
            "idempotency-ledger redrive '--token=TOKEN' '--operation-id=x'"
        );
    }
}
