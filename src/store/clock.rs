//! The system's clock: its one home. Postgres has a clock of its own; this one serves `SQLite`.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::domain::StoreTime;

/// A clock that can be replaced.
pub trait Clock: Send + Sync + 'static {
    /// The present instant.
    fn now(&self) -> StoreTime;
}

/// The operating system's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "the one home of the system's clock")]
    fn now(&self) -> StoreTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        StoreTime(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}
