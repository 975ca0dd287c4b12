//! `entries store`: stores a message by hand, for the workers of its consumer.

use std::fs::File;
use std::io::Read;

use clap::Args;
use sha2::{Digest as _, Sha256};

use super::EntryKeyArgs;
use crate::cli::client::Client;
use crate::cli::clock;
use crate::cli::enums;
use crate::cli::instant_arg::InstantArg;
use crate::cli::problem::{Exit, Problem};
use crate::cli::retry;
use crate::cli::text::{clean, instant};
use crate::proto::store_response::Verdict;
use crate::proto::{Advice, Message, StoreRequest, StoreResponse};

/// A payload has at most 256 KiB: one byte more is enough for the server to refuse it by its size.
const READ_MAX: u64 = (256 << 10) + 1;

/// What to store.
#[derive(Args)]
pub(in crate::cli) struct StoreMessage {
    #[command(flatten)]
    key: EntryKeyArgs,
    /// The file with the payload; - for standard input
    #[arg(long, value_name = "FILE")]
    file: String,
    /// The content type of the payload, such as application/json
    #[arg(long, value_name = "TYPE", default_value = "")]
    content_type: String,
    /// The type of the event, such as order.paid
    #[arg(long, value_name = "TYPE", default_value = "")]
    event_type: String,
    /// When the producer made the message: 2026-11-21T13:00:00Z, or 2h for two hours ago
    #[arg(long, value_name = "WHEN")]
    occurred_at: Option<InstantArg>,
    /// Send no fingerprint [default: the SHA-256 of the payload, as the packages send it]
    #[arg(long)]
    no_fingerprint: bool,
}

impl StoreMessage {
    pub(super) async fn run(self, client: &Client) -> Result<Exit, Problem> {
        let payload = self.payload()?;
        let fingerprint = if self.no_fingerprint { Vec::new() } else { Sha256::digest(&payload).to_vec() };
        let message = Message {
            payload: payload.into(),
            content_type: self.content_type,
            event_type: self.event_type,
            ..Message::default()
        };
        let request = StoreRequest {
            key: Some(self.key.message()),
            message: Some(message),
            fingerprint: fingerprint.into(),
            occurred_at: self.occurred_at.map(|instant| instant.0),
        };
        let ledger = client.connect_ledger().await?;
        let call = || {
            let (mut ledger, request) = (ledger.clone(), client.request(request.clone()));
            async move { ledger.store(request).await }
        };
        let answer = retry::until_known(call).await.map_err(|status| problem(&status))?.answer;
        if client.output.json() {
            client.output.message("StoreResponse", &answer)?;
        } else {
            client.output.line(&shown(&answer))?;
        }
        Ok(if answer.advice() == Advice::Ack { Exit::Done } else { Exit::Failed })
    }

    fn payload(&self) -> Result<Vec<u8>, Problem> {
        let mut payload = Vec::new();
        let read = if self.file == "-" {
            std::io::stdin().lock().take(READ_MAX).read_to_end(&mut payload)
        } else {
            File::open(&self.file).and_then(|file| file.take(READ_MAX).read_to_end(&mut payload))
        };
        read.map_err(|error| Problem::usage(format!("{}: {error}", clean(&self.file))))?;
        Ok(payload)
    }
}

const UNKNOWN: &str = "it may have been stored: repeat the same command, which stores a message once";

fn problem(status: &tonic::Status) -> Problem {
    let problem = Problem::of(status);
    if retry::unknown(status) { problem.next(UNKNOWN) } else { problem }
}

fn shown(answer: &StoreResponse) -> String {
    let now = clock::now();
    let since = |at: &Option<prost_types::Timestamp>| {
        at.as_ref().map_or_else(String::new, |at| format!(", {}", instant(at, &now)))
    };
    match &answer.verdict {
        Some(Verdict::Stored(it)) => format!("stored: its entry is {}", enums::state(it.state)),
        Some(Verdict::AlreadyStored(it)) => {
            format!("was stored before{}: its entry is {}", since(&it.stored_at), enums::state(it.state))
        }
        Some(Verdict::Completed(it)) => format!("not stored: it is completed{}", since(&it.completed_at)),
        Some(Verdict::Failed(it)) => {
            format!("not stored: it was given up{}: {}", since(&it.failed_at), clean(&it.error))
        }
        Some(Verdict::FingerprintMismatch(_)) => {
            "not stored: the id was used before with another payload".to_owned()
        }
        Some(Verdict::OutsideWindow(_)) => {
            "not stored: the message is older than what the ledger remembers".to_owned()
        }
        Some(Verdict::Rejected(_)) | None => {
            "not stored: an answer that this program does not know".to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::problem::tests::status;
    use crate::proto::{
        AlreadyStored, EntryState, ErrorReason, Failed, OutsideWindow, StoreCompleted, Stored,
    };

    #[test]
    fn store_with_an_unknown_outcome_does_not_say_that_nothing_was_changed() {
        for (status, next) in [
            (tonic::Status::deadline_exceeded(""), UNKNOWN),
            (status(ErrorReason::DeadlineExceeded, &[]), UNKNOWN),
            (status(ErrorReason::OutcomeUnknown, &[]), UNKNOWN),
            (status(ErrorReason::InboxOff, &[]), "switch the inbox on with `policy set --inbox`"),
        ] {
            assert_eq!(problem(&status).next.as_deref(), Some(next), "{status:?}");
        }
    }

    #[test]
    fn verdicts_say_whether_the_message_is_stored() {
        let state = EntryState::Received.into();
        for (verdict, says) in [
            (Some(Verdict::Stored(Stored { state })), "stored: its entry is RECEIVED"),
            (
                Some(Verdict::AlreadyStored(AlreadyStored { state, stored_at: None })),
                "was stored before: its entry is RECEIVED",
            ),
            (
                Some(Verdict::Failed(Failed { error: "no\x1b such".into(), ..Failed::default() })),
                "not stored: it was given up: no\u{fffd} such",
            ),
            (Some(Verdict::Completed(StoreCompleted::default())), "not stored: it is completed"),
            (
                Some(Verdict::OutsideWindow(OutsideWindow::default())),
                "not stored: the message is older than what the ledger remembers",
            ),
            (None, "not stored: an answer that this program does not know"),
        ] {
            assert_eq!(shown(&StoreResponse { verdict, ..StoreResponse::default() }), says);
        }
    }
}
