//! Keys that tokens named and that nobody knew: who fetches keys is told, and no call waits for it.

use std::sync::Arc;

use tokio::sync::Notify;

/// What tokens ask for, by the index of their issuer.
#[derive(Clone, Debug, Default)]
pub struct Wanted(Arc<[Notify]>);

impl Wanted {
    /// For so many issuers.
    #[must_use]
    pub fn of(issuers: usize) -> Wanted {
        Wanted((0..issuers).map(|_| Notify::new()).collect())
    }

    /// A token names a key that this issuer does not have. Waits for nothing; many that ask are heard once.
    pub fn notify(&self, issuer: usize) {
        if let Some(asked) = self.0.get(issuer) {
            asked.notify_one();
        }
    }

    /// Comes back when a token asked this issuer for a key.
    pub async fn heard(&self, issuer: usize) {
        match self.0.get(issuer) {
            Some(asked) => asked.notified().await,
            None => std::future::pending().await,
        }
    }
}
