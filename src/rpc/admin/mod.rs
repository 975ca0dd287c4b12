//! `AdminService`: what operators read and change.

mod audit;
mod bulk;
mod changes;
mod entries;
mod groups;
mod holds;
mod imports;
mod message;
mod page_token;
pub(super) mod policies;
mod reconcile;
mod replays;
mod retention;
mod service;
mod summary;
mod token_offset;

use tonic::{Response, Status};

use super::edge::auth::AuthenticatedCaller;
use crate::domain::{Entry, Rejection};
use crate::ledger::{ChangeRequest, Operators, PolicyOrder, PolicyResult};
use crate::proto;
use crate::wire::entry;
use crate::wire::errors::refused;
use crate::wire::fields::Limits;

pub(super) struct AdminRpc {
    pub(super) operators: Operators,
    pub(super) limits: Limits,
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
    ) -> Result<(Option<proto::ConsumerPolicy>, PolicyResult), Rejection> {
        let consumer = order.consumer.clone();
        let result = self.operators.acting_for(&order.actor).set_policy(order).await?;
        Ok((Some(policies::shown(&result.policies, &consumer)), result))
    }

    async fn carry_out(&self, order: ChangeRequest) -> Result<CarriedOut, Rejection> {
        let carried = self.operators.acting_for(&order.actor).change(order).await?;
        let message_erased = carried.entry.as_ref().is_some_and(Entry::message_erased);
        let entry = carried.entry.map(|entry| entry::entry(entry, &carried.reading));
        Ok(CarriedOut { entry, replayed: carried.replayed, message_erased })
    }
}

/// What the responses of changes of one entry say.
struct CarriedOut {
    /// The entry afterwards; `None` if it is deleted.
    entry: Option<proto::Entry>,
    /// The order had been carried out before.
    replayed: bool,
    message_erased: bool,
}

/// Whether the caller may make a call that names this consumer, or all if the name is empty.
fn allowed_on(caller: &AuthenticatedCaller, consumer: &str) -> Result<(), Rejection> {
    if consumer.is_empty() { caller.allowed_everywhere() } else { caller.allowed(consumer) }
}

/// The response of a call that was carried out, or the status of its refusal.
async fn answered<T>(carried_out: impl Future<Output = Result<T, Rejection>>) -> Result<Response<T>, Status> {
    carried_out.await.map(Response::new).map_err(refused)
}
