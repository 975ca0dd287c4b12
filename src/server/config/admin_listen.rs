//! The setting `admin_listen`: the listener for operators.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use serde::Deserialize;

use super::file_path::NONE;

/// The address of a separate listener for operators; `None` without one.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(try_from = "String")]
pub struct AdminListen(pub(super) Option<SocketAddr>);

impl FromStr for AdminListen {
    type Err = String;
    fn from_str(text: &str) -> Result<AdminListen, String> {
        if text == NONE {
            return Ok(AdminListen(None));
        }
        let chosen = text.parse().map(|address| AdminListen(Some(address)));
        chosen
            .map_err(|_| format!("`{text}` is neither `{NONE}` nor an address and port like 127.0.0.1:50052"))
    }
}

impl TryFrom<String> for AdminListen {
    type Error = String;
    fn try_from(text: String) -> Result<AdminListen, String> {
        text.parse()
    }
}

impl fmt::Display for AdminListen {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => to.write_str(NONE),
            Some(address) => address.fmt(to),
        }
    }
}
