//! Messages that are stored and handed out: their fields, and the answers to Store and `ClaimNext`.

use bytes::Bytes;
use prost::Message as _;

use super::convert::claim_response;
use super::errors;
use super::fields::{FieldChecks, FieldScope, Limits};
use super::reasons::During;
use super::words::{advice, duration, key, state, timestamp};
use crate::domain::{
    HandOutBounds, Handed, NextAnswer, NextRequest, Rejection, Span, Store, StoreRequest, StoreVerdict,
    Stored, Verdict,
};
use crate::proto::{self, claim_response, store_response};

/// The bounds of a message, in bytes.
pub(crate) const PAYLOAD_MAX: usize = 256 << 10;
pub(crate) const HEADERS_MAX: usize = 64;
pub(crate) const HEADER_NAME_MAX: usize = 256;
pub(crate) const HEADERS_BYTES_MAX: usize = 16 << 10;
pub(crate) const TOPIC_MAX: usize = 256;
pub(crate) const MESSAGE_KEY_MAX: usize = 512;
pub(crate) const LABEL_MAX: usize = 128;
/// The most messages of one handout.
pub(crate) const HANDED_MAX: usize = 1_000;

/// A message to store.
pub(crate) fn store(
    request: proto::StoreRequest,
    traceparent: &str,
    limits: &Limits,
    part: FieldScope,
) -> Result<StoreRequest, Rejection> {
    let mut fields = FieldChecks::of(limits, part);
    let key = fields.own_key(request.key);
    if key.as_ref().is_some_and(crate::domain::Key::is_of_run) {
        fields.wrong("key.replay_run", "is set, and a replay run stores no messages: replay them by Claim");
    }
    if request.message.is_none() {
        fields.wrong("message", "is missing");
    }
    let mut message = request.message.unwrap_or_default();
    check(&mut fields, &message);
    message.event_type = fields.event_type(message.event_type);
    fields.bytes("fingerprint", &request.fingerprint, limits.fingerprint);
    let occurred_at = fields.instant("occurred_at", request.occurred_at.as_ref());
    let key = fields.finish(|| key)?.ok_or_else(|| errors::internal("a key is neither wrong nor right"))?;
    let store = Store {
        fingerprint: Bytes::copy_from_slice(&request.fingerprint),
        occurred_at,
        traceparent: traceparent.to_owned(),
    };
    Ok(StoreRequest { key, store, message: message.encode_to_vec().into(), event_type: message.event_type })
}

fn check(fields: &mut FieldChecks<'_>, message: &proto::Message) {
    fields.bytes("message.payload", &message.payload, PAYLOAD_MAX);
    if message.headers.len() > HEADERS_MAX {
        let count = message.headers.len();
        fields.wrong("message.headers", format!("has {count} headers, must be at most {HEADERS_MAX}"));
    }
    for (place, header) in message.headers.iter().take(HEADERS_MAX).enumerate() {
        let bytes = header.name.len();
        if !(1..=HEADER_NAME_MAX).contains(&bytes) {
            let text = format!("has {bytes} bytes, must be 1 to {HEADER_NAME_MAX}");
            fields.wrong(&format!("message.headers[{place}].name"), text);
        }
    }
    let bytes: usize = message.headers.iter().map(|header| header.name.len() + header.value.len()).sum();
    if bytes > HEADERS_BYTES_MAX {
        fields.wrong(
            "message.headers",
            format!("have {bytes} bytes together, must be at most {HEADERS_BYTES_MAX}"),
        );
    }
    fields.text("message.topic", &message.topic, TOPIC_MAX);
    fields.bytes("message.message_key", &message.message_key, MESSAGE_KEY_MAX);
    fields.text("message.event_version", &message.event_version, LABEL_MAX);
    fields.text("message.content_type", &message.content_type, LABEL_MAX);
}

/// The answer to a Store.
pub(crate) fn store_response(stored: Stored) -> Result<proto::StoreResponse, Rejection> {
    let (verdict, stored_at) = stored?;
    let mut response =
        proto::StoreResponse { advice: advice(verdict.advice()).into(), ..proto::StoreResponse::default() };
    response.verdict = Some(match verdict {
        StoreVerdict::Stored { state: now } => {
            store_response::Verdict::Stored(proto::Stored { state: state(now).into() })
        }
        StoreVerdict::AlreadyStored { state: now } => {
            store_response::Verdict::AlreadyStored(proto::AlreadyStored {
                state: state(now).into(),
                stored_at: stored_at.map(timestamp),
            })
        }
        StoreVerdict::Completed { completed_at } => {
            store_response::Verdict::Completed(proto::StoreCompleted {
                completed_at: Some(timestamp(completed_at)),
            })
        }
        StoreVerdict::Failed { error, failed_at } => {
            store_response::Verdict::Failed(proto::Failed { error, failed_at: Some(timestamp(failed_at)) })
        }
        StoreVerdict::FingerprintMismatch { expected, presented } => {
            store_response::Verdict::FingerprintMismatch(proto::FingerprintMismatch { expected, presented })
        }
        StoreVerdict::OutsideWindow { window, occurred_at } => {
            store_response::Verdict::OutsideWindow(proto::OutsideWindow {
                window: Some(duration(window)),
                occurred_at: Some(timestamp(occurred_at)),
            })
        }
    });
    Ok(response)
}

/// The answer to the item with this index of a batch.
pub(crate) fn store_item(index: usize, stored: Stored) -> proto::StoreResponse {
    store_response(stored).unwrap_or_else(|rejection| {
        let rejection = rejection.within(&format!("requests[{index}]."));
        let rejected = errors::rejected(&rejection, During::Other);
        proto::StoreResponse {
            advice: rejected.advice,
            retry_after: rejected.retry_after,
            verdict: Some(store_response::Verdict::Rejected(rejected)),
        }
    })
}

/// What a `ClaimNext` asks for, and how long it may wait.
pub(crate) fn next(
    request: proto::ClaimNextRequest,
    principal: &str,
    traceparent: &str,
    limits: &Limits,
) -> Result<(NextRequest, Span), Rejection> {
    let mut fields = FieldChecks::of(limits, FieldScope::Whole);
    fields.name("consumer", &request.consumer, limits.consumer);
    if request.claim_id.is_empty() {
        fields.wrong(
            "claim_id",
            "is missing: make a new random UUID for each call; a lost answer is asked for again with it",
        );
    }
    let claim_id = fields.claim_id(&request.claim_id).unwrap_or_default();
    fields.text("owner", &request.owner, limits.owner);
    let lease = fields.lease(request.lease.as_ref());
    let messages = bound(&mut fields, "max", request.max, 1, HANDED_MAX);
    let bytes = bound(&mut fields, "bytes_max", request.bytes_max, limits.batch_bytes, limits.batch_bytes);
    let wait = fields.wait(request.wait.as_ref(), FieldScope::Whole);
    let next = NextRequest {
        consumer: request.consumer,
        claim_id,
        principal: principal.to_owned(),
        owner: request.owner,
        lease,
        bounds: HandOutBounds { messages, bytes },
        traceparent: traceparent.to_owned(),
    };
    fields.finish(|| (next, wait))
}

/// A number from 1 to `max`; 0 stands for `usual`.
fn bound(fields: &mut FieldChecks<'_>, field: &str, asked: i32, usual: usize, max: usize) -> usize {
    match usize::try_from(asked) {
        Ok(0) => usual,
        Ok(asked) if asked <= max => asked,
        Ok(_) | Err(_) => {
            fields.wrong(field, format!("is {asked}, must be 1 to {max}, or 0 for {usual}"));
            usual
        }
    }
}

/// The answer to a `ClaimNext`.
pub(crate) fn next_response(answer: NextAnswer) -> Result<proto::ClaimNextResponse, Rejection> {
    let messages = answer.messages.into_iter().map(handed).collect::<Result<Vec<_>, Rejection>>()?;
    Ok(proto::ClaimNextResponse { messages, retry_after: answer.retry_after.map(duration) })
}

fn handed(handed: Handed) -> Result<proto::Handed, Rejection> {
    let Handed { key: of, verdict, message: encoded, stored_at } = handed;
    Ok(proto::Handed {
        key: Some(key(&of)),
        acquired: Some(acquired(verdict)?),
        message: Some(message(&encoded)?),
        stored_at: Some(timestamp(stored_at)),
    })
}

fn acquired(verdict: Verdict) -> Result<proto::Acquired, Rejection> {
    match claim_response(verdict).verdict {
        Some(claim_response::Verdict::Acquired(acquired)) => Ok(acquired),
        Some(_) | None => Err(errors::internal("a message was handed out without a claim")),
    }
}

/// A stored message.
///
/// # Errors
/// `INTERNAL`: the bytes are not a message.
pub(crate) fn message(encoded: &Bytes) -> Result<proto::Message, Rejection> {
    proto::Message::decode(encoded.clone())
        .map_err(|_| errors::internal("a stored message cannot be decoded: its row is damaged"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_is_refused_only_beyond_its_bounds() {
        type Change = fn(&mut proto::Message, usize);
        let header = |name: usize, value: usize| proto::Header {
            name: "n".repeat(name),
            value: vec![0; value].into(),
        };
        let payload: Change = |message, more| message.payload = vec![0; PAYLOAD_MAX + more].into();
        let headers: Change = |message, more| {
            message.headers =
                vec![proto::Header { name: "n".into(), ..Default::default() }; HEADERS_MAX + more];
        };
        let topic: Change = |message, more| message.topic = "t".repeat(TOPIC_MAX + more);
        let key: Change = |message, more| message.message_key = vec![0; MESSAGE_KEY_MAX + more].into();
        let version: Change = |message, more| message.event_version = "v".repeat(LABEL_MAX + more);
        let content: Change = |message, more| message.content_type = "c".repeat(LABEL_MAX + more);
        let found = |message: &proto::Message| {
            let limits = Limits::default();
            let mut fields = FieldChecks::new(&limits);
            check(&mut fields, message);
            let rejection = fields.finish(|| ()).err();
            rejection.into_iter().flat_map(|one| one.violations).map(|one| one.field).collect::<Vec<_>>()
        };
        for (field, change) in [
            ("message.payload", payload),
            ("message.headers", headers),
            ("message.topic", topic),
            ("message.message_key", key),
            ("message.event_version", version),
            ("message.content_type", content),
        ] {
            for (more, expected) in [(0, vec![]), (1, vec![field])] {
                let mut message = proto::Message::default();
                change(&mut message, more);
                assert_eq!(found(&message), expected, "{field} {more}");
            }
        }
        for (headers, expected) in [
            (vec![header(HEADER_NAME_MAX, 0), header(1, 0)], vec![]),
            (vec![header(1, 0), header(HEADER_NAME_MAX + 1, 0)], vec!["message.headers[1].name"]),
            (vec![header(0, 1)], vec!["message.headers[0].name"]),
            (vec![header(2, 3), header(1, HEADERS_BYTES_MAX - 6)], vec![]),
            (vec![header(2, 3), header(1, HEADERS_BYTES_MAX - 5)], vec!["message.headers"]),
        ] {
            let sizes: Vec<_> = headers.iter().map(|one| (one.name.len(), one.value.len())).collect();
            assert_eq!(found(&proto::Message { headers, ..Default::default() }), expected, "{sizes:?}");
        }
    }
}
