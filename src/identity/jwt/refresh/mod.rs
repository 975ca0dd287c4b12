//! Keeps the keys of issuers fresh, beside the calls: no call ever waits for an issuer. Where one is away its last good
//! keys stay in force for a while; where it never was there its tokens are refused, and the server runs.

mod plan;

use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

use super::fetch::Source;
use super::{Issuer, Keys};
pub(crate) use plan::Times;
use plan::{Action, Plan, SPREAD};

/// The issuers with the keys that are in force.
#[derive(Clone, Debug)]
pub(crate) struct Issuers {
    now: watch::Receiver<Arc<[Issuer]>>,
    unknown_keys: Arc<[Notify]>,
}

impl Issuers {
    /// As they are now: in the order in which they were given, and the same `Arc` for as long as no key changes.
    pub(crate) fn now(&self) -> Arc<[Issuer]> {
        Arc::clone(&self.now.borrow())
    }

    /// A token names a key that this issuer, by its index, does not have: it may be a new one. Waits for nothing.
    pub(crate) fn unknown_key(&self, issuer: usize) {
        if let Some(unknown_key) = self.unknown_keys.get(issuer) {
            unknown_key.notify_one();
        }
    }
}

/// Keeps the keys of one issuer.
#[derive(Debug)]
pub(crate) struct Refresher {
    issuer: usize,
    source: Source,
    times: Times,
    published: Arc<watch::Sender<Arc<[Issuer]>>>,
    unknown_keys: Arc<[Notify]>,
}

/// The issuers, of which some publish their keys, and who keeps the keys of those: one task each, to be spawned.
pub(crate) fn refreshed(all: Vec<(Issuer, Option<Source>)>, times: Times) -> (Issuers, Vec<Refresher>) {
    let (issuers, sources): (Vec<Issuer>, Vec<Option<Source>>) = all.into_iter().unzip();
    let unknown_keys: Arc<[Notify]> = issuers.iter().map(|_| Notify::new()).collect();
    let (published, now) = watch::channel(Arc::from(issuers));
    let published = Arc::new(published);
    let refresher = |(issuer, source): (usize, Option<Source>)| {
        let (published, unknown_keys) = (Arc::clone(&published), Arc::clone(&unknown_keys));
        source.map(|source| Refresher { issuer, source, times, published, unknown_keys })
    };
    let refreshers = sources.into_iter().enumerate().filter_map(refresher).collect();
    (Issuers { now, unknown_keys }, refreshers)
}

impl Refresher {
    /// Fetches, and waits, until it is dropped. Should it die of a bug, it can be run again.
    pub(crate) async fn run(&self) {
        self.run_with(|| self.source.keys()).await;
    }

    async fn run_with<F: Future<Output = Result<Keys, String>>>(&self, fetch: impl Fn() -> F) {
        let unknown_key = &self.unknown_keys[self.issuer];
        let has_keys = *self.published.borrow()[self.issuer].keys != Keys::none();
        let mut plan = Plan::new(self.times, has_keys.then(Instant::now));
        loop {
            match plan.next(Instant::now()) {
                Action::Fetch => {
                    // This fetch is for all that asked until now: none of them asks again a minute later.
                    if unknown_key.notified().now_or_never().is_some() {
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
                    () = unknown_key.notified(), if !plan.knows_of_unknown_key() => {
                        plan.saw_unknown_key();
                    }
                },
            }
        }
    }

    /// What a fetch ended with.
    fn took(&self, plan: &mut Plan, fetched: Result<Keys, String>) {
        let (now, chance) = (Instant::now(), crate::random::below(SPREAD + 1));
        let issuer = self.name();
        match fetched {
            Ok(keys) => {
                let (count, failures) = (keys.len(), plan.failures());
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
                if plan.failed(now, chance) {
                    tracing::warn!(
                        issuer,
                        error,
                        "the keys of an issuer cannot be fetched: its last ones stay in force"
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

    /// Puts these keys into force. Answers whether they are others than before.
    fn publish(&self, keys: Keys) -> bool {
        self.published.send_if_modified(|issuers| {
            if *issuers[self.issuer].keys == keys {
                return false;
            }
            let mut changed = issuers.to_vec();
            changed[self.issuer].keys = Arc::new(keys);
            *issuers = Arc::from(changed);
            true
        })
    }
}

#[cfg(test)]
mod tests;
