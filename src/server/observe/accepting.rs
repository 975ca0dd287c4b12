//! Readiness: whether new work may be sent to this server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the server has started and does not drain, independent of its store.
#[derive(Clone, Debug)]
pub(in crate::server) struct Accepting(Arc<AtomicBool>);

impl Accepting {
    pub(in crate::server) fn new() -> Accepting {
        Accepting(Arc::new(AtomicBool::new(true)))
    }

    /// The server begins to drain.
    pub(in crate::server) fn end(&self) {
        self.0.store(false, Ordering::SeqCst);
    }

    pub(super) fn is(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}
