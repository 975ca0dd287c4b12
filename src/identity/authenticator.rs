//! The authenticator of one connection: determines the caller of each call from its credentials.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use constant_time_eq::constant_time_eq;
use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};
use rustls::pki_types::UnixTime;

use super::certificate::Names;
use super::forwarded;
use super::guard::{Guard, Snapshot};
use super::peer::Peer;
use super::principal::Identity;
use super::refused::Refused;
use super::{ANONYMOUS, LEEWAY, PRINCIPAL_BYTES_MAX, tokens};
use crate::common::misleading::is_misleading;

const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-client-cert");
const BEARER: &str = "bearer ";
/// A valid certificate may expire or be revoked while its connection is open: it is verified again after this time.
const CERTIFICATE_TRUSTED_FOR: Duration = Duration::from_secs(5);

type Authenticated = Result<Arc<Identity>, Refused>;

/// See the module.
#[derive(Debug)]
pub struct Authenticator {
    guard: Guard,
    peer: Peer,
    cache: Mutex<Cache>,
}

/// Results for the credentials of the last calls, valid for one generation of the credentials in force.
#[derive(Debug)]
struct Cache {
    generation: u64,
    snapshot: Arc<Snapshot>,
    /// Whether the peer is a trusted proxy.
    proxy: bool,
    anonymous: Option<Arc<Identity>>,
    /// The last bearer token, its identity, and its expiry in seconds since 1970; `None` if it is valid until the file changes.
    bearer: Option<(HeaderValue, Arc<Identity>, Option<u64>)>,
    certificate: Option<(Instant, Result<(), Refused>)>,
    named: Option<Authenticated>,
}

impl Cache {
    fn new(guard: &Guard, peer: &Peer) -> Cache {
        // The generation first: a replacement in between is then noticed at the next call.
        let generation = guard.generation();
        let snapshot = guard.snapshot();
        let anonymous = (!snapshot.trust.knows_anybody()).then(|| snapshot.identity(ANONYMOUS));
        let proxy = snapshot.trust.proxies.trust(peer);
        Cache { generation, snapshot, proxy, anonymous, bearer: None, certificate: None, named: None }
    }
}

impl Authenticator {
    /// The authenticator of a connection with this peer.
    #[must_use]
    pub fn new(guard: Guard, peer: Peer) -> Authenticator {
        let cache = Mutex::new(Cache::new(&guard, &peer));
        Authenticator { guard, peer, cache }
    }

    /// The peer of the connection.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether the peer is a trusted proxy, as of now.
    #[must_use]
    pub fn peer_is_proxy(&self) -> bool {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).proxy
    }

    /// The caller of a call with these headers.
    ///
    /// # Errors
    /// Why the call is not authenticated.
    pub fn caller(&self, headers: &HeaderMap) -> Authenticated {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.generation != self.guard.generation() {
            *cache = Cache::new(&self.guard, &self.peer);
        }
        let cache = &mut *cache;
        if let Some(anonymous) = &cache.anonymous {
            return Ok(Arc::clone(anonymous));
        }
        // Every presented credential must be valid, whichever of them determines the principal.
        self.verify_certificate(cache)?;
        let forwarded = if cache.proxy { forwarded_identity(cache, headers)? } else { None };
        if let Some(identity) = bearer(cache, headers)? {
            return Ok(identity);
        }
        match forwarded {
            Some(identity) => Ok(identity),
            None if cache.proxy => Err(Refused::NotForwarded),
            None => self.of_certificate(cache),
        }
    }

    /// Checks that the certificate of the connection, if there is one, is still valid.
    fn verify_certificate(&self, cache: &mut Cache) -> Result<(), Refused> {
        if self.peer.chain.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        if let Some((at, verified)) = &cache.certificate
            && now.saturating_duration_since(*at) < CERTIFICATE_TRUSTED_FOR
        {
            return *verified;
        }
        let tls = cache.snapshot.trust.tls.as_ref().ok_or(Refused::Certificate);
        let verified = tls.and_then(|tls| tls.verify(&self.peer, UnixTime::now()));
        cache.certificate = Some((now, verified));
        verified
    }

    /// The identity in the certificate of the connection.
    fn of_certificate(&self, cache: &mut Cache) -> Authenticated {
        let Some(certificate) = self.peer.chain.first() else { return Err(Refused::Missing) };
        let snapshot = &cache.snapshot;
        let name = || Names::of(certificate)?.principal().and_then(|principal| named(snapshot, &principal));
        cache.named.get_or_insert_with(name).clone()
    }
}

/// The identity that a proxy forwards; `None` without the header.
fn forwarded_identity(cache: &Cache, headers: &HeaderMap) -> Result<Option<Arc<Identity>>, Refused> {
    let header = single(headers, &FORWARDED, Refused::TwoForwarded)?;
    let principal = header.map(|header| forwarded::principal(header.as_bytes())).transpose()?;
    principal.map(|principal| named(&cache.snapshot, &principal)).transpose()
}

/// The identity of the bearer token; `None` without a token.
fn bearer(cache: &mut Cache, headers: &HeaderMap) -> Result<Option<Arc<Identity>>, Refused> {
    let Some(header) = single(headers, &AUTHORIZATION, Refused::TwoAuthorizations)? else { return Ok(None) };
    // Compared in constant time: other callers may share the connection, and must not learn from the time how much of a
    // guessed token is right.
    if let Some((last, identity, until)) = &cache.bearer
        && constant_time_eq(last.as_bytes(), header.as_bytes())
        && until.is_none_or(|until| UnixTime::now().as_secs() < until)
    {
        return Ok(Some(Arc::clone(identity)));
    }
    let (scheme, token) = header.as_bytes().split_at_checked(BEARER.len()).ok_or(Refused::NoBearer)?;
    if !scheme.eq_ignore_ascii_case(BEARER.as_bytes()) {
        return Err(Refused::NoBearer);
    }
    let (snapshot, hash) = (&cache.snapshot, tokens::hash(token));
    let of_file = snapshot.trust.tokens.as_ref().and_then(|tokens| tokens.known(&hash));
    let (identity, until) = match of_file {
        Some(known) => {
            let until = known.expires.map(|end| end.saturating_add(LEEWAY));
            if until.is_some_and(|until| UnixTime::now().as_secs() >= until) {
                return Err(Refused::ExpiredToken);
            }
            (named(snapshot, &known.principal)?, until)
        }
        // Without issuers, a token that is not in the file is unknown, even if it looks like a web token.
        None if snapshot.trust.issuers.is_empty() => return Err(Refused::UnknownToken),
        None => {
            let (identity, until) = snapshot.verified(hash, token, UnixTime::now().as_secs())?;
            (identity, Some(until))
        }
    };
    cache.bearer = Some((header.clone(), Arc::clone(&identity), until));
    Ok(Some(identity))
}

/// The value of a header that may be sent at most once.
fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
    twice: Refused,
) -> Result<Option<&'a HeaderValue>, Refused> {
    let mut found = headers.get_all(name).iter();
    match (found.next(), found.next()) {
        (_, Some(_)) => Err(twice),
        (one, None) => Ok(one),
    }
}

/// The identity of a principal, if the text is a valid name.
fn named(snapshot: &Snapshot, principal: &str) -> Authenticated {
    if principal.len() > PRINCIPAL_BYTES_MAX || principal.contains(is_misleading) {
        return Err(Refused::Name);
    }
    Ok(snapshot.identity(principal))
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use rustls::pki_types::CertificateDer;

    use super::*;
    use crate::identity::{Tokens, Trust};

    /// The test puts another identity into the cache for the same header: `caller` returns the cached identity until the token expires.
    #[test]
    fn caller_same_bearer_is_cached_until_expiry() {
        let hash = hex::encode(tokens::hash(b"a token"));
        let known = Tokens::read(&format!("[tokens]\npayments = ['sha256:{hash}']\n")).expect("tokens");
        let trust = Trust { tokens: Some(Arc::new(known)), ..Trust::default() };
        let authenticator = Authenticator::new(Guard::new(trust), Peer::at(IpAddr::V4(Ipv4Addr::LOCALHOST)));
        let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static("Bearer a token"))]);
        let principal = || authenticator.caller(&headers).expect("a caller").principal.to_string();
        assert_eq!(principal(), "token:payments");
        let now = UnixTime::now().as_secs();
        for (until, expected) in
            [(None, "from the cache"), (Some(now + 3_600), "from the cache"), (Some(now), "token:payments")]
        {
            let mut cache = authenticator.cache.lock().expect("no panic");
            let (header, identity, _) = cache.bearer.take().expect("a bearer");
            let other = Identity { principal: "from the cache".into(), grants: identity.grants.clone() };
            cache.bearer = Some((header, Arc::new(other), until));
            drop(cache);
            assert_eq!(principal(), expected, "until {until:?}");
        }
    }

    /// A client that calls all the time must not be served after its certificate has expired.
    #[test]
    fn use_of_a_certificate_does_not_postpone_its_next_verification() {
        let chain = vec![CertificateDer::from(&b"0"[..])];
        let peer = Peer { chain, ..Peer::at(IpAddr::V4(Ipv4Addr::LOCALHOST)) };
        let authenticator = Authenticator::new(Guard::new(Trust::default()), peer);
        let mut cache = authenticator.cache.lock().expect("no panic");
        // In the future, so that the result is not too old however slow the machine is.
        let now = Instant::now();
        let verified = Some((now + Duration::from_hours(1), Ok(())));
        cache.certificate = verified;
        for call in 1..=3 {
            assert_eq!(authenticator.verify_certificate(&mut cache), Ok(()), "call {call}");
            assert_eq!(cache.certificate, verified, "call {call}: the result becomes no younger");
        }
        let before = now.checked_sub(CERTIFICATE_TRUSTED_FOR).expect("an instant");
        cache.certificate = Some((before, Ok(())));
        assert_eq!(authenticator.verify_certificate(&mut cache), Err(Refused::Certificate));
    }
}
