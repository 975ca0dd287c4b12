//! The digest of an operator's request.

use prost::Message;

use crate::domain::RequestDigest;

/// The digest of a request, over every field. The decoded message is encoded again, in the order of the field
/// numbers and without unset fields: so it has one form, whatever the client's library sent. A field that
/// this version does not know is lost in decoding. To a newer server the same request is then another one, so
/// that a repeat there is refused, which changes nothing, instead of being answered like the first.
pub(crate) fn digest(rpc: &str, request: &impl Message) -> RequestDigest {
    RequestDigest::of(rpc, &request.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto;

    /// The digest is stored: every version must compute the same one.
    #[test]
    fn digest_of_a_request_stays_the_same() {
        let request = proto::SetPolicyRequest {
            consumer: "c".into(),
            request_id: "1".into(),
            reason: "r".into(),
            policy: Some(proto::Policy { disabled: Some(false), ..Default::default() }),
            ..Default::default()
        };
        let digest = digest("SetPolicy", &request);
        assert_eq!(
            hex::encode(digest.bytes()),
            "c18b77f09f65c226497caf8b70423292cd7c913f2c05f67c90005cd8aa941e5c"
        );
        // Two clients may send the fields in different orders, and unset ones at their defaults.
        let sent = [&b"\x2a\x02\x78\x00\x22\x01r\x38\x00\x12\x011"[..], b"\x0a\x01c\xc0\x3e\x07"].concat();
        let decoded = proto::SetPolicyRequest::decode(&sent[..]).unwrap();
        assert_eq!(super::digest("SetPolicy", &decoded), digest, "{decoded:?}");
    }
}
