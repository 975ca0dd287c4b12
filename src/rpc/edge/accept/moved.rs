//! How many bytes went through a connection, both ways.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// See the module. Clones count the same.
#[derive(Clone, Default)]
pub(super) struct Moved(Arc<AtomicU64>);

impl Moved {
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
