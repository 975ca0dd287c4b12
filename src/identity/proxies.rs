//! The proxies that are trusted to forward the identities of their clients.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::certificate::{Names, SPIFFE};
use super::peer::Peer;

const ENTRIES_MAX: usize = 256;

/// The trusted proxies. Forwarded identities of any other peer are ignored, also of one on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    networks: Vec<IpNet>,
    /// In the form of [`Names::all`].
    names: Vec<String>,
}

impl Proxies {
    /// Reads entries, each of which is an address, a network, or a name of a certificate.
    ///
    /// # Errors
    /// All problems.
    pub fn read<'a>(entries: impl IntoIterator<Item = &'a str>) -> Result<Proxies, Vec<String>> {
        let (mut proxies, mut problems) = (Proxies::default(), Vec::new());
        for (at, entry) in entries.into_iter().enumerate() {
            if at >= ENTRIES_MAX {
                problems.push(format!("has more than {ENTRIES_MAX} entries"));
                break;
            }
            if entry.starts_with(SPIFFE) || entry.strip_prefix("dns:").is_some_and(|name| !name.is_empty()) {
                proxies.names.push(entry.to_owned());
            } else if let Some(network) = network(entry) {
                match unfit(network) {
                    Some(why) => problems.push(format!("`{entry}` {why}")),
                    None => proxies.networks.push(network),
                }
            } else {
                problems.push(format!(
                    "`{entry}` is not an address like 10.0.0.7, a network like 10.0.0.0/8, or a name of a certificate \
                     like spiffe://mesh/gateway or dns:gateway.example"
                ));
            }
        }
        if problems.is_empty() { Ok(proxies) } else { Err(problems) }
    }

    /// Whether the list is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.names.is_empty()
    }

    /// Whether some proxies are listed by the name of their certificate.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether a peer is a trusted proxy. Its certificate must have been verified.
    pub(super) fn trust(&self, peer: &Peer) -> bool {
        let address = peer.address.to_canonical();
        if self.networks.iter().any(|network| network.contains(&address)) {
            return true;
        }
        let names = peer.chain.first().filter(|_| !self.names.is_empty()).and_then(|one| Names::of(one).ok());
        names.is_some_and(|names| names.all().any(|name| self.names.contains(&name)))
    }
}

fn network(text: &str) -> Option<IpNet> {
    let network = IpNet::from_str(text).ok().or_else(|| IpAddr::from_str(text).ok().map(IpNet::from))?;
    // Host bits after the prefix are a mistake, which could trust more than was meant.
    (network.network() == network.addr()).then_some(network)
}

/// Why a network is not acceptable; `None` if it is.
fn unfit(network: IpNet) -> Option<&'static str> {
    match network {
        _ if network.prefix_len() == 0 => Some(
            "is every address: every client that reaches the server could call in any name; name the proxies",
        ),
        // The address of an IPv4 peer is never given as an IPv4-mapped IPv6 address.
        IpNet::V6(six) if six.addr().to_ipv4_mapped().is_some() => {
            Some("fits no address: write it as IPv4, like 10.0.0.0/8")
        }
        IpNet::V6(_) | IpNet::V4(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trust_follows_the_list() {
        let proxies = Proxies::read(["10.1.0.0/16", "192.0.2.7", "2001:db8::/32"]).expect("proxies");
        for (address, trusted) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("10.2.0.0", false),
            ("192.0.2.7", true),
            ("192.0.2.8", false),
            ("2001:db8:1::1", true),
            ("127.0.0.1", false),
            ("::1", false),
        ] {
            let peer = Peer::at(address.parse().expect("an address"));
            assert_eq!(proxies.trust(&peer), trusted, "{address}");
            assert!(!Proxies::default().trust(&peer), "{address}");
        }
    }

    #[test]
    fn read_invalid_proxy_is_refused() {
        for entry in ["", "10.0.0.1/8", "10.0.0.0/33", "gateway", "dns:", "https://gateway"] {
            let problems = Proxies::read([entry]).expect_err(entry);
            assert!(problems.concat().contains(&format!("`{entry}` is not an address")), "{problems:?}");
        }
        for (entry, says) in [
            ("0.0.0.0/0", "is every address"),
            ("::/0", "is every address"),
            ("::ffff:10.0.0.0/104", "fits no address"),
            ("::ffff:10.0.0.7", "fits no address"),
        ] {
            let problems = Proxies::read([entry]).expect_err(entry);
            assert!(problems.concat().contains(says), "{problems:?}");
        }
        assert!(Proxies::read(["spiffe://mesh/gateway", "dns:gateway", "::1", "0.0.0.0/1"]).is_ok());
        assert!(Proxies::read(std::iter::repeat_n("::1", 257)).is_err());
    }
}
