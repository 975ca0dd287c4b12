//! Why a statement of the store failed, and whether it may have been applied.

/// Why a statement of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Certainly not applied.
    #[error("not applied: {0}")]
    NotApplied(Fault),
    /// Perhaps applied, perhaps not: the connection was lost, or the answer never came.
    #[error("outcome unknown: {0}")]
    Unknown(String),
}

impl StoreError {
    /// Of a read before any write of its job: where its connection broke nothing was applied.
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
    /// The store cannot be reached or refuses writes; another time it may not.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The statement took longer than it may, and the store ended it: one with fewer rows may not.
    #[error("the statement took too long: {0}")]
    TimedOut(String),
    /// The statement lost against another one and may be repeated at once.
    #[error("conflict: {0}")]
    Conflict(String),
    /// Somebody holds one of its rows, and does not let go.
    #[error("{0}")]
    Locked(String),
    /// A row of the batch is at fault: no repeat will help.
    #[error("refused for good: {0}")]
    Permanent(String),
    /// The session's own prepared statements are of no use any more: a new session works.
    #[error("the session is stale: {0}")]
    Stale(String),
    /// The store's clock runs behind what it showed before, or has jumped ahead of it.
    #[error("the store's clock is behind its mark, or has jumped ahead of it")]
    ClockBehind,
    /// The schema is not the one that this binary works with.
    #[error("{0}")]
    Schema(String),
    /// The store needs a newer binary, and will not do without one again.
    #[error("{0}")]
    Outdated(String),
}
