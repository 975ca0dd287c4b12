//! The handler of a delivery: it takes the steps that its command names.

use std::time::Duration;

use idempotency_ledger_client::{Claim, ClaimError, Steer};
use serde_json::Value;

use crate::lines::{gone_on, say, text};

/// An error of the language, which does not steer.
#[derive(Debug)]
pub(crate) struct Other(pub(crate) String);

impl std::fmt::Display for Other {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Other {}

pub(crate) async fn handle(
    claim: Claim,
    call: String,
    id: String,
    steps: Vec<Value>,
) -> Result<Vec<u8>, Steer> {
    say!("started", call: call, token: claim.token().to_string(), attempt: claim.attempt(),
        idempotency_key: claim.idempotency_key(), effect_unknown: claim.effect_unknown(),
        checkpoint: String::from_utf8_lossy(claim.checkpoint()));
    for step in &steps {
        match step["do"].as_str() {
            Some("effect") => {
                say!("effect", call: call, id: id, token: claim.token().to_string(), idempotency_key: claim.idempotency_key());
                claim.shield(gone_on(&call)).await;
            }
            Some("pause") => paused(&claim, &call).await?,
            Some("announce") => claim.announce().await?,
            Some("save") => match claim.save(content(step, "checkpoint")).await {
                Err(ClaimError::CheckpointDropped) => say!("dropped", call: call),
                saved => saved?,
            },
            Some("complete") => drop(claim.complete(content(step, "result")).await),
            Some("die") => {
                let pid = std::process::id().to_string();
                drop(std::process::Command::new("kill").args(["-9", &pid]).status());
            }
            Some("raise") => return Err(raised(step)),
            Some("return") => return Ok(content(step, "result")),
            other => panic!("the step is not known: {other:?}"),
        }
    }
    Ok(Vec::new())
}

/// Waits for `go`, or for the loss of the claim.
pub(crate) async fn paused(claim: &Claim, call: &str) -> Result<(), ClaimError> {
    say!("paused", call: call);
    tokio::select! {
        () = gone_on(call) => Ok(()),
        reason = claim.cancelled() => {
            say!("lost", call: call, reason: reason);
            claim.check()
        }
    }
}

fn raised(step: &Value) -> Steer {
    let reason = step["text"].as_str().map(str::to_owned);
    let unpin_fingerprint = step["unpin"].as_bool().unwrap_or_default();
    match step["error"].as_str() {
        Some("Retry") => Steer::Retry { reason, after: step["after"].as_f64().map(Duration::from_secs_f64) },
        Some("Terminal") => Steer::Terminal { reason },
        Some("Park") => Steer::Park { reason },
        Some("Doubtful") => Steer::Doubtful { reason },
        Some("GiveBack") => Steer::GiveBack { reason, after: Duration::ZERO, unpin_fingerprint },
        _ => Steer::from(Other(text(step, "text"))),
    }
}

/// The text of a field, or a number of `x`.
pub(crate) fn content(step: &Value, name: &str) -> Vec<u8> {
    match step["bytes"].as_u64() {
        Some(many) => vec![b'x'; usize::try_from(many).expect("it fits")],
        None => text(step, name).into_bytes(),
    }
}
