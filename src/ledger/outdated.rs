//! The end of a binary that the store does not serve any more: a newer one has begun to use what this one does not
//! know. From the moment at which this is noticed nothing more is written, and everybody is refused.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::store::{Fault, StoreError};

/// Whether it was noticed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outdated {
    noticed: CancellationToken,
    why: Arc<OnceLock<String>>,
}

impl Outdated {
    /// Looks whether an error tells of it.
    pub(in crate::ledger) fn notice(&self, error: &StoreError) {
        if let StoreError::NotApplied(Fault::Outdated(why)) = error
            && self.why.set(why.clone()).is_ok()
        {
            tracing::error!(why, "this server is outdated: it writes nothing more, drains, and ends");
            self.noticed.cancel();
        }
    }

    /// Says why, once it was noticed.
    pub(in crate::ledger) fn why(&self) -> Option<&String> {
        self.why.get()
    }

    /// The answer to every statement that is not sent any more.
    pub(in crate::ledger) fn check(&self) -> Result<(), StoreError> {
        self.why().map_or(Ok(()), |why| Err(StoreError::NotApplied(Fault::Outdated(why.clone()))))
    }

    /// Resolves once it was noticed.
    pub(in crate::ledger) async fn noticed(&self) -> String {
        self.noticed.cancelled().await;
        self.why().cloned().unwrap_or_default()
    }

    /// Does a task's work until it was noticed. What is under way then is given up with its connection.
    pub(in crate::ledger) async fn until(self, work: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.noticed.cancelled() => {}
            () = work => {}
        }
    }
}
