//! The settings of the HTTP listeners.

use std::net::SocketAddr;

use http::uri::Authority;

use super::checker::Checker;
use super::file_path::NONE;
use super::local_listen::HttpListen;
use super::settings::Settings;
use crate::rpc::Hosts;

/// The listeners for HTTP without gRPC, and the accepted host names.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// The listener for consumers; also for operators, unless they have a separate one.
    pub listen: HttpListen,
    /// The separate listener for operators, if there is one.
    pub admin_listen: Option<SocketAddr>,
    /// The host names that are accepted while callers are anonymous.
    pub hosts: Hosts,
}

/// Reads the settings; problems are added to the checker.
pub(super) fn http(
    given: &Settings,
    admin_listen: Option<SocketAddr>,
    checker: &mut Checker,
) -> HttpSettings {
    let listen = checker.local_listen("http_listen", given.http_listen.as_ref());
    let admin = checker.admin_listen("admin_http_listen", given.admin_http_listen.as_ref());
    if admin.is_some() && admin_listen.is_none() {
        let text =
            "is of no use without admin_listen: AdminService is at http_listen then; set both, or none";
        checker.wrong("admin_http_listen", text);
    }
    HttpSettings { listen, admin_listen: admin, hosts: hosts(given.http_hosts.as_deref(), checker) }
}

fn hosts(given: Option<&str>, checker: &mut Checker) -> Hosts {
    let text = given.filter(|text| *text != NONE);
    checker.shown("http_hosts", text.unwrap_or(NONE));
    let names = text.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
    let (good, wrong): (Vec<&str>, Vec<&str>) = names.partition(|name| is_name(name));
    for name in wrong {
        let text = format!("`{name}` is not a host name like ledger.internal, without a port");
        checker.wrong("http_hosts", &text);
    }
    Hosts::of(good.into_iter().map(str::to_owned))
}

fn is_name(name: &str) -> bool {
    name.parse::<Authority>().is_ok_and(|authority| authority.host() == name && !name.contains(['*', '[']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::config::given::Given;
    use crate::server::config::problem::ValueSources;

    #[test]
    fn hosts_with_port_are_refused() {
        for (text, wrong) in [
            ("none", 0),
            ("ledger.internal", 0),
            ("ledger.internal, gateway", 0),
            ("ledger.internal:443", 1),
            ("https://ledger.internal", 1),
            ("*.internal, a@b", 2),
        ] {
            let given = Settings { http_hosts: Some(text.into()), ..Settings::default() };
            let mut checker = Checker::new(ValueSources::default(), Vec::new());
            http(&given, None, &mut checker);
            assert_eq!(checker.problems.len(), wrong, "{text}");
        }
    }

    #[test]
    fn admin_http_listen_requires_admin_listen() {
        let address: SocketAddr = "127.0.0.1:1".parse().expect("an address");
        for (admin_listen, wrong) in [(Some(address), 0), (None, 1)] {
            let own = Some(Given::Value("127.0.0.1:2".parse().expect("an address")));
            let given = Settings { admin_http_listen: own, ..Settings::default() };
            let mut checker = Checker::new(ValueSources::default(), Vec::new());
            let settings = http(&given, admin_listen, &mut checker);
            assert_eq!((checker.problems.len(), settings.admin_listen.is_some()), (wrong, true));
        }
    }
}
