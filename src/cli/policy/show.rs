//! `policy list`, `get` and `history`.

use clap::Args;

use super::{diff, hold};
use crate::cli::client::{Admin, Client};
use crate::cli::enums;
use crate::cli::output::{Output, TextStyle};
use crate::cli::problem::{Exit, Problem};
use crate::cli::table::{Cell, Column, Table};
use crate::cli::text::{clean, when};
use crate::proto;

const PAGE: i32 = 500;
const UNREADABLE: &str = "  a newer version set it, and this server cannot read it";

const LIST: [Column; 8] = [
    Column::name("CONSUMER"),
    Column::whole("SOURCE").left_out(2),
    Column::whole("VERSION").left_out(1),
    Column::whole("LEASE"),
    Column::whole("ON EXPIRY"),
    Column::whole("ATTEMPTS"),
    Column::whole("RETENTION"),
    Column::whole(""),
];

/// Fetches the policy in force.
pub(super) async fn fetch(
    client: &Client,
    admin: &mut Admin,
    consumer: &str,
) -> Result<proto::ConsumerPolicy, Problem> {
    let request = client.request(proto::GetPolicyRequest { consumer: consumer.to_owned() });
    let found = admin.get_policy(request).await.map_err(|status| Problem::of(&status))?;
    Ok(found.into_inner().policy.unwrap_or_default())
}

/// Fetches all policies, page by page.
pub(in crate::cli) async fn all(
    client: &Client,
    admin: &mut Admin,
) -> Result<Vec<proto::ConsumerPolicy>, Problem> {
    let mut all = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = client.request(proto::ListPoliciesRequest { page_size: PAGE, page_token });
        let page = admin.list_policies(request).await.map_err(|status| Problem::of(&status))?.into_inner();
        all.extend(page.policies);
        if page.next_page_token.is_empty() {
            return Ok(all);
        }
        page_token = page.next_page_token;
    }
}

pub(super) async fn list(client: &Client) -> Result<Exit, Problem> {
    let mut admin = client.connect().await?;
    let policies = all(client, &mut admin).await?;
    let output = client.output;
    if output.json() {
        policies.iter().try_for_each(|policy| output.message("ConsumerPolicy", policy))?;
        return Ok(Exit::Done);
    }
    if policies.is_empty() {
        output.note("no consumer has its own policy");
        return Ok(Exit::Done);
    }
    let mut table = Table::of(&LIST);
    for policy in &policies {
        let own = policy.policy.clone().unwrap_or_default();
        let rows = diff::rows(&own);
        let value =
            |name: &str| rows.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone());
        let cell = |name: &str| Cell::from(value(name).unwrap_or_default());
        let held = match (policy.unreadable, own.disabled(), &policy.held_by) {
            (true, _, _) => "unreadable",
            (false, true, _) => "disabled",
            (false, false, Some(_)) => "held",
            (false, false, None) => "",
        };
        table.row(vec![
            clean(&policy.consumer).into(),
            enums::source(policy.source).into(),
            policy.version.to_string().into(),
            cell("lease"),
            cell("on_expiry"),
            cell("max_attempts"),
            cell("retention"),
            Cell::new(held, TextStyle::Bad),
        ]);
    }
    table.print(output)?;
    Ok(Exit::Done)
}

pub(super) async fn get(client: &Client, consumer: &str) -> Result<Exit, Problem> {
    let mut admin = client.connect().await?;
    let found = fetch(client, &mut admin, consumer).await?;
    print(client.output, &found)?;
    Ok(Exit::Done)
}

/// Prints a policy as a whole.
pub(super) fn print(output: Output, found: &proto::ConsumerPolicy) -> Result<(), Problem> {
    if output.json() {
        return output.message("ConsumerPolicy", found);
    }
    let from = match found.source() {
        proto::PolicySource::Set => "SET, by `policy set` or `policy apply`",
        proto::PolicySource::Configuration => "CONFIGURATION, the consumer's section of the server's file",
        proto::PolicySource::Default => {
            "DEFAULT, that of the server's file: the consumer has no policy itself"
        }
        proto::PolicySource::Unspecified => "unknown",
    };
    let mut table = Table::fields();
    let mut put = |name: &str, text: String| table.row(vec![Cell::new(name, TextStyle::Faint), text.into()]);
    put("consumer", clean(&found.consumer));
    put("source", from.to_owned());
    put("version", found.version.to_string());
    if found.unreadable {
        put(
            "unreadable",
            "this server cannot read the newest version; shown is the last one that it has read".into(),
        );
    }
    if let Some(prefix) = &found.held_by {
        put("held", format!("by a hold of {}: no new grants", hold::consumers(prefix)));
    }
    if let Some(floor) = &found.window_floor {
        put("window_floor", format!("{}: older messages are outside_window", when(floor)));
    }
    for (name, value) in diff::rows(&found.policy.clone().unwrap_or_default()) {
        put(name, value);
    }
    table.print(output)
}

/// `policy history`.
#[derive(Args)]
pub(in crate::cli) struct History {
    /// The consumer
    consumer: String,
    /// Maximum number of versions (0 = no limit)
    #[arg(long, default_value_t = 50, value_name = "N")]
    limit: usize,
}

impl History {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let versions = self.versions(client, &mut admin).await?;
        let output = client.output;
        let limit = if self.limit == 0 { usize::MAX } else { self.limit };
        let shown = versions.get(..limit.min(versions.len())).unwrap_or_default();
        if output.json() {
            shown.iter().try_for_each(|version| output.message("PolicyVersion", version))?;
        }
        if shown.is_empty() {
            output.note("nothing was ever set for this consumer");
            return Ok(Exit::NotFound);
        }
        if output.json() {
            return Ok(Exit::Done);
        }
        for (at, version) in shown.iter().enumerate() {
            let date = version.created_at.as_ref().map_or_else(|| "-".to_owned(), when);
            let head = format!("version {}, {date}, {}", version.version, clean(&version.actor));
            output.line(&format!(
                "{}: {}",
                output.styled(&head, TextStyle::Strong),
                clean(&version.reason)
            ))?;
            let before = versions.get(at + 1).and_then(|version| version.policy.as_ref());
            match (&version.policy, before) {
                (None, _) if version.unreadable => output.line(UNREADABLE)?,
                (None, _) => output.line("  deleted: the server's configuration is in force again")?,
                (Some(new), Some(old)) => {
                    let lines = diff::lines(output, &diff::between(old, new));
                    lines.iter().try_for_each(|line| output.line(line))?;
                }
                (Some(new), None) => {
                    for (name, value) in diff::rows(new) {
                        output.line(&format!("  {name}: {value}"))?;
                    }
                }
            }
        }
        if versions.len() > shown.len() {
            output.note("there are more: raise --limit, or 0 for all");
        }
        Ok(Exit::Done)
    }

    /// Fetches one version more than is shown, to compute the difference to it.
    async fn versions(
        &self,
        client: &Client,
        admin: &mut Admin,
    ) -> Result<Vec<proto::PolicyVersion>, Problem> {
        let enough = if self.limit == 0 { usize::MAX } else { self.limit.saturating_add(1) };
        let mut all = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = client.request(proto::ListPolicyVersionsRequest {
                consumer: self.consumer.clone(),
                page_size: PAGE,
                page_token,
            });
            let page = admin.list_policy_versions(request).await;
            let page = page.map_err(|status| Problem::of(&status))?.into_inner();
            all.extend(page.versions);
            if page.next_page_token.is_empty() || all.len() >= enough {
                return Ok(all);
            }
            page_token = page.next_page_token;
        }
    }
}
