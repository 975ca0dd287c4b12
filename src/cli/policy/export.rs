//! `policy export`: the policies that operators have set, as a file for `policy apply`.

use std::fmt::Write as _;

use clap::Args;

use super::show;
use crate::cli::client::Client;
use crate::cli::problem::{Exit, Problem};
use crate::proto::{ConsumerPolicy, Policy, PolicySource, policy_fields};

/// Which policies.
#[derive(Args)]
pub(in crate::cli) struct Export {
    /// The consumers [default: all whose policies operators have set]
    consumers: Vec<String>,
}

impl Export {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let mut policies = Vec::new();
        if self.consumers.is_empty() {
            let all = show::all(client, &mut admin).await?;
            policies.extend(all.into_iter().filter(|one| one.source() == PolicySource::Set));
        } else {
            for consumer in &self.consumers {
                policies.push(show::fetch(client, &mut admin, consumer).await?);
            }
        }
        let output = client.output;
        if output.json() {
            policies.iter().try_for_each(|policy| output.message("ConsumerPolicy", policy))?;
            return Ok(Exit::Done);
        }
        if let Some(one) = policies.iter().find(|one| one.unreadable) {
            let text =
                format!("{}: a newer version set the policy, and this server cannot read it", one.consumer);
            return Err(Problem::failed(text).next("ask a server of that version"));
        }
        if policies.is_empty() {
            output.note("no operator has set a policy");
            return Ok(Exit::NotFound);
        }
        output.bytes(file(&policies).as_bytes())?;
        Ok(Exit::Done)
    }
}

/// The file. Each field is stated, so that it does not depend on the defaults of the server that it is applied to.
fn file(policies: &[ConsumerPolicy]) -> String {
    let mut text = "consumers:\n".to_owned();
    for one in policies {
        let policy = one.policy.clone().unwrap_or_default();
        // Writing to a string does not fail.
        let _written = writeln!(text, "  {}:\n{}", quoted(&one.consumer), fields(&policy));
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn fields(policy: &Policy) -> String {
    let mut text = String::new();
    let mut section = "";
    for (path, value) in policy_fields(policy) {
        if value.is_empty() {
            continue;
        }
        let value = if path == "accepted_risk" { quoted(&value) } else { value };
        let (within, name) = path.split_once('.').unwrap_or(("", path));
        if within != section && !within.is_empty() {
            let _written = writeln!(text, "    {within}:");
        }
        section = within;
        let indent = if within.is_empty() { "    " } else { "      " };
        let _written = writeln!(text, "{indent}{name}: {value}");
    }
    text.trim_end().to_owned()
}

/// A text in double quotes, as YAML and JSON have it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::BackoffPolicy;

    #[test]
    fn exported_file_states_each_field() {
        let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
        let policy = Policy {
            lease: seconds(120),
            backoff: Some(BackoffPolicy { initial: seconds(1), multiplier: Some(2.0), ..Default::default() }),
            retention: seconds(604_800),
            accepted_risk: "a \"newsletter\": #1".into(),
            disabled: Some(false),
            ..Policy::default()
        };
        let one = |consumer: &str| ConsumerPolicy {
            consumer: consumer.into(),
            policy: Some(policy.clone()),
            ..Default::default()
        };
        let expected = "    lease: 2m\n    backoff:\n      initial: 1s\n      multiplier: 2\n    retention: 7d\n    \
                        accepted_risk: \"a \\\"newsletter\\\": #1\"\n    disabled: false\n";
        assert_eq!(file(&[one("pay")]), format!("consumers:\n  \"pay\":\n{expected}"));
        assert_eq!(
            file(&[one("pay"), one("- ship: 1")]),
            format!("consumers:\n  \"pay\":\n{expected}  \"- ship: 1\":\n{expected}")
        );
    }
}
