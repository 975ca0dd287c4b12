//! The door of one connection: from the credentials of each call to who calls.

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
/// A certificate that was valid may end while its connection is open: it is looked at again after this.
const CERTIFICATE_TRUSTED_FOR: Duration = Duration::from_secs(5);

type Known = Result<Arc<Identity>, Refused>;

/// See the module.
#[derive(Debug)]
pub struct Door {
    guard: Guard,
    peer: Peer,
    remembered: Mutex<Remembered>,
}

/// What the last calls showed. It holds for as long as nothing in force changes.
#[derive(Debug)]
struct Remembered {
    generation: u64,
    now: Arc<Snapshot>,
    /// Whether the peer is a trusted proxy.
    proxy: bool,
    anonymous: Option<Arc<Identity>>,
    /// The last bearer token, and until when it is valid, in seconds since 1970; none: until the file says otherwise.
    bearer: Option<(HeaderValue, Arc<Identity>, Option<u64>)>,
    certificate: Option<(Instant, Result<(), Refused>)>,
    named: Option<Known>,
}

impl Remembered {
    fn new(guard: &Guard, peer: &Peer) -> Remembered {
        // In this order: what is replaced in between is seen at the next call.
        let generation = guard.generation();
        let now = guard.snapshot();
        let anonymous = (!now.trust.knows_anybody()).then(|| now.identity(ANONYMOUS));
        let proxy = now.trust.proxies.trust(peer);
        Remembered { generation, now, proxy, anonymous, bearer: None, certificate: None, named: None }
    }
}

impl Door {
    /// The door of a connection with this other end.
    #[must_use]
    pub fn new(guard: Guard, peer: Peer) -> Door {
        let remembered = Mutex::new(Remembered::new(&guard, &peer));
        Door { guard, peer, remembered }
    }

    /// The other end.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Whether the other end is a trusted proxy, as of now.
    #[must_use]
    pub fn peer_is_proxy(&self) -> bool {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).proxy
    }

    /// Who makes the call that has these headers.
    ///
    /// # Errors
    /// Why nobody is known by them.
    pub fn caller(&self, headers: &HeaderMap) -> Known {
        let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        if remembered.generation != self.guard.generation() {
            *remembered = Remembered::new(&self.guard, &self.peer);
        }
        let remembered = &mut *remembered;
        if let Some(anonymous) = &remembered.anonymous {
            return Ok(Arc::clone(anonymous));
        }
        // Each that is presented must be valid, whichever of them counts.
        self.certificate(remembered)?;
        let forwarded = if remembered.proxy { spoken_for(remembered, headers)? } else { None };
        if let Some(identity) = bearer(remembered, headers)? {
            return Ok(identity);
        }
        match forwarded {
            Some(identity) => Ok(identity),
            None if remembered.proxy => Err(Refused::NotForwarded),
            None => self.own(remembered),
        }
    }

    /// Whether the certificate of the connection, if there is one, is valid still.
    fn certificate(&self, remembered: &mut Remembered) -> Result<(), Refused> {
        if self.peer.chain.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        if let Some((at, verified)) = &remembered.certificate
            && now.saturating_duration_since(*at) < CERTIFICATE_TRUSTED_FOR
        {
            return *verified;
        }
        let tls = remembered.now.trust.tls.as_ref().ok_or(Refused::Certificate);
        let verified = tls.and_then(|tls| tls.verify(&self.peer, UnixTime::now()));
        remembered.certificate = Some((now, verified));
        verified
    }

    /// Whom the certificate of the connection names.
    fn own(&self, remembered: &mut Remembered) -> Known {
        let Some(certificate) = self.peer.chain.first() else { return Err(Refused::Missing) };
        let snapshot = &remembered.now;
        let name = || Names::of(certificate)?.principal().and_then(|principal| named(snapshot, &principal));
        remembered.named.get_or_insert_with(name).clone()
    }
}

/// Whom the proxy speaks for.
fn spoken_for(remembered: &Remembered, headers: &HeaderMap) -> Result<Option<Arc<Identity>>, Refused> {
    let header = only(headers, &FORWARDED, Refused::TwoForwarded)?;
    let principal = header.map(|header| forwarded::principal(header.as_bytes())).transpose()?;
    principal.map(|principal| named(&remembered.now, &principal)).transpose()
}

/// Whom the bearer token stands for; none: there is no token.
fn bearer(remembered: &mut Remembered, headers: &HeaderMap) -> Result<Option<Arc<Identity>>, Refused> {
    let Some(header) = only(headers, &AUTHORIZATION, Refused::TwoAuthorizations)? else { return Ok(None) };
    // Others may share a connection with its owner: how long this takes must not tell how much of a guess is right.
    if let Some((last, identity, until)) = &remembered.bearer
        && constant_time_eq(last.as_bytes(), header.as_bytes())
        && until.is_none_or(|until| UnixTime::now().as_secs() < until)
    {
        return Ok(Some(Arc::clone(identity)));
    }
    let (scheme, token) = header.as_bytes().split_at_checked(BEARER.len()).ok_or(Refused::NoBearer)?;
    if !scheme.eq_ignore_ascii_case(BEARER.as_bytes()) {
        return Err(Refused::NoBearer);
    }
    let (snapshot, hash) = (&remembered.now, tokens::hash(token));
    let of_file = snapshot.trust.tokens.as_ref().and_then(|tokens| tokens.known(&hash));
    let (identity, until) = match of_file {
        Some(known) => {
            let until = known.expires.map(|end| end.saturating_add(LEEWAY));
            if until.is_some_and(|until| UnixTime::now().as_secs() >= until) {
                return Err(Refused::ExpiredToken);
            }
            (named(snapshot, &known.principal)?, until)
        }
        // Tokens of the file are no web tokens, whatever they look like.
        None if snapshot.trust.issuers.is_empty() => return Err(Refused::UnknownToken),
        None => {
            let (identity, until) = snapshot.verified(hash, token, UnixTime::now().as_secs())?;
            (identity, Some(until))
        }
    };
    remembered.bearer = Some((header.clone(), Arc::clone(&identity), until));
    Ok(Some(identity))
}

/// The header, of which there may be one.
fn only<'a>(
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

/// A principal, if it can be one.
fn named(snapshot: &Snapshot, principal: &str) -> Known {
    if principal.len() > PRINCIPAL_BYTES_MAX || principal.contains(is_misleading) {
        return Err(Refused::Name);
    }
    Ok(snapshot.identity(principal))
}
