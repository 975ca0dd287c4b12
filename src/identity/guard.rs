//! The trust store: the credentials, proxies and rights in force, replaced atomically while calls go on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::jwt::{self, Issuer};
use super::key_refresh::KeyRefresh;
use super::principal::Identity;
use super::proxies::Proxies;
use super::refused::Refused;
use super::rights::{Grants, Rights};
use super::tls::Tls;
use super::tokens::{Hash, Tokens};

/// The number of cached principals with their rights; beyond it the cache is cleared.
const CACHED_MAX: usize = 10_000;

/// All credentials, proxies and rights.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The bearer tokens of the file; `None` without a file.
    pub tokens: Option<Arc<Tokens>>,
    /// The issuers of JSON web tokens, with their current keys.
    pub issuers: Arc<[Issuer]>,
    /// Requests a refresh of an issuer's keys when a token names an unknown key.
    pub key_refresh: KeyRefresh,
    /// TLS of the server, and the authorities of its clients; `None` if the server does not use TLS.
    pub tls: Option<Arc<Tls>>,
    /// The trusted proxies, which forward identities.
    pub proxies: Arc<Proxies>,
    /// The rights of principals.
    pub rights: Arc<Rights>,
}

impl Trust {
    /// Whether a source of identity is configured; without one every caller is `anonymous`, with all rights.
    #[must_use]
    pub fn knows_anybody(&self) -> bool {
        let by_certificate = self.tls.as_ref().is_some_and(|tls| tls.asks_clients());
        self.tokens.is_some() || !self.issuers.is_empty() || by_certificate || !self.proxies.is_empty()
    }
}

/// One generation of the trust store, with caches of the principals that were seen under it.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) trust: Trust,
    identities: Mutex<HashMap<Box<str>, Arc<Identity>>>,
    /// Grants by the numbers of the lines that they result from.
    shared: Mutex<HashMap<Vec<usize>, Grants>>,
    /// Verified web tokens by hash, each with its identity and expiry.
    verified: Mutex<HashMap<Hash, (Arc<Identity>, u64)>>,
}

impl Snapshot {
    fn new(trust: Trust) -> Arc<Snapshot> {
        Arc::new(Snapshot {
            trust,
            identities: Mutex::default(),
            shared: Mutex::default(),
            verified: Mutex::default(),
        })
    }

    /// A principal with its rights.
    pub(super) fn identity(&self, principal: &str) -> Arc<Identity> {
        let mut identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identity) = identities.get(principal) {
            return Arc::clone(identity);
        }
        let everything = !self.trust.knows_anybody();
        let grants = if everything { Grants::EVERYTHING } else { self.grants(principal) };
        let identity = Arc::new(Identity { principal: principal.into(), grants });
        if identities.len() >= CACHED_MAX {
            identities.clear();
        }
        identities.insert(principal.into(), Arc::clone(&identity));
        identity
    }

    /// The grants of a principal. Principals with the same matching lines share them.
    fn grants(&self, principal: &str) -> Grants {
        let lines = self.trust.rights.fitting(principal);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(grants) = shared.get(&lines) {
            return grants.clone();
        }
        let grants = self.trust.rights.granted(&lines);
        if shared.len() >= CACHED_MAX {
            shared.clear();
        }
        shared.insert(lines, grants.clone());
        grants
    }

    /// The identity of a web token at this second since 1970, and its expiry.
    pub(super) fn verified(
        &self,
        hash: Hash,
        token: &[u8],
        now: u64,
    ) -> Result<(Arc<Identity>, u64), Refused> {
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((identity, until)) = verified.get(&hash).filter(|(_, until)| now < *until) {
            return Ok((Arc::clone(identity), *until));
        }
        // Verifying a signature takes long: the lock is not held meanwhile, so that other callers do not wait.
        drop(verified);
        let token = std::str::from_utf8(token).map_err(|_| Refused::UnknownToken)?;
        let jwt::Verified { principal, until } =
            jwt::verify(&self.trust.issuers, token, now).map_err(|refused| {
                if let jwt::Refused::UnknownKey { issuer } = refused {
                    self.trust.key_refresh.request(issuer);
                }
                Refused::WebToken(refused)
            })?;
        let identity = self.identity(&principal);
        verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= CACHED_MAX {
            verified.retain(|_, (_, until)| now < *until);
        }
        if verified.len() >= CACHED_MAX {
            verified.clear();
        }
        verified.insert(hash, (Arc::clone(&identity), until));
        Ok((identity, until))
    }
}

/// The trust store. All connections share it.
#[derive(Clone, Debug)]
pub struct Guard(Arc<Current>);

#[derive(Debug)]
struct Current {
    /// Incremented by each replacement. Read at each call, and rarely written.
    generation: AtomicU64,
    snapshot: RwLock<Arc<Snapshot>>,
}

impl Guard {
    /// A trust store with this content.
    #[must_use]
    pub fn new(trust: Trust) -> Guard {
        let snapshot = RwLock::new(Snapshot::new(trust));
        Guard(Arc::new(Current { generation: AtomicU64::new(0), snapshot }))
    }

    /// Replaces the content. It applies to all later calls, also on connections that are open.
    pub fn replace(&self, trust: Trust) {
        let mut now = self.0.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        *now = Snapshot::new(trust);
        self.0.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// The content in force.
    #[must_use]
    pub fn trust(&self) -> Trust {
        self.snapshot().trust.clone()
    }

    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Right, Whose};

    /// One pattern of the rights file fits any number of principals: their number is bounded, and a principal has the same rights
    /// before and after the cache is cleared.
    #[test]
    fn cache_of_principals_is_bounded() {
        let line = |number: usize| {
            format!(
                "[[rights]]\nprincipal = 'token:{number:02}*'\nconsumers = ['c{number:02}']\nmay = ['claim']\n"
            )
        };
        let rights = Rights::read(&(0..100).map(line).collect::<String>()).expect("rights");
        let trust = Trust { rights: Arc::new(rights), tokens: Some(Arc::default()), ..Trust::default() };
        let snapshot = Guard::new(trust).snapshot();
        for number in 0..=2 * CACHED_MAX {
            let identity = snapshot.identity(&format!("token:{:02}-{number}", number % 100));
            let may =
                |line: usize| identity.grants.allow(Right::Claim, Whose::Consumer(&format!("c{line:02}")));
            assert!(may(number % 100) && !may((number + 1) % 100), "{number}");
            let cached = snapshot.identities.lock().expect("no panic").len();
            assert_eq!(cached, number % CACHED_MAX + 1, "cleared only when it is full");
        }
        assert_eq!(
            snapshot.shared.lock().expect("no panic").len(),
            100,
            "principals of one line share its grants"
        );
    }
}
