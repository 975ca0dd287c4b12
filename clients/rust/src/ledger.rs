//! The client.

use std::{
    any::Any,
    future::{Future, poll_fn},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

use crate::{
    calls::Transport,
    claim::{Claim, outlives},
    delivery::{Begun, Ending, admitted, begin, finish},
    error::{ClaimError, Error, InvalidField, Steer},
    hold::{Hold, Keeping},
    inbox::{Message, store},
    inflight::{Entered, Inflight},
    key::Delivery,
    options::{Asked, Builder, Options},
    outcome::{EffectResult, Outcome},
    report::Report,
    telemetry::{Parent, Telemetry},
    transport::Channels,
};

impl Builder {
    /// The client. Nothing is sent, and no server is looked for, before the first delivery.
    ///
    /// # Errors
    /// [`InvalidField`] for an option beyond its bound, and for a file that cannot be read.
    pub fn build(self) -> Result<Ledger, InvalidField> {
        self.checked().map(Ledger::over)
    }
}

/// A client of the ledger for one consumer. Clones share it; it may be used by many tasks, each with another message.
///
/// The connections belong to the tokio runtime of the first delivery: use a client within one runtime.
#[derive(Clone)]
pub struct Ledger {
    pub(crate) inner: Arc<Inner>,
}

/// What all clones and all deliveries share.
pub(crate) struct Inner {
    pub(crate) options: Options,
    pub(crate) transport: Arc<dyn Transport>,
    channels: Option<Arc<Channels>>,
    pub(crate) inflight: Arc<Inflight>,
    pub(crate) report: Report,
    pub(crate) telemetry: Telemetry,
}

impl std::fmt::Debug for Ledger {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Ledger");
        shown.field("consumer", &self.inner.options.consumer).finish_non_exhaustive()
    }
}

impl Ledger {
    /// A client with the options that [`Ledger::builder`] has by default.
    ///
    /// # Errors
    /// [`InvalidField`] for a consumer or a variable of the environment beyond its bound.
    pub fn new(consumer: impl Into<String>) -> Result<Self, InvalidField> {
        Self::builder(consumer).build()
    }

    /// The options of a client. `consumer`: the group that processes, 1 to 128 bytes; not a process.
    pub fn builder(consumer: impl Into<String>) -> Builder {
        Builder::new(consumer.into())
    }

    pub(crate) fn over(options: Options) -> Self {
        let channels = Arc::new(Channels::new(options.target.clone()));
        Self::with(options, Arc::clone(&channels) as Arc<dyn Transport>, Some(channels))
    }

    pub(crate) fn with(
        options: Options,
        transport: Arc<dyn Transport>,
        channels: Option<Arc<Channels>>,
    ) -> Self {
        let (report, telemetry) = (Report::new(&options.consumer), Telemetry::new(&options.consumer));
        Self {
            inner: Arc::new(Inner {
                options,
                transport,
                channels,
                inflight: Arc::default(),
                report,
                telemetry,
            }),
        }
    }

    /// Processes one delivery: claims the message, runs the handler where it is granted, settles, and advises.
    ///
    /// `delivery`: a [`Key`](crate::Key), or a [`Delivery`] with the body. `handler` is given the [`Claim`]; what it
    /// returns is the result: bytes, text or `()`. It returns a [`Steer`] to say how its attempt ended otherwise; any other
    /// error (by `?`) and a panic mean what [`unexpected`](Builder::unexpected) says.
    ///
    /// All of it is a task: dropping this future cancels neither the handler nor its settlement, and
    /// [`close`](Self::close) waits for them; a claim that is not granted yet is given back. The loss of the claim drops
    /// the handler at its next await, unless it is within [`Claim::shield`]. A handler must not block its thread for long:
    /// the lease could not be renewed.
    ///
    /// # Errors
    /// [`Error`], before anything is sent. What the ledger answers is never an error: [`Outcome::advice`] says what to do.
    pub fn process<D, F, W, R>(
        &self,
        delivery: D,
        handler: F,
    ) -> impl Future<Output = Result<Outcome, Error>> + Send + use<D, F, W, R>
    where
        D: Into<Delivery>,
        F: FnOnce(Claim) -> W + Send + 'static,
        W: Future<Output = Result<R, Steer>> + Send + 'static,
        R: Into<EffectResult>,
    {
        let inner = Arc::clone(&self.inner);
        let asked = inner.options.asked(delivery.into());
        async move {
            let (asked, entered) = (asked?, inner.inflight.enter().ok_or(Error::Closed)?);
            let abandoned = CancellationToken::new();
            let _caller = abandoned.clone().drop_guard();
            let parent = Parent::current();
            Ok(outlives(async move {
                let work = inner.processed(asked, &abandoned, handler);
                let outcome = inner.telemetry.delivery(parent, work).await;
                drop(entered);
                outcome
            })
            .await)
        }
    }

    /// Stores a message in the ledger's inbox, for a [`worker`](Self::worker). Returns when the message is durable: acknowledge the
    /// broker's on [`Advice::Ack`](crate::Advice::Ack) alone.
    ///
    /// `delivery`: a [`Key`](crate::Key), or a [`Delivery`] with when the message was made. The fingerprint is that of the payload
    /// unless the delivery has another one. The outcome's `reason` is `None` where the message is stored, `already_stored` or
    /// `completed` (both `replayed`) where the ledger knows it; else why it is not: `fingerprint_mismatch`, `outside_window`,
    /// `failed`, or the ledger's reason, such as `INBOX_OFF`, or `BACKLOG_FULL`.
    ///
    /// # Errors
    /// [`Error`], before anything is sent.
    pub async fn store(&self, delivery: impl Into<Delivery>, message: Message) -> Result<Outcome, Error> {
        let delivery = delivery.into();
        let fault = delivery.key.fault().or_else(|| message.fault());
        let request = self.inner.options.stored(delivery, message)?;
        let _entered = self.inner.enter()?;
        let outcome = store(&self.inner.transport, &request, fault).await;
        self.inner.report.outcome(&outcome);
        Ok(outcome)
    }

    /// Refuses new deliveries, and lets running effects end and settle, for at most `grace`.
    ///
    /// A delivery whose claim arrives meanwhile gives it back. Returns false where an effect still runs: it may go on, and
    /// the process should end; the lease then ends by itself.
    pub async fn close(&self, grace: Duration) -> bool {
        self.inner.inflight.stop();
        let ended = self.inner.inflight.ended(grace).await;
        if let Some(channels) = self.inner.channels.as_ref().filter(|_| ended) {
            channels.close();
        }
        ended
    }

    /// Whether [`close`](Self::close) was called: no new delivery is taken.
    #[must_use]
    pub fn is_closing(&self) -> bool {
        self.inner.inflight.closing()
    }
}

impl Inner {
    pub(crate) fn enter(&self) -> Result<Entered, Error> {
        self.inflight.enter().ok_or(Error::Closed)
    }

    pub(crate) async fn begun(&self, asked: Asked, abandoned: &CancellationToken) -> Begun {
        let stopping = || abandoned.is_cancelled() || self.inflight.closing();
        let begun = begin(&self.transport, asked, stopping, self.options.repeat_announced).await;
        if let Begun::Ended(outcome) = &begun {
            self.report.outcome(outcome);
        }
        begun
    }

    /// Settles, and logs what operators should know.
    pub(crate) async fn settled(&self, hold: &Hold, ending: Ending) -> Outcome {
        let unexpected = match &ending {
            Ending::Steered(Steer::Unexpected(error)) => Some(error.name.clone()),
            Ending::Panicked => Some("panic".to_owned()),
            // A retry, as those that the application asks for.
            Ending::Steered(Steer::Claim(ClaimError::AnnouncementFailed { .. })) => None,
            Ending::Steered(Steer::Claim(error)) => Some(format!("an error of its claim: {error}")),
            Ending::Steered(_) | Ending::Done(_) => None,
        };
        let outcome = finish(hold, ending, self.options.unexpected).await;
        self.report.outcome(&outcome);
        if let Some(name) = unexpected {
            self.report.unexpected(&name, &outcome);
        }
        if let Some(reason) = hold.guard_fault.get() {
            self.report.guard(reason, &outcome);
        }
        outcome
    }

    /// Runs the handler of a message that was handed out, unless it may not begin any more. The caller renews it.
    pub(crate) async fn handed<F, W, R>(
        &self,
        hold: Arc<Hold>,
        stopping: impl Fn() -> bool,
        handler: F,
    ) -> Outcome
    where
        F: FnOnce(Claim) -> W,
        W: Future<Output = Result<R, Steer>>,
        R: Into<EffectResult>,
    {
        match admitted(hold, stopping, self.options.repeat_announced).await {
            Begun::Ended(outcome) => {
                self.report.outcome(&outcome);
                outcome
            }
            Begun::Held(hold) => {
                let ending = handled(&hold, handler).await;
                self.settled(&hold, ending).await
            }
        }
    }

    async fn processed<F, W, R>(&self, asked: Asked, abandoned: &CancellationToken, handler: F) -> Outcome
    where
        F: FnOnce(Claim) -> W,
        W: Future<Output = Result<R, Steer>>,
        R: Into<EffectResult>,
    {
        match self.begun(asked, abandoned).await {
            Begun::Ended(outcome) => outcome,
            Begun::Held(hold) => {
                // The lease is renewed until the settlement is answered: no other attempt begins meanwhile.
                let _kept = Keeping::begin(&hold);
                let ending = handled(&hold, handler).await;
                self.settled(&hold, ending).await
            }
        }
    }
}

/// Runs the handler until it ends, panics, or its claim is lost.
async fn handled<F, W, R>(hold: &Arc<Hold>, handler: F) -> Ending
where
    F: FnOnce(Claim) -> W,
    W: Future<Output = Result<R, Steer>>,
    R: Into<EffectResult>,
{
    let claim = Claim { hold: Arc::clone(hold) };
    let work = caught(async move { Ending::from(handler(claim).await) });
    tokio::select! {
        biased; // A handler that waits for the loss by itself ends by itself.
        ended = work => ended.unwrap_or(Ending::Panicked),
        reason = hold.cut() => Ending::Steered(Steer::Claim(ClaimError::Lost { reason })),
    }
}

/// Runs work until it ends or panics. The panic is handed on, as it were an error.
pub(crate) async fn caught<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(polled) => polled.map(Ok),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}
