//! Errors in Connect's form: an HTTP status, and a body with code, message and details.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::StatusCode;
use prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::pb;

/// The message types of details, so that they can be written as JSON that people can read.
static DETAILS: LazyLock<Option<DescriptorPool>> =
    LazyLock::new(|| DescriptorPool::decode(pb::FILE_DESCRIPTOR_SET).ok());

/// The Connect name and the HTTP status of a code.
pub(super) fn code(code: Code) -> (&'static str, StatusCode) {
    let (word, status) = match code {
        Code::Cancelled => ("canceled", 499),
        // A success is not an error: reported as one it is unknown.
        Code::Ok | Code::Unknown => ("unknown", 500),
        Code::InvalidArgument => ("invalid_argument", 400),
        Code::DeadlineExceeded => ("deadline_exceeded", 504),
        Code::NotFound => ("not_found", 404),
        Code::AlreadyExists => ("already_exists", 409),
        Code::PermissionDenied => ("permission_denied", 403),
        Code::ResourceExhausted => ("resource_exhausted", 429),
        Code::FailedPrecondition => ("failed_precondition", 400),
        Code::Aborted => ("aborted", 409),
        Code::OutOfRange => ("out_of_range", 400),
        Code::Unimplemented => ("unimplemented", 501),
        Code::Internal => ("internal", 500),
        Code::Unavailable => ("unavailable", 503),
        Code::DataLoss => ("data_loss", 500),
        Code::Unauthenticated => ("unauthenticated", 401),
    };
    (word, StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
}

/// The body of an error.
pub(super) fn body(status: &Status) -> Vec<u8> {
    let mut error = json!({ "code": code(status.code()).0 });
    if !status.message().is_empty() {
        error["message"] = status.message().into();
    }
    let known = pb::Status::decode(status.details()).unwrap_or_default();
    let details: Vec<Value> = known.details.iter().map(detail).collect();
    if !details.is_empty() {
        error["details"] = details.into();
    }
    error.to_string().into_bytes()
}

fn detail(detail: &prost_types::Any) -> Value {
    let name = detail.type_url.rsplit('/').next().unwrap_or_default();
    let mut value = json!({ "type": name, "value": STANDARD_NO_PAD.encode(&detail.value) });
    let message = DETAILS.as_ref().and_then(|pool| pool.get_message_by_name(name));
    let read = message.and_then(|message| DynamicMessage::decode(message, &detail.value[..]).ok());
    if let Some(debug) = read.and_then(|message| serde_json::to_value(message).ok()) {
        value["debug"] = debug;
    }
    value
}
