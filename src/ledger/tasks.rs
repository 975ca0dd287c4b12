//! What every long-lived task needs.

use std::time::Duration;

use futures_util::FutureExt as _;

use super::runtime::pause;
use crate::store::{Fault, Purpose, Session, Store, StoreError};

/// Pause before a task that panicked is restarted.
const DIED: Duration = Duration::from_secs(1);

/// Restarts a task when it panics: no caller would notice that a background task is gone.
pub(super) async fn supervised<T: Future<Output = ()>>(what: &'static str, task: impl Fn() -> T) {
    while std::panic::AssertUnwindSafe(task()).catch_unwind().await.is_err() {
        tracing::error!(what, "died of a bug and is started again");
        pause(DIED).await;
    }
}

/// Returns the session, which is opened if there is none.
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
