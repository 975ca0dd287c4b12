//! Environment variables with the prefix of the settings that are not a setting: most are misspelt.

use std::collections::BTreeSet;

/// The prefix of all settings' variables.
const PREFIX: &str = "IDEMPOTENCY_LEDGER_";

/// A name whose similarity to a setting's is above this (Jaro–Winkler, 0 to 1) counts as a misspelt form of it.
const NEAR: f64 = 0.85;

/// The variables that this program reads.
#[derive(Clone, Debug, Default)]
pub struct KnownVariables {
    /// The variables of the command that runs.
    pub own: BTreeSet<String>,
    /// The variables of all commands.
    pub all: BTreeSet<String>,
}

/// A variable that the command that runs does not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Its name.
    pub(crate) name: String,
    /// The setting of the command that runs with the most similar name; `None` if none is similar.
    pub(crate) nearest: Option<String>,
    /// Whether other commands read it.
    pub(crate) is_of_others: bool,
}

/// Variables with the prefix that the command that runs does not read, ordered by name: those that no command reads and
/// Kubernetes did not set, and those of other commands whose names are similar to one of this command. All other variables of
/// operators' commands may be in the environment of a server.
///
/// Kubernetes sets variables in each container for each Service of the namespace: `NAME_SERVICE_HOST`, `NAME_PORT_50051_TCP` and
/// others. A Service named `idempotency-ledger` gives them the prefix.
pub(crate) fn unknown(known: &KnownVariables, set: impl Iterator<Item = String>) -> Vec<Unknown> {
    let ours: BTreeSet<String> = set.filter(|name| name.starts_with(PREFIX)).collect();
    let services: Vec<&str> = ours.iter().filter_map(|name| name.strip_suffix("SERVICE_HOST")).collect();
    let is_of_service = |name: &str| {
        let rests = services.iter().filter_map(|service| name.strip_prefix(service));
        let mut kinds =
            rests.map(|rest| rest.starts_with("SERVICE_") || rest.split('_').next() == Some("PORT"));
        kinds.any(|is| is)
    };
    let unread = ours.iter().filter(|name| !known.own.contains(*name) && !is_of_service(name));
    let unread = unread.map(|name| Unknown {
        name: name.clone(),
        nearest: nearest(&known.own, name),
        is_of_others: known.all.contains(name),
    });
    unread.filter(|variable| !variable.is_of_others || variable.nearest.is_some()).collect()
}

fn nearest(known: &BTreeSet<String>, name: &str) -> Option<String> {
    let rest = |name: &str| name.strip_prefix(PREFIX).unwrap_or_default().to_owned();
    let of = |one: &String| (strsim::jaro_winkler(&rest(one), &rest(name)), one.clone());
    let best = known.iter().map(of).max_by(|(one, _), (other, _)| one.total_cmp(other));
    best.filter(|(near, _)| *near >= NEAR).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_reports_misspelt_variable_with_nearest() {
        let known: BTreeSet<String> = ["DATABASE_URL", "DATABASE_URL_FILE", "LISTEN", "LOG_FORMAT", "CONFIG"]
            .map(|name| format!("{PREFIX}{name}"))
            .into();
        let known = KnownVariables { all: known.clone(), own: known };
        for (name, nearest) in [
            ("DATABSE_URL", Some("DATABASE_URL")),
            ("LOGFORMAT", Some("LOG_FORMAT")),
            ("CONF", Some("CONFIG")),
            ("XYZ", None),
        ] {
            let set = [format!("{PREFIX}{name}"), format!("{PREFIX}LISTEN"), "OTHER_LISTEM".to_owned()];
            let nearest = nearest.map(|name| format!("{PREFIX}{name}"));
            let expected = vec![Unknown { name: format!("{PREFIX}{name}"), nearest, is_of_others: false }];
            assert_eq!(unknown(&known, set.into_iter()), expected);
        }
    }

    #[test]
    fn unknown_reports_similar_variable_of_other_command() {
        let names = |names: &[&str]| names.iter().map(|name| format!("{PREFIX}{name}")).collect();
        let own: BTreeSet<String> = names(&["TOKENS_FILE", "LISTEN"]);
        let all = own.union(&names(&["TOKEN_FILE", "ENDPOINT"])).cloned().collect();
        let set: BTreeSet<String> = names(&["TOKEN_FILE", "ENDPOINT", "TOKENZ_FILE", "LISTEN"]);
        let near = |name: &str, is_of_others| Unknown {
            name: format!("{PREFIX}{name}"),
            nearest: Some(format!("{PREFIX}TOKENS_FILE")),
            is_of_others,
        };
        let found = unknown(&KnownVariables { own, all }, set.into_iter());
        assert_eq!(found, [near("TOKENZ_FILE", false), near("TOKEN_FILE", true)]);
    }

    #[test]
    fn unknown_ignores_service_variables_of_kubernetes() {
        let of_services = ["", "ADMIN_"].into_iter().flat_map(|service| {
            let rests = ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_GRPC", "PORT", "PORT_50051_TCP_ADDR"];
            rests.map(|rest| format!("{PREFIX}{service}{rest}"))
        });
        let set = of_services.chain([format!("{PREFIX}PORTAL"), format!("{PREFIX}OTHER_PORT")]);
        let found = unknown(&KnownVariables::default(), set).into_iter().map(|one| one.name);
        assert_eq!(found.collect::<Vec<_>>(), [format!("{PREFIX}OTHER_PORT"), format!("{PREFIX}PORTAL")]);
    }
}
