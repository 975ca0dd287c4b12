//! The lines of a spool, as docs/away.md describes them.

use std::fmt::Write as _;

use bytes::Bytes;

const VERSION: u32 = 1;
const MICROS: u64 = 1_000_000;
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What a line says of its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The effect is about to happen.
    Begin,
    /// The effect has happened.
    End,
    /// The effect has not happened, for certain.
    None,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::End => "end",
            Self::None => "none",
        }
    }
}

/// What the lines of one effect say, besides the event and its instant. Fields without bytes are left out.
#[derive(Clone, Debug)]
pub(crate) struct SpoolLine {
    pub(crate) row: String,
    pub(crate) consumer: String,
    pub(crate) source: String,
    pub(crate) id: String,
    pub(crate) fingerprint: Vec<u8>,
    /// Of an end.
    pub(crate) result: Bytes,
}

impl SpoolLine {
    /// The line of an event, with its line break. `at`: microseconds since 1970.
    pub(crate) fn render(&self, event: Event, at: u64) -> String {
        let mut line = format!("{{\"v\":{VERSION}");
        let mut field = |name: &str, text: &str| {
            let _infallible = write!(line, ",\"{name}\":\"{}\"", escaped(text));
        };
        field("event", event.name());
        field("row", &self.row);
        field("at", &instant(at));
        field("consumer", &self.consumer);
        field("source", &self.source);
        field("id", &self.id);
        if !self.fingerprint.is_empty() {
            field("fingerprint_hex", &hex(&self.fingerprint));
        }
        if !self.result.is_empty() {
            field("result_base64", &base64(&self.result));
        }
        line + "}\n"
    }
}

/// A text of JSON. A key has no control characters: one that has is not written.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

fn instant(at: u64) -> String {
    let seconds = i64::try_from(at / MICROS).unwrap_or(i64::MAX);
    // prost prints as many digits of a fraction as it needs; a spool always has six.
    let whole = prost_types::Timestamp { seconds, nanos: 0 }.to_string();
    format!("{}.{:06}Z", whole.trim_end_matches('Z'), at % MICROS)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _infallible = write!(hex, "{byte:02x}");
        hex
    })
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| (bits << 8) | usize::from(three.get(at).copied().unwrap_or(0)));
        for at in 0..4 {
            let six = (bits >> (18 - 6 * at)) & 63;
            text.push(if at <= three.len() { char::from(BASE64[six]) } else { '=' });
        }
    }
    text
}
