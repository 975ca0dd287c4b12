//! `RaiseTokenOffset`, as messages.

use crate::domain::{Rejection, Span, StoreTime};
use crate::ledger::{OffsetOrder, TokenClock};
use crate::proto;
use crate::wire::digest::digest;
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::words::{duration, shown};

const REQUEST_ID_MAX: usize = 128;
const REASON_MAX: usize = 1_024;
const MILLI: i64 = 1_000;

pub(super) fn order(
    request: &proto::RaiseTokenOffsetRequest,
    actor: &str,
    limits: &Limits,
) -> Result<OffsetOrder, Rejection> {
    let mut fields = FieldChecks::new(limits);
    if request.validate_only {
        fields.spare_request_id("request_id", &request.request_id, REQUEST_ID_MAX);
        fields.text("reason", &request.reason, REASON_MAX);
    } else {
        fields.request_id("request_id", &request.request_id, REQUEST_ID_MAX);
        fields.name("reason", &request.reason, REASON_MAX);
    }
    let token_offset = request.token_offset.as_ref().and_then(|value| fields.span("token_offset", value));
    if request.token_offset.is_none() && !request.validate_only {
        fields.wrong("token_offset", "is missing: set the new offset; validate_only shows the present one");
    }
    let expected = request.expected_token_offset.as_ref();
    let expected = expected.and_then(|value| fields.span("expected_token_offset", value));
    fields.finish(|| OffsetOrder {
        request_id: request.request_id.clone(),
        digest: digest("RaiseTokenOffset", request),
        actor: actor.to_owned(),
        reason: request.reason.clone(),
        token_offset,
        expected: expected.unwrap_or(Span::ZERO),
        validate_only: request.validate_only,
    })
}

pub(super) fn response(clock: TokenClock) -> proto::RaiseTokenOffsetResponse {
    let reading = clock.reading;
    // Rounded up.
    let millis = |micros: i64| Span(micros.saturating_add(MILLI - 1) / MILLI * MILLI);
    let some = |micros: i64| (micros > 0).then(|| duration(millis(micros)));
    proto::RaiseTokenOffsetResponse {
        token_offset: Some(duration(Span(reading.token_offset))),
        clock: Some(shown(reading.now)),
        clock_mark: (reading.mark > 0).then(|| shown(StoreTime(reading.mark))),
        behind: some(reading.behind_by()),
        replayed: clock.replayed,
        ahead: some(reading.ahead_by()),
        before_release: reading.before_release(),
    }
}
