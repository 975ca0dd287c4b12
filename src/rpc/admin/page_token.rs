//! Page tokens: where the next page of an answer begins. A token is valid for the call that issued it, with
//! the same filter, and for no other.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use prost::Message;
use sha2::{Digest as _, Sha256};

use crate::wire::fields::FieldChecks;

/// The longest token, in bytes: the longest names that a configuration allows, in base64, are below it.
const TOKEN_MAX: usize = 2_048;
/// The version of the token's encoding.
const VERSION: u8 = 1;
/// The number of bytes of a SHA-256 with which a token ends.
const SUM_BYTES: usize = 16;

/// The pages of one call's answer.
pub(super) struct Pages {
    /// What its tokens are bound to: the call, and its request.
    bound: Sha256,
}

impl Pages {
    /// The pages of an RPC and of its request, without `page_size`, which may differ from page to page, and
    /// `page_token`. All other fields of the request are bound, those of later versions too.
    pub(super) fn of(rpc: &str, asked: &impl Message) -> Pages {
        let mut bound = Sha256::new();
        for part in [rpc.as_bytes(), &asked.encode_to_vec()] {
            bound.update((part.len() as u64).to_be_bytes());
            bound.update(part);
        }
        Pages { bound }
    }

    /// The token of a position: base64 of the version, the position, and the checksum of both.
    pub(super) fn token(&self, place: &[u8]) -> String {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(place);
        let sum = self.sum(&bytes);
        bytes.extend_from_slice(&sum);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The position that a token names; `None` if the token is empty, or if a violation was recorded because
    /// this call did not issue the token.
    pub(super) fn place<T>(
        &self,
        fields: &mut FieldChecks<'_>,
        token: &str,
        read: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        if token.is_empty() {
            return None;
        }
        if token.len() > TOKEN_MAX {
            fields.bytes("page_token", token.as_bytes(), TOKEN_MAX);
            return None;
        }
        let place = self.checked(token).and_then(|place| read(&place));
        if place.is_none() {
            fields.wrong(
                "page_token",
                "is not a next_page_token of this call with this filter and order: start again without one",
            );
        }
        place
    }

    fn checked(&self, token: &str) -> Option<Vec<u8>> {
        let mut bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
        let sum = bytes.split_off(bytes.len().checked_sub(SUM_BYTES)?);
        (sum == self.sum(&bytes) && bytes.first() == Some(&VERSION)).then(|| bytes.split_off(1))
    }

    /// Not keyed: replicas share no key, and a token is not a secret. A caller that makes one up reads no
    /// more than it could by asking from the start, since rights are checked again with each page. The
    /// checksum detects a token that was cut, changed, or issued by another call; `read` must still refuse
    /// what the store does not accept.
    fn sum(&self, bytes: &[u8]) -> [u8; SUM_BYTES] {
        let digest = self.bound.clone().chain_update(bytes).finalize();
        let mut sum = [0; SUM_BYTES];
        sum.copy_from_slice(&digest[..SUM_BYTES]);
        sum
    }
}

/// A name of the store, as a position. No name has control characters except the separator inside the store's
/// own names, and Postgres does not accept NUL.
pub(super) fn name(place: &[u8]) -> Option<String> {
    let name = str::from_utf8(place).ok()?;
    let odd = |character: char| character.is_control() && character != '\u{1f}';
    (!name.is_empty() && !name.contains(odd)).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto;
    use crate::wire::fields::Limits;

    fn pages(rpc: &str, consumer: &str) -> Pages {
        Pages::of(rpc, &proto::ListReplayRunsRequest { consumer: consumer.into(), ..Default::default() })
    }

    fn read(pages: &Pages, token: &str) -> Result<Option<String>, String> {
        let limits = Limits::default();
        let mut fields = FieldChecks::new(&limits);
        let place = pages.place(&mut fields, token, name);
        fields.finish(|| place).map_err(|refused| refused.violations[0].field.clone())
    }

    #[test]
    fn token_serves_the_call_and_filter_that_gave_it() {
        let own = pages("A", "c");
        let token = own.token("a\u{1f}run".as_bytes());
        assert_eq!(read(&own, &token), Ok(Some("a\u{1f}run".into())));
        assert_eq!(read(&own, ""), Ok(None));
        let wrong = Err("page_token".to_owned());
        for other in [pages("B", "c"), pages("A", "d"), pages("", "c")] {
            assert_eq!(read(&other, &token), wrong);
        }
        let padded = [format!("{token}="), format!(" {token}"), format!("{token}{}", "A".repeat(TOKEN_MAX))];
        for changed in padded.iter().map(String::as_str).chain(["-1", "a", "AAAA", "\0"]) {
            assert_eq!(read(&own, changed), wrong, "{changed}");
        }
        for at in 0..token.len() {
            assert_eq!(read(&own, &token[..at]), if at == 0 { Ok(None) } else { wrong.clone() }, "{at}");
            for character in ['A', '_', 'z', '0'] {
                let mut changed = token.clone();
                changed.replace_range(at..=at, &character.to_string());
                assert!(changed == token || read(&own, &changed) == wrong, "{changed}");
            }
        }
    }

    #[test]
    fn made_up_token_never_names_what_a_store_refuses() {
        let own = pages("A", "c");
        for place in [&b"a\0"[..], b"\xff", b"", b"a\x1b"] {
            assert_eq!(read(&own, &own.token(place)), Err("page_token".to_owned()), "{place:?}");
        }
    }
}
