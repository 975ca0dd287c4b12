//! The stored form of the first attempt's trace context: a W3C `traceparent` of version 00 as the 25 bytes that its 55 characters
//! encode; any other text unchanged.

const LENGTH: usize = 25;

/// The bytes to store; `None` without a context.
pub(super) fn stored(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() {
        return None;
    }
    packed(text).or_else(|| (text.len() != LENGTH).then(|| text.as_bytes().to_vec()))
}

/// The text of stored bytes.
pub(super) fn read(stored: Option<Vec<u8>>) -> Result<String, String> {
    match stored {
        None => Ok(String::new()),
        Some(bytes) if bytes.len() == LENGTH => Ok(format!(
            "00-{}-{}-{}",
            hex::encode(&bytes[..16]),
            hex::encode(&bytes[16..24]),
            hex::encode(&bytes[24..])
        )),
        Some(bytes) => String::from_utf8(bytes).map_err(|error| error.to_string()),
    }
}

fn packed(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let canonical = version == "00"
        && (trace.len(), parent.len(), flags.len()) == (32, 16, 2)
        && parts.next().is_none()
        && !text.bytes().any(|byte| byte.is_ascii_uppercase());
    let digits = [trace, parent, flags].concat();
    canonical.then(|| hex::decode(digits).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_returns_stored_context() {
        let canonical = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let uppercase = canonical.to_uppercase();
        for (text, bytes) in [
            ("", None),
            (canonical, Some(25)),
            ("01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Some(55)),
            (&uppercase, Some(55)),
            ("00-4bf92f3577b34da6a3ce929d0e0e47-3600f067aa0ba902b7-01", Some(55)),
            ("00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01", Some(55)),
            ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-x", Some(57)),
            ("é", Some(2)),
        ] {
            let kept = stored(text);
            assert_eq!(kept.as_ref().map(Vec::len), bytes, "{text}");
            assert_eq!(read(kept).as_deref(), Ok(text));
        }
        assert_eq!(stored("a text of just that many"), Some(b"a text of just that many".to_vec()));
        assert_eq!(stored("a text of just that many."), None, "it would be ambiguous");
    }
}
