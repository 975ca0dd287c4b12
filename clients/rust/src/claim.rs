//! A granted claim, as a handler sees it.

use std::{future::Future, sync::Arc, time::Instant};

use bytes::Bytes;

use crate::{
    calls::DEFAULT_DELAY,
    delivery::{Ending, finish},
    error::{ClaimError, OnExpiry},
    hold::Hold,
    options::Meaning,
    outcome::{Advice, EffectResult, Outcome},
    telemetry,
};

/// The right to process a message now. It is held under a lease that is renewed meanwhile. Clones are the same claim.
#[derive(Clone)]
pub struct Claim {
    pub(crate) hold: Arc<Hold>,
}

impl std::fmt::Debug for Claim {
    /// Without the token, the keys and the checkpoint.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Claim").field("attempt", &self.attempt()).finish_non_exhaustive()
    }
}

impl Claim {
    /// The fence, below 2^53: write it with the effect, and let the store refuse a lower one.
    #[must_use]
    pub fn token(&self) -> i64 {
        self.hold.granted.token
    }

    /// The same on every attempt: hand it to a provider that deduplicates by such a key.
    #[must_use]
    pub fn idempotency_key(&self) -> &str {
        &self.hold.granted.idempotency_key
    }

    /// Which attempt this is, from 1 on.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        u32::try_from(self.hold.granted.attempt).unwrap_or_default()
    }

    /// How many attempts are left after this one. `None` without a limit.
    #[must_use]
    pub fn attempts_left(&self) -> Option<u32> {
        self.hold.granted.attempts_left.map(|left| u32::try_from(left).unwrap_or_default())
    }

    /// An earlier attempt may have had its effect: look before an effect that is not idempotent is repeated.
    #[must_use]
    pub fn effect_unknown(&self) -> bool {
        self.hold.granted.effect_unknown
    }

    /// An earlier attempt had announced its effect. Only with [`repeat_announced`](crate::Builder::repeat_announced) a
    /// handler sees this.
    #[must_use]
    pub fn prior_effect_started(&self) -> bool {
        self.hold.granted.prior_effect_started
    }

    /// What an earlier attempt saved; empty where there is nothing.
    #[must_use]
    pub fn checkpoint(&self) -> &Bytes {
        &self.hold.granted.checkpoint
    }

    /// The error of the last failed attempt; empty where there is none.
    #[must_use]
    pub fn last_error(&self) -> &str {
        &self.hold.granted.last_error
    }

    /// What becomes of this claim should its lease end.
    #[must_use]
    pub fn on_expiry(&self) -> OnExpiry {
        self.hold.on_expiry()
    }

    /// [`announce`](Self::announce) was called: the ledger may know that the effect was about to start.
    #[must_use]
    pub fn announced(&self) -> bool {
        self.hold.announced()
    }

    /// The instant at which the claim is over at the latest, whatever is renewed. `None` where the server names none.
    #[must_use]
    pub fn hold_until(&self) -> Option<Instant> {
        self.hold.hold_until().map(tokio::time::Instant::into_std)
    }

    /// Why the claim is not held any more, such as `LEASE_LOST`. `None` while it is held.
    #[must_use]
    pub fn lost(&self) -> Option<String> {
        self.hold.over()
    }

    /// Whether the claim is still held: call it before each part of a long effect.
    ///
    /// # Errors
    /// [`ClaimError::Lost`] where it is not.
    pub fn check(&self) -> Result<(), ClaimError> {
        self.hold.check()
    }

    /// Waits until the claim is lost, and returns why: for a handler that has something to undo. The handler is dropped
    /// unless it ends right then.
    pub async fn cancelled(&self) -> String {
        self.hold.cancelled().await
    }

    /// Runs a part of the handler that must not be cut: while it runs, the loss of the claim does not drop the handler.
    /// What the handler returns then is settled, so that the ledger learns of an effect that came too late.
    pub async fn shield<T>(&self, part: impl Future<Output = T>) -> T {
        struct Shielded<'a>(&'a Hold);
        impl Drop for Shielded<'_> {
            fn drop(&mut self) {
                self.0.loss.send_modify(|loss| loss.shields -= 1);
            }
        }
        self.hold.loss.send_modify(|loss| loss.shields += 1);
        let _shielded = Shielded(&self.hold);
        part.await
    }

    /// Tells the ledger that an effect is about to start which can be neither fenced nor deduplicated. Start the effect
    /// after this has returned without an error, and not otherwise.
    ///
    /// # Errors
    /// [`ClaimError::NotProtected`] where the policy would not park the message should this process die,
    /// [`ClaimError::AnnouncementFailed`] where the ledger has not confirmed it, and [`ClaimError::Lost`]: let all of them
    /// pass by `?`.
    pub async fn announce(&self) -> Result<(), ClaimError> {
        self.hold.announce().await
    }

    /// Stores progress that the next attempt finds: at most 16 KiB by default.
    ///
    /// # Errors
    /// [`ClaimError::CheckpointDropped`] where it is not stored, and [`ClaimError::Lost`].
    pub async fn save(&self, checkpoint: impl Into<Bytes>) -> Result<(), ClaimError> {
        self.hold.save(checkpoint.into()).await
    }

    /// Settles before the handler ends: the effect is done. Nothing that follows is settled by it. It goes on where its
    /// future is dropped.
    pub async fn complete(&self, result: impl Into<EffectResult>) -> Outcome {
        let (hold, ending) = (Arc::clone(&self.hold), Ending::Done(result.into()));
        outlives(async move { finish(&hold, ending, Meaning::Park).await }).await
    }
}

/// Work as a task that outlives the cancellation of its caller (rule 18).
pub(crate) async fn outlives(work: impl Future<Output = Outcome> + Send + 'static) -> Outcome {
    use tracing::Instrument as _;
    let task = tokio::spawn(telemetry::within(work.in_current_span()));
    task.await.unwrap_or_else(|error| {
        if let Ok(panic) = error.try_into_panic() {
            std::panic::resume_unwind(panic);
        }
        // The runtime ends, and the task with it: the lease ends by itself.
        let advice = Advice::RetryLater { after: DEFAULT_DELAY };
        Outcome { effect_unknown: true, ..Outcome::new(advice).because("INTERRUPTED") }
    })
}
