//! Fetches the keys of an issuer from their URL, or from the one that its discovery document names: a GET by HTTPS each, bounded in
//! time and size. Redirects are not followed, and errors do not contain secrets.

mod discovery;

use std::convert::Infallible;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, HOST, USER_AGENT};
use http::{HeaderValue, Request, StatusCode, Uri};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::common::secret_file;
use crate::identity::jwt::{JWKS_MAX, Keys};

/// Bound on a fetch, from reading its files and the DNS look-up to the last byte.
const WITHIN: Duration = Duration::from_secs(5);
/// Bounds on the head of a response, in bytes and lines.
const HEAD_BYTES_MAX: usize = 16 * 1_024;
const HEAD_LINES_MAX: usize = 100;
/// The maximum size of a file with authorities: those of a whole system take a quarter of that.
const AUTHORITIES_MAX: u64 = 1_024 * 1_024;
/// The maximum size of a file with a bearer token.
const BEARER_MAX: u64 = 16 * 1_024;
const HTTPS: u16 = 443;
/// The header `accept`. Most issuers answer with the second type; some check the header.
const ACCEPTED: &str = "application/jwk-set+json, application/json;q=0.9, */*;q=0.1";
const OURS: &str = concat!("idempotency-ledger/", env!("CARGO_PKG_VERSION"));

/// The source of an issuer's keys.
#[derive(Clone, Debug)]
pub(in crate::server) struct Source {
    /// The URL of the keys, or of the discovery document.
    place: Place,
    /// The issuer whose discovery document names the URL of the keys; `None` if `place` is that URL.
    discovers: Option<String>,
    within: Duration,
}

impl Source {
    /// A source with the URL of the keys; a file with the certificate authorities of its server, or else those that the system
    /// trusts; and a file with a bearer token to present. Both files are read for each fetch, since they may be replaced.
    ///
    /// # Errors
    /// The URL is not HTTPS, or the authorities cannot be read; in words.
    pub(in crate::server) fn new(
        url: &str,
        authorities: Option<PathBuf>,
        bearer: Option<PathBuf>,
    ) -> Result<Source, String> {
        Ok(Source { place: Place::new(url, authorities, bearer)?, discovers: None, within: WITHIN })
    }

    /// A source with the discovery document of this issuer, which is read again for each fetch. The bearer token is presented to the
    /// issuer's server alone: the document may name any other.
    ///
    /// # Errors
    /// No discovery document can be there: the issuer is not an HTTPS URL; or the authorities cannot be read; in words.
    pub(in crate::server) fn discovered(
        issuer: &str,
        authorities: Option<PathBuf>,
        bearer: Option<PathBuf>,
    ) -> Result<Source, String> {
        let place = Place::new(&discovery::document_of(issuer)?, authorities, bearer)?;
        Ok(Source { place, discovers: Some(issuer.to_owned()), within: WITHIN })
    }

    /// Fetches the published keys.
    ///
    /// # Errors
    /// No valid response arrived in time; in words that name the URL.
    pub(in crate::server) async fn keys(&self) -> Result<Keys, String> {
        let late = || format!("{}: no whole answer within {:?}", self.place.uri, self.within);
        timeout(self.within, self.found()).await.unwrap_or_else(|_| Err(late()))
    }

    async fn found(&self) -> Result<Keys, String> {
        let named = |place: &Place, why| format!("{}: {why}", place.uri);
        let text = self.place.text().await.map_err(|why| named(&self.place, why))?;
        let Some(issuer) = &self.discovers else {
            return Keys::of_jwks(&text).map_err(|why| named(&self.place, why));
        };
        let of_document = |why| named(&self.place, why);
        let url = discovery::jwks_uri(&text, issuer).map_err(of_document)?;
        let mut keys = Place::new(&url, self.place.authorities.clone(), None).map_err(of_document)?;
        if (&keys.host, keys.port) == (&self.place.host, self.place.port) {
            keys.bearer.clone_from(&self.place.bearer);
        }
        let text = keys.text().await.map_err(|why| named(&keys, why))?;
        Keys::of_jwks(&text).map_err(|why| named(&keys, why))
    }
}

/// A URL, and how to fetch what is there.
#[derive(Clone, Debug)]
struct Place {
    uri: Uri,
    /// In the form for a socket: an IPv6 address without brackets.
    host: String,
    server: ServerName<'static>,
    port: u16,
    authorities: Option<PathBuf>,
    bearer: Option<PathBuf>,
}

impl Place {
    fn new(url: &str, authorities: Option<PathBuf>, bearer: Option<PathBuf>) -> Result<Place, String> {
        // The error does not quote the URL, which may contain a password.
        let form = || "the URL of a JWKS must be https://HOST[:PORT]/PATH, without a user".to_owned();
        let uri: Uri = url.parse().map_err(|_| form())?;
        let authority = uri.authority().map(http::uri::Authority::as_str).filter(|all| !all.contains('@'));
        let (Some("https"), Some(authority), Some(host)) = (uri.scheme_str(), authority, uri.host()) else {
            return Err(form());
        };
        let port = match uri.port() {
            Some(port) => port.as_u16(),
            None if authority == host => HTTPS,
            None => return Err(form()),
        };
        let wrong = |why: String| format!("{url}: {why}");
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host).to_owned();
        let server = ServerName::try_from(host.clone());
        let server = server.map_err(|_| wrong("its host is neither a name nor an address".to_owned()))?;
        if let Some(file) = &authorities {
            authorities_of(file).map_err(wrong)?;
        }
        Ok(Place { uri, host, server, port, authorities, bearer })
    }

    async fn text(&self) -> Result<Bytes, String> {
        let (authorities, bearer) = (self.authorities.clone(), self.bearer.clone());
        // Reads files, those of the system by the hundred, so not on a thread that serves calls.
        let prepared = tokio::task::spawn_blocking(move || {
            let bearer = bearer.as_deref().map(bearer_of).transpose()?;
            Ok::<_, String>((tls(authorities.as_deref())?, bearer))
        });
        let (tls, bearer) = prepared.await.map_err(|_| "a bug of this server: see the log".to_owned())??;

        let stream = TcpStream::connect((self.host.as_str(), self.port)).await;
        let stream = stream.map_err(|error| format!("no connection: {error}"))?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(self.server.clone(), stream).await;
        self.answer(stream.map_err(|error| format!("no TLS: {error}"))?, bearer).await
    }

    /// The body of a successful response.
    async fn answer(
        &self,
        stream: TlsStream<TcpStream>,
        bearer: Option<HeaderValue>,
    ) -> Result<Bytes, String> {
        let mut http = http1::Builder::new();
        http.max_buf_size(HEAD_BYTES_MAX).max_header_size(HEAD_BYTES_MAX).max_headers(HEAD_LINES_MAX);
        let failed = |error: hyper::Error| format!("no answer: {error}");
        let (mut sender, connection) =
            http.handshake::<_, Empty<Bytes>>(TokioIo::new(stream)).await.map_err(failed)?;
        let request = self.request(bearer)?;
        let exchange = async move {
            let answer = sender.send_request(request).await.map_err(failed)?;
            match answer.status() {
                StatusCode::OK => {}
                status if status.is_redirection() => {
                    return Err(format!("answers {status}, and redirects are not followed"));
                }
                status => return Err(format!("answers {status}")),
            }
            let too_long = || format!("answers with more than {JWKS_MAX} bytes");
            if answer.body().size_hint().lower() > JWKS_MAX as u64 {
                return Err(too_long());
            }
            let body = Limited::new(answer.into_body(), JWKS_MAX).collect().await.map_err(|error| {
                if error.is::<LengthLimitError>() { too_long() } else { format!("no whole answer: {error}") }
            })?;
            Ok(body.to_bytes())
        };
        // The exchange reports errors of the connection: it may have the response already, so it is awaited in any case.
        let driven = async move {
            drop(connection.await);
            pending::<Infallible>().await
        };
        tokio::select! {
            biased;
            answer = exchange => answer,
            never = driven => match never {},
        }
    }

    fn request(&self, bearer: Option<HeaderValue>) -> Result<Request<Empty<Bytes>>, String> {
        let path = self.uri.path_and_query().map_or("/", |path| path.as_str());
        let host = self.uri.authority().map_or("", |authority| authority.as_str());
        let mut request =
            Request::get(path).header(HOST, host).header(ACCEPT, ACCEPTED).header(USER_AGENT, OURS);
        if let Some(bearer) = bearer {
            request = request.header(AUTHORIZATION, bearer);
        }
        request.body(Empty::new()).map_err(|error| format!("no request can be made: {error}"))
    }
}

/// Uses an explicit cryptography provider: the default of the process may be set by any library, or not at all.
fn tls(authorities: Option<&Path>) -> Result<ClientConfig, String> {
    let roots = match authorities {
        Some(file) => authorities_of(file)?,
        None => authorities_of_system()?,
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let tls = tls.map_err(|error| format!("no TLS: {error}"))?;
    let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(tls)
}

fn authorities_of(file: &Path) -> Result<RootCertStore, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("the authorities in {}: {why}", file.display());
    let pem = secret_file::bytes(file, AUTHORITIES_MAX).map_err(|why| wrong(&why))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    if roots.is_empty() { Err(wrong(&"no certificate in PEM")) } else { Ok(roots) }
}

/// Skips malformed certificates, which some systems have.
fn authorities_of_system() -> Result<RootCertStore, String> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if !roots.is_empty() {
        return Ok(roots);
    }
    let why = found.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
    Err(format!("the system trusts no authority{why}"))
}

/// The header with the token. Errors do not contain any part of it.
fn bearer_of(file: &Path) -> Result<HeaderValue, String> {
    let wrong = |why: &str| format!("the bearer token in {}: {why}", file.display());
    let text = secret_file::bytes(file, BEARER_MAX).map_err(|why| wrong(&why))?;
    let token = text.trim_ascii();
    if token.is_empty() {
        return Err(wrong("it is empty"));
    }
    if !token.iter().all(u8::is_ascii_graphic) {
        return Err(wrong("it is not one word of ASCII"));
    }
    let header = HeaderValue::from_bytes(&[b"Bearer ", token].concat());
    let mut header = header.map_err(|_| wrong("no header can have it"))?;
    header.set_sensitive(true);
    Ok(header)
}

#[cfg(test)]
mod tests;
