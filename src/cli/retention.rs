//! `retention`: how the purge keeps up.

use clap::Subcommand;

use super::client::Client;
use super::clock;
use super::output::{Output, TextStyle};
use super::problem::{Exit, Problem};
use super::table::Table;
use super::text::{ago, clean, counted, rough};
use crate::proto;

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Show the backlog of the purge and the progress of each server; exits with 1 when the purge falls
    /// behind
    Status,
}

impl Command {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Problem> {
        let Command::Status = self;
        let mut admin = client.connect().await?;
        let asked = admin.get_retention_status(client.request(proto::GetRetentionStatusRequest {})).await;
        let status = asked.map_err(|status| Problem::of(&status))?.into_inner();
        let exit = if status.falling_behind { Exit::Failed } else { Exit::Done };
        let output = client.output;
        if output.json() {
            output.message("GetRetentionStatusResponse", &status)?;
            return Ok(exit);
        }
        lines(output, &status).iter().try_for_each(|line| output.line(line))?;
        Ok(exit)
    }
}

fn lines(output: Output, status: &proto::GetRetentionStatusResponse) -> Vec<String> {
    let least = if status.due_is_lower_bound { "at least " } else { "" };
    let oldest = status
        .oldest_due_age
        .as_ref()
        .map_or_else(String::new, |age| format!(", the oldest for {}", rough(age.seconds)));
    let verdict = if status.falling_behind {
        output.styled("the purge falls behind: more is due than it forgets", TextStyle::Bad)
    } else {
        output.styled("the purge keeps up", TextStyle::Good)
    };
    let mut lines = vec![
        format!("{least}{} for the purge{oldest}", counted(status.due, "entry waits", "entries wait")),
        verdict,
    ];
    if status.workers.is_empty() {
        lines.push("no server was heard of for a day".to_owned());
        return lines;
    }
    let now = status.as_of.unwrap_or_else(clock::now);
    let mut table = Table::new(&["SERVER", "LAST RUN", "A SECOND", "TOTAL", "LAST ERROR"]);
    for worker in &status.workers {
        let error = if worker.last_error.is_empty() {
            "-".to_owned()
        } else {
            format!("{} ago: {}", ago(worker.last_error_at.as_ref(), &now), clean(&worker.last_error))
        };
        table.row(vec![
            clean(&worker.replica).into(),
            format!("{} ago", ago(worker.last_run_at.as_ref(), &now)).into(),
            format!("{:.1}", worker.purged_per_second).into(),
            worker.purged_total.to_string().into(),
            error.into(),
        ]);
    }
    lines.extend(table.lines(output));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purge_behind_is_reported_with_each_server() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let status = proto::GetRetentionStatusResponse {
            due: 10_000,
            due_is_lower_bound: true,
            oldest_due_age: Some(prost_types::Duration { seconds: 7_260, nanos: 0 }),
            falling_behind: true,
            workers: vec![proto::PurgeWorker {
                replica: "a".into(),
                last_run_at: at(990),
                purged_per_second: 12.34,
                purged_total: 5,
                last_error: "no\nspace".into(),
                last_error_at: at(400),
            }],
            as_of: at(1_000),
        };
        assert_eq!(
            lines(Output::plain(), &status),
            [
                "at least 10000 entries wait for the purge, the oldest for 2h 1m",
                "the purge falls behind: more is due than it forgets",
                "SERVER  LAST RUN  A SECOND  TOTAL  LAST ERROR",
                "a       10s ago   12.3      5      10m ago: no space",
            ]
        );
        let idle = proto::GetRetentionStatusResponse { due: 1, ..Default::default() };
        assert_eq!(
            lines(Output::plain(), &idle),
            ["1 entry waits for the purge", "the purge keeps up", "no server was heard of for a day"]
        );
    }
}
