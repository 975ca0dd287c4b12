//! Where the plain HTTP port is: the setting `observe_listen`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::str::FromStr;

use serde::Deserialize;

const OFF: &str = "off";

/// Where `/metrics`, `/livez` and `/readyz` are served.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub enum ObserveListen {
    /// Nowhere.
    Off,
    /// There.
    At {
        /// The address and port.
        address: SocketAddr,
        /// Nobody chose it: it gives way where its port is taken.
        by_default: bool,
    },
}

impl ObserveListen {
    /// Where Prometheus expects the metrics of an OpenTelemetry exporter.
    pub(super) const DEFAULT: ObserveListen = ObserveListen::At {
        address: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9_464),
        by_default: true,
    };
}

impl FromStr for ObserveListen {
    type Err = String;
    fn from_str(text: &str) -> Result<ObserveListen, String> {
        if text == OFF {
            return Ok(ObserveListen::Off);
        }
        let chosen = text.parse().map(|address| ObserveListen::At { address, by_default: false });
        chosen.map_err(|_| {
            format!("`{text}` is neither `{OFF}` nor an address and port like {}", ObserveListen::DEFAULT)
        })
    }
}

impl TryFrom<String> for ObserveListen {
    type Error = String;
    fn try_from(text: String) -> Result<ObserveListen, String> {
        text.parse()
    }
}

impl fmt::Display for ObserveListen {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ObserveListen::Off => to.write_str(OFF),
            ObserveListen::At { address, .. } => address.fmt(to),
        }
    }
}
