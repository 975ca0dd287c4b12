//! `x-forwarded-client-cert`: the identity of a client that a proxy forwards.
//!
//! The format is Envoy's: elements separated by commas, the last one added by the nearest proxy; each has `KEY=VALUE` pairs
//! separated by semicolons; a value may be in double quotes, within which a backslash escapes a quote.

use super::certificate::{SPIFFE, is_plain};
use super::refused::Refused;

/// A longer header is refused: a correct proxy does not send one.
const BYTES_MAX: usize = 8 * 1_024;
const KEY: &str = "uri";

/// The one SPIFFE id in the last element.
///
/// # Errors
/// The element has no SPIFFE id or several, or the header is malformed.
pub(super) fn principal(header: &[u8]) -> Result<String, Refused> {
    let text = std::str::from_utf8(header).map_err(|_| Refused::Forwarded)?;
    if text.len() > BYTES_MAX {
        return Err(Refused::Forwarded);
    }
    let pairs = last_element(text)?;
    let uris = pairs.iter().filter(|(key, _)| key.eq_ignore_ascii_case(KEY)).map(|(_, value)| value);
    let mut ids = uris.filter(|uri| uri.starts_with(SPIFFE));
    match (ids.next(), ids.next()) {
        (Some(id), None) if is_plain(id) => Ok(id.clone()),
        (Some(_), None) => Err(Refused::Name),
        (None, _) | (Some(_), Some(_)) => Err(Refused::Forwarded),
    }
}

type Pairs = Vec<(String, String)>;

/// The pairs of the last element. The whole header is parsed: an unclosed quote in an earlier element could otherwise move the
/// beginning of the last one.
fn last_element(text: &str) -> Result<Pairs, Refused> {
    let mut pairs = Pairs::new();
    let mut rest = text.chars();
    loop {
        let (pair, end) = pair(&mut rest)?;
        pairs.push(pair);
        match end {
            End::Pair => {}
            End::Element => pairs.clear(),
            End::Header => return Ok(pairs),
        }
    }
}

/// The separator after a pair.
enum End {
    Pair,
    Element,
    Header,
}

fn pair(rest: &mut std::str::Chars<'_>) -> Result<((String, String), End), Refused> {
    let (mut key, mut value) = (String::new(), String::new());
    loop {
        match rest.next() {
            Some('=') => break,
            Some(char) if !matches!(char, ';' | ',' | '"') => key.push(char),
            Some(_) | None => return Err(Refused::Forwarded),
        }
    }
    let quoted = rest.as_str().starts_with('"');
    if quoted {
        rest.next();
        loop {
            match rest.next() {
                Some('"') => break,
                Some('\\') => value.push(rest.next().ok_or(Refused::Forwarded)?),
                Some(char) => value.push(char),
                None => return Err(Refused::Forwarded),
            }
        }
    }
    loop {
        let end = match rest.next() {
            None => End::Header,
            Some(';') => End::Pair,
            Some(',') => End::Element,
            Some(char) if !quoted && char != '"' => {
                value.push(char);
                continue;
            }
            // A quote inside an unquoted value, or text after the closing quote.
            Some(_) => return Err(Refused::Forwarded),
        };
        return Ok(((key.trim().to_owned(), value), end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principal_is_the_spiffe_id_of_the_last_element() {
        for (header, id) in [
            ("URI=spiffe://a/b", Some("spiffe://a/b")),
            ("By=spiffe://me/x;Hash=468e;URI=spiffe://a/b", Some("spiffe://a/b")),
            (
                "By=spiffe://me/x;Hash=468e;Subject=\"CN=a,O=\\\"b;c\\\"\";URI=spiffe://a/b",
                Some("spiffe://a/b"),
            ),
            ("uri=\"spiffe://a/b\"", Some("spiffe://a/b")),
            ("URI=spiffe://forged/x,URI=spiffe://a/b", Some("spiffe://a/b")),
            ("URI=spiffe://forged/x, URI=spiffe://a/b", Some("spiffe://a/b")),
            ("URI=https://a/b;URI=spiffe://a/b;DNS=a", Some("spiffe://a/b")),
            ("URI=spiffe://a/b;URI=spiffe://a/c", None),
            ("URI=spiffe://a/b;URI=spiffe://a/b", None),
            ("URI=spiffe://forged/x,Hash=1", None),
            ("URI=spiffe://forged/x,", None),
            ("By=spiffe://me/x;Hash=1", None),
            ("URI=", None),
            ("URI=SPIFFE://a/b", None),
            ("URI=spiffe://a/b ", None),
            ("URI=\"spiffe://a/b c\"", None),
            ("URI=spiffe://a/\u{202e}b", None),
            ("Subject=\"a,URI=spiffe://forged/x", None),
            ("Subject=\"a\"URI=spiffe://forged/x", None),
            ("Subject=a\"b;URI=spiffe://forged/x", None),
            ("Subject=\"a\\", None),
            ("URI", None),
            ("", None),
        ] {
            assert_eq!(principal(header.as_bytes()).ok().as_deref(), id, "{header}");
        }
        assert_eq!(principal(&[b'U', b'R', b'I', b'=', 0xff]), Err(Refused::Forwarded));
        let long = format!("Subject={};URI=spiffe://a/b", "a".repeat(BYTES_MAX));
        assert_eq!(principal(long.as_bytes()), Err(Refused::Forwarded));
    }
}
