//! The scoped form: a claim that is settled by its guard, rather than by the end of a handler.

use std::{ops::Deref, sync::Arc};

use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::{
    claim::{Claim, outlives},
    delivery::{Begun, Ending, given_back},
    error::{Error, Steer},
    hold::Keeping,
    inflight::Entered,
    key::Delivery,
    ledger::{Inner, Ledger},
    outcome::{EffectResult, Outcome},
    telemetry,
};

/// What a claim came to.
#[derive(Debug)]
pub enum Claimed {
    /// Process the message now, and settle by the guard.
    Granted(Guard),
    /// Do not process it: what to do with the message.
    Answered(Outcome),
}

impl Ledger {
    /// Claims a message for a block of code, without a handler: for code that borrows, or that has no one end.
    ///
    /// Unlike [`process`](Self::process) this is not a task: where the guard is dropped unsettled, by a cancellation or a
    /// panic, nothing is settled, and the lease ends by itself. A claim that is granted after this future was dropped is
    /// given back. The loss of the claim drops nothing: ask [`Claim::check`], or wait for [`Claim::cancelled`].
    ///
    /// # Errors
    /// [`Error`], before anything is sent.
    pub async fn claim(&self, delivery: impl Into<Delivery>) -> Result<Claimed, Error> {
        let asked = self.inner.options.asked(delivery.into())?;
        let entered = self.inner.enter()?;
        let (inner, abandoned) = (Arc::clone(&self.inner), CancellationToken::new());
        let _caller = abandoned.clone().drop_guard();
        let (answer, answered) = oneshot::channel();
        let task = tokio::spawn(telemetry::within(async move {
            let claimed = match inner.begun(asked, &abandoned).await {
                Begun::Ended(outcome) => Ok(outcome),
                Begun::Held(hold) => {
                    let kept = Keeping::begin(&hold);
                    Err(Handed(Some(Guard { claim: Claim { hold }, inner, held: Some((kept, entered)) })))
                }
            };
            drop(answer.send(claimed)); // What is not received is given back as it is dropped.
        }));
        match answered.await {
            Ok(Ok(outcome)) => Ok(Claimed::Answered(outcome)),
            Ok(Err(mut handed)) => handed.0.take().map(Claimed::Granted).ok_or(Error::Closed),
            Err(_) => match task.await {
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                _ => Err(Error::Closed), // The runtime ends.
            },
        }
    }
}

/// A guard on its way to the caller. No effect has begun: dropped before it arrives, it gives the claim back.
struct Handed(Option<Guard>);

impl Drop for Handed {
    fn drop(&mut self) {
        let (Some(mut guard), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let (kept, claim) = (guard.held.take(), guard.claim.clone());
        runtime.spawn(async move {
            given_back(&claim.hold, "CLOSING").await;
            drop(kept);
        });
    }
}

/// A granted claim. [`settle`](Self::settle) ends it; it is renewed until then, or until the guard is dropped.
#[must_use = "a claim that is not settled is held until its lease ends"]
pub struct Guard {
    claim: Claim,
    inner: Arc<Inner>,
    held: Option<(Keeping, Entered)>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.claim.fmt(formatter)
    }
}

impl Deref for Guard {
    type Target = Claim;

    fn deref(&self) -> &Claim {
        &self.claim
    }
}

impl Guard {
    /// Settles: with a result as completed, else by what the error says. It goes on where its future is dropped.
    pub async fn settle<R: Into<EffectResult>>(mut self, ended: Result<R, Steer>) -> Outcome {
        let (held, claim, inner) = (self.held.take(), self.claim.clone(), Arc::clone(&self.inner));
        let ending = Ending::from(ended);
        outlives(async move {
            let outcome = inner.settled(&claim.hold, ending).await;
            drop(held);
            outcome
        })
        .await
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.held.is_some() && self.claim.hold.settled.get().is_none() {
            tracing::warn!(
                target: "idempotency_ledger",
                "{}: a granted claim was dropped unsettled: its lease ends by itself",
                self.inner.options.consumer
            );
        }
    }
}
