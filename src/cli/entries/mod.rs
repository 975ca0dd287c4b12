//! `entries`: shows the entries of the ledger, and changes them.

mod bulk;
mod change;
mod filter;
mod get;
mod list;
mod lookup;
mod message;
mod next;
mod park;
mod redrive;
mod resolve;
mod store;
mod suggestions;
mod summary;
mod unreadable;

use clap::{Args, Subcommand};

use super::client::Client;
use super::problem::{Exit, Problem};
use super::{import, reconcile};
use crate::proto::EntryKey;

/// The commands.
#[derive(Subcommand)]
pub(super) enum Command {
    /// List entries, of one consumer or of all, or count them by error
    List(list::List),
    /// Show everything that is known of one entry, and what can be done with it
    Get(get::Get),
    /// Look up how a message stands, as a consumer may: needs the right `claim`
    Lookup(lookup::Lookup),
    /// Show the stored messages that workers are handed out next, without a claim
    Next(next::Next),
    /// Show the stored message of an entry; the audit records it
    Message(message::ShowMessage),
    /// Count entries by state: what is stuck, since when, and what is about to be stuck
    Summary(summary::Summary),
    /// Have one entry processed again, or all that match a filter
    Redrive(redrive::Redrive),
    /// Stop grants of one entry, or of all that match a filter, until an operator redrives or resolves it
    Park(Box<park::Park>),
    /// Record the outcome of a message, or of all that match a filter
    Resolve(Box<resolve::Resolve>),
    /// Forget an entry for good: a later delivery of the message is new
    Delete(change::Delete),
    /// Store a message in the inbox of its consumer, whose workers process it: needs the right `store`
    Store(store::StoreMessage),
    /// Store messages that were processed elsewhere as COMPLETED
    Import(import::Import),
    /// Bring in effects that happened while the ledger could not be reached
    Reconcile(reconcile::Reconcile),
}

impl Command {
    pub(super) async fn run(self, client: Client) -> Result<Exit, Problem> {
        match self {
            Command::List(list) => list.run(&client).await,
            Command::Get(get) => get.run(&client).await,
            Command::Lookup(lookup) => lookup.run(&client).await,
            Command::Next(next) => next.run(&client).await,
            Command::Message(message) => message.run(&client).await,
            Command::Summary(summary) => summary.run(&client).await,
            Command::Redrive(redrive) => redrive.run(&client).await,
            Command::Park(park) => park.run(&client).await,
            Command::Resolve(resolve) => resolve.run(&client).await,
            Command::Delete(delete) => delete.run(&client).await,
            Command::Store(store) => store.run(&client).await,
            Command::Import(import) => import.run(&client).await,
            Command::Reconcile(reconcile) => reconcile.run(&client).await,
        }
    }
}

/// One entry.
#[derive(Args)]
pub(super) struct EntryKeyArgs {
    /// The entry's key
    #[arg(num_args = 3, required = true, value_names = ["CONSUMER", "SOURCE", "ID"])]
    key: Vec<String>,
    /// The replay run whose entry it is [default: the live one]
    #[arg(long, value_name = "RUN")]
    replay_run: Option<String>,
}

impl EntryKeyArgs {
    fn message(&self) -> EntryKey {
        key_of(&self.key, self.replay_run.as_deref())
    }
}

/// Three words as a key, live or in a replay run.
fn key_of(words: &[String], replay_run: Option<&str>) -> EntryKey {
    let word = |at: usize| words.get(at).cloned().unwrap_or_default();
    let replay_run = replay_run.unwrap_or_default().to_owned();
    EntryKey { consumer: word(0), source: word(1), id: word(2), replay_run }
}
