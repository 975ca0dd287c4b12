//! Operations on many entries, as streams of messages.

use std::pin::Pin;
use std::time::Duration;

use futures_util::stream::{Stream, unfold};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Status, Streaming};

use super::entries::{self, Selects};
use crate::domain::{Import, Key, Reason, Rejection, Violation};
use crate::ledger::{
    ImportOrder, ImportOutcome, ImportOutcomes, OpenOperation, Operators, RedriveEvent, RedriveOrder,
    RedriveProgress,
};
use crate::proto;
use crate::rpc::edge::auth::AuthenticatedCaller;
use crate::rpc::edge::layer;
use crate::wire::digest::digest;
use crate::wire::errors::{self, refused};
use crate::wire::fields::{FieldChecks, FieldScope, Limits};
use crate::wire::reasons::During;
use crate::wire::words;

const OPERATION_ID_MAX: usize = 64;
const REASON_MAX: usize = 1_024;
const RATE_DEFAULT: u32 = 100;
const RATE_MAX: u32 = 1_000;
const MAXIMUM_DEFAULT: i32 = 10_000;
const MAXIMUM_MAX: i32 = 1_000_000;
/// How long an import waits for its next message, and for the client to read an answer.
const NEXT_WITHIN: Duration = Duration::from_mins(1);

/// A stream of answers.
pub(super) type ResponseStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

pub(super) fn redrive(
    request: &proto::RedriveEntriesRequest,
    actor: &str,
    limits: &Limits,
) -> Result<RedriveOrder, Rejection> {
    let mut fields = FieldChecks::new(limits);
    let (filter, ages) = entries::filter(&mut fields, request.filter.as_ref(), limits, Selects::One);
    let given = request.filter.as_ref().map_or(&[][..], |filter| filter.states.as_slice());
    if given.is_empty() {
        fields.wrong("filter.states", "is empty: name the states to redrive, such as PARKED");
    } else if given.contains(&proto::EntryState::Completed.into()) {
        fields.wrong(
            "filter.states",
            "names COMPLETED, which needs `force`: redrive such entries one by one, with RedriveEntry",
        );
    }
    fields.request_id("operation_id", &request.operation_id, OPERATION_ID_MAX);
    fields.name("reason", &request.reason, REASON_MAX);
    let rate = match u32::try_from(request.rate) {
        Ok(0) => RATE_DEFAULT,
        Ok(rate) if rate <= RATE_MAX => rate,
        Ok(_) | Err(_) => {
            let text = format!("is {}, must be 1 to {RATE_MAX}, or 0 for {RATE_DEFAULT}", request.rate);
            fields.wrong("rate", text);
            RATE_DEFAULT
        }
    };
    let maximum = match request.maximum {
        0 => MAXIMUM_DEFAULT,
        maximum @ 1..=MAXIMUM_MAX => maximum,
        other => {
            let text = format!("is {other}, must be 1 to {MAXIMUM_MAX}, or 0 for {MAXIMUM_DEFAULT}");
            fields.wrong("maximum", text);
            MAXIMUM_DEFAULT
        }
    };
    // The rate and the maximum may differ when the operation is continued; a dry run is not stored.
    let identity = proto::RedriveEntriesRequest { rate: 0, maximum: 0, dry_run: false, ..request.clone() };
    let mut asked = serde_json::json!({
        "source": filter.source,
        "id_prefix": filter.id_prefix,
        "states": filter.states,
        "causes": filter.causes,
        "expired": filter.expired,
        "min_age_us": ages.min,
        "max_age_us": ages.max,
        "drop_fingerprint": request.drop_fingerprint,
    });
    if let Some(run) = Some(&filter.replay_run).filter(|run| !run.is_empty()) {
        asked["replay_run"] = run.as_str().into();
    }
    for (name, text) in [("owner", &filter.owner), ("error_contains", &filter.error)] {
        if !text.is_empty() {
            asked[name] = text.as_str().into();
        }
    }
    if let Some(age) = ages.parked_max {
        asked["parked_max_age_us"] = age.micros().into();
    }
    fields.finish(|| RedriveOrder {
        filter,
        ages,
        asked: asked.to_string(),
        operation_id: request.operation_id.clone(),
        digest: digest("RedriveEntries", &identity),
        actor: actor.to_owned(),
        reason: request.reason.clone(),
        dry_run: request.dry_run,
        rate,
        maximum: maximum.into(),
        drop_fingerprint: request.drop_fingerprint,
    })
}

/// The progress of the operation as messages, for as long as the caller has the right to it. A client that
/// stops reading ends the operation.
pub(super) fn progress_stream(
    events: mpsc::Receiver<RedriveEvent>,
    caller: AuthenticatedCaller,
    consumer: String,
) -> ResponseStream<proto::RedriveEntriesResponse> {
    Box::pin(unfold(Some((events, caller, consumer)), |state| async {
        let (mut events, caller, consumer) = state?;
        let next = tokio::select! {
            biased;
            () = caller.must_end_streams() => Err(old("repeat the same request, and it goes on from here")),
            next = events.recv() => next?,
        };
        match caller.checked_again().and_then(|caller| caller.allowed(&consumer)) {
            Ok(()) => Some((next.map(progress).map_err(refused), Some((events, caller, consumer)))),
            Err(rejection) => Some((Err(refused(rejection)), None)),
        }
    }))
}

fn progress(progress: RedriveProgress) -> proto::RedriveEntriesResponse {
    let outcomes = progress.outcomes.into_iter().map(|outcome| proto::RedriveOutcome {
        key: outcome.key.as_ref().map(words::key),
        state: outcome.state.map_or(proto::EntryState::Unspecified, words::state).into(),
        cause: outcome.state.map_or(proto::ParkCause::Unspecified, words::cause).into(),
        redriven: outcome.rejected.is_none(),
        rejected: outcome.rejected.map(|rejection| errors::rejected(&rejection, During::Other)),
        effect_doubtful: outcome.effect_doubtful,
        key_hash: outcome.key_hash.to_string(),
    });
    proto::RedriveEntriesResponse {
        outcomes: outcomes.collect(),
        redriven: progress.redriven,
        refused: progress.refused,
        at_most_left: progress.at_most_left,
        finished: progress.finished,
        maximum_reached: progress.maximum_reached,
    }
}

/// An import in progress.
pub(super) struct ImportStream {
    pub(super) operators: Operators,
    pub(super) limits: Limits,
    pub(super) caller: AuthenticatedCaller,
    pub(super) incoming: Streaming<proto::ImportEntriesRequest>,
    pub(super) open: OpenOperation,
}

impl ImportStream {
    /// One answer for each message, in order; the first failed message ends the stream. The task that stores
    /// the messages does not wait forever for a client that reads no answers.
    pub(super) fn answers(self) -> ResponseStream<proto::ImportEntriesResponse> {
        let (sender, responses) = mpsc::channel(1);
        let caller = self.caller.clone();
        let taking = tokio::spawn(caller.counted(self.run(sender)));
        Box::pin(unfold((responses, Some(taking)), |(mut responses, taking)| async move {
            if let Some(response) = responses.recv().await {
                return Some((Ok(response), (responses, taking)));
            }
            let ended = taking?.await.unwrap_or_else(|_| Err(died()));
            ended.err().map(|rejection| (Err(refused(rejection)), (responses, None)))
        }))
    }

    async fn run(mut self, sender: mpsc::Sender<proto::ImportEntriesResponse>) -> Result<(), Rejection> {
        while let Some(request) = self.next().await? {
            let response = self.take(request).await?;
            match timeout(NEXT_WITHIN, sender.send(response)).await {
                Ok(Ok(())) => {}
                // The client closed the stream.
                Ok(Err(_)) => return Ok(()),
                Err(_) => {
                    return Err(Rejection::new(
                        Reason::DeadlineExceeded,
                        "no answer was read for a minute; whatever was answered is stored: repeat the others",
                    ));
                }
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<Option<proto::ImportEntriesRequest>, Rejection> {
        let operators = self.operators.clone();
        let next = tokio::select! {
            biased;
            () = operators.draining() => return Err(Rejection::new(
                Reason::Draining,
                "this server is shutting down: go on with the first message that was not answered; another one takes it",
            )),
            () = self.caller.must_end_streams() => return Err(old("go on with the first message that was not answered")),
            next = timeout(NEXT_WITHIN, self.incoming.message()) => next,
        };
        match next {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(status)) => Err(layer::rejection(&status, self.limits.batch_bytes).unwrap_or_else(|| {
                Rejection::new(Reason::Cancelled, "the stream broke; whatever was answered is stored")
            })),
            Err(_) => Err(Rejection::new(
                Reason::DeadlineExceeded,
                "no message came for a minute; whatever was answered is stored: go on with the next",
            )),
        }
    }

    async fn take(
        &self,
        request: proto::ImportEntriesRequest,
    ) -> Result<proto::ImportEntriesResponse, Rejection> {
        let mut fields = FieldChecks::new(&self.limits);
        fields.request_id("operation_id", &request.operation_id, OPERATION_ID_MAX);
        fields.name("reason", &request.reason, REASON_MAX);
        fields.finish(|| ())?;
        // A message may arrive long after the first: the caller's current rights decide.
        let caller = self.caller.checked_again()?;
        caller.allowed_somewhere()?;
        if request.entries.len() > self.limits.batch_items {
            let (items, max) = (request.entries.len(), self.limits.batch_items);
            let description = format!("has {items} items, must be at most {max}");
            let message = format!("entries {description}; nothing of it was stored");
            let violations = vec![Violation { field: "entries".into(), description }];
            return Err(Rejection { violations, ..Rejection::new(Reason::TooManyItems, message) });
        }
        let mut response = proto::ImportEntriesResponse::default();
        let (mut rows, mut places) = (Vec::new(), Vec::new());
        let mut seen = std::collections::HashSet::new();
        for (index, entry) in request.entries.iter().enumerate() {
            let row = row(entry, index, &self.limits).and_then(|(key, row)| {
                caller.allowed(key.consumer())?;
                if seen.insert(key.hash()) { Ok((key, row)) } else { Err(twice(index)) }
            });
            match row {
                Ok(row) => {
                    rows.push(row);
                    places.push(index);
                }
                Err(rejection) => response.rejections.push(rejected(index, &rejection)),
            }
        }
        let identity = proto::ImportEntriesRequest {
            operation_id: request.operation_id.clone(),
            reason: request.reason.clone(),
            entries: Vec::new(),
        };
        let digest = digest("ImportEntries", &identity);
        let order = ImportOrder {
            operation_id: request.operation_id,
            digest,
            actor: caller.principal().to_owned(),
            reason: request.reason,
            rows,
        };
        // No valid item is left, so the store need not be asked.
        let fates = if places.is_empty() { Vec::new() } else { self.store(order).await? };
        for (fate, index) in fates.into_iter().zip(places) {
            match fate {
                Ok(ImportOutcome::Stored) => response.stored += 1,
                Ok(ImportOutcome::AlreadyCompleted) => response.already_completed += 1,
                Ok(ImportOutcome::RetentionOver) => response.retention_over += 1,
                Err(rejection) => response.rejections.push(rejected(index, &rejection)),
            }
        }
        response.rejections.sort_by_key(|rejection| rejection.index);
        Ok(response)
    }
}

impl ImportStream {
    /// Stores the entries of one message. The import holds an operation's permit only for this, not while it
    /// waits for the next message.
    async fn store(&self, order: ImportOrder) -> Result<ImportOutcomes, Rejection> {
        let _place = self.operators.place(&self.open).await?;
        self.operators.import(order).await
    }
}

fn row(entry: &proto::ImportedEntry, index: usize, limits: &Limits) -> Result<(Key, Import), Rejection> {
    let mut fields = FieldChecks::of(limits, FieldScope::Item { list: "entries", index });
    let key = fields.key(entry.key.as_ref());
    if key.as_ref().is_some_and(Key::is_of_run) {
        fields.wrong("key.replay_run", "is set: an import stores what was processed live");
    }
    let completed_at = fields.instant("completed_at", entry.completed_at.as_ref());
    fields.bytes("result", &entry.result, limits.result);
    fields.bytes("fingerprint", &entry.fingerprint, limits.fingerprint);
    let import =
        Import { completed_at, result: entry.result.clone(), fingerprint: entry.fingerprint.clone() };
    // Without a key there is a violation, so that the placeholder is never used.
    fields.finish(|| (key.unwrap_or_else(|| Key::new("", "", "")), import))
}

/// The refusal when the connection of a stream has reached its lifetime.
fn old(next: &str) -> Rejection {
    let text = format!("this connection has been open for long, and ends: {next}, on a new one");
    Rejection::new(Reason::Draining, text)
}

fn died() -> Rejection {
    Rejection::new(
        Reason::OutcomeUnknown,
        "a bug of the server ended the import; whatever was answered is stored: repeat the others",
    )
}

fn twice(index: usize) -> Rejection {
    Rejection::invalid(vec![Violation {
        field: format!("entries[{index}].key"),
        description: "stands in this message before: each key once".into(),
    }])
}

fn rejected(index: usize, rejection: &Rejection) -> proto::ImportRejection {
    proto::ImportRejection {
        index: i32::try_from(index).unwrap_or(i32::MAX),
        rejected: Some(errors::rejected(rejection, During::Other)),
    }
}
