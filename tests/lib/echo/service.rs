//! A service that looks at nothing, keeps nothing and grants everything.

use std::sync::atomic::{AtomicI64, Ordering};

use idempotency_ledger::proto::{
    self, ClaimResponse, claim_response::Verdict, ledger_service_server::LedgerService, settlement::Action,
    settlement_result::Outcome,
};
use prost_types::Duration;
use tonic::{Request, Response, Status};

/// All answers are good news.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    tokens: AtomicI64,
}

type Answer<T> = Result<Response<T>, Status>;

impl Echo {
    /// As large as a real grant.
    fn grant(&self) -> ClaimResponse {
        let acquired = proto::Acquired {
            token: 1_780_000_000_000_000 + self.tokens.fetch_add(1, Ordering::Relaxed),
            attempt: 1,
            lease: Some(Duration { seconds: 30, nanos: 0 }),
            hold: Some(Duration { seconds: 86_400, nanos: 0 }),
            idempotency_key: "1f15feca-771b-5c87-8f0c-36c3e92c2c95".to_owned(),
            attempts_left: Some(9),
            on_expiry: proto::OnExpiry::Reclaim.into(),
            ..proto::Acquired::default()
        };
        ClaimResponse {
            advice: proto::Advice::Process.into(),
            verdict: Some(Verdict::Acquired(acquired)),
            ..ClaimResponse::default()
        }
    }
}

fn renewed() -> proto::RenewResponse {
    proto::RenewResponse {
        lease: Some(Duration { seconds: 30, nanos: 0 }),
        hold: Some(Duration { seconds: 86_400, nanos: 0 }),
        ..proto::RenewResponse::default()
    }
}

fn completed() -> proto::CompleteResponse {
    proto::CompleteResponse { advice: proto::Advice::Ack.into(), ..proto::CompleteResponse::default() }
}

#[tonic::async_trait]
impl LedgerService for Echo {
    async fn claim(&self, _request: Request<proto::ClaimRequest>) -> Answer<ClaimResponse> {
        Ok(Response::new(self.grant()))
    }

    async fn renew(&self, _request: Request<proto::RenewRequest>) -> Answer<proto::RenewResponse> {
        Ok(Response::new(renewed()))
    }

    async fn complete(&self, _request: Request<proto::CompleteRequest>) -> Answer<proto::CompleteResponse> {
        Ok(Response::new(completed()))
    }

    async fn fail(&self, _request: Request<proto::FailRequest>) -> Answer<proto::FailResponse> {
        Ok(Response::new(proto::FailResponse::default()))
    }

    async fn release(&self, _request: Request<proto::ReleaseRequest>) -> Answer<proto::ReleaseResponse> {
        Ok(Response::new(proto::ReleaseResponse::default()))
    }

    async fn batch_claim(
        &self,
        request: Request<proto::BatchClaimRequest>,
    ) -> Answer<proto::BatchClaimResponse> {
        let responses = request.into_inner().requests.iter().map(|_| self.grant()).collect();
        Ok(Response::new(proto::BatchClaimResponse { responses }))
    }

    async fn batch_settle(
        &self,
        request: Request<proto::BatchSettleRequest>,
    ) -> Answer<proto::BatchSettleResponse> {
        let results = request.into_inner().settlements.into_iter().map(|settlement| {
            let outcome = settlement.action.map(|action| match action {
                Action::Complete(_) => Outcome::Complete(completed()),
                Action::Fail(_) => Outcome::Fail(proto::FailResponse::default()),
                Action::Release(_) => Outcome::Release(proto::ReleaseResponse::default()),
                Action::Renew(_) => Outcome::Renew(renewed()),
            });
            proto::SettlementResult { outcome }
        });
        Ok(Response::new(proto::BatchSettleResponse { results: results.collect() }))
    }

    async fn lookup(&self, _request: Request<proto::LookupRequest>) -> Answer<proto::LookupResponse> {
        Ok(Response::new(proto::LookupResponse::default()))
    }

    async fn batch_lookup(
        &self,
        request: Request<proto::BatchLookupRequest>,
    ) -> Answer<proto::BatchLookupResponse> {
        let found = || proto::lookup_result::Outcome::Lookup(proto::LookupResponse::default());
        let requests = request.into_inner().requests;
        let responses = requests.iter().map(|_| proto::LookupResult { outcome: Some(found()) }).collect();
        Ok(Response::new(proto::BatchLookupResponse { responses }))
    }

    async fn store(&self, _request: Request<proto::StoreRequest>) -> Answer<proto::StoreResponse> {
        Ok(Response::new(proto::StoreResponse::default()))
    }

    async fn batch_store(
        &self,
        request: Request<proto::BatchStoreRequest>,
    ) -> Answer<proto::BatchStoreResponse> {
        let requests = request.into_inner().requests;
        let responses = requests.iter().map(|_| proto::StoreResponse::default()).collect();
        Ok(Response::new(proto::BatchStoreResponse { responses }))
    }

    async fn claim_next(
        &self,
        _request: Request<proto::ClaimNextRequest>,
    ) -> Answer<proto::ClaimNextResponse> {
        Ok(Response::new(proto::ClaimNextResponse::default()))
    }
}
