//! The metrics of a server in this process, as they are scraped.

use super::server::{Served, TestServer};

impl Served {
    pub(crate) fn scraped(&self) -> String {
        self.ledger.metrics().text().unwrap()
    }
}

impl TestServer {
    pub(crate) fn scraped(&self) -> String {
        self.served.scraped()
    }
}
