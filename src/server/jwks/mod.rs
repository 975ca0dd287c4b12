//! Keeps the keys of issuers fresh, beside the calls: no call ever waits for an issuer. Where one is away its last good
//! keys stay in force for a while; where it never was there its tokens are refused, and the server runs.

pub(super) mod fetch;
mod plan;

use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use self::fetch::Source;
pub(super) use self::plan::Times;
use self::plan::{Action, Plan, SPREAD};
use crate::identity::Wanted;
use crate::identity::jwt::{Issuer, Keys};

/// The issuers with the keys that are in force.
#[derive(Clone, Debug)]
pub(super) struct Issuers {
    now: watch::Receiver<Arc<[Issuer]>>,
    published: Arc<watch::Sender<Arc<[Issuer]>>>,
    wanted: Wanted,
}

impl Issuers {
    /// As they are now: in the order in which they were given, and the same `Arc` for as long as no key changes.
    pub(super) fn now(&self) -> Arc<[Issuer]> {
        Arc::clone(&self.now.borrow())
    }

    /// How a token asks for a key that is not known: it may be a new one.
    pub(super) fn wanted(&self) -> Wanted {
        self.wanted.clone()
    }

    /// Comes back when there are other keys than at the last time.
    pub(super) async fn changed(&mut self) {
        // What publishes lives as long as this.
        let _changed = self.now.changed().await;
    }

    /// The keys of an issuer, by its index, from elsewhere: from a file.
    pub(super) fn publish(&self, issuer: usize, keys: Keys) {
        publish(&self.published, issuer, keys);
    }
}

/// Keeps the keys of one issuer.
#[derive(Debug)]
pub(super) struct Refresher {
    issuer: usize,
    source: Source,
    times: Times,
    published: Arc<watch::Sender<Arc<[Issuer]>>>,
    wanted: Wanted,
}

/// The issuers, of which some publish their keys, and who keeps the keys of those: one task each, to be spawned.
pub(super) fn refreshed(all: Vec<(Issuer, Option<Source>)>, times: Times) -> (Issuers, Vec<Refresher>) {
    let (issuers, sources): (Vec<Issuer>, Vec<Option<Source>>) = all.into_iter().unzip();
    let wanted = Wanted::of(issuers.len());
    let (published, now) = watch::channel(Arc::from(issuers));
    let published = Arc::new(published);
    let refresher = |(issuer, source): (usize, Option<Source>)| {
        let (published, wanted) = (Arc::clone(&published), wanted.clone());
        source.map(|source| Refresher { issuer, source, times, published, wanted })
    };
    let refreshers = sources.into_iter().enumerate().filter_map(refresher).collect();
    (Issuers { now, published, wanted }, refreshers)
}

impl Refresher {
    /// Fetches, and waits, until it is dropped. Should it die of a bug, it can be run again.
    pub(super) async fn run(&self) {
        self.run_with(|| self.source.keys()).await;
    }

    async fn run_with<F: Future<Output = Result<Keys, String>>>(&self, fetch: impl Fn() -> F) {
        let has_keys = *self.published.borrow()[self.issuer].keys != Keys::none();
        let mut plan = Plan::new(self.times, has_keys.then(Instant::now));
        loop {
            match plan.next(Instant::now()) {
                Action::Fetch => {
                    // This fetch is for all that asked until now: none of them asks again a minute later.
                    if self.wanted.heard(self.issuer).now_or_never().is_some() {
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
                    () = self.wanted.heard(self.issuer), if !plan.knows_of_unknown_key() => {
                        plan.saw_unknown_key();
                    }
                },
            }
        }
    }

    /// What a fetch ended with.
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
