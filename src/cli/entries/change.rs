//! What the changes of one entry have in common: showing the entry first, confirmation before a dangerous
//! change, repeats after an unknown outcome. And one of the changes: delete.

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use prost::Message;
use tonic::{Response, Status};

use super::suggestions::{DELIVER_AGAIN, ERASED};
use super::unreadable::{self, DeleteByHash};
use super::{get, suggestions};
use crate::cli::client::{Admin, Client};
use crate::cli::confirm::confirm;
use crate::cli::problem::{Exit, Problem};
use crate::cli::retry::ConfirmedAnswer;
use crate::cli::text::{clean, counted, name, quoted};
use crate::cli::{enums, retry};
use crate::proto::{self, MessageState};

/// The arguments of each change of one entry.
#[derive(Args)]
#[group(skip)]
pub(super) struct EntryChangeArgs {
    /// Why, for the audit
    #[arg(long)]
    pub(super) reason: String,
    /// The version of the entry that you looked at [default: the present one]
    #[arg(long, value_name = "N")]
    pub(super) expected_version: Option<i64>,
    /// Your own id of the request; a repeat with it and the same --expected-version changes nothing more
    /// [default: a random one]
    #[arg(long, value_name = "ID")]
    pub(super) request_id: Option<String>,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    pub(super) yes: bool,
}

const ONLY_COPY: &str =
    "the ledger has the only copy of its message, which goes with it: no broker delivers it again";

/// When to ask for confirmation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    Never,
    /// Where the server would redrive an entry whose effect may have happened, or where the server does not
    /// report that.
    InDoubt,
    Always,
}

impl Ask {
    pub(super) fn always_if(harmful: bool) -> Ask {
        if harmful { Ask::Always } else { Ask::Never }
    }
}

/// A change that is ready to be made.
pub(super) struct PreparedChange<'c> {
    pub(super) client: &'c Client,
    pub(super) admin: Admin,
    pub(super) key: proto::EntryKey,
    pub(super) request_id: String,
    pub(super) expected_version: i64,
}

impl<'c> PreparedChange<'c> {
    /// Reads the entry, shows its state and the change, and asks for confirmation if the change is dangerous. `erases`: the change
    /// takes a stored message with it.
    pub(super) async fn prepare(
        client: &'c Client,
        key: proto::EntryKey,
        args: &EntryChangeArgs,
        what: &str,
        ask: Ask,
        erases: bool,
    ) -> Result<PreparedChange<'c>, Problem> {
        let mut admin = client.connect().await?;
        let seen = get::fetch(client, &mut admin, &key).await;
        let (mut doubt, mut loses) = (None, None);
        let version = match (seen, args.expected_version) {
            (Ok(found), given) => {
                let entry = found.entry.unwrap_or_default();
                print(client, &key, &entry, what);
                doubt = suggestions::doubt(&entry).filter(|_| ask == Ask::InDoubt);
                loses = (erases && entry.message_state() == MessageState::Kept).then_some(ONLY_COPY);
                given.unwrap_or(entry.version)
            }
            // A repeated deletion finds no entry any more, and is answered anyway.
            (Err(_), Some(given)) if args.request_id.is_some() => given,
            (Err(problem), _) => return Err(problem),
        };
        for warning in [doubt, loses].into_iter().flatten() {
            // Also with a yes given beforehand, and to a person who reads only standard error.
            client.output.stderr(&format!("  {warning}"));
        }
        if doubt.is_some() || loses.is_some() || ask == Ask::Always {
            // In JSON mode the state was not shown before.
            let question = if client.output.json() { what } else { "Do it" };
            confirm(client, &format!("{question}?"), args.yes)?;
        }
        let request_id = args.request_id.clone().unwrap_or_else(retry::id);
        Ok(PreparedChange { client, admin, key, request_id, expected_version: version })
    }

    /// Makes the change; `call` sends the same request each time.
    pub(super) async fn make<T, F>(&self, call: impl Fn(Admin) -> F) -> Result<ConfirmedAnswer<T>, Problem>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        retry::until_known(|| call(self.admin.clone())).await.map_err(|status| {
            let problem = Problem::of(&status);
            if retry::unknown(&status) {
                let next = format!(
                    "it may have been done: repeat the same command with --request-id {} --expected-version {}",
                    quoted(&self.request_id),
                    self.expected_version
                );
                return problem.next(next);
            }
            problem
        })
    }

    /// Makes the change as `make` does. If `--force` was not given and would help, the error suggests it.
    pub(super) async fn make_or_force<T, F>(
        &self,
        forced: bool,
        call: impl Fn(Admin) -> F,
    ) -> Result<ConfirmedAnswer<T>, Problem>
    where
        F: Future<Output = Result<Response<T>, Status>>,
    {
        self.make(call).await.map_err(|problem| if forced { problem } else { problem.forcible() })
    }

    /// Shows the entry after the change.
    pub(super) fn done<M: Message>(
        &self,
        name: &str,
        known: &ConfirmedAnswer<M>,
        entry: Option<&proto::Entry>,
        replayed: bool,
    ) -> Result<Exit, Problem> {
        let output = self.client.output;
        if output.json() {
            output.message(name, &known.answer)?;
            return Ok(Exit::Done);
        }
        let now = entry.map_or_else(
            || "gone".to_owned(),
            |entry| format!("{} now, version {}", enums::state(entry.state), entry.version),
        );
        // A repeat by this very command is not worth a note.
        let repeat = if replayed && !known.repeated {
            " (it had been done before; this repeat changed nothing)"
        } else {
            ""
        };
        output.line(&format!("{} is {now}{repeat}", named(&self.key)))?;
        let received = entry.filter(|entry| entry.state() == proto::EntryState::Received);
        match received.map(proto::Entry::message_state) {
            Some(MessageState::Erased) => output.note(ERASED),
            Some(MessageState::Unspecified) => output.note(DELIVER_AGAIN),
            Some(MessageState::Kept) | None => {}
        }
        Ok(Exit::Done)
    }
}

fn named(key: &proto::EntryKey) -> String {
    format!("{} {} {}", name(&key.consumer), name(&key.source), name(&key.id))
}

fn print(client: &Client, key: &proto::EntryKey, entry: &proto::Entry, what: &str) {
    let output = client.output;
    let cause = if entry.cause == 0 { String::new() } else { format!(" ({})", enums::cause(entry.cause)) };
    let expired = if entry.expired { ", expired" } else { "" };
    output.note(&format!(
        "{}: {}{cause}{expired}, version {}, {}",
        named(key),
        enums::state(entry.state),
        entry.version,
        counted(entry.attempts, "attempt", "attempts")
    ));
    if entry.effect_doubtful {
        output.note("  its effect may have happened: see `entries get`");
    }
    if !entry.last_error.is_empty() {
        output.note(&format!("  last error: {}", clean(&entry.last_error)));
    }
    output.note(&format!("  will: {what}"));
}

/// `entries delete`.
#[derive(Args)]
pub(in crate::cli) struct Delete {
    /// The entry's key
    #[arg(num_args = 3, required_unless_present = "hash", value_names = ["CONSUMER", "SOURCE", "ID"])]
    key: Vec<String>,
    /// The hash of the key of an entry that cannot be read: in place of the key, and with --force
    #[arg(long, value_name = "HASH", conflicts_with_all = ["key", "replay_run", "expected_version"], requires = "force",
        value_parser = NonEmptyStringValueParser::new())]
    hash: Option<String>,
    /// The replay run whose entry it is [default: the live one]
    #[arg(long, value_name = "RUN")]
    replay_run: Option<String>,
    /// Also where the effect happened or may have happened, and would happen again
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    args: EntryChangeArgs,
}

impl Delete {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        if let Some(hash) = self.hash {
            let EntryChangeArgs { reason, request_id, yes, .. } = self.args;
            return unreadable::delete(client, DeleteByHash { hash, reason, request_id, yes }).await;
        }
        let what = "forget it for good: a later delivery of the message is new";
        let key = super::key_of(&self.key, self.replay_run.as_deref());
        let change = PreparedChange::prepare(client, key, &self.args, what, Ask::Always, true).await?;
        let request = proto::DeleteEntryRequest {
            key: Some(change.key.clone()),
            request_id: change.request_id.clone(),
            expected_version: change.expected_version,
            reason: self.args.reason,
            force: self.force,
            key_hash: String::new(),
        };
        let call = |mut admin: Admin| {
            let request = client.request(request.clone());
            async move { admin.delete_entry(request).await }
        };
        let known = change.make_or_force(self.force, call).await?;
        change.done("DeleteEntryResponse", &known, None, known.answer.replayed)
    }
}
