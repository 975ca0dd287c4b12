//! Effects without a claim, while the ledger cannot be reached: written down before and after, and reconciled later.
//!
//! Work stops while the ledger is away, unless a consumer chooses otherwise. docs/away.md of the ledger says when that is right,
//! and describes the file: `idempotency-ledger entries reconcile FILE` brings it in afterwards.

mod line;
mod writer;

use std::{
    error::Error as StdError,
    fmt,
    future::Future,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use uuid::Uuid;

use crate::{
    calls::{DEFAULT_DELAY, SHORTEST_DELAY},
    claim::outlives,
    delivery::LATER,
    error::{InvalidField, Steer, Unexpected},
    key::{Delivery, checked_text},
    ledger::caught,
    outcome::{Advice, EffectResult, Outcome},
};
#[cfg(test)]
pub(crate) use writer::SpoolFile;
pub(crate) use {
    line::{Event, SpoolLine},
    writer::Writer,
};

/// Bytes; the ledger stores no larger result.
pub(crate) const RESULT_MAX: usize = 16_384;

/// The spool cannot be written, or not any more: an effect that it does not have must not begin.
///
/// After a write or a sync has failed, nothing more is written to the same file: what the system has lost of it is not known.
/// Mend the disk, and open another file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SpoolFailed(pub(crate) String);

/// A file of effects that happen without a claim. One process writes a spool; clones share it, and many tasks may.
#[derive(Clone)]
pub struct Spool {
    writer: Arc<Mutex<Writer>>,
}

impl fmt::Debug for Spool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Spool").finish_non_exhaustive()
    }
}

impl Spool {
    /// Opens the file, on a local disk that outlives the process. It is made if it does not exist, readable for its owner alone,
    /// since it has the results. It blocks its thread while the file is synced.
    ///
    /// # Errors
    /// [`SpoolFailed`] where it cannot be opened, or another process has it.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SpoolFailed> {
        let path = path.as_ref();
        let file = writer::opened(path).map_err(|why| SpoolFailed(format!("{}: {why}", path.display())))?;
        Ok(Self::over(Writer::new(Box::new(file), writer::micros_now)))
    }

    pub(crate) fn over(writer: Writer) -> Self {
        Self { writer: Arc::new(Mutex::new(writer)) }
    }

    /// Runs the effect where `found`, the outcome of [`Ledger::process`](crate::Ledger::process), is
    /// [`away`](Outcome::away), and returns any other outcome as it is.
    ///
    /// The beginning is on the disk before the effect is called, and its end before this returns. The advice is then: ACK where
    /// the effect has returned, with its result; `RETRY_LATER` where it returned [`Steer::Retry`], [`Steer::Terminal`] or
    /// [`Steer::GiveBack`], since it certainly did not happen, or [`Steer::Doubtful`]; `DEAD_LETTER`, for a person to look, with
    /// any other error and a panic. Where the spool cannot be written the advice is `RETRY_LATER` and the outcome's error a
    /// [`SpoolFailed`]: the effect has not begun, or it has ended and is not noted (`effect_unknown`). A key of a replay run is
    /// never opened.
    ///
    /// The effect has no claim, no token and no protection from a redelivery. Of the delivery the key and the fingerprint count.
    /// All of it is a task: dropping this future cancels neither the effect nor its end.
    ///
    /// # Errors
    /// [`InvalidField`] for a consumer beyond its bound.
    pub async fn process<D, F, W, R>(
        &self,
        found: Outcome,
        consumer: &str,
        delivery: D,
        effect: F,
    ) -> Result<Outcome, InvalidField>
    where
        D: Into<Delivery>,
        F: FnOnce() -> W + Send + 'static,
        W: Future<Output = Result<R, Steer>> + Send + 'static,
        R: Into<EffectResult>,
    {
        checked_text("consumer", consumer, 128)?;
        let Delivery { key, fingerprint, .. } = delivery.into();
        if !found.away || !key.replay_run.is_empty() || key.fault().is_some() {
            return Ok(found);
        }
        let line = SpoolLine {
            row: Uuid::new_v4().simple().to_string(),
            consumer: consumer.to_owned(),
            source: key.source,
            id: key.id,
            fingerprint: fingerprint.map(|fingerprint| fingerprint.0).unwrap_or_default(),
            result: Bytes::new(),
        };
        let spool = self.clone();
        Ok(outlives(async move {
            if let Err(error) = spool.append(Event::Begin, line.clone()).await {
                return failed(found, error);
            }
            match caught(async move { effect().await.map(Into::into) }).await {
                Ok(Ok(done)) => spool.returned(line, done).await,
                Ok(Err(steer)) => spool.steered(line, steer).await,
                Err(_) => in_doubt(Advice::DeadLetter, "panic".to_owned()),
            }
        })
        .await)
    }

    /// Closes the file for all clones. An effect that still runs has no end in it. Dropping the last clone closes it too.
    pub fn close(&self) {
        locked(&self.writer).close();
    }

    async fn returned(&self, line: SpoolLine, done: EffectResult) -> Outcome {
        let fits = !done.left_out && done.bytes.len() <= RESULT_MAX;
        let line = if fits { SpoolLine { result: done.bytes.clone(), ..line } } else { line };
        let outcome = Outcome {
            result: (!done.left_out).then_some(done.bytes),
            away: true,
            ..Outcome::new(Advice::Ack)
        };
        match self.append(Event::End, line).await {
            Ok(()) => Outcome { result_dropped: !fits, ..outcome },
            Err(error) => failed(Outcome { advice: LATER, effect_unknown: true, ..outcome }, error),
        }
    }

    /// What an error of the effect says of it.
    async fn steered(&self, line: SpoolLine, steer: Steer) -> Outcome {
        let (name, reason, after) = match steer {
            Steer::Retry { reason, after } => ("Retry", reason, after.unwrap_or_default()),
            Steer::Terminal { reason } => ("Terminal", reason, Duration::ZERO),
            Steer::GiveBack { reason, after, .. } => ("GiveBack", reason, after),
            Steer::Doubtful { reason } => {
                return in_doubt(LATER, reason.unwrap_or_else(|| "Doubtful".into()));
            }
            Steer::Park { reason } => {
                return in_doubt(Advice::DeadLetter, reason.unwrap_or_else(|| "Park".into()));
            }
            Steer::Claim(error) => {
                let outcome = in_doubt(Advice::DeadLetter, "ClaimError".to_owned());
                return Outcome { error: Some(Arc::new(error)), ..outcome };
            }
            Steer::Unexpected(Unexpected { name, error }) => {
                return Outcome { error: Some(error), ..in_doubt(Advice::DeadLetter, name) };
            }
        };
        // Where this line cannot be written a person looks, and finds that it did not happen.
        let _unwritten = self.append(Event::None, line).await;
        let after = if after.is_zero() { DEFAULT_DELAY } else { after.max(SHORTEST_DELAY) };
        let outcome = Outcome::new(Advice::RetryLater { after });
        Outcome { away: true, ..outcome.because(reason.unwrap_or_else(|| name.to_owned())) }
    }

    /// Appends a line, and returns when it is on the disk. The disk is waited for in a thread for blocking work.
    async fn append(&self, event: Event, line: SpoolLine) -> Result<(), SpoolFailed> {
        let writer = Arc::clone(&self.writer);
        let written = tokio::task::spawn_blocking(move || locked(&writer).append(event, &line)).await;
        written.unwrap_or_else(|_| Err(SpoolFailed("the runtime ends".to_owned())))
    }
}

fn locked(writer: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
    writer.lock().unwrap_or_else(PoisonError::into_inner)
}

fn in_doubt(advice: Advice, reason: String) -> Outcome {
    Outcome { effect_unknown: true, away: true, ..Outcome::new(advice).because(reason) }
}

fn failed(outcome: Outcome, error: SpoolFailed) -> Outcome {
    let error: Arc<dyn StdError + Send + Sync> = Arc::new(error);
    Outcome { detail: error.to_string(), error: Some(error), ..outcome.because("SPOOL_FAILED") }
}
