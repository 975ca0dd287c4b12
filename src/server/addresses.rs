//! The addresses in force, for a program that started a server on ports chosen by the system.

use std::net::SocketAddr;

pub(super) struct Addresses {
    pub(super) listen: SocketAddr,
    pub(super) admin_listen: Option<SocketAddr>,
    pub(super) http_listen: Option<SocketAddr>,
    pub(super) admin_http_listen: Option<SocketAddr>,
    pub(super) observe_listen: Option<SocketAddr>,
}

impl Addresses {
    /// One line of JSON, by the names of the settings; `null` for a listener that is off.
    pub(super) fn json(&self) -> String {
        let text = |address: SocketAddr| address.to_string();
        serde_json::json!({
            "listen": text(self.listen),
            "admin_listen": self.admin_listen.map(text),
            "http_listen": self.http_listen.map(text),
            "admin_http_listen": self.admin_http_listen.map(text),
            "observe_listen": self.observe_listen.map(text),
        })
        .to_string()
    }
}
