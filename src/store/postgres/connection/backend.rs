//! Postgres backends, and the one that may be running a statement for a connection.

use std::sync::{Arc, Mutex, PoisonError};

/// A backend. Process ids are reused, so the start of the backend is part of its identity; behind a pooler it is the start of
/// the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::store::postgres) struct Backend {
    pub(in crate::store::postgres) pid: i32,
    /// In microseconds, by the server's clock.
    pub(in crate::store::postgres) started: i64,
}

/// The backend that may be running a statement for a connection; `None` while no backend can be.
#[derive(Clone, Debug, Default)]
pub(in crate::store::postgres) struct ActiveBackend(Arc<Mutex<Option<Backend>>>);

impl ActiveBackend {
    pub(in crate::store::postgres) fn get(&self) -> Option<Backend> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::store::postgres) fn set(&self, backend: Option<Backend>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = backend;
    }
}
