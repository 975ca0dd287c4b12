//! Changes of many entries, as streams of messages.

use std::pin::Pin;

use futures_util::stream::{Stream, unfold};
use tokio::sync::mpsc;
use tonic::Status;

use super::AdminRpc;
use super::entries::{self, Selects};
use crate::domain::{Action, EntryFilter, Reason, Rejection, RequestDigest, Resolution};
use crate::ledger::{Ages, BulkEvent, BulkOrder, BulkOutcome, BulkProgress, change_all};
use crate::proto;
use crate::rpc::edge::auth::{self, AuthenticatedCaller};
use crate::wire::digest::digest;
use crate::wire::errors::{self, refused};
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::reasons::During;
use crate::wire::words;

pub(super) const OPERATION_ID_MAX: usize = 64;
pub(super) const REASON_MAX: usize = 1_024;
const RATE_DEFAULT: u32 = 100;
const RATE_MAX: u32 = 1_000;
const MAXIMUM_DEFAULT: i32 = 10_000;
const MAXIMUM_MAX: i32 = 1_000_000;

/// A stream of answers.
pub(super) type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// A request for a change of many entries.
pub(super) trait BulkRequest: Sized {
    /// The messages that report the progress.
    type Response: Send + 'static;

    /// The order, with this principal as the actor.
    fn order(&self, actor: &str, limits: &Limits) -> Result<BulkOrder, Rejection>;

    /// A report of the progress.
    fn response(progress: BulkProgress) -> Self::Response;
}

impl AdminRpc {
    /// Begins or continues a change of many entries.
    pub(super) async fn change_many<R: BulkRequest>(
        &self,
        request: &R,
        extensions: &http::Extensions,
    ) -> Result<ResponseStream<R::Response>, Rejection> {
        let caller = auth::caller(extensions)?;
        let order = request.order(caller.principal(), &self.limits)?;
        // Also for a dry run, since it names entries in states that only a change would look for.
        caller.allowed(&order.filter.consumer)?;
        let (caller, consumer) = (caller.clone(), order.filter.consumer.clone());
        let events = change_all(&self.operators(&caller), order).await?;
        Ok(progress_stream(events, caller, consumer, R::response))
    }
}

/// The fields that every change of many entries has.
struct Common<'a> {
    filter: Option<&'a proto::EntryFilter>,
    operation_id: &'a str,
    reason: &'a str,
    dry_run: bool,
    rate: i32,
    maximum: i32,
    /// The digest of the request without the fields that may differ when the operation is continued.
    digest: RequestDigest,
}

macro_rules! common {
    ($rpc:literal, $kind:ident, $request:ident) => {
        Common {
            filter: $request.filter.as_ref(),
            operation_id: &$request.operation_id,
            reason: &$request.reason,
            dry_run: $request.dry_run,
            rate: $request.rate,
            maximum: $request.maximum,
            // The rate and the maximum may differ when the operation is continued; a dry run is not stored.
            digest: digest($rpc, &proto::$kind { rate: 0, maximum: 0, dry_run: false, ..$request.clone() }),
        }
    };
}

impl BulkRequest for proto::RedriveEntriesRequest {
    type Response = proto::RedriveEntriesResponse;

    fn order(&self, actor: &str, limits: &Limits) -> Result<BulkOrder, Rejection> {
        let request = self;
        let common = common!("RedriveEntries", RedriveEntriesRequest, request);
        let action = Action::Redrive { drop_fingerprint: self.drop_fingerprint, admit: false };
        let more = ("drop_fingerprint", self.drop_fingerprint.into());
        let check = |fields: &mut FieldChecks<'_>| not_completed(fields, &common, "redrive", "RedriveEntry");
        order(FieldChecks::new(limits), &common, check, actor, action, "", more)
    }

    fn response(progress: BulkProgress) -> proto::RedriveEntriesResponse {
        let outcomes = progress.outcomes.into_iter().map(outcome).map(|one| proto::RedriveOutcome {
            key: one.key,
            state: one.state,
            cause: one.cause,
            redriven: one.changed,
            rejected: one.rejected,
            effect_doubtful: one.effect_doubtful,
            key_hash: one.key_hash,
            message_erased: one.message_erased,
        });
        proto::RedriveEntriesResponse {
            outcomes: outcomes.collect(),
            redriven: progress.changed,
            refused: progress.refused,
            at_most_left: progress.at_most_left,
            finished: progress.finished,
            maximum_reached: progress.maximum_reached,
        }
    }
}

impl BulkRequest for proto::ParkEntriesRequest {
    type Response = proto::ParkEntriesResponse;

    fn order(&self, actor: &str, limits: &Limits) -> Result<BulkOrder, Rejection> {
        let request = self;
        let common = common!("ParkEntries", ParkEntriesRequest, request);
        let given = states(&common);
        let parks = [
            proto::EntryState::Received as i32,
            proto::EntryState::InProgress as i32,
            proto::EntryState::FailedRetryable as i32,
        ];
        let check = |fields: &mut FieldChecks<'_>| {
            if given.is_empty() {
                fields.wrong("filter.states", "is empty: name the states to park, such as FAILED_RETRYABLE");
            } else if given.iter().any(|state| !parks.contains(state)) {
                let text = "names a state that cannot be parked: only RECEIVED, IN_PROGRESS and FAILED_RETRYABLE can be";
                fields.wrong("filter.states", text);
            }
        };
        order(FieldChecks::new(limits), &common, check, actor, Action::Park, "", NOTHING_MORE)
    }

    fn response(progress: BulkProgress) -> proto::ParkEntriesResponse {
        proto::ParkEntriesResponse {
            outcomes: progress.outcomes.into_iter().map(outcome).collect(),
            changed: progress.changed,
            refused: progress.refused,
            at_most_left: progress.at_most_left,
            finished: progress.finished,
            maximum_reached: progress.maximum_reached,
        }
    }
}

impl BulkRequest for proto::ResolveEntriesRequest {
    type Response = proto::ResolveEntriesResponse;

    fn order(&self, actor: &str, limits: &Limits) -> Result<BulkOrder, Rejection> {
        let request = self;
        let common = common!("ResolveEntries", ResolveEntriesRequest, request);
        let mut fields = FieldChecks::new(limits);
        let evidence = fields.error(&self.evidence);
        let resolution = match self.state() {
            proto::EntryState::Completed => Resolution::Completed { result: bytes::Bytes::new() },
            proto::EntryState::FailedTerminal => Resolution::FailedTerminal { error: evidence.clone() },
            proto::EntryState::Received => Resolution::Received,
            proto::EntryState::Unspecified
            | proto::EntryState::InProgress
            | proto::EntryState::FailedRetryable
            | proto::EntryState::Parked => {
                fields.wrong("state", "must be COMPLETED, FAILED_TERMINAL or RECEIVED");
                Resolution::Received
            }
        };
        let more = ("as", self.state.into());
        let check = |fields: &mut FieldChecks<'_>| not_completed(fields, &common, "resolve", "ResolveEntry");
        order(fields, &common, check, actor, Action::Resolve(resolution), &evidence, more)
    }

    fn response(progress: BulkProgress) -> proto::ResolveEntriesResponse {
        proto::ResolveEntriesResponse {
            outcomes: progress.outcomes.into_iter().map(outcome).collect(),
            changed: progress.changed,
            refused: progress.refused,
            at_most_left: progress.at_most_left,
            finished: progress.finished,
            maximum_reached: progress.maximum_reached,
        }
    }
}

fn states<'a>(common: &Common<'a>) -> &'a [i32] {
    common.filter.map_or(&[][..], |filter| filter.states.as_slice())
}

/// A change that needs `force` for a COMPLETED entry is not made for many.
fn not_completed(fields: &mut FieldChecks<'_>, common: &Common<'_>, verb: &str, single: &str) {
    let given = states(common);
    if given.is_empty() {
        fields.wrong("filter.states", format!("is empty: name the states to {verb}, such as PARKED"));
    } else if given.contains(&proto::EntryState::Completed.into()) {
        let text =
            format!("names COMPLETED, which needs `force`: {verb} such entries one by one, with {single}");
        fields.wrong("filter.states", text);
    }
}

/// A field of the request that the audit keeps next to the filter.
type More = (&'static str, serde_json::Value);

const NOTHING_MORE: More = ("", serde_json::Value::Null);

/// Checks the fields that every change of many entries has, and makes the order.
fn order(
    mut fields: FieldChecks<'_>,
    common: &Common<'_>,
    check: impl FnOnce(&mut FieldChecks<'_>),
    actor: &str,
    action: Action,
    evidence: &str,
    more: More,
) -> Result<BulkOrder, Rejection> {
    let limits = fields.limits();
    let (filter, ages) = entries::filter(&mut fields, common.filter, limits, Selects::One);
    check(&mut fields);
    fields.request_id("operation_id", common.operation_id, OPERATION_ID_MAX);
    fields.name("reason", common.reason, REASON_MAX);
    let rate = match u32::try_from(common.rate) {
        Ok(0) => RATE_DEFAULT,
        Ok(rate) if rate <= RATE_MAX => rate,
        Ok(_) | Err(_) => {
            let text = format!("is {}, must be 1 to {RATE_MAX}, or 0 for {RATE_DEFAULT}", common.rate);
            fields.wrong("rate", text);
            RATE_DEFAULT
        }
    };
    let maximum = match common.maximum {
        0 => MAXIMUM_DEFAULT,
        maximum @ 1..=MAXIMUM_MAX => maximum,
        other => {
            let text = format!("is {other}, must be 1 to {MAXIMUM_MAX}, or 0 for {MAXIMUM_DEFAULT}");
            fields.wrong("maximum", text);
            MAXIMUM_DEFAULT
        }
    };
    let asked = asked(&filter, ages, more);
    fields.finish(|| BulkOrder {
        filter,
        ages,
        asked,
        operation_id: common.operation_id.to_owned(),
        digest: common.digest,
        actor: actor.to_owned(),
        reason: common.reason.to_owned(),
        dry_run: common.dry_run,
        rate,
        maximum: maximum.into(),
        action,
        evidence: evidence.to_owned(),
    })
}

/// The filter of the request, for the audit.
fn asked(filter: &EntryFilter, ages: Ages, (name, value): More) -> String {
    let mut asked = serde_json::json!({
        "source": filter.source,
        "id_prefix": filter.id_prefix,
        "states": filter.states,
        "causes": filter.causes,
        "expired": filter.expired,
        "min_age_us": ages.min,
        "max_age_us": ages.max,
    });
    if !name.is_empty() {
        asked[name] = value;
    }
    for (name, text) in
        [("replay_run", &filter.replay_run), ("owner", &filter.owner), ("error_contains", &filter.error)]
    {
        if !text.is_empty() {
            asked[name] = text.as_str().into();
        }
    }
    if let Some(state) = filter.message_state {
        asked["inbox"] = state.into();
    }
    if let Some(age) = ages.parked_max {
        asked["parked_max_age_us"] = age.micros().into();
    }
    asked.to_string()
}

/// The progress of the operation as messages, for as long as the caller has the right to it. A client that
/// stops reading ends the operation.
fn progress_stream<T: Send + 'static>(
    events: mpsc::Receiver<BulkEvent>,
    caller: AuthenticatedCaller,
    consumer: String,
    response: fn(BulkProgress) -> T,
) -> ResponseStream<T> {
    Box::pin(unfold(Some((events, caller, consumer)), move |state| async move {
        let (mut events, caller, consumer) = state?;
        let next = tokio::select! {
            biased;
            () = caller.must_end_streams() => Err(old("repeat the same request, and it goes on from here")),
            next = events.recv() => next?,
        };
        match caller.checked_again().and_then(|caller| caller.allowed(&consumer)) {
            Ok(()) => Some((next.map(response).map_err(refused), Some((events, caller, consumer)))),
            Err(rejection) => Some((Err(refused(rejection)), None)),
        }
    }))
}

fn outcome(outcome: BulkOutcome) -> proto::EntryOutcome {
    proto::EntryOutcome {
        key: outcome.key.as_ref().map(words::key),
        state: outcome.state.map_or(proto::EntryState::Unspecified, words::state).into(),
        cause: outcome.state.map_or(proto::ParkCause::Unspecified, words::cause).into(),
        changed: outcome.rejected.is_none(),
        rejected: outcome.rejected.map(|rejection| errors::rejected(&rejection, During::Other)),
        effect_doubtful: outcome.effect_doubtful,
        key_hash: outcome.key_hash.to_string(),
        message_erased: outcome.message_erased,
    }
}

/// The refusal when the connection of a stream has reached its lifetime.
pub(super) fn old(next: &str) -> Rejection {
    let text = format!("this connection has been open for long, and ends: {next}, on a new one");
    Rejection::new(Reason::Draining, text)
}
