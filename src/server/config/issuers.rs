//! The issuers of JSON web tokens: sections of the file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

use super::checker::Checker;
use crate::identity::jwt::{Issuer, Keys};

/// The maximum number of issuers.
const ISSUERS_MAX: usize = 16;

/// A section, as written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct IssuerArgs {
    issuer: Option<String>,
    audiences: Option<Vec<String>>,
    jwks_file: Option<PathBuf>,
    jwks_url: Option<String>,
    jwks_ca_file: Option<PathBuf>,
    jwks_token_file: Option<PathBuf>,
}

/// From where a server reads the public keys of an issuer (its JWKS).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksPlace {
    /// A file, which is read again when it changes.
    File(PathBuf),
    /// The URL that the issuer's discovery document names.
    Discovered {
        /// The certificate authorities of both servers; `None` for those that the system trusts.
        authorities: Option<PathBuf>,
        /// The file of a bearer token to present to the issuer's server.
        bearer: Option<PathBuf>,
    },
    /// The URL where the issuer publishes them.
    Url {
        /// The HTTPS URL.
        url: String,
        /// The certificate authorities of the server; `None` for those that the system trusts.
        authorities: Option<PathBuf>,
        /// The file of a bearer token to present.
        bearer: Option<PathBuf>,
    },
}

/// An issuer of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IssuerSettings {
    /// The name in principals: `jwt:NAME:SUB`.
    pub name: String,
    /// The claim `iss` of its tokens.
    pub issuer: String,
    /// The accepted audiences: the claim `aud` must have one of them.
    pub audiences: Vec<String>,
    /// The source of the keys.
    pub jwks: JwksPlace,
}

/// Reads the issuers; problems are added to the checker.
pub(super) fn issuers(given: &BTreeMap<String, IssuerArgs>, checker: &mut Checker) -> Vec<IssuerSettings> {
    if given.len() > ISSUERS_MAX {
        checker.wrong("issuers", &format!("has {} sections, must have at most {ISSUERS_MAX}", given.len()));
    }
    let found: Vec<IssuerSettings> =
        given.iter().filter_map(|(name, args)| issuer(name, args, checker)).collect();
    let known: Vec<Issuer> = found.iter().filter_map(|one| plain(one).ok()).collect();
    if let Err(problem) = Issuer::distinct(&known) {
        checker.wrong("issuers", &problem);
    }
    found
}

/// The issuer, without keys.
fn plain(issuer: &IssuerSettings) -> Result<Issuer, String> {
    Issuer::new(&issuer.name, &issuer.issuer, &issuer.audiences, Arc::new(Keys::none()))
}

fn issuer(name: &str, args: &IssuerArgs, checker: &mut Checker) -> Option<IssuerSettings> {
    let section = format!("issuers.{name}");
    let jwks = match (&args.jwks_file, &args.jwks_url) {
        (Some(file), None) => {
            for (field, is_there) in [
                ("jwks_ca_file", args.jwks_ca_file.is_some()),
                ("jwks_token_file", args.jwks_token_file.is_some()),
            ] {
                if is_there {
                    checker.wrong(
                        &format!("{section}.{field}"),
                        "is of no use with jwks_file: nothing is fetched",
                    );
                }
            }
            checker.shown(&format!("{section}.jwks_file"), file.display().to_string());
            Some(JwksPlace::File(file.clone()))
        }
        (None, Some(url)) => {
            checker.shown(&format!("{section}.jwks_url"), url.as_str());
            let (authorities, bearer) = (args.jwks_ca_file.clone(), args.jwks_token_file.clone());
            Some(JwksPlace::Url { url: url.clone(), authorities, bearer })
        }
        (None, None) => {
            let (authorities, bearer) = (args.jwks_ca_file.clone(), args.jwks_token_file.clone());
            Some(JwksPlace::Discovered { authorities, bearer })
        }
        (Some(_), Some(_)) => {
            checker.wrong(&section, "has both jwks_file and jwks_url: set one of them");
            None
        }
    };
    let (issuer, audiences) =
        (args.issuer.clone().unwrap_or_default(), args.audiences.clone().unwrap_or_default());
    checker.shown(&format!("{section}.issuer"), issuer.as_str());
    checker.shown(&format!("{section}.audiences"), audiences.clone());
    let settings = IssuerSettings { name: name.to_owned(), issuer, audiences, jwks: jwks? };
    if let Err(problem) = plain(&settings) {
        checker.wrong(&section, &problem);
    }
    Some(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::config::problem::ValueSources;

    /// The names of the issuers that are read, and the problems.
    fn read(text: &str) -> (Vec<String>, Vec<String>) {
        let given: BTreeMap<String, IssuerArgs> = toml::from_str(text).unwrap();
        let mut checker = Checker::new(ValueSources::default(), Vec::new());
        let names = issuers(&given, &mut checker).into_iter().map(|one| one.name).collect();
        (names, checker.problems.into_iter().map(|problem| problem.text).collect())
    }

    fn section(name: &str, iss: &str, fields: &str) -> String {
        format!("[{name}]\nissuer = '{iss}'\naudiences = ['ledger']\n{fields}\n")
    }

    #[test]
    fn issuers_report_each_problem_of_each_section() {
        let file = "jwks_file = '/keys'";
        let numbered = |number: usize| section(&format!("n{number}"), &format!("https://{number}"), file);
        let many = |count: usize| (0..count).map(numbered).collect::<String>();
        for (text, problems) in [
            (many(ISSUERS_MAX), &[][..]),
            (many(ISSUERS_MAX + 1), &["issuers: has 17 sections, must have at most 16"]),
            (section("a", "https://a", ""), &[]),
            (section("a", "https://a", "jwks_url = 'https://a/keys'\njwks_token_file = '/t'"), &[]),
            (
                section("a", "https://a", &format!("{file}\njwks_url = 'https://a/keys'")),
                &["issuers.a: has both jwks_file and jwks_url: set one of them"],
            ),
            (
                section("a", "https://a", &format!("{file}\njwks_ca_file = '/ca'\njwks_token_file = '/t'")),
                &[
                    "issuers.a.jwks_ca_file: is of no use with jwks_file: nothing is fetched",
                    "issuers.a.jwks_token_file: is of no use with jwks_file: nothing is fetched",
                ],
            ),
            (section("a", "", file), &["issuers.a: the issuer a has no `iss`"]),
            (
                "[a]\nissuer = 'https://a'\n".to_owned(),
                &["issuers.a: the issuer a needs an audience, and none of them is empty"],
            ),
            (
                section("a", "https://a", file) + &section("b", "https://a", file),
                &["issuers: the issuers a and b have the same `iss`"],
            ),
        ] {
            assert_eq!(read(&text).1, problems, "{text}");
        }
        assert_eq!(read(&(section("a", "https://a", file) + &section("b", "https://b", ""))).0, ["a", "b"]);
    }
}
