//! Key-refresh requests: a token that names an unknown key makes the server fetch the issuer's keys. No call waits for that.

use std::sync::Arc;

use tokio::sync::Notify;

/// Refresh requests, by the index of the issuer.
#[derive(Clone, Debug, Default)]
pub struct KeyRefresh(Arc<[Notify]>);

impl KeyRefresh {
    /// Requests for this number of issuers.
    #[must_use]
    pub fn of(issuers: usize) -> KeyRefresh {
        KeyRefresh((0..issuers).map(|_| Notify::new()).collect())
    }

    /// Requests a refresh, since a token names a key that this issuer does not have. Does not wait; concurrent requests are
    /// merged.
    pub fn request(&self, issuer: usize) {
        if let Some(requested) = self.0.get(issuer) {
            requested.notify_one();
        }
    }

    /// Waits until a refresh is requested for this issuer.
    pub async fn requested(&self, issuer: usize) {
        match self.0.get(issuer) {
            Some(requested) => requested.notified().await,
            None => std::future::pending().await,
        }
    }
}
