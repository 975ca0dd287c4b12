//! `AdminService`: what operators see and change.

use prost::Message as _;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::auth;
use super::convert;
use super::errors::{self, During};
use super::fields::{Fields, Limits};
use super::operate;
use super::policies;
use super::proto::{self, admin_service_server::AdminService};
use crate::domain::{KeyHash, ParkCause, Rejection, State, StoreTime};
use crate::ledger::{Ledger, Order, PolicyOrder};
use crate::store::Listing;

const PAGE_DEFAULT: usize = 100;
const PAGE_MAX: usize = 1_000;
/// How many entries are looked at for one page, where a filter leaves most of them out.
const LOOKED_AT_MAX: usize = 5_000;

/// A page ends beyond this many bytes: the longest entry added, it is below what clients take.
const PAGE_BYTES: usize = 3 << 20;

type Pages<T> = std::pin::Pin<Box<dyn futures_util::Stream<Item = Result<T, Status>> + Send>>;

pub(super) struct AdminRpc {
    pub(super) ledger: Ledger,
    pub(super) limits: Limits,
}

#[tonic::async_trait]
impl AdminService for AdminRpc {
    async fn get_entry(
        &self,
        request: Request<proto::GetEntryRequest>,
    ) -> Result<Response<proto::GetEntryResponse>, Status> {
        let mut fields = Fields::new(&self.limits, "");
        let key = fields.key(request.get_ref().key.as_ref());
        let key = fields.finish(|| key).map_err(|rejection| refuse(&rejection))?;
        let Some(key) = key else {
            return Err(refuse(&errors::internal("a key is neither wrong nor right")));
        };
        let (reading, entry) = self.ledger.get(key).await.map_err(|rejection| refuse(&rejection))?;
        Ok(Response::new(proto::GetEntryResponse {
            policy_version_in_force: 0,
            entry: Some(convert::entry(entry, &reading)),
        }))
    }

    async fn list_entries(
        &self,
        request: Request<proto::ListEntriesRequest>,
    ) -> Result<Response<proto::ListEntriesResponse>, Status> {
        let query = Query::of(request.get_ref(), &self.limits).map_err(|rejection| refuse(&rejection))?;
        let page = query.run(&self.ledger).await.map_err(|rejection| refuse(&rejection))?;
        Ok(Response::new(page))
    }

    async fn summarize_entries(
        &self,
        _request: Request<proto::SummarizeEntriesRequest>,
    ) -> Result<Response<proto::SummarizeEntriesResponse>, Status> {
        Err(Status::unimplemented("base"))
    }

    type RedriveEntriesStream = Pages<proto::RedriveEntriesResponse>;

    async fn redrive_entries(
        &self,
        _request: Request<proto::RedriveEntriesRequest>,
    ) -> Result<Response<Self::RedriveEntriesStream>, Status> {
        Err(Status::unimplemented("base"))
    }

    type ImportEntriesStream = Pages<proto::ImportEntriesResponse>;

    async fn import_entries(
        &self,
        _request: Request<tonic::Streaming<proto::ImportEntriesRequest>>,
    ) -> Result<Response<Self::ImportEntriesStream>, Status> {
        Err(Status::unimplemented("base"))
    }

    async fn get_retention_status(
        &self,
        _request: Request<proto::GetRetentionStatusRequest>,
    ) -> Result<Response<proto::GetRetentionStatusResponse>, Status> {
        Err(Status::unimplemented("base"))
    }

    async fn redrive_entry(
        &self,
        request: Request<proto::RedriveEntryRequest>,
    ) -> Result<Response<proto::RedriveEntryResponse>, Status> {
        let actor = auth::caller(request.metadata()).principal;
        let order = operate::redrive(request.get_ref(), &actor, &self.limits);
        let (entry, replayed) = self.carry_out(order).await?;
        Ok(Response::new(proto::RedriveEntryResponse { entry, replayed }))
    }

    async fn park_entry(
        &self,
        request: Request<proto::ParkEntryRequest>,
    ) -> Result<Response<proto::ParkEntryResponse>, Status> {
        let actor = auth::caller(request.metadata()).principal;
        let order = operate::park(request.get_ref(), &actor, &self.limits);
        let (entry, replayed) = self.carry_out(order).await?;
        Ok(Response::new(proto::ParkEntryResponse { entry, replayed }))
    }

    async fn resolve_entry(
        &self,
        request: Request<proto::ResolveEntryRequest>,
    ) -> Result<Response<proto::ResolveEntryResponse>, Status> {
        let actor = auth::caller(request.metadata()).principal;
        let order = operate::resolve(request.get_ref(), &actor, &self.limits);
        let (entry, replayed) = self.carry_out(order).await?;
        Ok(Response::new(proto::ResolveEntryResponse { entry, replayed }))
    }

    async fn delete_entry(
        &self,
        request: Request<proto::DeleteEntryRequest>,
    ) -> Result<Response<proto::DeleteEntryResponse>, Status> {
        let actor = auth::caller(request.metadata()).principal;
        let order = operate::delete(request.get_ref(), &actor, &self.limits);
        let (_, replayed) = self.carry_out(order).await?;
        Ok(Response::new(proto::DeleteEntryResponse { replayed }))
    }

    async fn get_policy(
        &self,
        request: Request<proto::GetPolicyRequest>,
    ) -> Result<Response<proto::GetPolicyResponse>, Status> {
        let consumer = &request.get_ref().consumer;
        let mut fields = Fields::new(&self.limits, "");
        fields.name("consumer", consumer, self.limits.consumer);
        fields.finish(|| ()).map_err(|rejection| refuse(&rejection))?;
        let all = self.ledger.policies().await.map_err(|rejection| refuse(&rejection))?;
        Ok(Response::new(proto::GetPolicyResponse { policy: Some(policies::shown(&all, consumer)) }))
    }

    async fn list_policies(
        &self,
        request: Request<proto::ListPoliciesRequest>,
    ) -> Result<Response<proto::ListPoliciesResponse>, Status> {
        let request = request.get_ref();
        let mut fields = Fields::new(&self.limits, "");
        let size = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
        fields.text("page_token", &request.page_token, self.limits.consumer);
        fields.finish(|| ()).map_err(|rejection| refuse(&rejection))?;
        let all = self.ledger.policies().await.map_err(|rejection| refuse(&rejection))?;
        // The place is the last name of the page before.
        let mut names = all.names();
        names.retain(|name| *name > request.page_token);
        let next_page_token =
            if names.len() > size { names.get(size - 1).cloned().unwrap_or_default() } else { String::new() };
        names.truncate(size);
        let policies = names.iter().map(|name| policies::shown(&all, name)).collect();
        Ok(Response::new(proto::ListPoliciesResponse { policies, next_page_token }))
    }

    async fn set_policy(
        &self,
        request: Request<proto::SetPolicyRequest>,
    ) -> Result<Response<proto::SetPolicyResponse>, Status> {
        let actor = auth::caller(request.metadata()).principal;
        let order = policies::set(request.get_ref(), &actor, &self.limits);
        let (policy, replayed) = self.put_in_force(order).await?;
        Ok(Response::new(proto::SetPolicyResponse { policy, replayed }))
    }

    async fn delete_policy(
        &self,
        request: Request<proto::DeletePolicyRequest>,
    ) -> Result<Response<proto::DeletePolicyResponse>, Status> {
        let actor = auth::caller(request.metadata()).principal;
        let order = policies::delete(request.get_ref(), &actor, &self.limits);
        let (policy, replayed) = self.put_in_force(order).await?;
        Ok(Response::new(proto::DeletePolicyResponse { policy, replayed }))
    }

    async fn list_policy_versions(
        &self,
        request: Request<proto::ListPolicyVersionsRequest>,
    ) -> Result<Response<proto::ListPolicyVersionsResponse>, Status> {
        let request = request.into_inner();
        let mut fields = Fields::new(&self.limits, "");
        fields.name("consumer", &request.consumer, self.limits.consumer);
        let size = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
        let before =
            if request.page_token.is_empty() { Some(i32::MAX) } else { request.page_token.parse().ok() };
        if before.is_none() {
            fields.wrong("page_token", "is not a next_page_token of this call: start again without one");
        }
        fields.finish(|| ()).map_err(|rejection| refuse(&rejection))?;
        let versions = self.ledger.policy_versions(request.consumer, before.unwrap_or(i32::MAX), size).await;
        let versions = versions.map_err(|rejection| refuse(&rejection))?;
        let last = versions.last().filter(|last| versions.len() == size && last.version > 1);
        let next_page_token = last.map_or(String::new(), |last| last.version.to_string());
        let versions = versions.into_iter().map(policies::version).collect();
        Ok(Response::new(proto::ListPolicyVersionsResponse { versions, next_page_token }))
    }

    async fn list_audit_events(
        &self,
        request: Request<proto::ListAuditEventsRequest>,
    ) -> Result<Response<proto::ListAuditEventsResponse>, Status> {
        let query =
            operate::audit(request.get_ref(), &self.limits).map_err(|rejection| refuse(&rejection))?;
        let events = self.ledger.audit(query.listing.clone()).await;
        Ok(Response::new(query.page(events.map_err(|rejection| refuse(&rejection))?)))
    }
}

impl AdminRpc {
    /// The policy after an order, and whether the order had been carried out before.
    async fn put_in_force(
        &self,
        order: Result<PolicyOrder, Rejection>,
    ) -> Result<(Option<proto::ConsumerPolicy>, bool), Status> {
        let order = order.map_err(|rejection| refuse(&rejection))?;
        let consumer = order.consumer.clone();
        let (all, replayed) = self.ledger.set_policy(order).await.map_err(|rejection| refuse(&rejection))?;
        Ok((Some(policies::shown(&all, &consumer)), replayed))
    }

    /// The entry after an order, and whether the order had been carried out before.
    async fn carry_out(
        &self,
        order: Result<Order, Rejection>,
    ) -> Result<(Option<proto::Entry>, bool), Status> {
        let order = order.map_err(|rejection| refuse(&rejection))?;
        let carried = self.ledger.operate(order).await.map_err(|rejection| refuse(&rejection))?;
        let entry = carried.entry.map(|entry| convert::entry(entry, &carried.reading));
        Ok((entry, carried.replayed))
    }
}

fn refuse(rejection: &Rejection) -> Status {
    errors::status(rejection, During::Other)
}

/// What `ListEntries` was asked for.
struct Query {
    consumer: String,
    state: Option<State>,
    size: usize,
    after: Option<(StoreTime, KeyHash)>,
}

impl Query {
    fn of(request: &proto::ListEntriesRequest, limits: &Limits) -> Result<Query, Rejection> {
        let mut fields = Fields::new(limits, "");
        let wanted = request.filter.clone().unwrap_or_default();
        let (consumer, asked) = (wanted.consumer, wanted.states.first().copied().unwrap_or_default());
        fields.name("filter.consumer", &consumer, limits.consumer);
        let state = match proto::EntryState::try_from(asked) {
            Ok(proto::EntryState::Unspecified) => None,
            Ok(proto::EntryState::Received) => Some(State::Received),
            Ok(proto::EntryState::InProgress) => Some(State::InProgress),
            Ok(proto::EntryState::FailedRetryable) => Some(State::FailedRetryable),
            Ok(proto::EntryState::Completed) => Some(State::Completed),
            Ok(proto::EntryState::FailedTerminal) => Some(State::FailedTerminal),
            Ok(proto::EntryState::Parked) => Some(State::Parked(ParkCause::Operator)),
            Err(_) => {
                fields.wrong(
                    "filter.states[0]",
                    format!("is {asked}, which is no EntryState that this server knows"),
                );
                None
            }
        };
        let size = fields.page_size(request.page_size, PAGE_DEFAULT, PAGE_MAX);
        let after = if request.page_token.is_empty() {
            None
        } else {
            let place = place(&request.page_token, &filter(&consumer, asked));
            if place.is_none() {
                fields.wrong(
                    "page_token",
                    "is not a next_page_token of this consumer and state: start again without one",
                );
            }
            place
        };
        fields.finish(|| Query { consumer, state, size, after })
    }

    async fn run(mut self, ledger: &Ledger) -> Result<proto::ListEntriesResponse, Rejection> {
        let filter = filter(&self.consumer, self.state.map_or(0, |state| convert::state(state).into()));
        let mut page = proto::ListEntriesResponse::default();
        let (mut looked_at, mut bytes, mut full) = (0, 0, false);
        while !full && looked_at < LOOKED_AT_MAX {
            // The first look asks for one page; a filter that leaves much out asks for more.
            let limit = if looked_at == 0 { self.size } else { PAGE_MAX };
            let listing =
                Listing { consumer: self.consumer.clone(), state: self.state, after: self.after, limit };
            let (reading, entries) = ledger.list(listing).await?;
            let last = entries.len() < limit;
            for entry in entries {
                looked_at += 1;
                self.after = Some((entry.created_at, entry.key.hash()));
                let wanted =
                    self.state.is_none_or(|state| convert::state(state) == convert::state(entry.state));
                if wanted {
                    let entry = convert::entry(entry, &reading);
                    bytes += entry.encoded_len();
                    page.entries.push(entry);
                }
                full = page.entries.len() == self.size || bytes >= PAGE_BYTES;
                if full {
                    break;
                }
            }
            if last && !full {
                return Ok(page);
            }
        }
        if let Some((at, key)) = self.after {
            page.next_page_token = format!("{:x}.{}.{filter}", at.micros(), key.simple());
        }
        Ok(page)
    }
}

fn filter(consumer: &str, state: i32) -> String {
    convert::bound_to(&format!("{state}/{consumer}"))
}

fn place(token: &str, filter: &str) -> Option<(StoreTime, KeyHash)> {
    let mut parts = token.split('.');
    let (at, key, bound) = (parts.next()?, parts.next()?, parts.next()?);
    if bound != filter || parts.next().is_some() {
        return None;
    }
    Some((StoreTime(i64::from_str_radix(at, 16).ok()?), Uuid::try_parse(key).ok()?))
}
