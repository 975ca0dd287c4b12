//! Imports, as streams of messages.

use std::time::Duration;

use futures_util::stream::unfold;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::{Request, Streaming};

use super::AdminRpc;
use super::bulk::{OPERATION_ID_MAX, REASON_MAX, ResponseStream, old};
use crate::domain::{Import, Key, Reason, Rejection, Violation};
use crate::ledger::{ImportOrder, ImportOutcome, ImportOutcomes, OpenOperation, Operators};
use crate::proto;
use crate::rpc::edge::auth::{self, AuthenticatedCaller};
use crate::rpc::edge::layer;
use crate::wire::digest::digest;
use crate::wire::errors::{self, refused};
use crate::wire::fields::{FieldChecks, FieldScope, Limits};
use crate::wire::reasons::During;

/// How long an import waits for its next message, and for the client to read an answer.
const NEXT_WITHIN: Duration = Duration::from_mins(1);

impl AdminRpc {
    /// Begins an import: its answers follow its messages.
    pub(super) fn begin_import(
        &self,
        request: Request<Streaming<proto::ImportEntriesRequest>>,
    ) -> Result<ResponseStream<proto::ImportEntriesResponse>, Rejection> {
        let caller = auth::caller(request.extensions())?.clone();
        caller.allowed_somewhere()?;
        let open = self.operators.open_operation(caller.principal(), false)?;
        let operators = self.operators(&caller);
        let incoming = request.into_inner();
        Ok(ImportStream { operators, limits: self.limits, caller, incoming, open }.answers())
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
