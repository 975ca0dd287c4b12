//! The digest of an operator's request, which distinguishes a repeat from another request with the same id.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The SHA-256 of a request: of the name of its RPC, and of its encoded message.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestDigest([u8; 32]);

impl RequestDigest {
    /// The digest of a request. The name of the RPC is part of it, since requests of two RPCs may be encoded
    /// alike: those of `ParkEntry` and `DeleteEntry` are.
    #[must_use]
    pub fn of(rpc: &str, encoded: &[u8]) -> RequestDigest {
        let mut digest = Sha256::new();
        for part in [rpc.as_bytes(), encoded] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        RequestDigest(digest.finalize().into())
    }

    /// The digest that the store has kept; `None` if these bytes are not a digest.
    #[must_use]
    pub fn stored(bytes: &[u8]) -> Option<RequestDigest> {
        bytes.try_into().ok().map(RequestDigest)
    }

    /// Its 32 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for RequestDigest {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(to, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_differs_by_name_and_message() {
        let all = [("a", "bc"), ("ab", "c"), ("", "abc"), ("a", "b"), ("a", "")];
        for (i, (rpc, encoded)) in all.iter().enumerate() {
            let one = RequestDigest::of(rpc, encoded.as_bytes());
            assert_eq!(RequestDigest::stored(one.bytes()), Some(one));
            for (j, (rpc, encoded)) in all.iter().enumerate() {
                assert_eq!(one == RequestDigest::of(rpc, encoded.as_bytes()), i == j, "{i} {j}");
            }
        }
        assert_eq!(RequestDigest::stored(b"short"), None);
        assert_eq!(format!("{:?}", RequestDigest([0xab; 32])), "abababab");
    }
}
