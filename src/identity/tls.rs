//! TLS of the server: builds the handshake configuration from the texts of the files.

use std::fmt;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{PrivateKeyDer, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use super::authority::ClientAuthority;
use super::certificate::{self, Wrong, certificates};
use super::key_kind::{KeyKind, has_mark, uses_ed25519, why_not_pem};
use super::peer::Peer;
use super::refused::Refused;

/// ALPN protocols: gRPC needs HTTP/2; the HTTP listener supports both.
const PROTOCOL: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// What to do about the kind of a key.
const USABLE: &str =
    "which this server cannot use: make one for EC P-256, EC P-384 or RSA with 2048 to 4096 bits";

/// The server's certificate and its matching key.
#[derive(Clone, Debug)]
pub struct OwnCertificate {
    key: Arc<CertifiedKey>,
    /// When the certificate or an intermediate one expires, in seconds since 1970.
    ends_at: i64,
    name: Option<String>,
    uses_ed25519: bool,
}

impl OwnCertificate {
    /// Whether the chain uses Ed25519: clients that do not support it cannot connect.
    #[must_use]
    pub fn uses_ed25519(&self) -> bool {
        self.uses_ed25519
    }

    /// Reads the texts of two files, as PEM: the certificate with its intermediate ones, and its key. An error begins with the
    /// word for the file at fault, `cert` or `key`.
    ///
    /// # Errors
    /// The error, without any part of the key.
    pub fn read(certificate: &[u8], key: &[u8]) -> Result<OwnCertificate, Wrong> {
        let chain = certificates(certificate).map_err(|text| ("cert", text))?;
        let ends_at = certificate::chain_ends_at(&chain);
        let ends_at = ends_at.ok_or_else(|| ("cert", "has a certificate that cannot be read".to_owned()))?;
        let name = chain.first().and_then(certificate::host);
        let uses_ed25519 = uses_ed25519(&chain);
        let kind = chain.first().and_then(KeyKind::of);
        if let Some(kind) = kind.as_ref().filter(|kind| !kind.is_usable()) {
            return Err(("cert", format!("is for a key of the kind {kind}, {USABLE}")));
        }
        if let Some(why) = has_mark(key) {
            return Err(("key", why.to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
            (
                "key",
                why_not_pem(key).unwrap_or("has no private key in PEM (PKCS#8, PKCS#1 or SEC1)").to_owned(),
            )
        })?;
        let unusable = KeyKind::of_unusable(&key);
        let kind = kind.map(|kind| format!(", which is for {kind}")).unwrap_or_default();
        let key =
            CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(
                |error| match unusable {
                    Some(unusable) => ("key", format!("is of the kind {unusable}, {USABLE}")),
                    None => ("key", format!("does not fit the certificate{kind}: {error}")),
                },
            )?;
        Ok(OwnCertificate { key: Arc::new(key), ends_at, name, uses_ed25519 })
    }
}

/// The configuration of handshakes.
#[derive(Clone)]
pub struct Tls {
    /// For the gRPC listener.
    pub config: Arc<ServerConfig>,
    /// For the HTTP listener.
    pub http_config: Arc<ServerConfig>,
    /// When the server's certificate or an intermediate one expires, in seconds since 1970.
    pub ends_at: i64,
    /// A DNS name of the server's certificate; `None` without one.
    pub name: Option<String>,
    clients: Option<ClientAuthority>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Tls").field("ends_at", &self.ends_at).finish_non_exhaustive()
    }
}

impl Tls {
    /// TLS with this certificate; clients are asked for a certificate if an authority is given.
    ///
    /// # Errors
    /// The cryptography of this build does not support it.
    pub fn new(own: &OwnCertificate, clients: Option<&ClientAuthority>) -> Result<Tls, String> {
        let builder = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
        // TLS 1.2 and 1.3: rustls does not support others.
        let builder =
            builder.with_protocol_versions(rustls::ALL_VERSIONS).map_err(|error| error.to_string())?;
        let builder = match clients {
            Some(clients) => builder.with_client_cert_verifier(Arc::clone(&clients.verifier)),
            None => builder.with_no_client_auth(),
        };
        let resolver = SingleCertAndKey::from(CertifiedKey::clone(&own.key));
        let mut config = builder.with_cert_resolver(Arc::new(resolver));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        let mut http_config = config.clone();
        http_config.alpn_protocols = vec![PROTOCOL.to_vec(), HTTP1.to_vec()];
        let (ends_at, name) = (own.ends_at, own.name.clone());
        let (config, http_config) = (Arc::new(config), Arc::new(http_config));
        Ok(Tls { config, http_config, ends_at, name, clients: clients.cloned() })
    }

    /// When the first of the clients' revocation lists expires (`nextUpdate`), in seconds since 1970.
    #[must_use]
    pub fn lists_end_at(&self) -> Option<i64> {
        self.clients.as_ref()?.lists_end_at
    }

    /// Whether clients are asked for a certificate.
    #[must_use]
    pub fn asks_clients(&self) -> bool {
        self.clients.is_some()
    }

    /// Checks that the certificate of a peer is valid now.
    pub(super) fn verify(&self, peer: &Peer, now: UnixTime) -> Result<(), Refused> {
        let (Some(clients), Some((own, between))) = (&self.clients, peer.chain.split_first()) else {
            return Err(Refused::Certificate);
        };
        let verified = clients.verifier.verify_client_cert(own, between, now);
        verified.map(drop).map_err(|_| Refused::Certificate)
    }
}
