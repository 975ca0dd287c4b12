//! What is in force: credentials, proxies and rights, replaced as a whole while calls go on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use super::principal::Identity;
use super::proxies::Proxies;
use super::rights::{Grants, Rights};
use super::tls::Tls;
use super::tokens::Tokens;

/// How many principals are remembered with their rights; beyond that all are forgotten, and found again.
const KNOWN_MAX: usize = 10_000;

/// Who is known, and what they may do.
#[derive(Clone, Debug, Default)]
pub struct Trust {
    /// The bearer tokens of the file; none: there is no file.
    pub tokens: Option<Arc<Tokens>>,
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
        self.tokens.is_some() || by_certificate || !self.proxies.is_empty()
    }
}

/// What is in force, and the principals that were seen under it.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) trust: Trust,
    known: Mutex<HashMap<Box<str>, Arc<Identity>>>,
}

impl Snapshot {
    fn new(trust: Trust) -> Arc<Snapshot> {
        Arc::new(Snapshot { trust, known: Mutex::default() })
    }

    /// A principal with its rights.
    pub(super) fn identity(&self, principal: &str) -> Arc<Identity> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(identity) = known.get(principal) {
            return Arc::clone(identity);
        }
        let everything = !self.trust.knows_anybody();
        let grants = if everything { Grants::EVERYTHING } else { self.trust.rights.of(principal) };
        let identity = Arc::new(Identity { principal: principal.into(), grants });
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(principal.into(), Arc::clone(&identity));
        identity
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
