//! Variables of the environment that have the prefix of the settings and are not a setting: most are misspelt.

use std::collections::BTreeSet;

/// What the variables of all settings begin with.
const PREFIX: &str = "IDEMPOTENCY_LEDGER_";

/// A name that is nearer than this to one of a setting is taken for that one, misspelt (Jaro–Winkler, 0 to 1).
const NEAR: f64 = 0.85;

/// A variable that is not a setting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Unknown {
    /// Its name.
    pub(crate) name: String,
    /// The setting whose name is the nearest; `None` if none is near.
    pub(crate) nearest: Option<String>,
}

/// Variables with the prefix that are neither known nor put there by Kubernetes, in the order of their names.
///
/// Kubernetes puts variables into each container for each Service of the namespace: `NAME_SERVICE_HOST`,
/// `NAME_PORT_50051_TCP` and others. A Service named `idempotency-ledger` gives them the prefix.
pub(crate) fn unknown(known: &BTreeSet<String>, set: impl Iterator<Item = String>) -> Vec<Unknown> {
    let ours: BTreeSet<String> = set.filter(|name| name.starts_with(PREFIX)).collect();
    let services: Vec<&str> = ours.iter().filter_map(|name| name.strip_suffix("SERVICE_HOST")).collect();
    let is_of_service = |name: &str| {
        let rests = services.iter().filter_map(|service| name.strip_prefix(service));
        let mut kinds =
            rests.map(|rest| rest.starts_with("SERVICE_") || rest.split('_').next() == Some("PORT"));
        kinds.any(|is| is)
    };
    let unknown = ours.iter().filter(|name| !known.contains(*name) && !is_of_service(name));
    unknown.map(|name| Unknown { name: name.clone(), nearest: nearest(known, name) }).collect()
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
    fn a_misspelt_variable_is_named_with_the_nearest_one() {
        let known: BTreeSet<String> = ["DATABASE_URL", "DATABASE_URL_FILE", "LISTEN", "LOG_FORMAT", "CONFIG"]
            .map(|name| format!("{PREFIX}{name}"))
            .into();
        for (name, nearest) in [
            ("DATABSE_URL", Some("DATABASE_URL")),
            ("LOGFORMAT", Some("LOG_FORMAT")),
            ("CONF", Some("CONFIG")),
            ("XYZ", None),
        ] {
            let set = [format!("{PREFIX}{name}"), format!("{PREFIX}LISTEN"), "OTHER_LISTEM".to_owned()];
            let nearest = nearest.map(|name| format!("{PREFIX}{name}"));
            let expected = vec![Unknown { name: format!("{PREFIX}{name}"), nearest }];
            assert_eq!(unknown(&known, set.into_iter()), expected);
        }
    }

    #[test]
    fn what_kubernetes_puts_there_for_a_service_is_not_named() {
        let of_services = ["", "ADMIN_"].into_iter().flat_map(|service| {
            let rests = ["SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_GRPC", "PORT", "PORT_50051_TCP_ADDR"];
            rests.map(|rest| format!("{PREFIX}{service}{rest}"))
        });
        let set = of_services.chain([format!("{PREFIX}PORTAL"), format!("{PREFIX}OTHER_PORT")]);
        let found = unknown(&BTreeSet::new(), set).into_iter().map(|one| one.name);
        assert_eq!(found.collect::<Vec<_>>(), [format!("{PREFIX}OTHER_PORT"), format!("{PREFIX}PORTAL")]);
    }
}
