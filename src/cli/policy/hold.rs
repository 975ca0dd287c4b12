//! `policy hold`, `resume` and `holds`: the switch that stops new grants for many consumers.

use clap::Args;
use prost_types::Timestamp;

use crate::cli::client::Client;
use crate::cli::clock;
use crate::cli::confirm::confirm;
use crate::cli::output::Output;
use crate::cli::problem::{Exit, Problem};
use crate::cli::retry::{self, ConfirmedAnswer};
use crate::cli::step::step;
use crate::cli::table::{Column, Table};
use crate::cli::text::{ago, clean, quoted, when};
use crate::proto;

const HOLDS: [Column; 4] =
    [Column::name("CONSUMERS"), Column::whole("SINCE"), Column::name("BY"), Column::text("REASON")];

/// Which consumers.
#[derive(Args)]
#[group(required = true, multiple = false)]
struct Which {
    /// All consumers, also future ones
    #[arg(long)]
    all: bool,
    /// The consumers whose names begin with this prefix, also future ones
    #[arg(long, value_name = "PREFIX")]
    prefix: Option<String>,
}

/// A change of a hold.
#[derive(Args)]
struct HoldChangeArgs {
    #[command(flatten)]
    which: Which,
    /// Why, for the audit
    #[arg(long)]
    reason: String,
    /// Your own id of the request; a repeat with it changes nothing [default: a random one]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
}

/// `policy hold`.
#[derive(Args)]
pub(in crate::cli) struct Hold {
    #[command(flatten)]
    change: HoldChangeArgs,
}

/// `policy resume`.
#[derive(Args)]
pub(in crate::cli) struct Resume {
    #[command(flatten)]
    change: HoldChangeArgs,
}

/// `policy holds`.
#[derive(Args)]
pub(in crate::cli) struct Holds {
    /// Only the holds of consumers whose names begin with this prefix [default: all holds]
    #[arg(long, value_name = "PREFIX", default_value = "")]
    prefix: String,
}

/// The consumers of a hold, for people.
pub(super) fn consumers(prefix: &str) -> String {
    if prefix.is_empty() {
        "all consumers".to_owned()
    } else {
        format!("the consumers whose names begin with {}", clean(prefix))
    }
}

impl Hold {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let HoldChangeArgs { which, reason, request_id, yes } = self.change;
        let prefix = which.prefix.unwrap_or_default();
        let admin = client.connect().await?;
        confirm(client, &format!("Stop new grants for {}?", consumers(&prefix)), yes)?;
        let request = proto::HoldConsumersRequest {
            prefix,
            all: which.all,
            request_id: request_id.unwrap_or_else(retry::id),
            reason,
        };
        let call = || {
            let (mut admin, request) = (admin.clone(), client.request(request.clone()));
            async move { admin.hold_consumers(request).await }
        };
        let known = retry::until_known(call).await;
        let ConfirmedAnswer { answer, repeated } =
            known.map_err(|status| problem(&status, &request.request_id))?;
        if client.output.json() {
            client.output.message("HoldConsumersResponse", &answer)?;
            return Ok(Exit::Done);
        }
        let stands = if answer.hold.is_some() { "no new grants" } else { "the hold has ended since" };
        report(client, &request.prefix, stands, answer.replayed && !repeated)
    }
}

impl Resume {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let HoldChangeArgs { which, reason, request_id, yes } = self.change;
        let prefix = which.prefix.unwrap_or_default();
        let admin = client.connect().await?;
        confirm(client, &format!("Allow new grants for {} again?", consumers(&prefix)), yes)?;
        let request = proto::ResumeConsumersRequest {
            prefix,
            all: which.all,
            request_id: request_id.unwrap_or_else(retry::id),
            reason,
        };
        let call = || {
            let (mut admin, request) = (admin.clone(), client.request(request.clone()));
            async move { admin.resume_consumers(request).await }
        };
        let known = retry::until_known(call).await;
        let ConfirmedAnswer { answer, repeated } =
            known.map_err(|status| problem(&status, &request.request_id))?;
        if client.output.json() {
            client.output.message("ResumeConsumersResponse", &answer)?;
            return Ok(Exit::Done);
        }
        report(client, &request.prefix, "the hold has ended", answer.replayed && !repeated)
    }
}

fn report(client: &Client, prefix: &str, stands: &str, replayed: bool) -> Result<Exit, Problem> {
    let again = if replayed { " (it had been done before; this repeat changed nothing)" } else { "" };
    client.output.line(&format!("{}: {stands}{again}", consumers(prefix)))?;
    Ok(Exit::Done)
}

fn problem(status: &tonic::Status, request_id: &str) -> Problem {
    let problem = Problem::of(status);
    if retry::unknown(status) {
        let id = quoted(request_id);
        return problem
            .next(format!("it may have been done: repeat the same command with --request-id {id}"));
    }
    if problem.reason == Some(proto::ErrorReason::StateNotAllowed) {
        return problem.next("`policy holds` shows the holds in force");
    }
    problem
}

impl Holds {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let request = client.request(proto::ListHoldsRequest { prefix: self.prefix });
        let found = admin.list_holds(request).await.map_err(|status| Problem::of(&status))?.into_inner();
        let output = client.output;
        if output.json() {
            found.holds.iter().try_for_each(|hold| output.message("Hold", hold))?;
            return Ok(Exit::Done);
        }
        if found.holds.is_empty() {
            output.note("no consumer is held");
            return Ok(Exit::Done);
        }
        table(output, &found.holds, &clock::now()).print(output)?;
        for line in next(output, &client.program(), &found.holds) {
            output.note(&line);
        }
        Ok(Exit::Done)
    }
}

/// The holds, each with its whole reason.
fn table(output: Output, holds: &[proto::Hold], now: &Timestamp) -> Table {
    let mut table = Table::of(&HOLDS).wrapping();
    for hold in holds {
        let since = hold.created_at.as_ref();
        let since = if output.is_narrow() {
            since.map(|at| format!("{} ago", ago(Some(at), now)))
        } else {
            since.map(when)
        };
        table.row(vec![
            format!("{}*", clean(&hold.prefix)).into(),
            since.unwrap_or_else(|| "-".to_owned()).into(),
            clean(&hold.actor).into(),
            clean(&hold.reason).into(),
        ]);
    }
    table
}

/// The command that ends a hold.
fn next(output: Output, program: &str, holds: &[proto::Hold]) -> Vec<String> {
    if let [hold] = holds {
        let which = if hold.all { "--all".to_owned() } else { format!("--prefix {}", quoted(&hold.prefix)) };
        let command = format!("{program} policy resume {which} --reason WHY");
        return step(output.width(), &command, "end the hold: new grants are possible again");
    }
    let what = "`policy resume --prefix PREFIX` ends a hold: it names the prefix without the `*`";
    step(output.width(), "", what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::problem::tests::status;
    use crate::cli::screens::{NOW, before, check};

    fn hold(prefix: &str, reason: &str) -> proto::Hold {
        proto::Hold {
            prefix: prefix.into(),
            all: prefix.is_empty(),
            actor: "jwt:corp:alice@shop.example".into(),
            reason: reason.into(),
            created_at: before(4_000),
        }
    }

    #[test]
    fn hold_screens_show_who_holds_and_why_as_a_whole() {
        let reason = "the stock database is migrated to the new cluster, see ticket 4711";
        let now = Timestamp { seconds: NOW, nanos: 0 };
        let holds = [hold("stock-", reason)];
        check("holds", |output| {
            let lines = table(output, &holds, &now).lines(output);
            lines.into_iter().chain(next(output, "ledger", &holds)).collect()
        });
        for (holds, says) in [
            (&[hold("stock-", "")][..], "next: ledger policy resume --prefix stock- --reason WHY "),
            (&[hold("", "")], "next: ledger policy resume --all --reason WHY "),
            (&[hold("a", ""), hold("b", "")], "next: `policy resume --prefix PREFIX` ends a hold"),
        ] {
            let shown = next(Output::plain(), "ledger", holds);
            assert!(shown.last().is_some_and(|line| line.starts_with(says)), "{shown:?}");
        }
    }

    #[test]
    fn hold_with_an_unknown_outcome_is_repeated_with_its_id() {
        let repeat = "it may have been done: repeat the same command with --request-id 'h 1'";
        for (status, next) in [
            (tonic::Status::deadline_exceeded(""), repeat),
            (status(proto::ErrorReason::OutcomeUnknown, &[]), repeat),
            (status(proto::ErrorReason::StateNotAllowed, &[]), "`policy holds` shows the holds in force"),
        ] {
            assert_eq!(problem(&status, "h 1").next.as_deref(), Some(next));
        }
    }
}
