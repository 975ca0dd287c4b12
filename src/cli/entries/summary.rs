//! `entries summary`: the number of entries by state, one time or repeatedly.

mod look;
mod needs;
mod screen;

pub(super) use self::needs::OVERDUE;

use clap::Args;
use console::Term;
use tokio::time::sleep;

use self::look::Look;
use crate::cli::client::{Admin, Client};
use crate::cli::consumer::note_unknown;
use crate::cli::output::Output;
use crate::cli::policy;
use crate::cli::problem::{Exit, Problem};
use crate::common::duration_arg::DurationArg;
use crate::proto;

const PAGE: i32 = 100;

/// Which consumers, and how often.
#[derive(Args)]
pub(in crate::cli) struct Summary {
    /// Only of this consumer
    #[arg(long)]
    consumer: Option<String>,
    /// Of the consumer, this replay run
    #[arg(long, value_name = "RUN", requires = "consumer")]
    replay_run: Option<String>,
    /// Repeat it until Ctrl-C
    #[arg(long)]
    watch: bool,
    /// How often
    #[arg(long, default_value = "2s", value_name = "DURATION", requires = "watch")]
    every: DurationArg,
}

impl Summary {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let consumer = self.consumer.unwrap_or_default();
        let whose = (consumer.as_str(), self.replay_run.as_deref().unwrap_or_default());
        if !self.watch {
            let look = fetch(client, &mut admin, whose).await?;
            show(client.output, &look)?;
            if !consumer.is_empty() && look.summary.consumers.iter().all(|one| one.states.is_empty()) {
                note_unknown(client, &mut admin, &consumer).await;
            }
            return Ok(Exit::Done);
        }
        tokio::select! {
            done = watch(client, &mut admin, whose, self.every.into()) => done,
            _ = tokio::signal::ctrl_c() => Ok(Exit::Done),
        }
    }
}

async fn watch(
    client: &Client,
    admin: &mut Admin,
    whose: (&str, &str),
    every: std::time::Duration,
) -> Result<Exit, Problem> {
    let output = client.output.listing();
    let (mut drawn, mut last) = (0, None);
    loop {
        match fetch(client, admin, whose).await {
            Ok(look) if output.json() => show(output, &look)?,
            Ok(look) => {
                let lines = screen::lines(output, &look, last.as_ref());
                if output.terminal() {
                    redraw(output, &lines, drawn)?;
                    drawn = lines.len();
                } else {
                    lines.iter().try_for_each(|line| output.line(line))?;
                    output.note("");
                }
                last = Some(look);
            }
            // `--watch` continues while the server is unavailable.
            Err(problem) if problem.exit == Exit::Unavailable => {
                drawn = 0;
                output.stderr(&format!("error: {}", problem.text));
            }
            Err(problem) => return Err(problem),
        }
        sleep(every.max(std::time::Duration::from_millis(100))).await;
    }
}

/// Redraws in place, as long as the lines fit.
fn redraw(output: Output, lines: &[String], drawn: usize) -> Result<(), Problem> {
    let terminal = Term::stdout();
    let (rows, _) = terminal.size();
    if drawn < usize::from(rows) {
        terminal.clear_last_lines(drawn)?;
    } else {
        terminal.clear_screen()?;
    }
    lines.iter().try_for_each(|line| output.line(line))
}

/// Fetches all pages, as one answer. Of all consumers also the holds, and the policies that are disabled: such a consumer may
/// have no entry, since it is granted nothing.
async fn fetch(client: &Client, admin: &mut Admin, whose: (&str, &str)) -> Result<Look, Problem> {
    let summary = summarize(client, admin, whose).await?;
    if !whose.0.is_empty() || client.output.json() {
        return Ok(Look { summary, ..Look::default() });
    }
    let holds = admin.list_holds(client.request(proto::ListHoldsRequest::default())).await;
    // A server of an earlier version does not know holds.
    let holds = holds.map_or_else(|_| Vec::new(), |answer| answer.into_inner().holds);
    let policies = policy::all(client, admin).await?;
    let disabled =
        policies.into_iter().filter(|one| one.policy.as_ref().is_some_and(proto::Policy::disabled));
    Ok(Look { summary, holds, disabled: disabled.map(|one| one.consumer).collect() })
}

async fn summarize(
    client: &Client,
    admin: &mut Admin,
    (consumer, replay_run): (&str, &str),
) -> Result<proto::SummarizeEntriesResponse, Problem> {
    let mut all = proto::SummarizeEntriesResponse::default();
    let mut page_token = String::new();
    loop {
        let request = proto::SummarizeEntriesRequest {
            consumer: consumer.to_owned(),
            page_size: PAGE,
            page_token,
            replay_run: replay_run.to_owned(),
        };
        let page = admin.summarize_entries(client.request(request)).await;
        let page = page.map_err(|status| Problem::of(&status))?.into_inner();
        all.consumers.extend(page.consumers);
        all.as_of = page.as_of;
        if page.next_page_token.is_empty() {
            return Ok(all);
        }
        page_token = page.next_page_token;
    }
}

fn show(output: Output, look: &Look) -> Result<(), Problem> {
    if output.json() {
        return output.message("SummarizeEntriesResponse", &look.summary);
    }
    screen::lines(output, look, None).iter().try_for_each(|line| output.line(line))
}
