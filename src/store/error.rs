//! Why a statement of the store failed, and whether it may have been applied.

/// Why a statement of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Certainly not applied.
    #[error("not applied: {0}")]
    NotApplied(Fault),
    /// Perhaps applied: the connection was lost, or the answer did not arrive.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl StoreError {
    /// The error of a read before any write of the same job: if the connection broke, nothing was applied, so
    /// that the outcome is known.
    pub(crate) fn nothing_sent(self) -> StoreError {
        match self {
            StoreError::Unknown(text) => StoreError::NotApplied(Fault::Unavailable(text)),
            error @ StoreError::NotApplied(_) => error,
        }
    }
}

/// Why a statement was certainly not applied. The texts are for the log; they never leave the
/// server.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// The store is not reachable or refuses writes, which may be temporary.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The statement exceeded its timeout, and the store cancelled it: one with fewer rows may succeed.
    #[error("the statement took too long: {0}")]
    TimedOut(String),
    /// The statement conflicts with another one and may be repeated immediately.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Another session holds the lock of one of its rows for too long.
    #[error("{0}")]
    Locked(String),
    /// A row of the batch is at fault: a repeat fails again.
    #[error("refused for good: {0}")]
    Permanent(String),
    /// The session is no longer usable (for example, its prepared statements are gone): a new session works.
    #[error("the session is stale: {0}")]
    Stale(String),
    /// The store's clock runs behind what it showed before, or has jumped ahead of it.
    #[error("the store's clock is behind its mark, or has jumped ahead of it")]
    ClockBehind,
    /// The schema does not fit this binary.
    #[error("{0}")]
    Schema(String),
    /// The store needs a newer binary, permanently.
    #[error("{0}")]
    Outdated(String),
}
