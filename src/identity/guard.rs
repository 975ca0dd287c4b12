//! What is in force: credentials, proxies and rights, replaced as a whole while calls go on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::jwt::{self, Issuer};
use super::principal::Identity;
use super::proxies::Proxies;
use super::refused::Refused;
use super::rights::{Grants, Rights};
use super::tls::Tls;
use super::tokens::{Hash, Tokens};
use super::wanted::Wanted;

/// How many principals are remembered with their rights; beyond that all are forgotten, and found again.
const KNOWN_MAX: usize = 10_000;

/// Who is known, and what they may do.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The bearer tokens of the file; none: there is no file.
    pub tokens: Option<Arc<Tokens>>,
    /// The issuers of JSON web tokens, with the keys that are known.
    pub issuers: Arc<[Issuer]>,
    /// Who is told of keys that are not known.
    pub wanted: Wanted,
    /// TLS of the server, and the authorities of its clients; none: the server speaks without.
    pub tls: Option<Arc<Tls>>,
    /// The proxies that name others.
    pub proxies: Arc<Proxies>,
    /// What principals may do.
    pub rights: Arc<Rights>,
}

impl Trust {
    /// Whether there is anything by which somebody could be known; else everybody is `anonymous`, with all rights.
    #[must_use]
    pub fn knows_anybody(&self) -> bool {
        let by_certificate = self.tls.as_ref().is_some_and(|tls| tls.asks_clients());
        self.tokens.is_some() || !self.issuers.is_empty() || by_certificate || !self.proxies.is_empty()
    }
}

/// What is in force, and the principals that were seen under it.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) trust: Trust,
    known: Mutex<HashMap<Box<str>, Arc<Identity>>>,
    /// Grants by the lines that they come from.
    shared: Mutex<HashMap<Vec<usize>, Grants>>,
    /// The web tokens that were verified, by their hashes, and until when each is valid.
    verified: Mutex<HashMap<Hash, (Arc<Identity>, u64)>>,
}

impl Snapshot {
    fn new(trust: Trust) -> Arc<Snapshot> {
        Arc::new(Snapshot {
            trust,
            known: Mutex::default(),
            shared: Mutex::default(),
            verified: Mutex::default(),
        })
    }

    /// A principal with its rights.
    pub(super) fn identity(&self, principal: &str) -> Arc<Identity> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identity) = known.get(principal) {
            return Arc::clone(identity);
        }
        let everything = !self.trust.knows_anybody();
        let grants = if everything { Grants::EVERYTHING } else { self.grants(principal) };
        let identity = Arc::new(Identity { principal: principal.into(), grants });
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(principal.into(), Arc::clone(&identity));
        identity
    }

    /// What a principal may do: principals whom the same lines fit share it.
    fn grants(&self, principal: &str) -> Grants {
        let lines = self.trust.rights.fitting(principal);
        let mut shared = self.shared.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(grants) = shared.get(&lines) {
            return grants.clone();
        }
        let grants = self.trust.rights.granted(&lines);
        if shared.len() >= KNOWN_MAX {
            shared.clear();
        }
        shared.insert(lines, grants.clone());
        grants
    }

    /// Whom a web token stands for at this second since 1970, and until when.
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
        // A signature takes long: nobody waits for another's.
        drop(verified);
        let token = std::str::from_utf8(token).map_err(|_| Refused::UnknownToken)?;
        let jwt::Verified { principal, until } =
            jwt::verify(&self.trust.issuers, token, now).map_err(|refused| {
                if let jwt::Refused::UnknownKey { issuer } = refused {
                    self.trust.wanted.notify(issuer);
                }
                Refused::WebToken(refused)
            })?;
        let identity = self.identity(&principal);
        verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= KNOWN_MAX {
            verified.retain(|_, (_, until)| now < *until);
        }
        if verified.len() >= KNOWN_MAX {
            verified.clear();
        }
        verified.insert(hash, (Arc::clone(&identity), until));
        Ok((identity, until))
    }
}

/// What is in force now. All connections share it.
#[derive(Clone, Debug)]
pub struct Guard(Arc<InForce>);

#[derive(Debug)]
struct InForce {
    /// Grows with each replacement. It is read at each call, and written hardly ever.
    generation: AtomicU64,
    snapshot: RwLock<Arc<Snapshot>>,
}

impl Guard {
    /// The first that is in force.
    #[must_use]
    pub fn new(trust: Trust) -> Guard {
        let snapshot = RwLock::new(Snapshot::new(trust));
        Guard(Arc::new(InForce { generation: AtomicU64::new(0), snapshot }))
    }

    /// Puts this in the place of what is in force. The calls that come from now on are judged by it, also those of
    /// connections that are open.
    pub fn replace(&self, trust: Trust) {
        let mut now = self.0.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        *now = Snapshot::new(trust);
        self.0.generation.fetch_add(1, Ordering::SeqCst);
    }

    /// What is in force.
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
