//! Raising `token_offset`: audited, idempotent, and in force for every statement that begins from then on, on all replicas,
//! since each statement reads it together with the clock.

use super::retry::{Before, JobResult};
use crate::domain::{AuditEvent, Reading, RequestDigest, Span, audit_action, raise_token_offset};
use crate::ledger::compare_and_set::{ROUNDS_MAX, contended, done};
use crate::ledger::refusals::used_before;
use crate::store::{OffsetRaise, Session, StoreError};

/// The offset concerns all consumers, and so do the ids of the requests that raise it.
const CONSUMER: &str = "";

/// An operator's request.
#[derive(Clone, Debug)]
pub struct OffsetOrder {
    /// The operator's own id of the request, among those that concern all consumers; its repeats change nothing.
    pub request_id: String,
    /// The digest of the whole request: a repeat has the same one.
    pub digest: RequestDigest,
    /// The operator, as authenticated.
    pub actor: String,
    /// The operator's reason.
    pub reason: String,
    /// The new offset; `None` to read only.
    pub token_offset: Option<Span>,
    /// The expected offset.
    pub expected: Span,
    /// Change nothing; return whether it would be allowed.
    pub validate_only: bool,
}

/// The store's clock, and what is added to it for tokens.
#[derive(Clone, Copy, Debug)]
pub struct TokenClock {
    /// Both, and their highest sum so far.
    pub reading: Reading,
    /// The request had been carried out before.
    pub replayed: bool,
}

/// An offset in the form of the audit.
fn kept(offset: Span) -> String {
    serde_json::json!({ "token_offset_us": offset.micros() }).to_string()
}

pub(super) async fn raise(
    session: &mut dyn Session,
    order: &OffsetOrder,
    before: Before,
) -> JobResult<TokenClock> {
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
            action: audit_action::RAISE_TOKEN_OFFSET.to_owned(),
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
            // The offset is written: an error from here on must be `Unknown`. The caller would take a refusal to mean that
            // nothing was changed.
            let loaded =
                session.entries().load(&[]).await.map_err(|error| StoreError::Unknown(error.to_string()))?;
            return Ok(Ok(TokenClock { reading: loaded.reading, replayed: false }));
        }
    }
    Ok(Err(contended("operators", "raise token_offset")))
}
