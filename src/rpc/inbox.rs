//! The calls of the inbox: Store, `BatchStore` and `ClaimNext`.

use std::time::Duration;

use tokio::time::Instant;
use tonic::Request;

use super::edge::auth;
use super::ledger::LedgerRpc;
use super::waiting::Waiting;
use crate::common::crash;
use crate::domain::{Rejection, StoreRequest, Stored};
use crate::ledger::{LEFT_MIN, WaitEnds};
use crate::proto;
use crate::wire::errors;
use crate::wire::fields::FieldScope;
use crate::wire::inbox;

/// The time that is left for the last look of a wait.
const LAST_LOOK: Duration = Duration::from_millis(50);

impl LedgerRpc {
    pub(super) async fn store_message(
        &self,
        request: Request<proto::StoreRequest>,
    ) -> Result<proto::StoreResponse, Rejection> {
        let (_, extensions, request) = request.into_parts();
        let caller = auth::caller(&extensions)?;
        let asked = inbox::store(request, &caller.traceparent, &self.limits, FieldScope::Whole)?;
        caller.allowed(asked.key.consumer())?;
        caller.span.about(&asked.key, "");
        let stored = self.ledger.store_all(vec![asked]).await?.pop();
        crash::point("before_answer");
        inbox::store_response(stored.unwrap_or_else(|| Err(errors::internal("a Store was not answered"))))
    }

    pub(super) async fn store_messages(
        &self,
        request: Request<proto::BatchStoreRequest>,
    ) -> Result<proto::BatchStoreResponse, Rejection> {
        let (_, extensions, proto::BatchStoreRequest { requests }) = request.into_parts();
        let caller = auth::caller(&extensions)?;
        self.count(requests.len(), "requests")?;
        caller.span.has_items(requests.len());
        let read = |(index, request): (usize, proto::StoreRequest)| {
            caller.item(index)?;
            let part = FieldScope::Item { list: "requests", index };
            let asked = inbox::store(request, &caller.traceparent, &self.limits, part)?;
            caller.allowed(asked.key.consumer())?;
            Ok(asked)
        };
        let asked: Vec<Result<StoreRequest, Rejection>> =
            crate::common::yielding::map_in_chunks(requests.into_iter().enumerate(), read).await;
        let (sound, mut answers): (Vec<_>, Vec<Option<Stored>>) =
            asked.into_iter().fold((Vec::new(), Vec::new()), |(mut sound, mut answers), one| {
                match one {
                    Ok(request) => {
                        sound.push(request);
                        answers.push(None);
                    }
                    Err(rejection) => answers.push(Some(Err(rejection))),
                }
                (sound, answers)
            });
        let mut stored = self.ledger.store_all(sound).await?.into_iter();
        crash::point("before_answer");
        let mut take =
            || stored.next().unwrap_or_else(|| Err(errors::internal("a batch has fewer answers than items")));
        let responses = answers
            .iter_mut()
            .enumerate()
            .map(|(index, answer)| inbox::store_item(index, answer.take().unwrap_or_else(&mut take)));
        Ok(proto::BatchStoreResponse { responses: responses.collect() })
    }

    pub(super) async fn next_messages(
        &self,
        request: Request<proto::ClaimNextRequest>,
    ) -> Result<proto::ClaimNextResponse, Rejection> {
        let (metadata, extensions, request) = request.into_parts();
        let caller = auth::caller(&extensions)?;
        let (asked, wait) = inbox::next(request, caller.principal(), &caller.traceparent, &self.limits)?;
        caller.allowed(&asked.consumer)?;
        let (now, deadline) = (Instant::now(), caller.deadline);
        let left = deadline.saturating_duration_since(now).saturating_sub(LEFT_MIN + LAST_LOOK);
        let ends = WaitEnds { at: now + wait.to_std().min(self.max_wait).min(left), deadline };
        let waiting = Waiting::new(caller.with_credential(metadata.into_headers()), &asked.consumer);
        let answer = self.ledger.claim_next(&asked, ends, &waiting).await?;
        crash::point("before_answer");
        inbox::next_response(answer)
    }
}
