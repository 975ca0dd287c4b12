//! `AdminService`: what operators read and change.

mod bulk;
mod changes;
mod entries;
mod holds;
mod page_token;
pub(super) mod policies;
mod replays;
mod retention;
mod summary;
mod token_offset;

use tonic::{Request, Response, Status};

use super::edge::auth::{self, AuthenticatedCaller};
use crate::identity::{Right, Whose};
use crate::ledger::{
    ChangeRequest, CountScope, HoldResult, Operators, PolicyOrder, PolicyResult, Sought, redrive_all,
};
use crate::proto::{self, admin_service_server::AdminService};
use crate::wire::entry;
use crate::wire::fields::{FieldChecks, Limits};
use crate::wire::policy;

pub(super) struct AdminRpc {
    pub(super) operators: Operators,
    pub(super) limits: Limits,
}

#[tonic::async_trait]
impl AdminService for AdminRpc {
    async fn get_entry(
        &self,
        request: Request<proto::GetEntryRequest>,
    ) -> Result<Response<proto::GetEntryResponse>, Status> {
        let sought = entries::sought(request.get_ref(), &self.limits)?;
        let caller = auth::caller(request.extensions())?;
        match &sought {
            Sought::Key(key) => caller.allowed(key.consumer())?,
            // Whose entry a hash finds is not known in advance.
            Sought::Hash(_) => caller.allowed_everywhere()?,
        }
        let (reading, entry) = self.operators(caller).get(sought).await?;
        let consumer = entry.key.consumer().to_owned();
        Ok(Response::new(proto::GetEntryResponse {
            entry: Some(entry::entry(entry, &reading)),
            policy_version_in_force: policies::version_in_force(&self.operators.policies_here(), &consumer),
        }))
    }

    async fn list_entries(
        &self,
        request: Request<proto::ListEntriesRequest>,
    ) -> Result<Response<proto::ListEntriesResponse>, Status> {
        let query = entries::Query::of(request.get_ref(), &self.limits)?;
        let caller = auth::caller(request.extensions())?;
        caller.allowed(query.consumer())?;
        let page = query.run(&self.operators(caller)).await?;
        Ok(Response::new(page))
    }

    async fn summarize_entries(
        &self,
        request: Request<proto::SummarizeEntriesRequest>,
    ) -> Result<Response<proto::SummarizeEntriesResponse>, Status> {
        let query = summary::query(request.get_ref(), &self.limits)?;
        let caller = auth::caller(request.extensions())?;
        match &query.scope {
            CountScope::One(namespace) => caller.allowed(namespace.consumer())?,
            CountScope::ConsumerPage(..) => caller.allowed_everywhere()?,
        }
        summary::summarize(&self.operators(caller), query).await.map(Response::new).map_err(Status::from)
    }

    type RedriveEntriesStream = bulk::ResponseStream<proto::RedriveEntriesResponse>;

    async fn redrive_entries(
        &self,
        request: Request<proto::RedriveEntriesRequest>,
    ) -> Result<Response<Self::RedriveEntriesStream>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = bulk::redrive(request.get_ref(), caller.principal(), &self.limits)?;
        // Also for a dry run, since it names entries in states that only a change would look for.
        caller.allowed(&order.filter.consumer)?;
        let (caller, consumer) = (caller.clone(), order.filter.consumer.clone());
        let events = redrive_all(&self.operators(&caller), order).await?;
        Ok(Response::new(bulk::progress_stream(events, caller, consumer)))
    }

    type ImportEntriesStream = bulk::ResponseStream<proto::ImportEntriesResponse>;

    async fn import_entries(
        &self,
        request: Request<tonic::Streaming<proto::ImportEntriesRequest>>,
    ) -> Result<Response<Self::ImportEntriesStream>, Status> {
        let caller = auth::caller(request.extensions())?.clone();
        caller.allowed_somewhere()?;
        let open = self.operators.open_operation(caller.principal(), false)?;
        let intake = bulk::ImportStream {
            operators: self.operators(&caller),
            limits: self.limits,
            caller,
            incoming: request.into_inner(),
            open,
        };
        Ok(Response::new(intake.answers()))
    }

    async fn get_retention_status(
        &self,
        request: Request<proto::GetRetentionStatusRequest>,
    ) -> Result<Response<proto::GetRetentionStatusResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        caller.allowed_everywhere()?;
        retention::status(&self.operators(caller)).await.map(Response::new).map_err(Status::from)
    }

    async fn raise_token_offset(
        &self,
        request: Request<proto::RaiseTokenOffsetRequest>,
    ) -> Result<Response<proto::RaiseTokenOffsetResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = token_offset::order(request.get_ref(), caller.principal(), &self.limits)?;
        if order.validate_only {
            caller.has_right(Right::Read, Whose::All)?;
        } else {
            caller.allowed_everywhere()?;
        }
        let clock = self.operators(caller).raise_token_offset(order).await?;
        Ok(Response::new(token_offset::response(clock)))
    }

    async fn create_replay_run(
        &self,
        request: Request<proto::CreateReplayRunRequest>,
    ) -> Result<Response<proto::CreateReplayRunResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = replays::create(request.get_ref(), caller.principal(), &self.limits)?;
        caller.allowed(order.run.consumer())?;
        let (run, replayed) = replays::carried_out(self.operators(caller).change_run(order).await?);
        Ok(Response::new(proto::CreateReplayRunResponse { run, replayed }))
    }

    async fn close_replay_run(
        &self,
        request: Request<proto::CloseReplayRunRequest>,
    ) -> Result<Response<proto::CloseReplayRunResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = replays::close(request.get_ref(), caller.principal(), &self.limits)?;
        caller.allowed(order.run.consumer())?;
        let (run, replayed) = replays::carried_out(self.operators(caller).change_run(order).await?);
        Ok(Response::new(proto::CloseReplayRunResponse { run, replayed }))
    }

    async fn list_replay_runs(
        &self,
        request: Request<proto::ListReplayRunsRequest>,
    ) -> Result<Response<proto::ListReplayRunsResponse>, Status> {
        let query = replays::query(request.get_ref(), &self.limits)?;
        let caller = auth::caller(request.extensions())?;
        caller.allowed(&query.consumer)?;
        replays::list(&self.operators(caller), query).await.map(Response::new).map_err(Status::from)
    }

    async fn hold_consumers(
        &self,
        request: Request<proto::HoldConsumersRequest>,
    ) -> Result<Response<proto::HoldConsumersResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = holds::place(request.get_ref(), caller.principal(), &self.limits)?;
        holds::allowed(caller, &order.prefix)?;
        let HoldResult { hold, replayed } = self.operators(caller).change_hold(order).await?;
        Ok(Response::new(proto::HoldConsumersResponse { hold: hold.map(holds::message), replayed }))
    }

    async fn resume_consumers(
        &self,
        request: Request<proto::ResumeConsumersRequest>,
    ) -> Result<Response<proto::ResumeConsumersResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = holds::lift(request.get_ref(), caller.principal(), &self.limits)?;
        holds::allowed(caller, &order.prefix)?;
        let HoldResult { replayed, .. } = self.operators(caller).change_hold(order).await?;
        Ok(Response::new(proto::ResumeConsumersResponse { replayed }))
    }

    async fn list_holds(
        &self,
        request: Request<proto::ListHoldsRequest>,
    ) -> Result<Response<proto::ListHoldsResponse>, Status> {
        let prefix = holds::listed(request.get_ref(), &self.limits)?;
        let caller = auth::caller(request.extensions())?;
        holds::allowed(caller, &prefix)?;
        let policies = self.operators(caller).policies().await?;
        let met = policies.holds().iter().filter(|hold| hold.meets(&prefix)).cloned();
        Ok(Response::new(proto::ListHoldsResponse { holds: met.map(holds::message).collect() }))
    }

    async fn redrive_entry(
        &self,
        request: Request<proto::RedriveEntryRequest>,
    ) -> Result<Response<proto::RedriveEntryResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = changes::redrive(request.get_ref(), caller.principal(), &self.limits)?;
        caller.allowed(order.key.consumer())?;
        let (entry, replayed) = self.carry_out(order).await?;
        Ok(Response::new(proto::RedriveEntryResponse { entry, replayed }))
    }

    async fn park_entry(
        &self,
        request: Request<proto::ParkEntryRequest>,
    ) -> Result<Response<proto::ParkEntryResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = changes::park(request.get_ref(), caller.principal(), &self.limits)?;
        caller.allowed(order.key.consumer())?;
        let (entry, replayed) = self.carry_out(order).await?;
        Ok(Response::new(proto::ParkEntryResponse { entry, replayed }))
    }

    async fn resolve_entry(
        &self,
        request: Request<proto::ResolveEntryRequest>,
    ) -> Result<Response<proto::ResolveEntryResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = changes::resolve(request.get_ref(), caller.principal(), &self.limits)?;
        caller.allowed(order.key.consumer())?;
        let (entry, replayed) = self.carry_out(order).await?;
        Ok(Response::new(proto::ResolveEntryResponse { entry, replayed }))
    }

    async fn delete_entry(
        &self,
        request: Request<proto::DeleteEntryRequest>,
    ) -> Result<Response<proto::DeleteEntryResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        if !request.get_ref().key_hash.is_empty() {
            let order = changes::delete_unreadable(request.get_ref(), caller.principal(), &self.limits)?;
            // Whose entry a hash finds is not known in advance.
            caller.allowed_everywhere()?;
            let replayed = self.operators.delete_unreadable(order).await?;
            return Ok(Response::new(proto::DeleteEntryResponse { replayed }));
        }
        let order = changes::delete(request.get_ref(), caller.principal(), &self.limits)?;
        caller.allowed(order.key.consumer())?;
        let (_, replayed) = self.carry_out(order).await?;
        Ok(Response::new(proto::DeleteEntryResponse { replayed }))
    }

    async fn get_policy(
        &self,
        request: Request<proto::GetPolicyRequest>,
    ) -> Result<Response<proto::GetPolicyResponse>, Status> {
        let consumer = &request.get_ref().consumer;
        let mut fields = FieldChecks::new(&self.limits);
        fields.name("consumer", consumer, self.limits.consumer);
        fields.finish(|| ())?;
        let caller = auth::caller(request.extensions())?;
        caller.allowed(consumer)?;
        let all = self.operators(caller).policies().await?;
        Ok(Response::new(proto::GetPolicyResponse { policy: Some(policies::shown(&all, consumer)) }))
    }

    async fn list_policies(
        &self,
        request: Request<proto::ListPoliciesRequest>,
    ) -> Result<Response<proto::ListPoliciesResponse>, Status> {
        let page = policies::page(request.get_ref(), &self.limits)?;
        let caller = auth::caller(request.extensions())?;
        caller.allowed_everywhere()?;
        let all = self.operators(caller).policies().await?;
        Ok(Response::new(page.listed(&all)))
    }

    async fn set_policy(
        &self,
        request: Request<proto::SetPolicyRequest>,
    ) -> Result<Response<proto::SetPolicyResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = policies::set(request.get_ref(), caller.principal(), &self.limits)?;
        if order.validate_only {
            caller.has_right(Right::Read, Whose::Consumer(&order.consumer))?;
        } else {
            caller.allowed(&order.consumer)?;
        }
        let (policy, result) = self.put_in_force(order).await?;
        let changes =
            result.changed.map_or_else(Vec::new, |(before, after)| policy::changes(&before, &after));
        Ok(Response::new(proto::SetPolicyResponse { policy, replayed: result.replayed, changes }))
    }

    async fn delete_policy(
        &self,
        request: Request<proto::DeletePolicyRequest>,
    ) -> Result<Response<proto::DeletePolicyResponse>, Status> {
        let caller = auth::caller(request.extensions())?;
        let order = policies::delete(request.get_ref(), caller.principal(), &self.limits)?;
        caller.allowed(&order.consumer)?;
        let (policy, result) = self.put_in_force(order).await?;
        Ok(Response::new(proto::DeletePolicyResponse { policy, replayed: result.replayed }))
    }

    async fn list_policy_versions(
        &self,
        request: Request<proto::ListPolicyVersionsRequest>,
    ) -> Result<Response<proto::ListPolicyVersionsResponse>, Status> {
        let (_, extensions, request) = request.into_parts();
        let page = policies::versions(&request, &self.limits)?;
        let caller = auth::caller(&extensions)?;
        caller.allowed(&request.consumer)?;
        let versions =
            self.operators(caller).policy_versions(request.consumer, page.before, page.size).await?;
        Ok(Response::new(page.listed(versions)))
    }

    async fn list_audit_events(
        &self,
        request: Request<proto::ListAuditEventsRequest>,
    ) -> Result<Response<proto::ListAuditEventsResponse>, Status> {
        let asked = request.get_ref();
        let query = changes::audit(asked, &self.limits)?;
        let caller = auth::caller(request.extensions())?;
        match asked
            .key
            .as_ref()
            .map(|key| &key.consumer)
            .or(Some(&asked.consumer).filter(|name| !name.is_empty()))
        {
            Some(consumer) => caller.allowed(consumer)?,
            None => caller.allowed_everywhere()?,
        }
        let events = self.operators(caller).audit(query.listing.clone()).await;
        Ok(Response::new(query.page(events?)))
    }
}

impl AdminRpc {
    /// The operators' handle for a caller's requests.
    fn operators(&self, caller: &AuthenticatedCaller) -> Operators {
        self.operators.acting_for(caller.principal())
    }

    /// The policy after an order, and whether the order had been carried out before.
    async fn put_in_force(
        &self,
        order: PolicyOrder,
    ) -> Result<(Option<proto::ConsumerPolicy>, PolicyResult), Status> {
        let consumer = order.consumer.clone();
        let result = self.operators.acting_for(&order.actor).set_policy(order).await?;
        Ok((Some(policies::shown(&result.policies, &consumer)), result))
    }

    /// The entry after an order, and whether the order had been carried out before.
    async fn carry_out(&self, order: ChangeRequest) -> Result<(Option<proto::Entry>, bool), Status> {
        let carried = self.operators.acting_for(&order.actor).change(order).await?;
        let entry = carried.entry.map(|entry| entry::entry(entry, &carried.reading));
        Ok((entry, carried.replayed))
    }
}
