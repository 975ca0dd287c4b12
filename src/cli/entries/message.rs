//! `entries message`: a stored message, with its payload.

use std::io::Write as _;

use clap::Args;

use super::EntryKeyArgs;
use crate::cli::client::Client;
use crate::cli::clock;
use crate::cli::output::TextStyle;
use crate::cli::problem::{Exit, Problem};
use crate::cli::table::{Cell, Table};
use crate::cli::text::{clean, counted, instant};
use crate::proto::{GetMessageRequest, GetMessageResponse, Message};

/// Bytes of a payload that are shown.
const SHOWN_MAX: usize = 2_000;

/// Whose message.
#[derive(Args)]
pub(in crate::cli) struct ShowMessage {
    #[command(flatten)]
    key: EntryKeyArgs,
    /// Why it is read: for the audit
    #[arg(long, value_name = "WHY")]
    reason: String,
    /// Write the payload alone, as it was stored
    #[arg(long)]
    payload: bool,
}

impl ShowMessage {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let mut admin = client.connect().await?;
        let request = GetMessageRequest { key: Some(self.key.message()), reason: self.reason };
        let found = admin.get_message(client.request(request)).await;
        let found = found.map_err(|status| Problem::of(&status))?.into_inner();
        if self.payload {
            let payload = found.message.unwrap_or_default().payload;
            let mut out = std::io::stdout().lock();
            let written = out.write_all(&payload).and_then(|()| out.flush());
            written.map_err(|error| Problem::new(Exit::Failed, format!("the payload: {error}")))?;
        } else if client.output.json() {
            client.output.message("GetMessageResponse", &found)?;
        } else {
            shown(&found).print(client.output)?;
        }
        Ok(Exit::Done)
    }
}

fn shown(found: &GetMessageResponse) -> Table {
    let (mut table, now) = (Table::fields(), clock::now());
    let mut put = |name: &str, text: String| {
        if !text.is_empty() {
            table.row(vec![Cell::new(name, TextStyle::Faint), Cell::new(text, TextStyle::Plain)]);
        }
    };
    if let Some(at) = &found.stored_at {
        put("stored", instant(at, &now));
    }
    let Some(message) = &found.message else { return table };
    let Message { topic, event_type, event_version, content_type, .. } = message;
    for (name, text) in [
        ("topic", topic),
        ("event type", event_type),
        ("event version", event_version),
        ("content type", content_type),
    ] {
        put(name, clean(text));
    }
    put("partition", message.partition.map_or_else(String::new, |number| number.to_string()));
    put("offset", message.offset.map_or_else(String::new, |number| number.to_string()));
    put("broker's key", readable(&message.message_key));
    for header in &message.headers {
        put(&format!("header {}", clean(&header.name)), readable(&header.value));
    }
    put("payload", readable(&message.payload));
    table
}

/// Bytes as text, if they are text; otherwise their number.
fn readable(bytes: &[u8]) -> String {
    let count = || counted(i64::try_from(bytes.len()).unwrap_or(i64::MAX), "byte", "bytes");
    match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= SHOWN_MAX => clean(text),
        Ok(_) => format!("{}; `--payload` writes the payload", count()),
        Err(_) => format!("{}, not text; `--payload` writes the payload", count()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_that_is_long_or_not_text_is_not_shown() {
        let long = vec![b'x'; SHOWN_MAX + 1];
        for (bytes, shown) in [
            (&b"a\x1b payload"[..], "a\u{fffd} payload".to_owned()),
            (&long[1..], "x".repeat(SHOWN_MAX)),
            (&long, format!("{} bytes; `--payload` writes the payload", SHOWN_MAX + 1)),
            (&[0xff], "1 byte, not text; `--payload` writes the payload".to_owned()),
        ] {
            assert_eq!(readable(bytes), shown);
        }
    }
}
