//! The configuration in force, without secrets: in the form of a file, or as JSON.

use std::fmt;

use serde_json::{Map, Value, json};

use super::checker::Shown;
use crate::domain::Policy;
use crate::ledger::Policies;
use crate::proto::policy_fields;
use crate::rpc::policy_message;

/// Every setting and every policy of a configuration, as in force. Of a Postgres URL only address and database are shown, never
/// the password.
#[derive(Debug)]
pub struct InForce {
    pub(super) settings: Vec<Shown>,
    pub(super) policies: Policies,
}

impl InForce {
    /// Shows that the ledger is in memory because of this flag; a file cannot configure that.
    pub(in crate::server) fn is_in_memory(&mut self, flag: &str) {
        for one in self.settings.iter_mut().filter(|one| one.name == "database_url") {
            (one.value, one.source) = ("none".into(), Some(format!("{flag}, the memory of the process")));
        }
    }

    /// The default policy and those of consumers, each with the name of its section.
    fn sections(&self) -> impl Iterator<Item = (Option<String>, Policy)> {
        // The empty name is that of the default policy.
        let usual = (None, Policy::clone(&self.policies.of("")));
        let own = self.policies.names().into_iter();
        let own = own.map(|name| (Some(name.clone()), Policy::clone(&self.policies.of(&name))));
        std::iter::once(usual).chain(own)
    }

    /// One JSON object: each setting with `value` and `from`, the policies by their consumers.
    #[must_use]
    pub fn json(&self) -> Value {
        let settings: Map<String, Value> = self
            .settings
            .iter()
            .map(|one| {
                let from = one.source.as_deref().unwrap_or("default");
                (one.name.clone(), json!({ "value": one.value, "from": from }))
            })
            .collect();
        let (mut policy, mut consumers) = (Value::Null, Map::new());
        for (name, rules) in self.sections() {
            let fields: Map<String, Value> =
                fields(&rules).into_iter().map(|(path, value)| (path.to_owned(), json!(value))).collect();
            match name {
                None => policy = fields.into(),
                Some(name) => drop(consumers.insert(name, fields.into())),
            }
        }
        json!({ "settings": settings, "policy": policy, "consumers": consumers })
    }
}

/// The fields of a policy that have a value.
fn fields(policy: &Policy) -> Vec<(&'static str, toml::Value)> {
    let stated = policy_fields(&policy_message(policy)).into_iter().filter(|(_, text)| !text.is_empty());
    let valued = stated.map(|(path, text)| {
        let number = text.parse().map(toml::Value::Integer).or_else(|_| text.parse().map(toml::Value::Float));
        let plain = number.ok().or_else(|| text.parse().map(toml::Value::Boolean).ok());
        let value = plain.filter(|_| path != "accepted_risk");
        (path, value.unwrap_or(toml::Value::String(text)))
    });
    valued.collect()
}

/// In the form of a file.
impl fmt::Display for InForce {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Shown { name, value, source } in &self.settings {
            let from = source.as_deref().unwrap_or("default");
            // A description instead of a URL, which would show the password.
            let described = value.as_str().filter(|text| name == "database_url" && !text.contains("://"));
            match described {
                Some(text) => writeln!(to, "# {name}: {text}  # {from}")?,
                None => writeln!(to, "{name} = {value}  # {from}")?,
            }
        }
        for (name, policy) in self.sections() {
            match name {
                None => writeln!(to, "\n[policy]")?,
                Some(name) => writeln!(to, "\n[consumers.{}]", toml::Value::String(name))?,
            }
            for (path, value) in fields(&policy) {
                writeln!(to, "{path} = {value}")?;
            }
        }
        Ok(())
    }
}
