//! `policy apply`: shows the difference between a file and the policies in force, asks for confirmation, and
//! applies it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;

use super::set::PolicyRequest;
use super::{diff, file, set, show, warned};
use crate::cli::client::{Admin, Client};
use crate::cli::confirm::{can_ask, confirm};
use crate::cli::json;
use crate::cli::output::TextStyle;
use crate::cli::problem::{Exit, Problem, violations};
use crate::cli::retry;
use crate::cli::text::{clean, counted};
use crate::policy_args::PolicyArgs;
use crate::proto;

/// Which file, and how.
#[derive(Args)]
pub(in crate::cli) struct Apply {
    /// The file, or - for standard input: `consumers: {NAME: {lease: 2m, …}}`; `delete: true` removes a
    /// policy
    #[arg(long, short, value_name = "FILE")]
    file: PathBuf,
    /// Why, for the audit and the history
    #[arg(long)]
    reason: String,
    /// Change nothing; show the difference. Exits with 7 if the file differs
    #[arg(long)]
    dry_run: bool,
    /// Skip the confirmation prompt
    #[arg(long, short)]
    yes: bool,
}

/// The change for one consumer.
struct Step {
    consumer: String,
    version: i32,
    what: What,
}

enum What {
    Set(Box<PolicyArgs>, Box<proto::SetPolicyResponse>),
    Delete,
}

impl Apply {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let output = client.output;
        let wanted = file::read(&self.file)?;
        let mut admin = client.connect().await?;
        let steps = plan(client, &mut admin, &wanted).await?;
        if steps.is_empty() {
            if output.json() {
                output.line(&report(&[], &[], self.dry_run))?;
            } else {
                output.line("nothing to change")?;
            }
            return Ok(Exit::Done);
        }
        for step in &steps {
            output.note(&output.styled(&clean(&step.consumer), TextStyle::Strong));
            match &step.what {
                What::Set(_, would_be) => {
                    for line in diff::lines(output, &would_be.changes) {
                        output.note(&line);
                    }
                    let policy = would_be.policy.as_ref().and_then(|policy| policy.policy.as_ref());
                    if let Some(policy) = policy {
                        if would_be.changes.iter().any(|change| change.path == "inbox") && policy.inbox() {
                            output.note(set::INBOX);
                        }
                        warned::warn(client, &mut admin, &step.consumer, policy).await;
                    }
                }
                What::Delete => output.note("  taken back: the server's configuration is in force again"),
            }
        }
        output.note("consumers that the file does not name are left alone");
        let names: Vec<&str> = steps.iter().map(|step| step.consumer.as_str()).collect();
        if self.dry_run {
            if output.json() {
                output.line(&differences(&steps)?)?;
            } else {
                output
                    .line(&format!("dry run: {} would change; nothing was changed", policies(steps.len())))?;
            }
            return Ok(Exit::Differs);
        }
        if !self.yes {
            can_ask()?;
        }
        confirm(client, &format!("Change {}?", policies(steps.len())), self.yes)?;
        for (at, step) in steps.iter().enumerate() {
            let (done, left) = names.split_at(at);
            match step.apply(client, &admin, &self.reason).await {
                Ok(line) => output.note(&line),
                Err(problem) => {
                    if output.json() {
                        output.line(&report(done, left, false))?;
                    }
                    let exit = if done.is_empty() { problem.exit } else { Exit::Partly };
                    let text = format!(
                        "{}: {}\n  changed: {}; not changed: {}",
                        clean(&step.consumer),
                        problem.text,
                        listed(done),
                        listed(left)
                    );
                    let next = "look at the difference with --dry-run, and apply the file again: what is \
                                done is not done twice";
                    return Err(Problem::new(exit, text).next(next));
                }
            }
        }
        if output.json() {
            output.line(&report(&names, &[], false))?;
        } else {
            output.line(&format!("{} changed", policies(steps.len())))?;
        }
        Ok(Exit::Done)
    }
}

fn policies(number: usize) -> String {
    counted(number, "policy", "policies")
}

/// Computes the differences. A policy that the server would refuse is refused before anything is changed.
async fn plan(
    client: &Client,
    admin: &mut Admin,
    wanted: &BTreeMap<String, PolicyArgs>,
) -> Result<Vec<Step>, Problem> {
    let (mut steps, mut wrong) = (Vec::new(), Vec::new());
    for (consumer, fields) in wanted {
        let found = show::fetch(client, admin, consumer).await?;
        let version = found.version;
        let what = if fields.delete {
            (found.source() == proto::PolicySource::Set).then_some(What::Delete)
        } else {
            let request = PolicyRequest { consumer, version, request_id: String::new(), reason: "" };
            match request.validate(client, admin, fields).await {
                Ok(answer) => {
                    let differs = !answer.changes.is_empty();
                    differs.then(|| What::Set(Box::new(fields.clone()), Box::new(answer)))
                }
                Err(status) => {
                    let violations = violations(&status);
                    if violations.is_empty() {
                        return Err(Problem::of(&status));
                    }
                    wrong.extend(
                        violations.into_iter().map(|one| format!("consumers.{}.{one}", clean(consumer))),
                    );
                    None
                }
            }
        };
        steps.extend(what.map(|what| Step { consumer: consumer.clone(), version, what }));
    }
    if wrong.is_empty() {
        return Ok(steps);
    }
    Err(Problem::failed(format!("nothing was changed:\n  {}", wrong.join("\n  "))))
}

impl Step {
    async fn apply(&self, client: &Client, admin: &Admin, reason: &str) -> Result<String, Problem> {
        let wanted = PolicyRequest {
            consumer: &self.consumer,
            version: self.version,
            request_id: retry::id(),
            reason,
        };
        match &self.what {
            What::Set(fields, _) => {
                let done = wanted.set(client, admin, fields).await?;
                Ok(wanted.done(done.answer.policy.as_ref(), false))
            }
            What::Delete => {
                let done = wanted.delete(client, admin).await?;
                Ok(wanted.done(done.answer.policy.as_ref(), false))
            }
        }
    }
}

fn listed(names: &[&str]) -> String {
    if names.is_empty() { "none".to_owned() } else { clean(&names.join(", ")) }
}

fn report(changed: &[&str], left: &[&str], dry_run: bool) -> String {
    serde_json::json!({ "changed": changed, "notChanged": left, "dryRun": dry_run }).to_string()
}

/// A dry run as JSON: the new value of each changed field.
fn differences(steps: &[Step]) -> Result<String, Problem> {
    let names: Vec<&str> = steps.iter().map(|step| step.consumer.as_str()).collect();
    let mut each = serde_json::Map::new();
    for step in steps {
        let difference = match &step.what {
            What::Delete => serde_json::json!({ "delete": true }),
            What::Set(_, would_be) => {
                let changes: Result<Vec<_>, _> =
                    would_be.changes.iter().map(|change| json::value("PolicyChange", change)).collect();
                serde_json::json!({ "changes": changes? })
            }
        };
        each.insert(step.consumer.clone(), difference);
    }
    let report =
        serde_json::json!({ "changed": [], "notChanged": names, "dryRun": true, "differences": each });
    Ok(report.to_string())
}
