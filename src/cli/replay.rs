//! `replay`: the replay runs of a consumer.

use clap::{Args, Subcommand};

use super::client::Client;
use super::confirm::confirm;
use super::enums;
use super::output::TextStyle;
use super::problem::{Exit, Problem};
use super::retry::{self, ConfirmedAnswer};
use super::table::{Cell, Column, Table};
use super::text::{clean, duration, quoted, when};
use crate::common::duration_arg::DurationArg;
use crate::proto;

const PAGE: i32 = 100;
const RUNS: [Column; 7] = [
    Column::name("RUN"),
    Column::whole("MODE"),
    Column::whole("STATE"),
    Column::whole("CREATED").left_out(1),
    Column::whole("ENDS"),
    Column::text("ENTRIES"),
    Column::text("REASON").left_out(2),
];

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Create a replay run: a separate namespace for the entries of a replay
    Create(Create),
    /// Close a run early: nothing more is granted or suppressed in it
    Close(Close),
    /// List the runs of a consumer, and the states of their entries
    List(List),
}

/// Which run.
#[derive(Args)]
struct Run {
    /// The consumer, and the run's name: letters, digits, `.`, `_` and `-`, at most 64
    #[arg(num_args = 2, required = true, value_names = ["CONSUMER", "RUN"])]
    words: Vec<String>,
    /// Why, for the audit
    #[arg(long)]
    reason: String,
    /// Your own id of the request; a repeat with it changes nothing more [default: a random one]
    #[arg(long, value_name = "ID")]
    request_id: Option<String>,
}

impl Run {
    fn word(&self, at: usize) -> String {
        self.words.get(at).cloned().unwrap_or_default()
    }
}

/// `replay create`.
#[derive(Args)]
pub(super) struct Create {
    #[command(flatten)]
    run: Run,
    /// How long the run is open, at most the consumer's retention [default: the retention]
    #[arg(long, value_name = "DURATION")]
    ends_in: Option<DurationArg>,
}

/// `replay close`.
#[derive(Args)]
pub(super) struct Close {
    #[command(flatten)]
    run: Run,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
}

/// `replay list`.
#[derive(Args)]
pub(super) struct List {
    /// The consumer
    consumer: String,
}

impl Command {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Problem> {
        match self {
            Command::Create(create) => create.carry_out(&client).await,
            Command::Close(close) => close.carry_out(&client).await,
            Command::List(list) => list.run(&client).await,
        }
    }
}

impl Create {
    async fn carry_out(self, client: &Client) -> Result<Exit, Problem> {
        let admin = client.connect().await?;
        let request = proto::CreateReplayRunRequest {
            consumer: self.run.word(0),
            replay_run: self.run.word(1),
            ends_in: self.ends_in.map(|ends_in| duration(ends_in.into())),
            request_id: self.run.request_id.unwrap_or_else(retry::id),
            reason: self.run.reason,
        };
        let call = || {
            let (mut admin, request) = (admin.clone(), client.request(request.clone()));
            async move { admin.create_replay_run(request).await }
        };
        let known = retry::until_known(call).await;
        let ConfirmedAnswer { answer, repeated } =
            known.map_err(|status| problem(&status, &request.request_id))?;
        print_change(
            client,
            "CreateReplayRunResponse",
            &answer,
            answer.run.as_ref(),
            answer.replayed && !repeated,
        )
    }
}

impl Close {
    async fn carry_out(self, client: &Client) -> Result<Exit, Problem> {
        let admin = client.connect().await?;
        let (consumer, run) = (clean(&self.run.word(0)), clean(&self.run.word(1)));
        confirm(client, &format!("Close the replay run {run} of {consumer}, for ever?"), self.yes)?;
        let request = proto::CloseReplayRunRequest {
            consumer: self.run.word(0),
            replay_run: self.run.word(1),
            request_id: self.run.request_id.unwrap_or_else(retry::id),
            reason: self.run.reason,
        };
        let call = || {
            let (mut admin, request) = (admin.clone(), client.request(request.clone()));
            async move { admin.close_replay_run(request).await }
        };
        let known = retry::until_known(call).await;
        let ConfirmedAnswer { answer, repeated } =
            known.map_err(|status| problem(&status, &request.request_id))?;
        print_change(
            client,
            "CloseReplayRunResponse",
            &answer,
            answer.run.as_ref(),
            answer.replayed && !repeated,
        )
    }
}

/// Prints the outcome of a change.
fn print_change<M: prost::Message>(
    client: &Client,
    name: &str,
    answer: &M,
    run: Option<&proto::ReplayRun>,
    replayed: bool,
) -> Result<Exit, Problem> {
    let output = client.output;
    if output.json() {
        output.message(name, answer)?;
        return Ok(Exit::Done);
    }
    let run = run.cloned().unwrap_or_default();
    let stands = match (&run.closed_at, &run.ends_at) {
        (Some(closed), _) => format!("closed at {}", when(closed)),
        (None, Some(ends)) => format!("{}, until {}", enums::replay_mode(run.mode), when(ends)),
        (None, None) => enums::replay_mode(run.mode),
    };
    let again = if replayed { " (it had been done before; this repeat changed nothing)" } else { "" };
    output.line(&format!("{} {}: {stands}{again}", clean(&run.consumer), clean(&run.replay_run)))?;
    Ok(Exit::Done)
}

fn problem(status: &tonic::Status, request_id: &str) -> Problem {
    let problem = Problem::of(status);
    if retry::unknown(status) {
        let id = quoted(request_id);
        return problem
            .next(format!("it may have been done: repeat the same command with --request-id {id}"));
    }
    problem
}

impl List {
    async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let mut request =
            proto::ListReplayRunsRequest { consumer: self.consumer, page_size: PAGE, ..Default::default() };
        let output = client.output.listing();
        let mut table = Table::of(&RUNS);
        let mut printed = 0;
        loop {
            let page = admin.list_replay_runs(client.request(request.clone())).await;
            let page = page.map_err(|status| Problem::of(&status))?.into_inner();
            for run in &page.runs {
                printed += 1;
                if output.json() {
                    output.message("ReplayRun", run)?;
                } else {
                    table.row(row(run));
                }
            }
            if page.next_page_token.is_empty() {
                break;
            }
            request.page_token = page.next_page_token;
        }
        if printed == 0 {
            output.note("the consumer has no replay run");
        } else if !output.json() {
            table.print(output)?;
        }
        Ok(Exit::Done)
    }
}

fn row(run: &proto::ReplayRun) -> Vec<Cell> {
    let time = |at: &Option<prost_types::Timestamp>| at.as_ref().map_or_else(|| "-".to_owned(), when);
    let (state, style) = match (run.open, &run.closed_at) {
        (true, _) => ("open", TextStyle::Good),
        (false, Some(_)) => ("closed", TextStyle::Plain),
        (false, None) => ("over", TextStyle::Plain),
    };
    let entries: Vec<String> =
        run.states.iter().map(|one| format!("{} {}", one.count, enums::state(one.state))).collect();
    let entries = if entries.is_empty() { "-".to_owned() } else { entries.join(", ") };
    vec![
        clean(&run.replay_run).into(),
        enums::replay_mode(run.mode).into(),
        Cell::new(state, style),
        time(&run.created_at).into(),
        time(&run.ends_at).into(),
        entries.into(),
        clean(&run.reason).into(),
    ]
}
