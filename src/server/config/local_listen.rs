//! Listeners that are on loopback unless another address is set: `observe_listen` and `http_listen`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use serde::Deserialize;

const OFF: &str = "off";

/// The listener of `/metrics`, `/livez` and `/readyz`: by default the port that Prometheus assigns to OpenTelemetry exporters.
pub type ObserveListen = LocalListen<9_464>;
/// The listener for HTTP without gRPC.
pub type HttpListen = LocalListen<50_080>;

/// See the module.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub enum LocalListen<const PORT: u16> {
    /// No listener.
    Off,
    /// A listener at this address.
    At {
        /// The address and port.
        address: SocketAddr,
        /// Whether it is the default: then a port that is in use is not an error.
        by_default: bool,
    },
}

impl<const PORT: u16> LocalListen<PORT> {
    pub(super) const DEFAULT: LocalListen<PORT> =
        LocalListen::At { address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT), by_default: true };

    /// The address, if there is one.
    #[must_use]
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            LocalListen::Off => None,
            LocalListen::At { address, .. } => Some(address),
        }
    }
}

impl<const PORT: u16> FromStr for LocalListen<PORT> {
    type Err = String;
    fn from_str(text: &str) -> Result<LocalListen<PORT>, String> {
        if text == OFF {
            return Ok(LocalListen::Off);
        }
        let chosen = text.parse().map(|address| LocalListen::At { address, by_default: false });
        chosen.map_err(|_| {
            format!(
                "`{text}` is neither `{OFF}` nor an address and port like {}",
                LocalListen::<PORT>::DEFAULT
            )
        })
    }
}

impl<const PORT: u16> TryFrom<String> for LocalListen<PORT> {
    type Error = String;
    fn try_from(text: String) -> Result<LocalListen<PORT>, String> {
        text.parse()
    }
}

impl<const PORT: u16> fmt::Display for LocalListen<PORT> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocalListen::Off => to.write_str(OFF),
            LocalListen::At { address, .. } => address.fmt(to),
        }
    }
}
