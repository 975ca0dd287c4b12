//! `policy lint`: known mistakes, each with its consequence.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use clap::Args;

use super::mistakes::{Subject, check};
use super::observed::look;
use super::set::PolicyRequest;
use super::{file, show};
use crate::cli::client::{Admin, Client};
use crate::cli::consumer::note_unknown;
use crate::cli::output::TextStyle;
use crate::cli::problem::{Exit, Problem, violations};
use crate::cli::text::{clean, counted};
use crate::policy_args::PolicyArgs;
use crate::proto;

/// The policies to check.
#[derive(Args)]
pub(in crate::cli) struct Lint {
    /// The policies as this file would make them [default: those in force]
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Only of this consumer [default: all that have a policy]
    #[arg(long)]
    consumer: Option<String>,
    /// Ask no server: check only what the file states, without figures
    #[arg(long, requires = "file")]
    offline: bool,
    /// Exit with 1 when there are warnings
    #[arg(long)]
    strict: bool,
}

/// A mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Warning {
    consumer: String,
    field: &'static str,
    text: String,
}

impl Lint {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let wanted = self.file.as_deref().map(file::read).transpose()?;
        let subjects = if self.offline {
            self.offline(&wanted.unwrap_or_default())
        } else {
            self.online(client, wanted.as_ref()).await?
        };
        let mut warnings = Vec::new();
        for subject in &subjects {
            let named = |(field, text)| Warning { consumer: subject.consumer.clone(), field, text };
            warnings.extend(check(subject).into_iter().map(named));
        }
        print(client, subjects.len(), &warnings)?;
        Ok(if self.strict && !warnings.is_empty() { Exit::Failed } else { Exit::Done })
    }

    fn offline(&self, wanted: &BTreeMap<String, PolicyArgs>) -> Vec<Subject> {
        let asked = |consumer: &&String| self.consumer.as_ref().is_none_or(|only| only == *consumer);
        let stated = wanted.iter().filter(|(consumer, fields)| asked(consumer) && !fields.delete);
        let subject = |(consumer, fields): (&String, &PolicyArgs)| Subject {
            consumer: consumer.clone(),
            policy: fields.message(),
            refused: Vec::new(),
            observed: None,
        };
        stated.map(subject).collect()
    }

    async fn online(
        &self,
        client: &Client,
        wanted: Option<&BTreeMap<String, PolicyArgs>>,
    ) -> Result<Vec<Subject>, Problem> {
        let mut admin = client.connect().await?;
        let consumers: BTreeSet<String> = match (&self.consumer, wanted) {
            (Some(only), _) => BTreeSet::from([only.clone()]),
            (None, Some(wanted)) => wanted.keys().cloned().collect(),
            (None, None) => {
                show::all(client, &mut admin).await?.into_iter().map(|policy| policy.consumer).collect()
            }
        };
        if let Some(only) = &self.consumer {
            note_unknown(client, &mut admin, only).await;
        }
        let mut all = Vec::new();
        for consumer in consumers {
            let found = show::fetch(client, &mut admin, &consumer).await?;
            let fields = wanted.and_then(|wanted| wanted.get(&consumer)).filter(|fields| !fields.delete);
            let (policy, refused) = match fields {
                None => (found.policy, Vec::new()),
                Some(fields) => would_be(client, &mut admin, &found, fields).await?,
            };
            let observed = look(client, &mut admin, &consumer).await?;
            all.push(Subject { consumer, policy: policy.unwrap_or_default(), refused, observed });
        }
        Ok(all)
    }
}

/// Asks the server which policy it would make of one of the file. Returns that policy, or the refusals of its
/// fields.
async fn would_be(
    client: &Client,
    admin: &mut Admin,
    found: &proto::ConsumerPolicy,
    fields: &PolicyArgs,
) -> Result<(Option<proto::Policy>, Vec<String>), Problem> {
    let (consumer, version) = (found.consumer.as_str(), found.version);
    let request = PolicyRequest { consumer, version, request_id: String::new(), reason: "" };
    match request.validate(client, admin, fields).await {
        Ok(answer) => Ok((answer.policy.unwrap_or_default().policy, Vec::new())),
        Err(status) => match violations(&status) {
            none if none.is_empty() => Err(Problem::of(&status)),
            refused => Ok((None, refused)),
        },
    }
}

fn print(client: &Client, looked_at: usize, warnings: &[Warning]) -> Result<(), Problem> {
    let output = client.output;
    if output.json() {
        let warnings: Vec<_> = warnings
            .iter()
            .map(|one| serde_json::json!({ "consumer": one.consumer, "field": one.field, "text": one.text }))
            .collect();
        let report = serde_json::json!({ "policies": looked_at, "warnings": warnings });
        return output.line(&report.to_string());
    }
    for warning in warnings {
        output.line(&format!(
            "{} {}: {}: {}",
            output.styled("warning:", TextStyle::Doubtful),
            clean(&warning.consumer),
            warning.field,
            clean(&warning.text)
        ))?;
    }
    if looked_at == 0 {
        output.note("no consumer has its own policy; name one with --consumer");
    }
    let policies = counted(looked_at, "policy", "policies");
    output.line(&format!("{policies} looked at, {}", counted(warnings.len(), "warning", "warnings")))
}
