//! The settings of identity: files, and checks of their combinations.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::checker::Checker;
use super::file_path::{FilePath, NONE};
use super::given::Given;
use super::issuers::{IssuerArgs, IssuerSettings, issuers};
use super::settings::Settings;
use crate::identity::Proxies;

/// The files of TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// The server's certificate.
    pub cert: PathBuf,
    /// The server's private key.
    pub key: PathBuf,
    /// The certificate authorities of clients.
    pub client_ca: Option<PathBuf>,
    /// Their revocation lists.
    pub client_crl: Option<PathBuf>,
}

/// The sources of callers' identities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentitySettings {
    /// TLS of the server.
    pub tls: Option<TlsFiles>,
    /// The hashes of tokens.
    pub tokens: Option<PathBuf>,
    /// The rights of principals.
    pub rights: Option<PathBuf>,
    /// The issuers of JSON web tokens.
    pub issuers: Vec<IssuerSettings>,
    /// The time between a successful fetch of an issuer's keys and the next one.
    pub jwks_refresh: Duration,
    /// How long keys stay in force after the last successful fetch.
    pub jwks_keep: Duration,
    /// The trusted proxies, which forward identities.
    pub proxies: Proxies,
    /// Whether the server may listen beyond loopback without authentication.
    pub insecure_anonymous: bool,
}

impl IdentitySettings {
    /// Whether a source of identity is configured.
    #[must_use]
    pub fn knows_anybody(&self) -> bool {
        let by_certificate = self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
        self.tokens.is_some() || !self.issuers.is_empty() || by_certificate || !self.proxies.is_empty()
    }
}

impl IdentitySettings {
    /// Whether tokens would be sent to this address over a network without TLS.
    #[must_use]
    pub fn tokens_in_the_clear(&self, listen: SocketAddr) -> bool {
        let has_tokens = self.tokens.is_some() || !self.issuers.is_empty();
        has_tokens && self.tls.is_none() && !listen.ip().is_loopback()
    }
}

/// Reads the settings; problems are added to the checker.
pub(super) fn identity(
    given: &Settings,
    sections: &BTreeMap<String, IssuerArgs>,
    listeners: &[Option<(&str, SocketAddr)>],
    checker: &mut Checker,
) -> IdentitySettings {
    let mut file = |name: &str, path: Option<&Given<FilePath>>| checker.file(name, path);
    let cert = file("listen_tls_cert", given.listen_tls_cert.as_ref());
    let key = file("listen_tls_key", given.listen_tls_key.as_ref());
    let client_ca = file("listen_tls_client_ca", given.listen_tls_client_ca.as_ref());
    let client_crl = file("listen_tls_client_crl", given.listen_tls_client_crl.as_ref());
    let tokens = file("tokens_file", given.tokens_file.as_ref());
    let rights = file("rights_file", given.rights_file.as_ref());
    let proxies = proxies(given.trusted_proxies.as_deref(), checker);
    let insecure_anonymous = checker.switch("insecure_anonymous", given.insecure_anonymous.as_ref(), false);
    for (name, path, needs, there) in [
        ("listen_tls_client_crl", &client_crl, "listen_tls_client_ca", client_ca.is_some()),
        ("listen_tls_client_ca", &client_ca, "listen_tls_cert", cert.is_some()),
        ("listen_tls_cert", &cert, "listen_tls_key", key.is_some()),
        ("listen_tls_key", &key, "listen_tls_cert", cert.is_some()),
    ] {
        if path.is_some() && !there {
            checker.wrong(name, &format!("is of no use without {needs}: set both"));
        }
    }
    let tls = cert.zip(key).map(|(cert, key)| TlsFiles { cert, key, client_ca, client_crl });
    let (secs, mins, hours) = (Duration::from_secs, Duration::from_mins, Duration::from_hours);
    let refresh = given.jwks_refresh.as_ref();
    let jwks_refresh = checker.time("jwks_refresh", refresh, mins(5), secs(10)..=hours(1));
    let keep = given.jwks_keep.as_ref();
    let jwks_keep = checker.time("jwks_keep", keep, hours(24), mins(1)..=hours(24 * 30));
    if jwks_keep <= jwks_refresh {
        checker.wrong("jwks_keep", "must be longer than jwks_refresh: else keys come and go");
    }
    let issuers = issuers(sections, checker);
    let settings = IdentitySettings {
        tls,
        tokens,
        rights,
        issuers,
        jwks_refresh,
        jwks_keep,
        proxies,
        insecure_anonymous,
    };
    together(&settings, listeners, checker);
    settings
}

fn proxies(given: Option<&str>, checker: &mut Checker) -> Proxies {
    let text = given.filter(|text| *text != NONE);
    checker.shown("trusted_proxies", text.unwrap_or(NONE));
    let Some(text) = text else { return Proxies::default() };
    let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    Proxies::read(entries).unwrap_or_else(|problems| {
        for problem in problems {
            checker.wrong("trusted_proxies", &problem);
        }
        Proxies::default()
    })
}

/// Refuses combinations that are contradictory, or less safe than they look.
fn together(settings: &IdentitySettings, listeners: &[Option<(&str, SocketAddr)>], checker: &mut Checker) {
    let sources = "tokens_file, [issuers.NAME], listen_tls_client_ca or trusted_proxies";
    let known = settings.knows_anybody();
    if known && settings.rights.is_none() {
        let text = "is missing: callers are authenticated, and without it none of them may do anything";
        checker.wrong("rights_file", text);
    }
    if !known && settings.rights.is_some() {
        checker.wrong("rights_file", &format!("has no effect without authentication: set {sources}"));
    }
    if known && settings.insecure_anonymous {
        checker.wrong("insecure_anonymous", "is true, but callers are authenticated: leave it out");
    }
    let reached = listeners.iter().flatten().filter(|(_, address)| !address.ip().is_loopback());
    for (name, address) in reached.filter(|_| !known && !settings.insecure_anonymous) {
        checker.wrong(
            name,
            &format!(
                "is {address}, which other machines can reach, and callers are not authenticated: set {sources}, with \
                 rights_file; or \
                 insecure_anonymous = true, if no other client can reach it"
            ),
        );
    }
    let by_certificate = settings.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some());
    if settings.proxies.has_names() && !by_certificate {
        let text = "names certificates, which are asked for only with listen_tls_client_ca: set it, or name addresses";
        checker.wrong("trusted_proxies", text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::config::problem::ValueSources;

    fn problems(listen: &str, change: impl FnOnce(&mut Settings)) -> Vec<String> {
        let mut given = Settings::default();
        change(&mut given);
        let mut checker = Checker::new(ValueSources::default(), Vec::new());
        let listener = Some(("listen", listen.parse().expect("an address")));
        identity(&given, &BTreeMap::new(), &[listener], &mut checker);
        checker.problems.into_iter().map(|problem| problem.text).collect()
    }

    type SettingChange = fn(&mut Settings, Option<Given<FilePath>>);

    const HERE: &str = "127.0.0.1:50051";
    const EVERYWHERE: &str = "0.0.0.0:50051";

    #[test]
    fn valid_settings_are_accepted() {
        let path = || Some(Given::Value(FilePath(Some("f".into()))));
        assert_eq!(problems(HERE, |_| {}), [""; 0]);
        assert_eq!(problems("[::1]:1", |_| {}), [""; 0]);
        let tokens = |given: &mut Settings| (given.tokens_file, given.rights_file) = (path(), path());
        assert_eq!(problems(EVERYWHERE, tokens), [""; 0]);
        let proxies = |given: &mut Settings| {
            (given.trusted_proxies, given.rights_file) = (Some("10.0.0.0/8, 192.0.2.1".into()), path());
        };
        assert_eq!(problems(EVERYWHERE, proxies), [""; 0]);
        let anonymous = |given: &mut Settings| given.insecure_anonymous = Some(Given::Value(true));
        assert_eq!(problems(EVERYWHERE, anonymous), [""; 0]);
    }

    #[test]
    fn tokens_over_a_network_need_tls() {
        let tls = TlsFiles { cert: "c".into(), key: "k".into(), client_ca: None, client_crl: None };
        let tokens = IdentitySettings { tokens: Some("t".into()), ..IdentitySettings::default() };
        let secured = IdentitySettings { tls: Some(tls), ..tokens.clone() };
        for (settings, listen, clear) in [
            (&tokens, EVERYWHERE, true),
            (&tokens, HERE, false),
            (&secured, EVERYWHERE, false),
            (&IdentitySettings::default(), EVERYWHERE, false),
        ] {
            assert_eq!(settings.tokens_in_the_clear(listen.parse().expect("an address")), clear, "{listen}");
        }
    }

    #[test]
    fn settings_less_safe_than_they_look_are_refused() {
        let path = || Some(Given::Value(FilePath(Some("f".into()))));
        let rows: [(&str, SettingChange, &str); 9] = [
            (EVERYWHERE, |_, _| {}, "listen: is 0.0.0.0:50051, which other machines can reach"),
            (HERE, |given, path| given.tokens_file = path, "rights_file: is missing"),
            (
                HERE,
                |given, path| given.rights_file = path,
                "rights_file: has no effect without authentication",
            ),
            (
                HERE,
                |given, path| given.listen_tls_cert = path,
                "listen_tls_cert: is of no use without listen_tls_key",
            ),
            (
                HERE,
                |given, path| given.listen_tls_key = path,
                "listen_tls_key: is of no use without listen_tls_cert",
            ),
            (
                HERE,
                |given, path| given.listen_tls_client_ca = path,
                "listen_tls_client_ca: is of no use without listen_tls_cert",
            ),
            (
                HERE,
                |given, path| given.listen_tls_client_crl = path,
                "listen_tls_client_crl: is of no use without listen_tls_client_ca",
            ),
            (
                HERE,
                |given, path| {
                    (given.tokens_file, given.rights_file) = (path.clone(), path);
                    given.insecure_anonymous = Some(Given::Value(true));
                },
                "insecure_anonymous: is true, but",
            ),
            (
                HERE,
                |given, path| {
                    (given.trusted_proxies, given.rights_file) = (Some("dns:gateway".into()), path);
                },
                "trusted_proxies: names certificates",
            ),
        ];
        for (listen, change, says) in rows {
            let problems = problems(listen, |given| change(given, path()));
            assert!(problems.iter().any(|one| one.starts_with(says)), "{says}: {problems:?}");
        }
    }
}
