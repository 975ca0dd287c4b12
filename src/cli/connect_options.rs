//! The connect options of a server, each value with its source, and the check that they fit together.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use http::Uri;

use super::problem::Problem;
use super::text::clean;

/// A value and its source: `--tls-ca`, or `context prod: tls_ca`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourcedValue<T> {
    pub(crate) value: T,
    pub(crate) by: String,
}

/// The credential.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Token {
    Typed(String),
    File(SourcedValue<PathBuf>),
}

/// A server, and how to connect to it.
#[derive(Clone)]
pub(crate) struct ConnectOptions {
    /// The context that is in use.
    pub(crate) context: Option<String>,
    pub(crate) endpoint: SourcedValue<String>,
    pub(crate) tls_ca: Option<SourcedValue<PathBuf>>,
    pub(crate) tls_cert: Option<SourcedValue<PathBuf>>,
    pub(crate) tls_key: Option<SourcedValue<PathBuf>>,
    pub(crate) tls_domain: Option<String>,
    pub(crate) token: Option<Token>,
    /// The token may be sent over a connection without encryption.
    pub(crate) plaintext_token: bool,
    pub(crate) timeout: Duration,
}

impl ConnectOptions {
    /// The server's address, with its scheme.
    pub(crate) fn url(&self) -> String {
        let named = &self.endpoint.value;
        if named.contains("://") {
            return named.clone();
        }
        let scheme = if self.wants_tls() { "https" } else { "http" };
        format!("{scheme}://{named}")
    }

    ///
    /// # Errors
    /// The options do not fit together. No file is read for this check.
    pub(crate) fn check(&self) -> Result<Uri, Problem> {
        let (url, by) = (self.url(), &self.endpoint.by);
        let uri =
            Uri::from_str(&url).map_err(|error| Problem::usage(format!("{by}: {}: {error}", clean(&url))))?;
        if self.tls_cert.is_some() != self.tls_key.is_some() {
            return Err(Problem::usage("--tls-cert and --tls-key: one is of no use without the other"));
        }
        match uri.scheme_str() {
            Some("http") if self.wants_tls() => {
                let text = format!("{by}: is http://, without TLS; --tls-… needs https://");
                return Err(Problem::usage(text));
            }
            // Otherwise a network attacker could read the token, and call in its name.
            Some("http") if self.token.is_some() && !self.plaintext_token && !is_local(&uri) => {
                let text = format!(
                    "{by}: {} is another machine, and http:// does not encrypt: the token is not sent",
                    place(&uri)
                );
                let next = "use https://. Where something else encrypts the way, such as a mesh, allow it with \
                            --plaintext-token (in a context: plaintext_token = true)";
                return Err(Problem::usage(text).next(next));
            }
            Some("http" | "https") => {}
            Some(_) | None => {
                return Err(Problem::usage(format!(
                    "{by}: {} is none of http://HOST:PORT, https://HOST:PORT and HOST:PORT",
                    clean(&url)
                )));
            }
        }
        Ok(uri)
    }

    fn wants_tls(&self) -> bool {
        self.tls_ca.is_some()
            || self.tls_cert.is_some()
            || self.tls_key.is_some()
            || self.tls_domain.is_some()
    }
}

/// A server, for people: without user and password.
pub(crate) fn place(uri: &Uri) -> String {
    let authority = uri.authority().map_or("", http::uri::Authority::as_str);
    let host = authority.rsplit('@').next().unwrap_or_default();
    clean(&format!("{}://{host}", uri.scheme_str().unwrap_or_default()))
}

/// Whether an address is on this machine.
pub(crate) fn is_local(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    address.map_or(host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(endpoint: &str) -> ConnectOptions {
        ConnectOptions {
            context: None,
            endpoint: SourcedValue { value: endpoint.into(), by: "--endpoint".into() },
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            tls_domain: None,
            token: None,
            plaintext_token: false,
            timeout: Duration::ZERO,
        }
    }

    #[test]
    fn local_server_is_known_by_its_address() {
        for (endpoint, local) in [
            ("127.0.0.1:1", true),
            ("http://127.9.9.9:1", true),
            ("http://[::1]:50051", true),
            ("http://localhost:50051", true),
            ("http://LocalHost", true),
            ("10.0.0.1:50051", false),
            ("0.0.0.0:50051", false),
            ("http://[2001:db8::1]:50051", false),
            ("http://ledger.example:50051", false),
            ("http://localhost.example", false),
            ("http://127.0.0.1@ledger.example", false),
        ] {
            let uri = connect(endpoint).check().unwrap();
            assert_eq!(is_local(&uri), local, "{endpoint}");
        }
    }

    #[test]
    fn token_over_plaintext_needs_permission() {
        for (endpoint, with_token, allowed, goes) in [
            ("http://ledger.example:1", true, false, false),
            ("ledger.example:1", true, false, false),
            ("http://127.0.0.1@ledger.example:1", true, false, false),
            ("http://ledger.example:1", true, true, true),
            ("http://ledger.example:1", false, false, true),
            ("https://ledger.example:1", true, false, true),
            ("http://127.0.0.1:1", true, false, true),
            ("http://[::1]:1", true, false, true),
        ] {
            let token = with_token.then(|| Token::Typed("t".into()));
            let checked = ConnectOptions { token, plaintext_token: allowed, ..connect(endpoint) }.check();
            assert_eq!(checked.is_ok(), goes, "{endpoint} {with_token} {allowed}");
        }
    }

    #[test]
    fn place_hides_user_and_password() {
        let uri = connect("http://who:secret@ledger.example:1").check().unwrap();
        assert_eq!(place(&uri), "http://ledger.example:1");
    }
}
