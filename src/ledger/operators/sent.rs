//! The last write of a job on many entries, so that a second try finds whether the first one was applied.

use std::sync::PoisonError;

use crate::domain::AuditEvent;
use crate::ledger::runtime::Mutex;
use crate::store::{Session, StoreError};

/// One of the events of the last write, by its consumer and its id, with the outcomes that hold if it is found: it shows a
/// second try whether the first one was applied, since all events of a part are written or none.
pub(super) struct Sent<T>(Mutex<Option<(SentEvent, T)>>);

/// The consumer and the id of an event.
type SentEvent = (String, String);

impl<T> Default for Sent<T> {
    fn default() -> Sent<T> {
        Sent(Mutex::default())
    }
}

impl<T: Clone> Sent<T> {
    pub(super) fn note(&self, event: Option<&AuditEvent>, outcomes: &T) {
        let event = event.map(|event| (event.consumer.clone(), event.request_id.clone()));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = event.map(|event| (event, outcomes.clone()));
    }

    /// The outcomes of the last write, if it was applied; `None` if there was none, or if it was not applied.
    ///
    /// # Errors
    /// Those of the store: nothing was sent.
    pub(super) async fn applied(&self, session: &mut dyn Session) -> Result<Option<T>, StoreError> {
        let noted = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(((consumer, request_id), outcomes)) = noted else { return Ok(None) };
        let event = session.operators().audited(&consumer, &request_id).await;
        Ok(event.map_err(StoreError::nothing_sent)?.map(|_| outcomes))
    }
}
