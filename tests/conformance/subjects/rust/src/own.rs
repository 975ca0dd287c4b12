//! The forms that only the Rust package has: guards that are dropped, futures that are dropped, panics, shields, traces. It
//! exits with 0 where all are right.

use std::{
    error::Error,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    sync::Arc,
    time::{Duration, Instant},
};

use idempotency_ledger_client::{
    Advice, ClaimError, Claimed, EffectResult, Guard, Key, Ledger, Meaning, OnExpiry, Outcome, Steer,
};
use opentelemetry::{
    Context,
    context::FutureExt as _,
    trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState},
};
use tokio::sync::Notify;

type Checked = Result<(), Box<dyn Error>>;

struct Forms {
    ledger: Ledger,
    run: String,
}

fn check(truth: bool, otherwise: impl std::fmt::Debug) -> Checked {
    if truth { Ok(()) } else { Err(format!("{otherwise:?}").into()) }
}

fn is_later(outcome: &Outcome, reason: &str) -> bool {
    matches!(outcome.advice, Advice::RetryLater { .. }) && outcome.reason.as_deref() == Some(reason)
}

impl Forms {
    fn key(&self, name: &str) -> Key {
        let id = format!("{name}-{}", self.run);
        Key::from_cloud_event(|attribute| {
            Some(if attribute == "id" { id.clone() } else { "forms".to_owned() })
        })
    }

    async fn granted(&self, name: &str) -> Result<Guard, Box<dyn Error>> {
        match self.ledger.claim(self.key(name)).await? {
            Claimed::Granted(guard) => Ok(guard),
            Claimed::Answered(outcome) => Err(format!("{name} is not granted: {outcome:?}").into()),
        }
    }

    async fn answered(&self, name: &str) -> Result<Outcome, Box<dyn Error>> {
        match self.ledger.claim(self.key(name)).await? {
            Claimed::Granted(_) => Err(format!("{name} is granted").into()),
            Claimed::Answered(outcome) => Ok(outcome),
        }
    }

    async fn guards(&self) -> Checked {
        let guard = self.granted("guard").await?;
        check(guard.attempt() == 1 && guard.on_expiry() == OnExpiry::Reclaim, &guard)?;
        check(guard.hold_until().is_some_and(|end| end > Instant::now()), "the hold has no end")?;
        let outcome = guard.settle(Ok("r")).await;
        check(outcome.advice == Advice::Ack, &outcome)?;
        let again = self.answered("guard").await?;
        check(again.replayed && again.result.as_deref() == Some(b"r"), &again)?;
        let steered = self
            .granted("steered")
            .await?
            .settle::<()>(Err(Steer::retry_after(Duration::from_secs(5))))
            .await;
        check(
            matches!(steered.advice, Advice::RetryLater { after } if after > Duration::from_secs(4)),
            &steered,
        )?;
        // Nothing is settled by a guard that is dropped: another attempt waits for the end of the lease, and knows of it.
        drop(self.granted("dropped").await?);
        let outcome = self.answered("dropped").await?;
        check(is_later(&outcome, "in_progress"), &outcome)?;
        match self
            .ledger
            .claim(idempotency_ledger_client::Delivery::of(self.key("dropped")).wait(Duration::from_secs(8)))
            .await?
        {
            Claimed::Granted(guard) => {
                check(guard.effect_unknown(), "the next attempt does not know of the first")?
            }
            Claimed::Answered(outcome) => return Err(format!("{outcome:?}").into()),
        }
        let left_out = self.granted("left-out").await?.settle(Ok(EffectResult::left_out())).await;
        check(
            left_out.advice == Advice::Ack && left_out.result_dropped && left_out.result.is_none(),
            &left_out,
        )
    }

    /// A claim whose caller is gone before it is granted is given back, and a settlement outlives its caller.
    async fn dropped_futures(&self) -> Checked {
        let begun = self.ledger.claim(self.key("unwanted"));
        drop(tokio::time::timeout(Duration::from_micros(1), begun).await);
        let guard = loop {
            match self.ledger.claim(self.key("unwanted")).await? {
                Claimed::Granted(guard) => break guard,
                Claimed::Answered(outcome) => {
                    let Advice::RetryLater { after } = outcome.advice else {
                        return Err(format!("{outcome:?}").into());
                    };
                    tokio::time::sleep(after).await;
                }
            }
        };
        check(!guard.effect_unknown(), "an effect was begun for a caller that was gone")?;
        let settling = guard.settle(Ok("s"));
        drop(tokio::time::timeout(Duration::from_micros(1), settling).await);
        loop {
            let outcome = self.answered("unwanted").await?;
            if outcome.advice == Advice::Ack {
                return check(outcome.result.as_deref() == Some(b"s"), &outcome);
            }
            check(is_later(&outcome, "in_progress"), &outcome)?;
        }
    }

    async fn panics(&self) -> Checked {
        std::panic::set_hook(Box::new(|_| {})); // Its message is not a failure of this program.
        let handler = async |_| -> Result<(), Steer> { panic!("card 4111") };
        let outcome = self.ledger.process(self.key("panic"), handler).await?;
        drop(std::panic::take_hook());
        check(outcome.advice == Advice::DeadLetter && outcome.reason.as_deref() == Some("panic"), &outcome)?;
        let retrying = Ledger::builder("effects").unexpected(Meaning::Retry).build()?;
        let handler =
            async |_| -> Result<(), Steer> { Err("no number".parse::<u8>().expect_err("it is none").into()) };
        let outcome = retrying.process(self.key("unexpected"), handler).await?;
        check(is_later(&outcome, "ParseIntError") && outcome.error.is_some(), &outcome)
    }

    /// A lost claim drops the handler at its await, unless a shield is over it.
    async fn losses(&self) -> Checked {
        let dropped = Arc::new(Notify::new());
        let tell = Arc::clone(&dropped);
        let outcome = self.ledger.process(self.key("lost-handler"), async move |_| {
            let _ended = Ended(tell);
            std::future::pending::<Result<(), Steer>>().await
        });
        let outcome = outcome.await?;
        check(is_later(&outcome, "LEASE_LOST") && outcome.effect_unknown, &outcome)?;
        dropped.notified().await;
        let outcome = self.ledger.process(self.key("lost-shielded"), async |claim| {
            let reason = claim.shield(async {
                let reason = claim.cancelled().await;
                tokio::task::yield_now().await; // An await at which the handler would be dropped.
                reason
            });
            let reason = reason.await;
            check_lost(&claim)?;
            Ok(reason)
        });
        let outcome = outcome.await?;
        check(outcome.advice == Advice::Ack && outcome.result.as_deref() == Some(b"LEASE_LOST"), &outcome)
    }

    /// `traceparent` is sent with each call.
    async fn traced(&self) -> Checked {
        let (trace, span) = (TraceId::from(0xABC_u128), SpanId::from(0xDEF_u64));
        let parent = SpanContext::new(trace, span, TraceFlags::SAMPLED, true, TraceState::NONE);
        let context = Context::new().with_remote_span_context(parent);
        let outcome =
            self.ledger.process(self.key("traced"), async |_| Ok("r")).with_context(context).await?;
        check(outcome.advice == Advice::Ack, &outcome)?;
        println!("traced");
        Ok(())
    }
}

struct Ended(Arc<Notify>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

fn check_lost(claim: &idempotency_ledger_client::Claim) -> Result<(), Steer> {
    match claim.check() {
        Err(ClaimError::Lost { .. }) => Ok(()),
        other => Err(Steer::terminal(format!("a lost claim is {other:?}"))),
    }
}

#[tokio::main]
async fn main() -> Checked {
    let run = RandomState::new().build_hasher().finish().to_string();
    let forms = Forms { ledger: Ledger::new("effects")?, run };
    forms.guards().await?;
    forms.dropped_futures().await?;
    forms.panics().await?;
    forms.losses().await?;
    forms.traced().await?;
    check(forms.ledger.close(Duration::from_secs(5)).await, "the close has not ended")
}
