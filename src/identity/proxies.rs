//! Which proxies are trusted to say for whom they speak.

use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;

use super::certificate::{Names, SPIFFE};
use super::peer::Peer;

const ENTRIES_MAX: usize = 256;

/// The trusted proxies. None but these are asked for whom they speak, those of this machine neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    networks: Vec<IpNet>,
    /// As [`Names::all`] tells them.
    names: Vec<String>,
}

impl Proxies {
    /// Each is an address, a network, or a name of a certificate.
    ///
    /// # Errors
    /// All that is wrong.
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
                    "`{entry}` is no address like 10.0.0.7, no network like 10.0.0.0/8, and no name of a certificate \
                     like spiffe://mesh/gateway or dns:gateway.example"
                ));
            }
        }
        if problems.is_empty() { Ok(proxies) } else { Err(problems) }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.networks.is_empty() && self.names.is_empty()
    }

    /// Whether some are known by their certificates.
    #[must_use]
    pub fn has_names(&self) -> bool {
        !self.names.is_empty()
    }

    /// Whether this one is one of them; its certificate was verified.
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
    // A host's bits behind the prefix are a slip of the pen, which could trust more than was meant.
    (network.network() == network.addr()).then_some(network)
}

/// Why a network is not meant.
fn unfit(network: IpNet) -> Option<&'static str> {
    match network {
        _ if network.prefix_len() == 0 => Some(
            "is every address: whoever reaches the server could call in anybody's name; name the proxies",
        ),
        // A peer's address is told as IPv4 where it is one.
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
    fn a_proxy_is_trusted_by_its_address_only_where_it_is_listed() {
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
    fn what_is_no_proxy_is_refused() {
        for entry in ["", "10.0.0.1/8", "10.0.0.0/33", "gateway", "dns:", "https://gateway"] {
            let problems = Proxies::read([entry]).expect_err(entry);
            assert!(problems.concat().contains(&format!("`{entry}` is no address")), "{problems:?}");
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
