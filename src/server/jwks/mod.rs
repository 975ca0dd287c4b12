//! Refreshes the keys of issuers in the background: no call waits for an issuer. While an issuer is unreachable, its last keys
//! stay in force for a while; if it never was reachable, its tokens are refused, and the server runs.

pub(super) mod fetch;
mod plan;

use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use self::fetch::Source;
pub(super) use self::plan::Times;
use self::plan::{Action, Plan, SPREAD};
use crate::identity::KeyRefresh;
use crate::identity::jwt::{Issuer, Keys};

/// The issuers with their keys in force.
#[derive(Clone, Debug)]
pub(super) struct Issuers {
    now: watch::Receiver<Arc<[Issuer]>>,
    published: Arc<watch::Sender<Arc<[Issuer]>>>,
    key_refresh: KeyRefresh,
}

impl Issuers {
    /// The current issuers, in the given order; the same `Arc` as long as no key changes.
    pub(super) fn now(&self) -> Arc<[Issuer]> {
        Arc::clone(&self.now.borrow())
    }

    /// Requests a refresh when a token names an unknown key, which may be new.
    pub(super) fn key_refresh(&self) -> KeyRefresh {
        self.key_refresh.clone()
    }

    /// Waits until keys differ from those at the last call.
    pub(super) async fn changed(&mut self) {
        // An error is impossible: the sender lives as long as this.
        let _changed = self.now.changed().await;
    }

    /// Puts keys of an issuer (by index) into force that were read from a file.
    pub(super) fn publish(&self, issuer: usize, keys: Keys) {
        publish(&self.published, issuer, keys);
    }
}

/// Refreshes the keys of one issuer.
#[derive(Debug)]
pub(super) struct Refresher {
    issuer: usize,
    source: Source,
    times: Times,
    published: Arc<watch::Sender<Arc<[Issuer]>>>,
    key_refresh: KeyRefresh,
}

/// The issuers, and a refresher for each one that publishes its keys, to be spawned as a task.
pub(super) fn refreshed(all: Vec<(Issuer, Option<Source>)>, times: Times) -> (Issuers, Vec<Refresher>) {
    let (issuers, sources): (Vec<Issuer>, Vec<Option<Source>>) = all.into_iter().unzip();
    let key_refresh = KeyRefresh::of(issuers.len());
    let (published, now) = watch::channel(Arc::from(issuers));
    let published = Arc::new(published);
    let refresher = |(issuer, source): (usize, Option<Source>)| {
        let (published, key_refresh) = (Arc::clone(&published), key_refresh.clone());
        source.map(|source| Refresher { issuer, source, times, published, key_refresh })
    };
    let refreshers = sources.into_iter().enumerate().filter_map(refresher).collect();
    (Issuers { now, published, key_refresh }, refreshers)
}

impl Refresher {
    /// Fetches and waits, until it is dropped. After a panic it can be run again.
    pub(super) async fn run(&self) {
        self.run_with(|| self.source.keys()).await;
    }

    async fn run_with<F: Future<Output = Result<Keys, String>>>(&self, fetch: impl Fn() -> F) {
        let has_keys = *self.published.borrow()[self.issuer].keys != Keys::none();
        let mut plan = Plan::new(self.times, has_keys.then(Instant::now));
        loop {
            match plan.next(Instant::now()) {
                Action::Fetch => {
                    // This fetch serves all requests up to now, so they do not cause another one a minute later.
                    if self.key_refresh.requested(self.issuer).now_or_never().is_some() {
                        plan.saw_unknown_key();
                    }
                    plan.begins(Instant::now());
                    let fetched = fetch().await;
                    self.took(&mut plan, fetched);
                }
                Action::Drop => {
                    plan.dropped();
                    self.publish(Keys::none());
                    tracing::error!(
                        issuer = self.name(),
                        after = ?self.times.keep,
                        "the keys of an issuer are dropped, and its tokens refused: none could be fetched for too long"
                    );
                }
                Action::Wait(until) => tokio::select! {
                    () = sleep_until(until) => {}
                    () = self.key_refresh.requested(self.issuer), if !plan.knows_of_unknown_key() => {
                        plan.saw_unknown_key();
                    }
                },
            }
        }
    }

    /// Handles the result of a fetch.
    fn took(&self, plan: &mut Plan, fetched: Result<Keys, String>) {
        let (now, chance) = (Instant::now(), crate::common::random::below(SPREAD + 1));
        let issuer = self.name();
        match fetched {
            Ok(keys) => {
                let (count, failures) = (keys.count(), plan.failures());
                plan.fetched(now, chance);
                let changed = self.publish(keys);
                if changed || failures > 0 {
                    tracing::info!(
                        issuer,
                        keys = count,
                        changed,
                        failures,
                        "the keys of an issuer were fetched"
                    );
                }
            }
            Err(error) => {
                if let Some(kept) = plan.failed(now, chance).filter(|kept| !kept.is_zero()) {
                    tracing::warn!(
                        issuer,
                        error,
                        kept_seconds = kept.as_secs(),
                        "the keys of an issuer cannot be fetched: the keys fetched last stay in force until kept_seconds have passed"
                    );
                } else {
                    tracing::warn!(
                        issuer,
                        error,
                        "the keys of an issuer cannot be fetched: its tokens are refused"
                    );
                }
            }
        }
    }

    fn name(&self) -> String {
        self.published.borrow()[self.issuer].name.clone()
    }

    /// Puts keys into force; returns whether they differ from the previous ones.
    fn publish(&self, keys: Keys) -> bool {
        publish(&self.published, self.issuer, keys)
    }
}

fn publish(published: &watch::Sender<Arc<[Issuer]>>, issuer: usize, keys: Keys) -> bool {
    published.send_if_modified(|issuers| {
        if *issuers[issuer].keys == keys {
            return false;
        }
        let mut changed = issuers.to_vec();
        changed[issuer].keys = Arc::new(keys);
        *issuers = Arc::from(changed);
        true
    })
}

#[cfg(test)]
mod tests;
