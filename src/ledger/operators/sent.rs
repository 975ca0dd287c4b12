//! The last write of a job on many entries, so that a second try finds whether the first one was applied.

use std::sync::PoisonError;

use crate::domain::{AuditEvent, RequestDigest};
use crate::ledger::runtime::Mutex;
use crate::store::{Session, StoreError};

/// The events of the last write, with the outcomes that hold once all of them are in the audit. One event is not enough: another
/// call may have written the event of the same row, and none of the others.
pub(super) struct Sent<T>(Mutex<Option<(Vec<SentEvent>, T)>>);

/// The stored id of an event, and the digest of its request.
type SentEvent = (String, Option<RequestDigest>);

impl<T> Default for Sent<T> {
    fn default() -> Sent<T> {
        Sent(Mutex::default())
    }
}

impl<T: Clone> Sent<T> {
    /// Notes a write that is about to be sent.
    pub(super) fn note(&self, events: &[AuditEvent], outcomes: &T) {
        let events = events.iter().map(|event| (event.stored_id(), event.digest)).collect();
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((events, outcomes.clone()));
    }

    /// The outcomes of the last write, if it was applied; `None` if there was none, or if it was not applied.
    ///
    /// # Errors
    /// Those of the store: nothing was sent.
    pub(super) async fn applied(&self, session: &mut dyn Session) -> Result<Option<T>, StoreError> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((events, outcomes)) = noted else { return Ok(None) };
        let ids: Vec<String> = events.iter().map(|(id, _)| id.clone()).collect();
        let known = session.operators().event_digests(&ids).await.map_err(StoreError::nothing_sent)?;
        let is_applied = events.iter().all(|(id, digest)| known.get(id) == Some(digest));
        Ok(is_applied.then_some(outcomes))
    }
}
