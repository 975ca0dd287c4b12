//! The methods of this server, from its descriptors.

use prost::{DecodeError, Message as _};
use prost_types::{FileDescriptorSet, MethodDescriptorProto};

use crate::metrics::Method;
use crate::proto;

/// The methods of every service.
///
/// # Errors
/// A descriptor cannot be read.
pub(crate) fn methods() -> Result<Vec<Method>, DecodeError> {
    let sets = [
        proto::FILE_DESCRIPTOR_SET,
        tonic_health::pb::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
        tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
    ];
    let mut methods = Vec::new();
    for set in sets {
        for file in FileDescriptorSet::decode(set)?.file {
            for service in &file.service {
                let service_name = format!("{}.{}", file.package(), service.name());
                methods.extend(service.method.iter().map(|method| Method {
                    service: service_name.clone(),
                    name: method.name().to_owned(),
                    kind: kind(method),
                }));
            }
        }
    }
    Ok(methods)
}

/// The kind of the method, as metrics name it.
fn kind(method: &MethodDescriptorProto) -> &'static str {
    match (method.client_streaming(), method.server_streaming()) {
        (false, false) => "unary",
        (true, false) => "client_stream",
        (false, true) => "server_stream",
        (true, true) => "bidi_stream",
    }
}
