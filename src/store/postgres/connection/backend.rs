//! Backends of Postgres, and which of them may be at work for a connection.

use std::sync::{Arc, Mutex, PoisonError};

/// A backend, told apart from a later one with the same number by its start; behind a pooler by that of the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::postgres) struct Backend {
    pub(in crate::store::postgres) pid: i32,
    /// Microseconds by the server's clock.
    pub(in crate::store::postgres) started: i64,
}

/// The backend that may be at work for a connection; none while none can be.
#[derive(Clone, Debug, Default)]
pub(in crate::store::postgres) struct AtWork(Arc<Mutex<Option<Backend>>>);

impl AtWork {
    pub(in crate::store::postgres) fn get(&self) -> Option<Backend> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::store::postgres) fn set(&self, backend: Option<Backend>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = backend;
    }
}
