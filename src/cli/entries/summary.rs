//! `entries summary`: the number of entries by state, one time or repeatedly.

use clap::Args;
use console::Term;
use tokio::time::sleep;

use crate::cli::client::{Admin, Client};
use crate::cli::consumer::note_unknown;
use crate::cli::enums;
use crate::cli::output::{Output, TextStyle};
use crate::cli::problem::{Exit, Problem};
use crate::cli::table::{Cell, Table};
use crate::cli::text::{clean, rough, when};
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
            let summary = fetch(client, &mut admin, whose).await?;
            show(client.output, &summary)?;
            if !consumer.is_empty() && summary.consumers.iter().all(|one| one.states.is_empty()) {
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
    let mut drawn = 0;
    loop {
        match fetch(client, admin, whose).await {
            Ok(summary) if output.terminal() && !output.json() => {
                let lines = lines(output, &summary);
                redraw(output, &lines, drawn)?;
                drawn = lines.len();
            }
            Ok(summary) => {
                show(output, &summary)?;
                output.note("");
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

/// Fetches all pages, as one answer.
async fn fetch(
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

fn show(output: Output, summary: &proto::SummarizeEntriesResponse) -> Result<(), Problem> {
    if output.json() {
        return output.message("SummarizeEntriesResponse", summary);
    }
    lines(output, summary).iter().try_for_each(|line| output.line(line))
}

fn lines(output: Output, summary: &proto::SummarizeEntriesResponse) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(as_of) = &summary.as_of {
        lines.push(output.styled(&format!("as of {}", when(as_of)), TextStyle::Faint));
    }
    if summary.consumers.is_empty() {
        lines.push("there are no entries".to_owned());
    }
    for consumer in &summary.consumers {
        let disabled = match (consumer.disabled, &consumer.held_by) {
            (true, _) => "  disabled: no new grants",
            (false, Some(_)) => "  held: no new grants",
            (false, None) => "",
        };
        let run = match consumer.replay_run.as_str() {
            "" => String::new(),
            run => format!("  replay run {}", clean(run)),
        };
        lines.push(format!(
            "{}{run}{}",
            output.styled(&clean(&consumer.consumer), TextStyle::Strong),
            output.styled(disabled, TextStyle::Bad)
        ));
        let mut table = Table::new(&["STATE", "CAUSE", "COUNT", "OLDEST"]).indented();
        // "0 or more" is not informative: for a busy consumer the claims of the last minute are searched among
        // its youngest entries.
        for state in consumer.states.iter().filter(|state| state.count > 0 || !state.at_least) {
            let about = if state.estimated { "~" } else { "" };
            let more = if state.at_least { "+" } else { "" };
            table.row(vec![
                Cell::new(enums::state(state.state), enums::style(state.state, false)),
                enums::cause(state.cause).into(),
                format!("{about}{}{more}", state.count).into(),
                state.oldest_age.as_ref().map_or_else(|| "-".to_owned(), |age| rough(age.seconds)).into(),
            ]);
        }
        lines.extend(table.lines(output));
        if consumer.expired > 0 {
            let longest = consumer.longest_expired.as_ref();
            let longest =
                longest.map_or_else(String::new, |age| format!(", the longest for {}", rough(age.seconds)));
            let text = format!("  expired claims: {}{longest}", consumer.expired);
            lines.push(output.styled(&text, TextStyle::Doubtful));
        }
        if consumer.doubled > 0 {
            let text = format!("  doubled effects: {}", consumer.doubled);
            lines.push(output.styled(&text, TextStyle::Bad));
        }
        if consumer.near_exhaustion > 0 {
            let text = format!("  with at most one attempt left: {}", consumer.near_exhaustion);
            lines.push(output.styled(&text, TextStyle::Doubtful));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{ConsumerSummary, EntryState, ParkCause, StateSummary};

    #[test]
    fn summary_shows_estimates_bounds_stuck_and_held() {
        let age = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let of = |state: EntryState, count| StateSummary { state: state.into(), count, ..Default::default() };
        let summary = proto::SummarizeEntriesResponse {
            consumers: vec![ConsumerSummary {
                consumer: "pay\x1bments".into(),
                replay_run: String::new(),
                states: vec![
                    StateSummary { at_least: true, ..of(EntryState::Received, 0) },
                    StateSummary { at_least: true, ..of(EntryState::InProgress, 1_001) },
                    StateSummary { estimated: true, ..of(EntryState::Completed, 7) },
                    StateSummary {
                        cause: ParkCause::EffectUnknown.into(),
                        oldest_age: age(90_000),
                        ..of(EntryState::Parked, 2)
                    },
                ],
                expired: 3,
                longest_expired: age(61),
                near_exhaustion: 1,
                disabled: true,
                held_by: None,
                doubled: 4,
            }],
            ..Default::default()
        };
        assert_eq!(
            lines(Output::plain(), &summary),
            [
                "pay\u{fffd}ments  disabled: no new grants",
                "  STATE        CAUSE           COUNT  OLDEST",
                "  IN_PROGRESS  -               1001+  -",
                "  COMPLETED    -               ~7     -",
                "  PARKED       EFFECT_UNKNOWN  2      1d 1h",
                "  expired claims: 3, the longest for 1m",
                "  doubled effects: 4",
                "  with at most one attempt left: 1",
            ]
        );
    }
}
