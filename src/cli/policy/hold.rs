//! `policy hold`, `resume` and `holds`: the switch that stops new grants for many consumers.

use clap::Args;

use crate::cli::client::Client;
use crate::cli::confirm::confirm;
use crate::cli::problem::{Exit, Problem};
use crate::cli::retry::{self, ConfirmedAnswer};
use crate::cli::table::{Column, Table};
use crate::cli::text::{clean, quoted, when};
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
        let mut table = Table::of(&HOLDS);
        for hold in &found.holds {
            table.row(vec![
                format!("{}*", clean(&hold.prefix)).into(),
                hold.created_at.as_ref().map_or_else(|| "-".to_owned(), when).into(),
                clean(&hold.actor).into(),
                clean(&hold.reason).into(),
            ]);
        }
        table.print(output)?;
        Ok(Exit::Done)
    }
}
