//! The files by which callers are known: read at the start, and again whenever they change.
//!
//! A file is looked at by its path each time, so that it may also be replaced by another behind a link. What cannot be
//! read, or has something wrong, leaves in force what was read before.

mod issuers;
mod kept;
mod modes;
mod tls;
mod token_ends;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::timeout;

use self::issuers::{KeyFiles, issuers, refreshed_for_ever};
use self::kept::{Kept, sound, toml_file};
use self::tls::{client_authority, own_certificate};
use self::token_ends::TokenEnds;
use super::config::IdentitySettings;
use super::jwks::{Issuers, Refresher};
use crate::identity::jwt::Keys;
use crate::identity::{ClientAuthority, Guard, OwnCertificate, Rights, Tls, Tokens, Trust};
use crate::metrics::{Credentials, Metrics};

/// How often the files are looked at: a credential that was taken out is refused after this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A disk that takes longer does not answer.
const HUNG_AFTER: Duration = Duration::from_secs(10);

/// All files, and what was made of them.
pub(super) struct Files {
    tokens: Option<Kept<Tokens>>,
    rights: Option<Kept<Rights>>,
    own: Option<Kept<OwnCertificate>>,
    clients: Option<Kept<ClientAuthority>>,
    keys: KeyFiles,
    issuers: Issuers,
    refreshers: Vec<Refresher>,
    settings: IdentitySettings,
}

impl Files {
    /// Reads them for the first time.
    ///
    /// # Errors
    /// All that is wrong, each with its setting and its path.
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
            tokens: sound(tokens, &mut problems),
            rights: sound(rights, &mut problems),
            own: sound(own, &mut problems),
            clients: sound(clients, &mut problems),
            settings: settings.clone(),
        };
        if problems.is_empty() { Ok(files) } else { Err(problems) }
    }

    /// What they say.
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
            wanted: self.issuers.wanted(),
            proxies: Arc::new(self.settings.proxies.clone()),
            rights: self.rights.as_ref().map_or_else(Arc::default, |kept| Arc::clone(&kept.value)),
        };
        Ok(trust)
    }

    /// Whether something else is to be in force now.
    fn look(&mut self, seen: &Credentials) -> bool {
        let changed = [
            self.tokens.as_mut().is_some_and(|kept| kept.look(seen)),
            self.rights.as_mut().is_some_and(|kept| kept.look(seen)),
            self.own.as_mut().is_some_and(|kept| kept.look(seen)),
            self.clients.as_mut().is_some_and(|kept| kept.look(seen)),
        ];
        for (issuer, kept) in &mut self.keys {
            if kept.look(seen) {
                self.issuers.publish(*issuer, Keys::clone(&kept.value));
            }
        }
        changed.contains(&true)
    }

    /// What is in force from the start on.
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
        all.extend(self.tokens.iter().flat_map(Kept::settings));
        all.extend(self.rights.iter().flat_map(Kept::settings));
        all.extend(self.own.iter().flat_map(Kept::settings));
        all.extend(self.clients.iter().flat_map(Kept::settings));
        all.extend(self.keys.iter().flat_map(|(_, kept)| kept.settings()));
        all.into_iter().map(str::to_owned).collect()
    }

    fn are_none(&self) -> bool {
        self.tokens.is_none() && self.rights.is_none() && self.own.is_none() && self.issuers.now().is_empty()
    }

    /// Has the keys of issuers fetched, from now on.
    pub(super) fn fetch_keys(&mut self) {
        for refresher in std::mem::take(&mut self.refreshers) {
            tokio::spawn(refreshed_for_ever(refresher));
        }
    }

    /// Looks at them once a second, and when it is told to; puts in force what changed.
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
            // Early, where somebody asks for it.
            let fetched = tokio::select! {
                _ = timeout(LOOK_EVERY, hangup.notified()) => false,
                () = keys.changed() => true,
            };
            // A file may lie on a disk that does not answer: no thread that serves calls waits for it.
            let (seen, settings) = (metrics.clone(), self.all_settings());
            let mut looking = tokio::task::spawn_blocking(move || {
                let changed = catch_unwind(AssertUnwindSafe(|| self.look(seen.credentials())));
                (self, changed)
            });
            let looked = loop {
                if let Ok(looked) = timeout(HUNG_AFTER, &mut looking).await {
                    break looked;
                }
                // Which of them it is, nobody can tell: none of them is looked at.
                for setting in &settings {
                    metrics.credentials().looked_at(setting, true);
                }
                tracing::error!(
                    waited = ?HUNG_AFTER,
                    "a file of credentials, rights or TLS cannot be read: its disk does not answer; until it does \
                     nothing is taken out of force"
                );
            };
            // It ends before with the process alone.
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

/// Has the metrics keep places for the consumers that the file of rights names.
fn named(metrics: &Metrics, trust: &Trust) {
    metrics.named_by_rights(trust.rights.named_consumers().map(Into::into).collect());
}

/// Shows when the server's own certificate ends, the lists of its clients, and the tokens of the file.
fn ends(seen: &Credentials, trust: &Trust) {
    let first = trust.tokens.as_ref().and_then(|tokens| tokens.first_end());
    seen.token_ends(first.and_then(|at| i64::try_from(at).ok()));
    if let Some(tls) = &trust.tls {
        seen.certificate_ends(tls.ends_at);
        seen.list_ends(tls.lists_end_at());
    }
}
