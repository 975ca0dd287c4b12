//! The files by which callers are known: read at the start, and again whenever they change.
//!
//! A file is looked at by its path each time, so that it may also be replaced by another behind a link. What cannot be
//! read, or has something wrong, leaves in force what was read before.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::config::{IdentitySettings, JwksPlace, TlsFiles};
use super::jwks::fetch::Source;
use super::jwks::{Issuers, Refresher, Times, refreshed};
use crate::identity::jwt::{Issuer, Keys};
use crate::identity::{ClientAuthority, Guard, OwnCertificate, Rights, Tls, Tokens, Trust, Wrong};
use crate::metrics::{Credentials, Metrics};
use crate::secret_file;

/// How often the files are looked at: a credential that was taken out is refused after this.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A problem that stays is told again after this.
const TELL_AGAIN: Duration = Duration::from_mins(1);
const BYTES_MAX: u64 = 4 << 20;
/// A disk that takes longer does not answer.
const HUNG_AFTER: Duration = Duration::from_secs(10);

/// Of each file: its setting, its path, and what it held.
type Texts = Vec<Vec<u8>>;

type Make<T> = Box<dyn Fn(&Texts) -> Result<T, Vec<String>> + Send>;

/// What is made of some files that belong together.
struct Kept<T> {
    files: Vec<(String, PathBuf)>,
    make: Make<T>,
    texts: Texts,
    value: Arc<T>,
    told: Option<(Vec<String>, Instant)>,
}

impl<T> Kept<T> {
    fn new(
        files: Vec<(String, PathBuf)>,
        make: impl Fn(&Texts) -> Result<T, Vec<String>> + Send + 'static,
    ) -> Result<Kept<T>, Vec<String>> {
        let texts = texts(&files)?;
        let value = Arc::new(make(&texts)?);
        Ok(Kept { files, make: Box::new(make), texts, value, told: None })
    }

    /// Whether there is another value now.
    fn look(&mut self, seen: &Credentials) -> bool {
        let changed = self.read_again(seen);
        self.show(seen);
        changed
    }

    /// Which files are of no use now.
    fn show(&self, seen: &Credentials) {
        let problems = self.told.as_ref().map_or(&[][..], |(problems, _)| problems);
        for (setting, _) in &self.files {
            // Each problem begins with its setting.
            let its = |problem: &String| {
                problem.strip_prefix(setting.as_str()).is_some_and(|rest| rest.starts_with(':'))
            };
            seen.looked_at(setting, problems.iter().any(its));
        }
    }

    fn read_again(&mut self, seen: &Credentials) -> bool {
        match texts(&self.files) {
            Ok(texts) if texts == self.texts => {
                self.told = None;
                false
            }
            Ok(texts) => match (self.make)(&texts) {
                Ok(value) => {
                    let pairs = self.files.iter().zip(self.texts.iter().zip(&texts));
                    pairs
                        .filter(|(_, (old, new))| old != new)
                        .for_each(|((setting, _), _)| seen.put_in_force(setting));
                    (self.texts, self.value, self.told) = (texts, Arc::new(value), None);
                    let files: Vec<&str> = self.files.iter().map(|(setting, _)| setting.as_str()).collect();
                    tracing::info!(files = files.join(", "), "read again: in force from now on");
                    true
                }
                Err(problems) => self.tell(problems),
            },
            Err(problems) => self.tell(problems),
        }
    }

    fn tell(&mut self, problems: Vec<String>) -> bool {
        let now = Instant::now();
        let known = |(told, at): &(Vec<String>, Instant)| *told == problems && now - *at < TELL_AGAIN;
        if !self.told.as_ref().is_some_and(known) {
            for problem in &problems {
                tracing::error!(problem, "what was read before stays in force");
            }
            self.told = Some((problems, now));
        }
        false
    }
}

fn texts(files: &[(String, PathBuf)]) -> Result<Texts, Vec<String>> {
    let (mut texts, mut problems) = (Texts::new(), Vec::new());
    for (setting, path) in files {
        match secret_file::bytes(path, BYTES_MAX) {
            Ok(text) => texts.push(text),
            Err(error) => problems.push(format!("{setting}: {}: {error}", path.display())),
        }
    }
    if problems.is_empty() { Ok(texts) } else { Err(problems) }
}

/// Reads one file of TOML.
fn toml_file<T: 'static>(
    setting: &'static str,
    path: &Path,
    read: fn(&str) -> Result<T, Vec<String>>,
) -> Result<Kept<T>, Vec<String>> {
    let shown = path.display().to_string();
    Kept::new(vec![(setting.to_owned(), path.to_owned())], move |texts| {
        let text = texts.first().and_then(|text| std::str::from_utf8(text).ok());
        let text = text.ok_or_else(|| vec![format!("{setting}: {shown}: is not UTF-8")])?;
        let named = |problem| format!("{setting}: {shown}: {problem}");
        read(text).map_err(|problems| problems.into_iter().map(named).collect())
    })
}

/// Files of TLS that belong together: `make` takes their texts, in this order.
fn tls_files<T: 'static>(
    files: Vec<(String, PathBuf)>,
    make: impl Fn(&[Vec<u8>]) -> Result<T, Wrong> + Send + 'static,
) -> Result<Kept<T>, Vec<String>> {
    let paths = files.clone();
    Kept::new(files, move |texts| {
        make(texts).map_err(|(which, problem)| {
            let setting = format!("listen_tls_{which}");
            let path = paths.iter().find(|(one, _)| one == &setting);
            let path = path.map_or_else(String::new, |(_, path)| path.display().to_string());
            vec![format!("{setting}: {path}: {problem}")]
        })
    })
}

fn own_certificate(files: &TlsFiles) -> Result<Kept<OwnCertificate>, Vec<String>> {
    let all = vec![
        ("listen_tls_cert".to_owned(), files.cert.clone()),
        ("listen_tls_key".to_owned(), files.key.clone()),
    ];
    tls_files(all, |texts| match texts {
        [certificate, key] => OwnCertificate::read(certificate, key),
        _ => OwnCertificate::read(b"", b""),
    })
}

fn client_authority(files: &TlsFiles) -> Option<Result<Kept<ClientAuthority>, Vec<String>>> {
    let mut all = vec![("listen_tls_client_ca".to_owned(), files.client_ca.clone()?)];
    all.extend(files.client_crl.clone().map(|path| ("listen_tls_client_crl".to_owned(), path)));
    Some(tls_files(all, |texts| {
        let authority = texts.first().map_or(&b""[..], Vec::as_slice);
        ClientAuthority::read(authority, texts.get(1).map(Vec::as_slice))
    }))
}

/// Keys of issuers that lie in files, by the index of the issuer.
type KeyFiles = Vec<(usize, Kept<Keys>)>;

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
        self.show(metrics.credentials(), &guard.trust());
        loop {
            // Early, where somebody asks for it.
            let fetched = tokio::select! {
                _ = timeout(LOOK_EVERY, hangup.notified()) => false,
                () = keys.changed() => true,
            };
            // A file may lie on a disk that does not answer: no thread that serves calls waits for it.
            let seen = metrics.clone();
            let mut looking = tokio::task::spawn_blocking(move || {
                let changed = catch_unwind(AssertUnwindSafe(|| self.look(seen.credentials())));
                (self, changed)
            });
            let looked = loop {
                if let Ok(looked) = timeout(HUNG_AFTER, &mut looking).await {
                    break looked;
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
            match self.trust() {
                Ok(trust) if changed || fetched => {
                    ends(metrics.credentials(), &trust);
                    guard.replace(trust);
                }
                Ok(_) => {}
                Err(problem) => tracing::error!(problem, "what was read before stays in force"),
            }
        }
    }
}

/// The issuers of the settings: the keys that lie in files, and those that are fetched.
fn issuers(settings: &IdentitySettings, problems: &mut Vec<String>) -> (KeyFiles, Issuers, Vec<Refresher>) {
    let (mut files, mut all) = (Vec::new(), Vec::new());
    for (at, one) in settings.issuers.iter().enumerate() {
        let (mut keys, mut source) = (Arc::new(Keys::none()), None);
        match &one.jwks {
            JwksPlace::File(path) => {
                if let Some(kept) = sound(Some(key_file(&one.name, path)), problems) {
                    keys = Arc::clone(&kept.value);
                    files.push((at, kept));
                }
            }
            JwksPlace::Url { url, authorities, bearer } => {
                let told = |problem| vec![format!("issuers.{}: {problem}", one.name)];
                let fetched = Source::new(url, authorities.clone(), bearer.clone()).map_err(told);
                source = sound(Some(fetched), problems);
            }
        }
        let issuer = Issuer::new(&one.name, &one.issuer, &one.audiences, keys);
        match issuer {
            Ok(issuer) => all.push((issuer, source)),
            Err(problem) => problems.push(format!("issuers.{}: {problem}", one.name)),
        }
    }
    let times = Times { refresh: settings.jwks_refresh, keep: settings.jwks_keep };
    let (issuers, refreshers) = refreshed(all, times);
    (files, issuers, refreshers)
}

fn key_file(issuer: &str, path: &Path) -> Result<Kept<Keys>, Vec<String>> {
    let (setting, shown) = (format!("issuers.{issuer}.jwks_file"), path.display().to_string());
    Kept::new(vec![(setting.clone(), path.to_owned())], move |texts| {
        let text = texts.first().map_or(&b""[..], Vec::as_slice);
        Keys::of_jwks(text).map_err(|problem| vec![format!("{setting}: {shown}: {problem}")])
    })
}

/// Should it die of a bug, it begins again: without it keys would end.
async fn refreshed_for_ever(refresher: Refresher) {
    let refresher = Arc::new(refresher);
    loop {
        let run = Arc::clone(&refresher);
        if tokio::spawn(async move { run.run().await }).await.is_ok() {
            return;
        }
        tracing::error!("a bug of the server: what fetches keys died; it begins again");
        sleep(LOOK_EVERY).await;
    }
}

/// Shows when the server's own certificate ends.
fn ends(seen: &Credentials, trust: &Trust) {
    if let Some(tls) = &trust.tls {
        seen.certificate_ends(tls.ends_at);
    }
}

/// What was read; the problems keep what is wrong.
fn sound<T>(read: Option<Result<T, Vec<String>>>, problems: &mut Vec<String>) -> Option<T> {
    match read? {
        Ok(value) => Some(value),
        Err(wrong) => {
            problems.extend(wrong);
            None
        }
    }
}
