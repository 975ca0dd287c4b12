//! The schema fence: a newer binary has begun to use something that this one does not know. From the moment at which this
//! binary notices it, it writes nothing more, and refuses every call.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::store::{Fault, StoreError};

/// Set once it was noticed.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchemaFence {
    noticed: CancellationToken,
    why: Arc<OnceLock<String>>,
}

impl SchemaFence {
    /// Checks whether an error reports it.
    pub(in crate::ledger) fn notice(&self, error: &StoreError) {
        if let StoreError::NotApplied(Fault::Outdated(why)) = error
            && self.why.set(why.clone()).is_ok()
        {
            tracing::error!(why, "this server is outdated: it writes nothing more, drains, and ends");
            self.noticed.cancel();
        }
    }

    /// The reason, once it was noticed.
    pub(in crate::ledger) fn why(&self) -> Option<&String> {
        self.why.get()
    }

    /// The error of every statement from then on.
    pub(in crate::ledger) fn check(&self) -> Result<(), StoreError> {
        self.why().map_or(Ok(()), |why| Err(StoreError::NotApplied(Fault::Outdated(why.clone()))))
    }

    /// Resolves once it was noticed.
    pub(in crate::ledger) async fn noticed(&self) -> String {
        self.noticed.cancelled().await;
        self.why().cloned().unwrap_or_default()
    }

    /// Runs a task until it is noticed. A statement in flight is then given up with its connection.
    pub(in crate::ledger) async fn until(self, work: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.noticed.cancelled() => {}
            () = work => {}
        }
    }
}
