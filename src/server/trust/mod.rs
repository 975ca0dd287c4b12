//! The files of credentials and rights: read at the start, and again whenever they change.
//!
//! A file is opened by its path each time, so that a link to it may also be replaced. While a file cannot be read or is invalid,
//! the previous contents stay in force.

mod issuers;
mod modes;
mod reloadable;
mod tls;
mod token_ends;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use self::issuers::{KeyFiles, issuers, refreshed_for_ever};
use self::reloadable::{Reloadable, collect_problems, toml_file};
use self::tls::{client_authority, own_certificate};
use self::token_ends::TokenEnds;
use super::config::IdentitySettings;
use super::jwks::{Issuers, Refresher};
use crate::identity::jwt::Keys;
use crate::identity::{ClientAuthority, Guard, OwnCertificate, Rights, Tls, Tokens, Trust};
use crate::metrics::{Credentials, Metrics};

/// How often the files are read: a removed credential is refused after this time.
const RELOAD_EVERY: Duration = Duration::from_secs(1);
/// After this time a read counts as hung.
const HUNG_AFTER: Duration = Duration::from_secs(10);

/// All files, and the values built from them.
pub(super) struct Files {
    tokens: Option<Reloadable<Tokens>>,
    rights: Option<Reloadable<Rights>>,
    own: Option<Reloadable<OwnCertificate>>,
    clients: Option<Reloadable<ClientAuthority>>,
    keys: KeyFiles,
    issuers: Issuers,
    refreshers: Vec<Refresher>,
    settings: IdentitySettings,
}

impl Files {
    /// Reads the files at the start.
    ///
    /// # Errors
    /// All problems, each with its setting and path.
    pub(super) fn read(settings: &IdentitySettings) -> Result<Files, Vec<String>> {
        let mut problems = Vec::new();
        let tokens = settings.tokens.as_deref().map(|path| toml_file("tokens_file", path, Tokens::read));
        let rights = settings.rights.as_deref().map(|path| toml_file("rights_file", path, Rights::read));
        let own = settings.tls.as_ref().map(own_certificate);
        let clients = settings.tls.as_ref().and_then(client_authority);
        let (keys, issuers, refreshers) = issuers(settings, &mut problems);
        let files = Files {
            keys,
            issuers,
            refreshers,
            tokens: collect_problems(tokens, &mut problems),
            rights: collect_problems(rights, &mut problems),
            own: collect_problems(own, &mut problems),
            clients: collect_problems(clients, &mut problems),
            settings: settings.clone(),
        };
        if problems.is_empty() { Ok(files) } else { Err(problems) }
    }

    /// The content for the trust store.
    ///
    /// # Errors
    /// The certificate cannot be used.
    pub(super) fn trust(&self) -> Result<Trust, String> {
        let clients = self.clients.as_ref().map(|kept| &*kept.value);
        let tls = self.own.as_ref().map(|own| Tls::new(&own.value, clients)).transpose();
        let trust = Trust {
            tokens: self.tokens.as_ref().map(|kept| Arc::clone(&kept.value)),
            tls: tls.map_err(|problem| format!("listen_tls_cert: {problem}"))?.map(Arc::new),
            issuers: self.issuers.now(),
            key_refresh: self.issuers.key_refresh(),
            proxies: Arc::new(self.settings.proxies.clone()),
            rights: self.rights.as_ref().map_or_else(Arc::default, |kept| Arc::clone(&kept.value)),
        };
        Ok(trust)
    }

    /// Reads the files again; returns whether the trust store must be replaced.
    fn reload(&mut self, seen: &Credentials) -> bool {
        let changed = [
            self.tokens.as_mut().is_some_and(|kept| kept.reload(seen)),
            self.rights.as_mut().is_some_and(|kept| kept.reload(seen)),
            self.own.as_mut().is_some_and(|kept| kept.reload(seen)),
            self.clients.as_mut().is_some_and(|kept| kept.reload(seen)),
        ];
        for (issuer, kept) in &mut self.keys {
            if kept.reload(seen) {
                self.issuers.publish(*issuer, Keys::clone(&kept.value));
            }
        }
        changed.contains(&true)
    }

    /// Reports the state of the files at the start to the metrics.
    fn show(&self, seen: &Credentials, trust: &Trust) {
        self.tokens.iter().for_each(|kept| kept.show(seen));
        self.rights.iter().for_each(|kept| kept.show(seen));
        self.own.iter().for_each(|kept| kept.show(seen));
        self.clients.iter().for_each(|kept| kept.show(seen));
        self.keys.iter().for_each(|(_, kept)| kept.show(seen));
        ends(seen, trust);
    }

    /// The settings that name a file.
    fn all_settings(&self) -> Vec<String> {
        let mut all = Vec::new();
        all.extend(self.tokens.iter().flat_map(Reloadable::settings));
        all.extend(self.rights.iter().flat_map(Reloadable::settings));
        all.extend(self.own.iter().flat_map(Reloadable::settings));
        all.extend(self.clients.iter().flat_map(Reloadable::settings));
        all.extend(self.keys.iter().flat_map(|(_, kept)| kept.settings()));
        all.into_iter().map(str::to_owned).collect()
    }

    /// Whether nothing can change: there is neither a file nor an issuer whose keys are fetched.
    fn are_none(&self) -> bool {
        self.all_settings().is_empty() && self.issuers.now().is_empty()
    }

    /// Starts fetching the keys of issuers.
    pub(super) fn fetch_keys(&mut self) {
        for refresher in std::mem::take(&mut self.refreshers) {
            tokio::spawn(refreshed_for_ever(refresher));
        }
    }

    /// Reads the files once a second and at each hangup signal; puts changes in force.
    pub(super) async fn follow(mut self, guard: Guard, hangup: Arc<Notify>, metrics: Metrics) {
        if self.are_none() {
            return;
        }
        let mut keys = self.issuers.clone();
        let mut token_ends = TokenEnds::default();
        self.show(metrics.credentials(), &guard.trust());
        token_ends.warn(self.tokens.as_ref().map(|kept| &*kept.value), true);
        named(&metrics, &guard.trust());
        loop {
            // Earlier on a hangup signal.
            let fetched = tokio::select! {
                _ = timeout(RELOAD_EVERY, hangup.notified()) => false,
                () = keys.changed() => true,
            };
            // The disk of a file may hang, so files are not read on threads that serve calls.
            let (seen, settings) = (metrics.clone(), self.all_settings());
            let mut looking = tokio::task::spawn_blocking(move || {
                let changed = catch_unwind(AssertUnwindSafe(|| self.reload(seen.credentials())));
                (self, changed)
            });
            let looked = loop {
                if let Ok(looked) = timeout(HUNG_AFTER, &mut looking).await {
                    break looked;
                }
                // The hung file is unknown, so all of them are reported as unreadable.
                for setting in &settings {
                    metrics.credentials().looked_at(setting, true);
                }
                tracing::error!(
                    waited = ?HUNG_AFTER,
                    "a file of credentials, rights or TLS cannot be read: its disk does not answer; until it does \
                     nothing is taken out of force"
                );
            };
            // The task is cancelled only at the end of the process.
            let Ok((files, changed)) = looked else { return };
            self = files;
            let changed = changed.unwrap_or_else(|_| {
                tracing::error!(
                    "a bug of the server: the files of credentials could not be looked at; they are again"
                );
                false
            });
            token_ends.warn(self.tokens.as_ref().map(|kept| &*kept.value), changed);
            match self.trust() {
                Ok(trust) if changed || fetched => {
                    ends(metrics.credentials(), &trust);
                    named(&metrics, &trust);
                    guard.replace(trust);
                }
                Ok(_) => {}
                Err(problem) => tracing::error!(problem, "what was read before stays in force"),
            }
        }
    }
}

/// Reserves series of the metrics for the consumers that the file of rights names.
fn named(metrics: &Metrics, trust: &Trust) {
    metrics.named_by_rights(trust.rights.named_consumers().map(Into::into).collect());
}

/// Reports the expiry of the server's certificate, of the revocation lists, and of the tokens to the metrics.
fn ends(seen: &Credentials, trust: &Trust) {
    let first = trust.tokens.as_ref().and_then(|tokens| tokens.first_end());
    seen.token_ends(first.and_then(|at| i64::try_from(at).ok()));
    if let Some(tls) = &trust.tls {
        seen.certificate_ends(tls.ends_at);
        seen.list_ends(tls.lists_end_at());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::config::TlsFiles;

    /// The file of tokens, the file of rights or the certificate alone is followed.
    #[test]
    fn one_file_alone_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let tls = TlsFiles {
            cert: file("cert.pem", &made.cert.pem()),
            key: file("key.pem", &made.signing_key.serialize_pem()),
            client_ca: None,
            client_crl: None,
        };
        let none = IdentitySettings::default;
        for (settings, expected) in [
            (none(), &[][..]),
            (
                IdentitySettings { tokens: Some(file("tokens.toml", "[tokens]\n")), ..none() },
                &["tokens_file"],
            ),
            (IdentitySettings { rights: Some(file("rights.toml", "")), ..none() }, &["rights_file"]),
            (IdentitySettings { tls: Some(tls), ..none() }, &["listen_tls_cert", "listen_tls_key"]),
        ] {
            let files = Files::read(&settings).unwrap();
            assert_eq!(files.all_settings(), expected);
            assert_eq!(files.are_none(), expected.is_empty(), "{expected:?}");
        }
    }
}
