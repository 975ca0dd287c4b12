//! What the tasks have in common that carry out one job after the other on a session of their own.

use std::time::Duration;

use tokio::sync::oneshot;

use super::rt::timeout;
use super::{lost, read_failed, store_unavailable};
use crate::domain::Rejection;
use crate::store::{Fault, Purpose, Session, Store, StoreError};

/// How long a job may take.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Whom to answer.
pub(super) type Reply<T> = oneshot::Sender<Result<T, Rejection>>;

/// The session, opened if there is none.
pub(super) async fn opened<'s>(
    store: &dyn Store,
    purpose: Purpose,
    session: &'s mut Option<Box<dyn Session>>,
) -> Result<&'s mut dyn Session, StoreError> {
    if session.is_none() {
        *session = Some(store.open(purpose).await?);
    }
    match session {
        Some(session) => Ok(session.as_mut()),
        None => Err(StoreError::NotApplied(Fault::Unavailable("no session".into()))),
    }
}

/// Answers; says whether the session should be given up.
pub(super) async fn answer_change<T>(
    reply: Reply<T>,
    work: impl Future<Output = Result<Result<T, Rejection>, StoreError>>,
) -> bool {
    let (answer, broken) = match timeout(ANSWER_WITHIN, work).await {
        Ok(Ok(answer)) => (answer, false),
        Ok(Err(StoreError::Unknown(text))) => {
            tracing::warn!(error = text, "the outcome of an operator's change is unknown");
            (Err(lost()), true)
        }
        Ok(Err(error)) => (Err(read_failed(&error)), true),
        Err(_) => (Err(lost()), true),
    };
    let _gone = reply.send(answer);
    broken
}

/// The same for what changes nothing: no outcome of it is unknown.
pub(super) async fn answer_read<T>(
    reply: Reply<T>,
    work: impl Future<Output = Result<Result<T, Rejection>, StoreError>>,
) -> bool {
    let (answer, broken) = match timeout(ANSWER_WITHIN, work).await {
        Ok(Ok(answer)) => (answer, false),
        Ok(Err(error)) => (Err(read_failed(&error)), true),
        Err(_) => (Err(store_unavailable()), true),
    };
    let _gone = reply.send(answer);
    broken
}
