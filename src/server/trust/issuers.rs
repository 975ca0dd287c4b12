//! The issuers of web tokens: keys in files, and keys that are fetched.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::reloadable::{Reloadable, collect_problems};
use crate::identity::jwt::{Issuer, Keys};
use crate::server::config::{IdentitySettings, IssuerSettings, JwksPlace};
use crate::server::jwks::fetch::Source;
use crate::server::jwks::{Issuers, Refresher, Times, refreshed};

/// The delay before a refresher is restarted.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Keys of issuers in files, by the index of the issuer.
pub(super) type KeyFiles = Vec<(usize, Reloadable<Keys>)>;

/// The issuers of the settings: the keys in files, and the refreshers of those that are fetched.
pub(super) fn issuers(
    settings: &IdentitySettings,
    problems: &mut Vec<String>,
) -> (KeyFiles, Issuers, Vec<Refresher>) {
    let (mut files, mut all) = (Vec::new(), Vec::new());
    for (at, one) in settings.issuers.iter().enumerate() {
        let (mut keys, mut source) = (Arc::new(Keys::none()), None);
        match &one.jwks {
            JwksPlace::File(path) => {
                if let Some(kept) = collect_problems(Some(key_file(&one.name, path)), problems) {
                    keys = Arc::clone(&kept.value);
                    files.push((at, kept));
                }
            }
            JwksPlace::Url { url, authorities, bearer } => {
                let fetched = Source::new(url, authorities.clone(), bearer.clone());
                source = collect_problems(Some(fetched.map_err(|problem| named(one, &problem))), problems);
            }
            JwksPlace::Discovered { authorities, bearer } => {
                let fetched = Source::discovered(&one.issuer, authorities.clone(), bearer.clone());
                source = collect_problems(Some(fetched.map_err(|problem| named(one, &problem))), problems);
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

fn named(issuer: &IssuerSettings, problem: &str) -> Vec<String> {
    vec![format!("issuers.{}: {problem}", issuer.name)]
}

fn key_file(issuer: &str, path: &Path) -> Result<Reloadable<Keys>, Vec<String>> {
    let (setting, shown) = (format!("issuers.{issuer}.jwks_file"), path.display().to_string());
    Reloadable::new(vec![(setting.clone(), path.to_owned())], move |texts| {
        let text = texts.first().map_or(&b""[..], Vec::as_slice);
        Keys::of_jwks(text).map_err(|problem| vec![format!("{setting}: {shown}: {problem}")])
    })
}

/// Restarts the refresher after a panic: without it keys would expire.
pub(super) async fn refreshed_for_ever(refresher: Refresher) {
    let refresher = Arc::new(refresher);
    loop {
        let run = Arc::clone(&refresher);
        if tokio::spawn(async move { run.run().await }).await.is_ok() {
            return;
        }
        tracing::error!("a bug of the server: what fetches keys died; it begins again");
        sleep(AGAIN_AFTER).await;
    }
}
