//! The schema fence: a newer binary has begun to use a feature that this binary does not know. From the moment at which this
//! binary notices it, it writes nothing more, and refuses every call.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

use crate::store::{Fault, StoreError};

/// The reason, set once this binary has noticed that it is behind the fence.
#[derive(Clone, Debug, Default)]
pub(crate) struct SchemaFence {
    noticed: CancellationToken,
    why: Arc<OnceLock<String>>,
}

impl SchemaFence {
    /// Notes the fence if this error reports it.
    pub(in crate::ledger) fn notice(&self, error: &StoreError) {
        if let StoreError::NotApplied(Fault::Outdated(why)) = error
            && self.why.set(why.clone()).is_ok()
        {
            tracing::error!(why, "this server is outdated: it writes nothing more, drains, and ends");
            self.noticed.cancel();
        }
    }

    /// Why this binary is behind the fence; `None` while it has not noticed that.
    pub(in crate::ledger) fn why(&self) -> Option<&String> {
        self.why.get()
    }

    /// Checks that a statement may be sent.
    ///
    /// # Errors
    /// This binary is behind the fence.
    pub(in crate::ledger) fn check(&self) -> Result<(), StoreError> {
        self.why().map_or(Ok(()), |why| Err(StoreError::NotApplied(Fault::Outdated(why.clone()))))
    }

    /// Resolves with the reason once this binary has noticed that it is behind the fence.
    pub(in crate::ledger) async fn noticed(&self) -> String {
        self.noticed.cancelled().await;
        self.why().cloned().unwrap_or_default()
    }

    /// Runs a task until this binary notices that it is behind the fence. A statement in flight is then given up with its
    /// connection.
    pub(in crate::ledger) async fn until(self, work: impl Future<Output = ()>) {
        tokio::select! {
            biased;
            () = self.noticed.cancelled() => {}
            () = work => {}
        }
    }
}
