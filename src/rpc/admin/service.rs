//! The calls of `AdminService`: each authorizes its caller, carries its request out, and shows the result.

use tonic::{Request, Response, Status};

use super::{
    AdminRpc, CarriedOut, allowed_on, answered, audit, bulk, changes, entries, groups, holds, message,
    policies, reconcile, replays, retention, summary, token_offset,
};
use crate::identity::{Right, Whose};
use crate::ledger::{CountScope, Sought};
use crate::proto::{self, admin_service_server::AdminService};
use crate::rpc::edge::auth;
use crate::wire::entry;
use crate::wire::fields::FieldChecks;
use crate::wire::policy;

#[tonic::async_trait]
impl AdminService for AdminRpc {
    async fn get_entry(
        &self,
        request: Request<proto::GetEntryRequest>,
    ) -> Result<Response<proto::GetEntryResponse>, Status> {
        answered(async {
            let sought = entries::sought(request.get_ref(), &self.limits)?;
            let caller = auth::caller(request.extensions())?;
            match &sought {
                Sought::Key(key) => caller.allowed(key.consumer())?,
                // Whose entry a hash finds is not known in advance.
                Sought::Hash(_) => caller.allowed_everywhere()?,
            }
            let (reading, entry) = self.operators(caller).get(sought).await?;
            let consumer = entry.key.consumer().to_owned();
            Ok(proto::GetEntryResponse {
                entry: Some(entry::entry(entry, &reading)),
                policy_version_in_force: policies::version_in_force(
                    &self.operators.policies_here(),
                    &consumer,
                ),
            })
        })
        .await
    }

    async fn get_message(
        &self,
        request: Request<proto::GetMessageRequest>,
    ) -> Result<Response<proto::GetMessageResponse>, Status> {
        answered(message::shown(self, &request)).await
    }

    async fn list_entries(
        &self,
        request: Request<proto::ListEntriesRequest>,
    ) -> Result<Response<proto::ListEntriesResponse>, Status> {
        answered(async {
            let query = entries::Query::of(request.get_ref(), &self.limits)?;
            let caller = auth::caller(request.extensions())?;
            allowed_on(caller, query.consumer())?;
            query.run(&self.operators(caller)).await
        })
        .await
    }

    async fn group_entries(
        &self,
        request: Request<proto::GroupEntriesRequest>,
    ) -> Result<Response<proto::GroupEntriesResponse>, Status> {
        answered(async {
            let query = groups::Query::of(request.get_ref(), &self.limits)?;
            let caller = auth::caller(request.extensions())?;
            allowed_on(caller, query.consumer())?;
            query.run(&self.operators(caller)).await
        })
        .await
    }

    async fn summarize_entries(
        &self,
        request: Request<proto::SummarizeEntriesRequest>,
    ) -> Result<Response<proto::SummarizeEntriesResponse>, Status> {
        answered(async {
            let query = summary::query(request.get_ref(), &self.limits)?;
            let caller = auth::caller(request.extensions())?;
            match &query.scope {
                CountScope::One(namespace) => caller.allowed(namespace.consumer())?,
                CountScope::ConsumerPage(..) => caller.allowed_everywhere()?,
            }
            summary::summarize(&self.operators(caller), query).await
        })
        .await
    }

    type RedriveEntriesStream = bulk::ResponseStream<proto::RedriveEntriesResponse>;

    async fn redrive_entries(
        &self,
        request: Request<proto::RedriveEntriesRequest>,
    ) -> Result<Response<Self::RedriveEntriesStream>, Status> {
        answered(self.change_many(request.get_ref(), request.extensions())).await
    }

    type ParkEntriesStream = bulk::ResponseStream<proto::ParkEntriesResponse>;

    async fn park_entries(
        &self,
        request: Request<proto::ParkEntriesRequest>,
    ) -> Result<Response<Self::ParkEntriesStream>, Status> {
        answered(self.change_many(request.get_ref(), request.extensions())).await
    }

    type ResolveEntriesStream = bulk::ResponseStream<proto::ResolveEntriesResponse>;

    async fn resolve_entries(
        &self,
        request: Request<proto::ResolveEntriesRequest>,
    ) -> Result<Response<Self::ResolveEntriesStream>, Status> {
        answered(self.change_many(request.get_ref(), request.extensions())).await
    }

    type ImportEntriesStream = bulk::ResponseStream<proto::ImportEntriesResponse>;

    async fn import_entries(
        &self,
        request: Request<tonic::Streaming<proto::ImportEntriesRequest>>,
    ) -> Result<Response<Self::ImportEntriesStream>, Status> {
        answered(async { self.begin_import(request) }).await
    }

    async fn reconcile_entries(
        &self,
        request: Request<proto::ReconcileEntriesRequest>,
    ) -> Result<Response<proto::ReconcileEntriesResponse>, Status> {
        answered(reconcile::reconcile(self, request.extensions(), request.get_ref())).await
    }

    async fn get_retention_status(
        &self,
        request: Request<proto::GetRetentionStatusRequest>,
    ) -> Result<Response<proto::GetRetentionStatusResponse>, Status> {
        answered(async {
            let caller = auth::caller(request.extensions())?;
            caller.allowed_everywhere()?;
            retention::status(&self.operators(caller)).await
        })
        .await
    }

    async fn raise_token_offset(
        &self,
        request: Request<proto::RaiseTokenOffsetRequest>,
    ) -> Result<Response<proto::RaiseTokenOffsetResponse>, Status> {
        answered(async {
            let caller = auth::caller(request.extensions())?;
            let order = token_offset::order(request.get_ref(), caller.principal(), &self.limits)?;
            if order.validate_only {
                caller.has_right(Right::Read, Whose::All)?;
            } else {
                caller.allowed_everywhere()?;
            }
            let clock = self.operators(caller).raise_token_offset(order).await?;
            Ok(token_offset::response(clock))
        })
        .await
    }

    async fn create_replay_run(
        &self,
        request: Request<proto::CreateReplayRunRequest>,
    ) -> Result<Response<proto::CreateReplayRunResponse>, Status> {
        answered(async {
            let caller = auth::caller(request.extensions())?;
            let order = replays::create(request.get_ref(), caller.principal(), &self.limits)?;
            caller.allowed(order.run.consumer())?;
            let (run, replayed) = replays::carried_out(self.operators(caller).change_run(order).await?);
            Ok(proto::CreateReplayRunResponse { run, replayed })
        })
        .await
    }

    async fn close_replay_run(
        &self,
        request: Request<proto::CloseReplayRunRequest>,
    ) -> Result<Response<proto::CloseReplayRunResponse>, Status> {
        answered(async {
            let caller = auth::caller(request.extensions())?;
            let order = replays::close(request.get_ref(), caller.principal(), &self.limits)?;
            caller.allowed(order.run.consumer())?;
            let (run, replayed) = replays::carried_out(self.operators(caller).change_run(order).await?);
            Ok(proto::CloseReplayRunResponse { run, replayed })
        })
        .await
    }

    async fn list_replay_runs(
        &self,
        request: Request<proto::ListReplayRunsRequest>,
    ) -> Result<Response<proto::ListReplayRunsResponse>, Status> {
        answered(async {
            let query = replays::query(request.get_ref(), &self.limits)?;
            let caller = auth::caller(request.extensions())?;
            caller.allowed(&query.consumer)?;
            replays::list(&self.operators(caller), query).await
        })
        .await
    }

    async fn hold_consumers(
        &self,
        request: Request<proto::HoldConsumersRequest>,
    ) -> Result<Response<proto::HoldConsumersResponse>, Status> {
        answered(holds::hold(self, request.extensions(), request.get_ref())).await
    }

    async fn resume_consumers(
        &self,
        request: Request<proto::ResumeConsumersRequest>,
    ) -> Result<Response<proto::ResumeConsumersResponse>, Status> {
        answered(holds::resume(self, request.extensions(), request.get_ref())).await
    }

    async fn list_holds(
        &self,
        request: Request<proto::ListHoldsRequest>,
    ) -> Result<Response<proto::ListHoldsResponse>, Status> {
        answered(async {
            let prefix = holds::listed(request.get_ref(), &self.limits)?;
            let caller = auth::caller(request.extensions())?;
            holds::allowed(caller, &prefix)?;
            let policies = self.operators(caller).policies().await?;
            let met = policies.holds().iter().filter(|hold| hold.meets(&prefix)).cloned();
            Ok(proto::ListHoldsResponse { holds: met.map(holds::message).collect() })
        })
        .await
    }

    async fn redrive_entry(
        &self,
        request: Request<proto::RedriveEntryRequest>,
    ) -> Result<Response<proto::RedriveEntryResponse>, Status> {
        answered(async {
            let caller = auth::caller(request.extensions())?;
            let order = changes::redrive(request.get_ref(), caller.principal(), &self.limits)?;
            caller.allowed(order.key.consumer())?;
            let CarriedOut { entry, replayed, message_erased } = self.carry_out(order).await?;
            Ok(proto::RedriveEntryResponse { entry, replayed, message_erased })
        })
        .await
    }

    async fn park_entry(
        &self,
        request: Request<proto::ParkEntryRequest>,
    ) -> Result<Response<proto::ParkEntryResponse>, Status> {
        answered(async {
            let caller = auth::caller(request.extensions())?;
            let order = changes::park(request.get_ref(), caller.principal(), &self.limits)?;
            caller.allowed(order.key.consumer())?;
            let CarriedOut { entry, replayed, .. } = self.carry_out(order).await?;
            Ok(proto::ParkEntryResponse { entry, replayed })
        })
        .await
    }

    async fn resolve_entry(
        &self,
        request: Request<proto::ResolveEntryRequest>,
    ) -> Result<Response<proto::ResolveEntryResponse>, Status> {
        answered(async {
            let caller = auth::caller(request.extensions())?;
            let order = changes::resolve(request.get_ref(), caller.principal(), &self.limits)?;
            caller.allowed(order.key.consumer())?;
            let CarriedOut { entry, replayed, message_erased } = self.carry_out(order).await?;
            Ok(proto::ResolveEntryResponse { entry, replayed, message_erased })
        })
        .await
    }

    async fn delete_entry(
        &self,
        request: Request<proto::DeleteEntryRequest>,
    ) -> Result<Response<proto::DeleteEntryResponse>, Status> {
        answered(async {
            let caller = auth::caller(request.extensions())?;
            if !request.get_ref().key_hash.is_empty() {
                let order = changes::delete_unreadable(request.get_ref(), caller.principal(), &self.limits)?;
                // Whose entry a hash finds is not known in advance.
                caller.allowed_everywhere()?;
                let replayed = self.operators.delete_unreadable(order).await?;
                return Ok(proto::DeleteEntryResponse { replayed });
            }
            let order = changes::delete(request.get_ref(), caller.principal(), &self.limits)?;
            caller.allowed(order.key.consumer())?;
            let replayed = self.carry_out(order).await?.replayed;
            Ok(proto::DeleteEntryResponse { replayed })
        })
        .await
    }

    async fn get_policy(
        &self,
        request: Request<proto::GetPolicyRequest>,
    ) -> Result<Response<proto::GetPolicyResponse>, Status> {
        answered(async {
            let consumer = &request.get_ref().consumer;
            let mut fields = FieldChecks::new(&self.limits);
            fields.name("consumer", consumer, self.limits.consumer);
            fields.finish(|| ())?;
            let caller = auth::caller(request.extensions())?;
            caller.allowed(consumer)?;
            let all = self.operators(caller).policies().await?;
            Ok(proto::GetPolicyResponse { policy: Some(policies::shown(&all, consumer)) })
        })
        .await
    }

    async fn list_policies(
        &self,
        request: Request<proto::ListPoliciesRequest>,
    ) -> Result<Response<proto::ListPoliciesResponse>, Status> {
        answered(async {
            let page = policies::page(request.get_ref(), &self.limits)?;
            let caller = auth::caller(request.extensions())?;
            caller.allowed_everywhere()?;
            let all = self.operators(caller).policies().await?;
            Ok(page.listed(&all))
        })
        .await
    }

    async fn set_policy(
        &self,
        request: Request<proto::SetPolicyRequest>,
    ) -> Result<Response<proto::SetPolicyResponse>, Status> {
        answered(async {
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
            Ok(proto::SetPolicyResponse { policy, replayed: result.replayed, changes })
        })
        .await
    }

    async fn delete_policy(
        &self,
        request: Request<proto::DeletePolicyRequest>,
    ) -> Result<Response<proto::DeletePolicyResponse>, Status> {
        answered(async {
            let caller = auth::caller(request.extensions())?;
            let order = policies::delete(request.get_ref(), caller.principal(), &self.limits)?;
            caller.allowed(&order.consumer)?;
            let (policy, result) = self.put_in_force(order).await?;
            Ok(proto::DeletePolicyResponse { policy, replayed: result.replayed })
        })
        .await
    }

    async fn list_policy_versions(
        &self,
        request: Request<proto::ListPolicyVersionsRequest>,
    ) -> Result<Response<proto::ListPolicyVersionsResponse>, Status> {
        answered(async {
            let (_, extensions, request) = request.into_parts();
            let page = policies::versions(&request, &self.limits)?;
            let caller = auth::caller(&extensions)?;
            caller.allowed(&request.consumer)?;
            let versions =
                self.operators(caller).policy_versions(request.consumer, page.before, page.size).await?;
            Ok(page.listed(versions))
        })
        .await
    }

    async fn list_audit_events(
        &self,
        request: Request<proto::ListAuditEventsRequest>,
    ) -> Result<Response<proto::ListAuditEventsResponse>, Status> {
        answered(async {
            let asked = request.get_ref();
            let query = audit::query(asked, &self.limits)?;
            let caller = auth::caller(request.extensions())?;
            allowed_on(caller, asked.key.as_ref().map_or(&asked.consumer, |key| &key.consumer))?;
            let events = self.operators(caller).audit(query.listing.clone()).await;
            Ok(query.page(events?))
        })
        .await
    }
}
