//! `LedgerService`: each RPC turns its message into a command, submits it, and turns the answer back.

use std::collections::HashSet;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{self, Either};
use tonic::{Request, Response, Status};

use super::edge::auth::{self, AuthenticatedCaller};
use super::waiting::{self, WaitRequest};
use crate::common::crash;
use crate::common::yielding::map_in_chunks;
use crate::domain::{Answer, Reason, Rejection, Reply, Submission, Violation};
use crate::ledger::Ledger;
use crate::proto::{self, ledger_service_server::LedgerService, settlement_result::Outcome};
use crate::traces::CallSpan;
use crate::wire::convert::{self, ParsedCommand};
use crate::wire::errors::{self, refused};
use crate::wire::fields::{FieldScope, Limits, canonical};
use crate::wire::fit;
use crate::wire::lookup;
use crate::wire::reasons::During;

/// A command that the caller has the right to, or its refusal.
type Allowed = Result<Submission, Rejection>;

pub(super) struct LedgerRpc {
    pub(super) ledger: Ledger,
    pub(super) limits: Limits,
    /// How long a call may wait for another verdict.
    pub(super) max_wait: Duration,
}

impl LedgerRpc {
    /// A valid request whose caller has the right. A refusal for a missing right has been counted already.
    fn allowed(&self, caller: &AuthenticatedCaller, asked: ParsedCommand) -> Allowed {
        let asked = asked.map_err(|malformed| {
            // A malformed request for a consumer that the caller has no right on is not counted as that
            // consumer's.
            self.ledger.note_malformed(&malformed, caller.may(&malformed.consumer));
            malformed.rejection
        })?;
        caller.allowed(asked.key.consumer())?;
        self.ledger.note_corrected(&asked);
        Ok(caller.as_principal(asked))
    }

    /// Carries out a command, or returns its refusal. The future keeps nothing of the request.
    fn submit(&self, asked: Allowed, span: CallSpan) -> impl Future<Output = Answer> {
        match asked {
            Ok(submission) => {
                let answer = self.ledger.submit(submission, span);
                Either::Left(answer.inspect(|_| crash::point("before_answer")))
            }
            Err(rejection) => {
                span.refused(rejection.reason);
                Either::Right(future::ready(Err(rejection)))
            }
        }
    }

    /// Carries out one settlement: `read` makes a command of the request, `own` takes the RPC's own kind of
    /// answer out.
    fn settle<M, T>(
        &self,
        request: Request<M>,
        read: fn(M, &Limits, FieldScope) -> ParsedCommand,
        own: fn(Outcome) -> Option<T>,
    ) -> impl Future<Output = Result<Response<T>, Status>> {
        let (_, extensions, message) = request.into_parts();
        let answer = match auth::caller(&extensions) {
            Ok(caller) => {
                let asked = self.allowed(caller, read(message, &self.limits, FieldScope::Whole));
                Either::Left(self.submit(asked, caller.span.clone()))
            }
            Err(rejection) => Either::Right(future::ready(Err(rejection))),
        };
        answer.map(move |answer| {
            let outcome = answer.and_then(|reply| convert::outcome(&reply)).map(own).map_err(refused)?;
            let answer = outcome.ok_or_else(|| errors::internal("a settlement was answered as another kind"));
            answer.map(Response::new).map_err(refused)
        })
    }

    /// Submits the valid items as one batch; answers all items in order.
    async fn submit_all(&self, (asked, span): (Vec<Allowed>, CallSpan)) -> Result<Vec<Answer>, Rejection> {
        span.has_items(asked.len());
        let mut submissions = Vec::with_capacity(asked.len());
        let mut answers: Vec<Option<Answer>> = Vec::with_capacity(asked.len());
        for one in asked {
            match one {
                Ok(submission) => {
                    submissions.push(submission);
                    answers.push(None);
                }
                Err(rejection) => answers.push(Some(Err(rejection))),
            }
        }
        let mut submitted = self.ledger.submit_all(submissions, span).await?.into_iter();
        let mut take = || {
            submitted.next().unwrap_or_else(|| Err(errors::internal("a batch has fewer answers than items")))
        };
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(&mut take)).collect())
    }

    /// Carries out a command that may wait for another verdict, or returns its refusal.
    async fn submit_or_wait(&self, asked: Allowed, waits: Option<WaitRequest>, span: CallSpan) -> Answer {
        match (asked, waits) {
            (Ok(submission), Some(waits)) => {
                let answer = Box::pin(waiting::submit(&self.ledger, submission, span, waits));
                answer.await.inspect(|_| crash::point("before_answer"))
            }
            (asked, _) => self.submit(asked, span).await,
        }
    }

    /// The command of a claim, and how it waits. Nothing else of the request stays in memory while the
    /// command waits.
    fn asked(
        &self,
        request: Request<proto::ClaimRequest>,
    ) -> Result<(Allowed, Option<WaitRequest>, CallSpan), Rejection> {
        let (metadata, extensions, request) = request.into_parts();
        let caller = auth::caller(&extensions)?;
        let asked = convert::claim(
            request,
            caller.principal(),
            &caller.traceparent,
            &self.limits,
            FieldScope::Whole,
            false,
        );
        let allowed = self.allowed(caller, asked);
        let waits = waiting::of(caller, &allowed, self.max_wait, metadata);
        Ok((allowed, waits, caller.span.clone()))
    }

    /// The commands of a batch of claims.
    async fn all_asked(
        &self,
        request: Request<proto::BatchClaimRequest>,
    ) -> Result<(Vec<Allowed>, CallSpan), Rejection> {
        let (_, extensions, proto::BatchClaimRequest { requests }) = request.into_parts();
        let caller = auth::caller(&extensions)?;
        let (principal, traceparent) = (caller.principal(), caller.traceparent.as_str());
        self.count(requests.len(), "requests")?;
        let mut seen = HashSet::with_capacity(requests.len());
        let read = |(index, request): (usize, proto::ClaimRequest)| {
            let part = FieldScope::Item { list: "requests", index };
            caller.item(index)?;
            // A text that is not a UUID is refused for that reason.
            let repeats = canonical(&request.claim_id).is_some_and(|id| !seen.insert(id));
            let asked = convert::claim(request, principal, traceparent, &self.limits, part, repeats);
            self.allowed(caller, asked)
        };
        Ok((map_in_chunks(requests.into_iter().enumerate(), read).await, caller.span.clone()))
    }

    /// The commands of a batch of look-ups.
    async fn all_lookups(
        &self,
        request: Request<proto::BatchLookupRequest>,
    ) -> Result<(Vec<Allowed>, CallSpan), Rejection> {
        let (_, extensions, proto::BatchLookupRequest { requests }) = request.into_parts();
        let caller = auth::caller(&extensions)?;
        self.count(requests.len(), "requests")?;
        let read = |(index, request): (usize, proto::LookupRequest)| {
            caller.item(index)?;
            let part = FieldScope::Item { list: "requests", index };
            self.allowed(caller, lookup::asked(request, &self.limits, part))
        };
        Ok((map_in_chunks(requests.into_iter().enumerate(), read).await, caller.span.clone()))
    }

    /// The commands of a batch of settlements.
    async fn all_settlements(
        &self,
        request: Request<proto::BatchSettleRequest>,
    ) -> Result<(Vec<Allowed>, CallSpan), Rejection> {
        let (_, extensions, proto::BatchSettleRequest { settlements }) = request.into_parts();
        let caller = auth::caller(&extensions)?;
        self.count(settlements.len(), "settlements")?;
        let read = |(index, settlement): (usize, proto::Settlement)| {
            caller.item(index)?;
            self.allowed(caller, convert::settle(settlement, &self.limits, index))
        };
        Ok((map_in_chunks(settlements.into_iter().enumerate(), read).await, caller.span.clone()))
    }

    pub(super) fn count(&self, items: usize, field: &str) -> Result<(), Rejection> {
        let max = self.limits.batch_items;
        if items <= max {
            return Ok(());
        }
        let description = format!("has {items} items, must be at most {max}");
        let rejection = Rejection {
            violations: vec![Violation { field: field.into(), description: description.clone() }],
            ..Rejection::new(Reason::TooManyItems, format!("{field} {description}; nothing was changed"))
        };
        Err(rejection)
    }
}

#[tonic::async_trait]
impl LedgerService for LedgerRpc {
    async fn claim(
        &self,
        request: Request<proto::ClaimRequest>,
    ) -> Result<Response<proto::ClaimResponse>, Status> {
        let (asked, waits, span) = self.asked(request).map_err(refused)?;
        match self.submit_or_wait(asked, waits, span).await.and_then(verdict) {
            Ok(response) => Ok(Response::new(response)),
            Err(rejection) => Err(errors::status(&rejection, During::Claim)),
        }
    }

    async fn renew(
        &self,
        request: Request<proto::RenewRequest>,
    ) -> Result<Response<proto::RenewResponse>, Status> {
        let own = |outcome| if let Outcome::Renew(own) = outcome { Some(own) } else { None };
        self.settle(request, convert::renew, own).await
    }

    async fn complete(
        &self,
        request: Request<proto::CompleteRequest>,
    ) -> Result<Response<proto::CompleteResponse>, Status> {
        let own = |outcome| if let Outcome::Complete(own) = outcome { Some(own) } else { None };
        self.settle(request, convert::complete, own).await
    }

    async fn fail(
        &self,
        request: Request<proto::FailRequest>,
    ) -> Result<Response<proto::FailResponse>, Status> {
        let own = |outcome| if let Outcome::Fail(own) = outcome { Some(own) } else { None };
        self.settle(request, convert::fail, own).await
    }

    async fn release(
        &self,
        request: Request<proto::ReleaseRequest>,
    ) -> Result<Response<proto::ReleaseResponse>, Status> {
        let own = |outcome| if let Outcome::Release(own) = outcome { Some(own) } else { None };
        self.settle(request, convert::release, own).await
    }

    async fn batch_claim(
        &self,
        request: Request<proto::BatchClaimRequest>,
    ) -> Result<Response<proto::BatchClaimResponse>, Status> {
        let asked = self.all_asked(request).await.map_err(refused)?;
        let answers = self.submit_all(asked).await;
        let answers = answers.map_err(|rejection| errors::status(&rejection, During::Claim))?;
        let response = |(index, answer): (usize, Answer)| match answer.and_then(verdict) {
            Ok(response) => response,
            Err(rejection) => {
                let rejection = rejection.within(&format!("requests[{index}]."));
                convert::rejected_claim(errors::rejected(&rejection, During::Claim))
            }
        };
        let mut responses = map_in_chunks(answers.into_iter().enumerate(), response).await;
        fit::claims(&mut responses, self.limits.batch_bytes);
        Ok(Response::new(proto::BatchClaimResponse { responses }))
    }

    async fn batch_settle(
        &self,
        request: Request<proto::BatchSettleRequest>,
    ) -> Result<Response<proto::BatchSettleResponse>, Status> {
        let asked = self.all_settlements(request).await.map_err(refused)?;
        let answers = self.submit_all(asked).await;
        let answers = answers.map_err(refused)?;
        let result = |answer: Answer| {
            let outcome = match answer.and_then(|reply| convert::outcome(&reply)) {
                Ok(outcome) => outcome,
                Err(rejection) => Outcome::Rejected(errors::rejected(&rejection, During::Other)),
            };
            proto::SettlementResult { outcome: Some(outcome) }
        };
        let mut results = map_in_chunks(answers.into_iter(), result).await;
        fit::settlements(&mut results, self.limits.batch_bytes);
        Ok(Response::new(proto::BatchSettleResponse { results }))
    }

    async fn lookup(
        &self,
        request: Request<proto::LookupRequest>,
    ) -> Result<Response<proto::LookupResponse>, Status> {
        let (metadata, extensions, request) = request.into_parts();
        let caller = auth::caller(&extensions).map_err(refused)?;
        let asked = self.allowed(caller, lookup::asked(request, &self.limits, FieldScope::Whole));
        let waits = waiting::of(caller, &asked, self.max_wait, metadata);
        let answer = self.submit_or_wait(asked, waits, caller.span.clone()).await;
        answer.and_then(lookup::response).map(Response::new).map_err(refused)
    }

    async fn batch_lookup(
        &self,
        request: Request<proto::BatchLookupRequest>,
    ) -> Result<Response<proto::BatchLookupResponse>, Status> {
        let asked = self.all_lookups(request).await.map_err(refused)?;
        let answers = self.submit_all(asked).await.map_err(refused)?;
        let mut responses = map_in_chunks(answers.into_iter().enumerate(), lookup::result).await;
        fit::lookups(&mut responses, self.limits.batch_bytes);
        Ok(Response::new(proto::BatchLookupResponse { responses }))
    }

    async fn store(
        &self,
        request: Request<proto::StoreRequest>,
    ) -> Result<Response<proto::StoreResponse>, Status> {
        self.store_message(request).await.map(Response::new).map_err(refused)
    }

    async fn batch_store(
        &self,
        request: Request<proto::BatchStoreRequest>,
    ) -> Result<Response<proto::BatchStoreResponse>, Status> {
        self.store_messages(request).await.map(Response::new).map_err(refused)
    }

    async fn claim_next(
        &self,
        request: Request<proto::ClaimNextRequest>,
    ) -> Result<Response<proto::ClaimNextResponse>, Status> {
        let answer = self.next_messages(request).await;
        answer.map(Response::new).map_err(|rejection| errors::status(&rejection, During::Claim))
    }
}

fn verdict(reply: Reply) -> Result<proto::ClaimResponse, Rejection> {
    match reply {
        Reply::Verdict(verdict) => Ok(convert::claim_response(verdict)),
        Reply::Renewed { .. }
        | Reply::Completed { .. }
        | Reply::Failed { .. }
        | Reply::Released { .. }
        | Reply::Found(_) => Err(errors::internal("another kind of answer answered a claim")),
    }
}
