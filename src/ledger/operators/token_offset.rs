//! Raising `token_offset`: audited, repeatable, and in force for every statement that begins from then on, on all
//! replicas, since each reads it beside the clock.

use super::tries::{Before, Tried};
use crate::domain::{AuditEvent, Reading, RequestDigest, Span, raise_token_offset};
use crate::ledger::refusals::used_before;
use crate::ledger::rounds::{ROUNDS_MAX, contended, done};
use crate::store::{OffsetRaise, Session, StoreError};

/// The offset is that of all consumers: so are the ids of the requests that raise it.
const CONSUMER: &str = "";
/// The action's name in the audit.
const ACTION: &str = "RAISE_TOKEN_OFFSET";

/// An operator's request.
#[derive(Clone, Debug)]
pub struct OffsetOrder {
    /// The operator's own id of the request, among those that concern all consumers; its repeats change nothing.
    pub request_id: String,
    /// The digest of the whole request: a repeat has the same one.
    pub digest: RequestDigest,
    /// Who, as authenticated.
    pub actor: String,
    /// Why.
    pub reason: String,
    /// The new offset; none: only look.
    pub token_offset: Option<Span>,
    /// The offset that was looked at.
    pub expected: Span,
    /// Change nothing; say whether it would be allowed.
    pub validate_only: bool,
}

/// The store's clock, and what is added to it for tokens.
#[derive(Clone, Copy, Debug)]
pub struct TokenClock {
    /// Both, and the highest that they have shown together.
    pub reading: Reading,
    /// The request had been carried out before.
    pub replayed: bool,
}

/// An offset as the audit keeps it.
fn kept(offset: Span) -> String {
    serde_json::json!({ "token_offset_us": offset.micros() }).to_string()
}

pub(super) async fn raise(
    session: &mut dyn Session,
    order: &OffsetOrder,
    before: Before,
) -> Tried<TokenClock> {
    for _ in 0..ROUNDS_MAX {
        let made = if order.validate_only {
            None
        } else {
            let event = session.operators().audited(CONSUMER, &order.request_id).await;
            event.map_err(StoreError::nothing_sent)?
        };
        let reading = session.entries().load(&[]).await.map_err(StoreError::nothing_sent)?.reading;
        if let Some(event) = made {
            let replayed = before == Before::NotSent;
            let answer = if event.is_of(&order.digest) {
                Ok(TokenClock { reading, replayed })
            } else {
                Err(used_before("request_id"))
            };
            return Ok(answer);
        }
        let now = TokenClock { reading, replayed: false };
        let Some(asked) = order.token_offset else { return Ok(Ok(now)) };
        let present = Span(reading.token_offset);
        if let Err(rejection) = raise_token_offset(&reading, order.expected, asked) {
            return Ok(Err(rejection));
        }
        if order.validate_only {
            return Ok(Ok(now));
        }
        let event = AuditEvent {
            request_id: order.request_id.clone(),
            at: reading.now,
            actor: order.actor.clone(),
            action: ACTION.to_owned(),
            consumer: CONSUMER.to_owned(),
            key: None,
            reason: order.reason.clone(),
            before: Some(kept(present)),
            after: Some(kept(asked)),
            digest: Some(order.digest),
        };
        let raise = OffsetRaise { from: present.micros(), to: asked.micros() };
        if done(session.operators().raise_token_offset(raise, &event)).await? {
            tracing::warn!(
                from_us = raise.from,
                to_us = raise.to,
                request_id = event.request_id,
                actor = event.actor,
                "an operator raised token_offset"
            );
            // It is done: whatever fails from here on, nobody may be told that it was not.
            let loaded =
                session.entries().load(&[]).await.map_err(|error| StoreError::Unknown(error.to_string()))?;
            return Ok(Ok(TokenClock { reading: loaded.reading, replayed: false }));
        }
    }
    Ok(Err(contended("operators", "raise token_offset")))
}
