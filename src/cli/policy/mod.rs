//! `policy`: shows and changes the policies of consumers.

mod apply;
mod diff;
mod export;
mod file;
mod hold;
mod lint;
mod mistakes;
mod observed;
mod set;
mod show;
mod warned;

use clap::Subcommand;

pub(in crate::cli) use self::show::all;

use super::client::Client;
use super::problem::{Exit, Problem};

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// List the consumers that have their own policy
    List,
    /// Show the policy that is in force for a consumer, and where it comes from
    Get {
        /// The consumer
        consumer: String,
    },
    /// Change fields of a consumer's policy, or give it its own policy
    Set(Box<set::Set>),
    /// Remove a consumer's policy: that of the server's configuration is in force again
    Delete(set::Delete),
    /// Put the policies of a file in force
    Apply(apply::Apply),
    /// Look for known mistakes in policies
    Lint(lint::Lint),
    /// Stop new grants for all consumers, or for the consumers whose names begin with a prefix
    Hold(hold::Hold),
    /// End a hold: new grants are possible again
    Resume(hold::Resume),
    /// List the holds in force
    Holds(hold::Holds),
    /// List every policy that was set for a consumer, newest first
    History(show::History),
    /// Print the policies that operators have set, as a file for `policy apply`
    Export(export::Export),
}

impl Command {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Problem> {
        match self {
            Command::List => show::list(&client).await,
            Command::Get { consumer } => show::get(&client, &consumer).await,
            Command::Set(set) => set.run(&client).await,
            Command::Delete(delete) => delete.run(&client).await,
            Command::Apply(apply) => apply.run(&client).await,
            Command::Lint(lint) => lint.run(&client).await,
            Command::Hold(hold) => hold.run(&client).await,
            Command::Resume(resume) => resume.run(&client).await,
            Command::Holds(holds) => holds.run(&client).await,
            Command::History(history) => history.run(&client).await,
            Command::Export(export) => export.run(&client).await,
        }
    }
}
