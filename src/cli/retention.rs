//! `retention`: how the purge keeps up.

use clap::Subcommand;

use super::client::Client;
use super::clock;
use super::output::{Output, TextStyle};
use super::problem::{Exit, Problem};
use super::table::{Column, Table};
use super::text::{ago, clean, counted, rough};
use crate::proto;

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Show the backlog of the purge and the progress of each server; exits with 1 when the purge falls
    /// behind
    Status {
        /// Also servers that were not heard of for a minute
        #[arg(long)]
        all: bool,
    },
}

/// A server that has not reported for this long has ended, or is cut off.
const HEARD_WITHIN_SECONDS: i64 = 60;
const SERVERS: [Column; 5] = [
    Column::name("SERVER"),
    Column::whole("LAST RUN"),
    Column::whole("A SECOND"),
    Column::whole("TOTAL").left_out(1),
    Column::text("LAST ERROR"),
];

impl Command {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Problem> {
        let Command::Status { all } = self;
        let mut admin = client.connect().await?;
        let asked = admin.get_retention_status(client.request(proto::GetRetentionStatusRequest {})).await;
        let status = asked.map_err(|status| Problem::of(&status))?.into_inner();
        let exit = if status.falling_behind { Exit::Failed } else { Exit::Done };
        let output = client.output;
        if output.json() {
            output.message("GetRetentionStatusResponse", &status)?;
            return Ok(exit);
        }
        lines(output, &status, all).iter().try_for_each(|line| output.line(line))?;
        Ok(exit)
    }
}

fn lines(output: Output, status: &proto::GetRetentionStatusResponse, all: bool) -> Vec<String> {
    let lower_bound = if status.due_is_lower_bound { "at least " } else { "" };
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
        format!("{lower_bound}{} for the purge{oldest}", counted(status.due, "entry waits", "entries wait")),
        verdict,
    ];
    if status.workers.is_empty() {
        lines.push("no server was heard of for a day".to_owned());
        return lines;
    }
    let now = status.as_of.unwrap_or_else(clock::now);
    let heard = |worker: &&proto::PurgeWorker| {
        let ran = worker.last_run_at.as_ref().map_or(0, |at| at.seconds);
        all || now.seconds.saturating_sub(ran) <= HEARD_WITHIN_SECONDS
    };
    let shown: Vec<&proto::PurgeWorker> = status.workers.iter().filter(heard).collect();
    let mut table = Table::of(&SERVERS);
    for worker in &shown {
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
    if !shown.is_empty() {
        lines.extend(table.lines(output));
    }
    let silent = status.workers.len() - shown.len();
    if silent > 0 {
        let servers = counted(i64::try_from(silent).unwrap_or(i64::MAX), "server", "servers");
        lines.push(format!("left out: {servers} not heard of for a minute; --all shows them"));
    }
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
            lines(Output::plain(), &status, false),
            [
                "at least 10000 entries wait for the purge, the oldest for 2h 1m",
                "the purge falls behind: more is due than it forgets",
                "SERVER  LAST RUN  A SECOND  TOTAL  LAST ERROR",
                "a       10s ago   12.3      5      10m ago: no space",
            ]
        );
        let idle = proto::GetRetentionStatusResponse { due: 1, ..Default::default() };
        assert_eq!(
            lines(Output::plain(), &idle, false),
            ["1 entry waits for the purge", "the purge keeps up", "no server was heard of for a day"]
        );
    }

    #[test]
    fn servers_not_heard_of_for_a_minute_are_left_out() {
        let at = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
        let worker = |replica: &str, last| proto::PurgeWorker {
            replica: replica.into(),
            last_run_at: at(last),
            ..Default::default()
        };
        let status = proto::GetRetentionStatusResponse {
            workers: vec![worker("live", 999), worker("at-the-bound", 940), worker("silent", 939)],
            as_of: at(1_000),
            ..Default::default()
        };
        let shown = lines(Output::plain(), &status, false);
        assert_eq!(shown.len(), 6, "{shown:?}");
        assert!(shown[3].starts_with("live ") && shown[4].starts_with("at-the-bound "), "{shown:?}");
        assert_eq!(shown[5], "left out: 1 server not heard of for a minute; --all shows them");
        let all = lines(Output::plain(), &status, true);
        assert!(all[5].starts_with("silent ") && all.len() == 6, "{all:?}");
        let none = proto::GetRetentionStatusResponse { workers: vec![worker("silent", 1)], ..status };
        let shown = lines(Output::plain(), &none, false);
        assert_eq!(shown[2..], ["left out: 1 server not heard of for a minute; --all shows them"]);
    }
}
