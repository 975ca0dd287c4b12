//! Who calls. Authentication is off: everybody is `anonymous`.

use tonic::metadata::MetadataMap;

use crate::rpc::wire::convert::Caller;

const ANONYMOUS: &str = "anonymous";
/// A W3C `traceparent` has 55 characters.
const TRACEPARENT_MAX: usize = 64;

pub(crate) fn caller(metadata: &MetadataMap) -> Caller {
    let traceparent = metadata.get("traceparent").and_then(|value| value.to_str().ok());
    let traceparent = traceparent.filter(|text| text.len() <= TRACEPARENT_MAX).unwrap_or_default();
    Caller { principal: ANONYMOUS.to_owned(), traceparent: traceparent.to_owned() }
}
