//! Stored messages, for operators.

use tonic::Request;

use super::AdminRpc;
use crate::domain::Rejection;
use crate::proto;
use crate::rpc::edge::auth;
use crate::wire::digest::digest;
use crate::wire::fields::FieldChecks;
use crate::wire::{errors, inbox, words};

/// The longest reason, in bytes.
const REASON_MAX: usize = 1_024;

/// The message that `GetMessage` asks for.
///
/// # Errors
/// `INVALID_FIELD`, `CONSUMER_NOT_ALLOWED`, `ENTRY_NOT_FOUND`, and those of the store.
pub(super) async fn shown(
    rpc: &AdminRpc,
    request: &Request<proto::GetMessageRequest>,
) -> Result<proto::GetMessageResponse, Rejection> {
    let proto::GetMessageRequest { key, reason } = request.get_ref();
    let mut fields = FieldChecks::new(&rpc.limits);
    let key = fields.key(key.as_ref());
    fields.name("reason", reason, REASON_MAX);
    let key = fields.finish(|| key)?.ok_or_else(|| errors::internal("a key is neither wrong nor right"))?;
    let caller = auth::caller(request.extensions())?;
    caller.allowed(key.consumer())?;
    let digest = digest("GetMessage", request.get_ref());
    let kept = rpc.operators(caller).message(key, caller.principal(), reason.clone(), digest).await?;
    Ok(proto::GetMessageResponse {
        message: Some(inbox::message(&kept.message)?),
        stored_at: Some(words::shown(kept.stored_at)),
    })
}
