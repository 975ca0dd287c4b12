//! `tokens`: the clock and the offset of which tokens are made, and the remedy where the store's clock is
//! behind.

use clap::{Args, Subcommand};
use prost_types::Duration;

use super::client::{Admin, Client};
use super::confirm::confirm;
use super::output::{Output, TextStyle};
use super::problem::{Exit, Problem};
use super::retry::{self, ConfirmedAnswer};
use super::text::{quoted, when};
use crate::common::duration_arg::DurationArg;
use crate::proto;

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Show the store's clock and the token offset; exits with 1 when the clock is behind, or has jumped
    /// ahead
    Show,
    /// Raise the token offset, where the store's clock was set back. It can never be lowered
    RaiseOffset(Raise),
}

/// `tokens raise-offset`.
#[derive(Args)]
pub(super) struct Raise {
    /// By how much, such as 1h: more than the clock is behind, at most 366 days in one step
    #[arg(long, value_name = "DURATION")]
    by: DurationArg,
    /// Why, for the audit
    #[arg(long)]
    reason: String,
    /// The offset that you looked at, as `tokens show` shows it [default: the present one]
    #[arg(long, value_name = "DURATION")]
    expected_offset: Option<DurationArg>,
    /// Your own id of the request; a repeat with it and the same --expected-offset changes nothing more
    /// [default: a random one]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
}

impl Command {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Problem> {
        match self {
            Command::Show => show(&client).await,
            Command::RaiseOffset(raise) => raise.run(&client).await,
        }
    }
}

/// Fetches the present offset and clock; nothing is changed.
async fn look(client: &Client, admin: &mut Admin) -> Result<proto::RaiseTokenOffsetResponse, Problem> {
    let request = proto::RaiseTokenOffsetRequest { validate_only: true, ..Default::default() };
    let answer = admin.raise_token_offset(client.request(request)).await;
    Ok(answer.map_err(|status| Problem::of(&status))?.into_inner())
}

async fn show(client: &Client) -> Result<Exit, Problem> {
    let mut admin = client.connect().await?;
    let now = look(client, &mut admin).await?;
    let output = client.output;
    let is_sound = now.behind.is_none() && now.ahead.is_none();
    let exit = if is_sound { Exit::Done } else { Exit::Failed };
    if output.json() {
        output.message("RaiseTokenOffsetResponse", &now)?;
    } else {
        lines(output, &now).iter().try_for_each(|line| output.line(line))?;
    }
    Ok(exit)
}

fn lines(output: Output, now: &proto::RaiseTokenOffsetResponse) -> Vec<String> {
    let clock = now.clock.as_ref().map_or_else(|| "-".to_owned(), when);
    let mark = now.clock_mark.as_ref().map_or_else(|| "none".to_owned(), when);
    let verdict = match (&now.behind, &now.ahead) {
        (Some(behind), _) if now.before_release => output.styled(&before_release(behind), TextStyle::Bad),
        (Some(behind), _) => {
            let text =
                format!("the clock is behind by {}: nothing is granted until it has caught up", span(behind));
            output.styled(&text, TextStyle::Bad)
        }
        (None, Some(ahead)) => {
            let text = format!(
                "the clock is ahead of its mark by {}: nothing is granted until it is set right, or accepted with \
                 `migrate --accept-clock`",
                span(ahead)
            );
            output.styled(&text, TextStyle::Bad)
        }
        (None, None) => output.styled("the clock is not behind", TextStyle::Good),
    };
    vec![
        format!("the store's clock shows {clock}"),
        format!("its mark, the highest reading so far: {mark}"),
        format!("token offset: {}", offset(now)),
        verdict,
    ]
}

fn before_release(behind: &Duration) -> String {
    format!(
        "the clock is before the date of the server's release, by {}: nothing is granted; set it right, a higher \
         token_offset does not help",
        span(behind)
    )
}

fn offset(now: &proto::RaiseTokenOffsetResponse) -> String {
    span(&now.token_offset.unwrap_or_default())
}

/// An exact duration, as flags accept it.
fn span(duration: &Duration) -> String {
    let exact = std::time::Duration::try_from(*duration).unwrap_or_default();
    humantime::format_duration(exact).to_string()
}

/// Whole microseconds.
fn message(duration: std::time::Duration) -> Duration {
    let nanos = duration.subsec_micros() * 1_000;
    Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(nanos).unwrap_or(0),
    }
}

impl Raise {
    async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let now = look(client, &mut admin).await?;
        let present = now.token_offset.unwrap_or_default();
        let present = std::time::Duration::try_from(present).unwrap_or_default();
        let expected = self.expected_offset.map_or(present, Into::into);
        let by: std::time::Duration = self.by.into();
        let (from, to) = (message(expected), message(expected.saturating_add(by)));
        let output = client.output;
        for line in lines(output, &now) {
            output.note(&line);
        }
        if let Some(behind) = now.behind.as_ref().filter(|_| now.before_release) {
            return Err(Problem::new(Exit::Unavailable, before_release(behind)));
        }
        let question = format!(
            "Raise the token offset from {} to {}, for good (it can never be lowered)?",
            span(&from),
            span(&to)
        );
        confirm(client, &question, self.yes)?;
        let request = proto::RaiseTokenOffsetRequest {
            request_id: self.request_id.unwrap_or_else(retry::id),
            reason: self.reason,
            token_offset: Some(to),
            expected_token_offset: Some(from),
            validate_only: false,
        };
        let call = || {
            let (mut admin, request) = (admin.clone(), client.request(request.clone()));
            async move { admin.raise_token_offset(request).await }
        };
        let known = retry::until_known(call).await;
        let ConfirmedAnswer { answer, repeated } = known.map_err(|status| problem(&status, &request))?;
        if output.json() {
            output.message("RaiseTokenOffsetResponse", &answer)?;
            return Ok(Exit::Done);
        }
        let before = answer.replayed && !repeated;
        let again = if before { " (it had been done before; this repeat changed nothing)" } else { "" };
        output.line(&format!("token offset: {}{again}", offset(&answer)))?;
        if let Some(behind) = &answer.behind {
            output.note(&format!("the clock is still behind by {}: raise the offset by more", span(behind)));
        }
        Ok(Exit::Done)
    }
}

fn problem(status: &tonic::Status, request: &proto::RaiseTokenOffsetRequest) -> Problem {
    let problem = Problem::of(status);
    if retry::unknown(status) {
        return problem.next(format!(
            "it may have been done: repeat the same command with --request-id {} --expected-offset {}",
            quoted(&request.request_id),
            quoted(&span(&request.expected_token_offset.unwrap_or_default()))
        ));
    }
    if problem.text.starts_with("VERSION_MISMATCH: ") {
        return problem.next("another operator raised it: look again with `tokens show`, then decide again");
    }
    problem
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::problem::tests::status;

    #[test]
    fn raise_with_an_unknown_outcome_is_repeated_with_its_id_and_offset() {
        let request = proto::RaiseTokenOffsetRequest {
            request_id: "r 1".into(),
            expected_token_offset: Some(Duration { seconds: 90, nanos: 0 }),
            ..Default::default()
        };
        let repeat = "it may have been done: repeat the same command with --request-id 'r 1' --expected-offset '1m 30s'";
        for (status, next) in [
            (tonic::Status::unavailable(""), repeat),
            (status(proto::ErrorReason::OutcomeUnknown, &[]), repeat),
            (
                status(proto::ErrorReason::VersionMismatch, &[]),
                "another operator raised it: look again with `tokens show`, then decide again",
            ),
        ] {
            assert_eq!(problem(&status, &request).next.as_deref(), Some(next));
        }
    }
}
