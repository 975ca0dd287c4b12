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

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of Connect's protocol. A status that says something else would make a client repeat a call that it must not
    /// repeat, or the reverse.
    #[test]
    fn code_has_the_name_and_status_of_connect() {
        for (number, name, status) in [
            (1, "canceled", 499),
            (2, "unknown", 500),
            (3, "invalid_argument", 400),
            (4, "deadline_exceeded", 504),
            (5, "not_found", 404),
            (6, "already_exists", 409),
            (7, "permission_denied", 403),
            (8, "resource_exhausted", 429),
            (9, "failed_precondition", 400),
            (10, "aborted", 409),
            (11, "out_of_range", 400),
            (12, "unimplemented", 501),
            (13, "internal", 500),
            (14, "unavailable", 503),
            (15, "data_loss", 500),
            (16, "unauthenticated", 401),
        ] {
            let (word, http) = code(Code::from_i32(number));
            assert_eq!((word, http.as_u16()), (name, status), "{number}");
        }
        assert_eq!(code(Code::Ok).0, "unknown", "a success is not an error");
    }
}
