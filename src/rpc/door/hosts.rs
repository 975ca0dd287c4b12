//! The host names by which the HTTP door may be called where callers are anonymous. A web page can resolve
//! its own name to the address of this machine (DNS rebinding): its requests are then of the same origin, and
//! need no preflight. Their `Host` is the page's name, which is refused.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use http::request::Parts;
use http::uri::Authority;

/// The allowed host names. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(Arc<[String]>);

impl Hosts {
    /// IP literals, `localhost`, and these names, written without a port.
    #[must_use]
    pub fn of(names: impl IntoIterator<Item = String>) -> Hosts {
        Hosts(names.into_iter().map(|name| name.to_ascii_lowercase()).collect())
    }

    /// Whether a request names only allowed hosts, and at least one: HTTP/2 and HTTP/1.1 may name the host
    /// twice.
    pub(super) fn allow(&self, request: &Parts) -> bool {
        let headers = request.headers.get_all(http::header::HOST).iter().map(|host| host.to_str().ok());
        let mut named =
            headers.chain(request.uri.authority().map(|authority| Some(authority.as_str()))).peekable();
        named.peek().is_some() && named.all(|host| host.is_some_and(|host| self.allows(host)))
    }

    fn allows(&self, host: &str) -> bool {
        // A name before an `@` is a user's; no HTTP request has one.
        if host.contains('@') {
            return false;
        }
        let Ok(authority) = host.parse::<Authority>() else { return false };
        let name = authority.host();
        let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        match bare {
            Some(v6) => v6.parse::<Ipv6Addr>().is_ok(),
            None => {
                name.parse::<Ipv4Addr>().is_ok()
                    || name.eq_ignore_ascii_case("localhost")
                    || self.0.iter().any(|one| one.eq_ignore_ascii_case(name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn hosts_allow_literals_localhost_and_configured_names() {
        let hosts = Hosts::of(["Ledger.Internal".to_owned()]);
        for (host, allowed) in [
            ("127.0.0.1", true),
            ("127.0.0.1:50080", true),
            ("10.1.2.3", true),
            ("[::1]:50080", true),
            ("[2001:db8::1]", true),
            ("localhost", true),
            ("LocalHost:1", true),
            ("ledger.internal:443", true),
            ("ledger.internal.evil.example", false),
            ("evil.example", false),
            ("localhost.", false),
            ("localhost.evil.example", false),
            ("a@localhost", false),
            ("localhost@evil.example", false),
            ("127.1", false),
            ("[evil.example]", false),
            ("", false),
        ] {
            assert_eq!(hosts.allows(host), allowed, "{host:?}");
        }
    }

    #[test]
    fn hosts_check_every_name_of_a_request() {
        let parts = |uri: &str, host: &[&str]| {
            let mut builder = Request::builder().uri(uri);
            for host in host {
                builder = builder.header("host", *host);
            }
            builder.body(()).expect("a request").into_parts().0
        };
        for (uri, host, allowed) in [
            ("/a", &["localhost"][..], true),
            ("/a", &[], false),
            ("/a", &["localhost", "evil.example"], false),
            ("http://localhost/a", &[], true),
            ("http://localhost/a", &["evil.example"], false),
            ("http://evil.example/a", &["localhost"], false),
        ] {
            assert_eq!(Hosts::default().allow(&parts(uri, host)), allowed, "{uri} {host:?}");
        }
    }
}
