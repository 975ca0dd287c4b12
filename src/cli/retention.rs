//! `retention`: how the purge keeps up.

use clap::Subcommand;

use super::client::Client;
use super::problem::{Exit, Problem};
use super::screen::Tone;
use super::table::Table;
use super::text::{ago, clean, rough};
use super::{clock, problem};
use crate::rpc::proto;

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// Tell what waits for the purge and what each server did; exits with 1 when it falls behind
    Status,
}

impl Command {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Problem> {
        let Command::Status = self;
        let mut admin = client.connect().await?;
        let asked = admin.get_retention_status(client.request(proto::GetRetentionStatusRequest {})).await;
        let status = asked.map_err(|status| problem::Problem::of(&status))?.into_inner();
        let exit = if status.falling_behind { Exit::Failed } else { Exit::Done };
        let screen = client.screen;
        if screen.json() {
            screen.message("GetRetentionStatusResponse", &status)?;
            return Ok(exit);
        }
        let least = if status.due_is_lower_bound { "at least " } else { "" };
        let oldest = status
            .oldest_due_age
            .as_ref()
            .map_or_else(String::new, |age| format!(", the oldest for {}", rough(age.seconds)));
        screen.line(&format!("{least}{} entries wait for the purge{oldest}", status.due))?;
        if status.falling_behind {
            screen.line(&screen.toned("the purge falls behind: more is due than it forgets", Tone::Bad))?;
        } else {
            screen.line(&screen.toned("the purge keeps up", Tone::Good))?;
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
        if status.workers.is_empty() {
            screen.line("no server was heard of for a day")?;
        } else {
            table.print(screen)?;
        }
        Ok(exit)
    }
}
