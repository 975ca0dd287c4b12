//! Reads a stored message for an operator. The audit has an event of it before the message is shown.

use uuid::Uuid;

use super::retry::JobResult;
use crate::domain::{AuditEvent, Body, Key, Reason, Rejection, RequestDigest, audit_action};
use crate::store::{Found, KeptMessage, Session, StoreError, Write};

/// Whose message is read, by whom, and why.
pub(super) struct Sought {
    pub(super) key: Key,
    pub(super) actor: String,
    pub(super) reason: String,
    /// Names the event: a repeat of the job writes it once.
    pub(super) id: Uuid,
    pub(super) digest: RequestDigest,
}

pub(super) async fn read(session: &mut dyn Session, sought: &Sought) -> JobResult<KeptMessage> {
    let keys = std::slice::from_ref(&sought.key);
    let mut loaded = session.entries().load(keys).await.map_err(StoreError::nothing_sent)?;
    let entry = match loaded.found.pop().unwrap_or(Found::Absent).into_entry(sought.key.hash()) {
        Ok(entry) => entry,
        Err(rejection) => return Ok(Err(rejection)),
    };
    // The entry decides: a message that was erased stays in its table until the sweep.
    let kept = if entry.is_some_and(|entry| entry.body == Some(Body::Kept)) {
        session.inbox().message(sought.key.hash()).await.map_err(StoreError::nothing_sent)?
    } else {
        None
    };
    let Some(kept) = kept else {
        return Ok(Err(Rejection::new(
            Reason::EntryNotFound,
            "the ledger keeps no message of this key: it was never stored, or it was erased since",
        )));
    };
    let event = AuditEvent {
        request_id: format!("message/{}", sought.id.hyphenated()),
        at: loaded.reading.now,
        actor: sought.actor.clone(),
        action: audit_action::READ_MESSAGE.to_owned(),
        consumer: sought.key.consumer().to_owned(),
        key: Some(sought.key.hash()),
        reason: sought.reason.clone(),
        before: None,
        after: None,
        digest: Some(sought.digest),
    };
    session.operators().change(&Write::Nothing, &event).await?;
    Ok(Ok(kept))
}
