//! The metrics of a server in this process, as they are scraped.

use idempotency_ledger::ledger::Ledger;

use super::server::{Served, TestServer};

/// The gauges of what clients use at an instant.
const USED_BY_CLIENTS: [&str; 6] = [
    "idempotency_ledger_answer_bytes",
    "idempotency_ledger_connections",
    "idempotency_ledger_queue_bytes",
    "idempotency_ledger_queue_commands",
    "idempotency_ledger_request_bytes",
    "idempotency_ledger_waiters",
];

/// Fails if a gauge shows use when the last client has gone.
pub(super) fn nothing_is_in_use(ledger: &Ledger) {
    let text = ledger.metrics().text().unwrap();
    for gauge in USED_BY_CLIENTS {
        let series: Vec<_> =
            text.lines().filter(|line| line.split(['{', ' ']).next() == Some(gauge)).collect();
        assert!(!series.is_empty(), "{gauge} has no series");
        assert!(series.iter().all(|line| line.ends_with(" 0")), "the last client has gone: {series:?}");
    }
}

impl Served {
    pub(crate) fn scraped(&self) -> String {
        self.ledger.metrics().text().unwrap()
    }

    /// What a series of its metrics stands at.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let text = self.scraped();
        text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }
}

impl TestServer {
    pub(crate) fn scraped(&self) -> String {
        self.served.scraped()
    }

    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        self.served.metric(series)
    }
}
