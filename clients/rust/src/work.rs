//! The worker of the inbox: one task takes messages, and each handler is a task.

use std::{
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use crate::{
    calls::{CALL_TIMEOUT, DEFAULT_DELAY, Failure, Method, SHORTEST_DELAY, repeated, span},
    claim::Claim,
    delivery::{CLAIM_BUDGET, LATER, given_back, refused},
    error::{Error, InvalidField, Steer},
    hold::{Hold, Keeping},
    inbox::StoredMessage,
    key::Key,
    ledger::{Inner, Ledger},
    outcome::{Advice, EffectResult, Outcome},
    proto as pb,
    queue::{Item, WorkQueue},
    telemetry::{self, Parent},
};

const CONCURRENCY: std::ops::RangeInclusive<usize> = 1..=1000;
/// Before the first handout says what the policy's is.
const ASSUMED_LEASE: Duration = Duration::from_secs(30);

/// An instant cannot name the end of a longer one.
const LONGEST_GRACE: Duration = Duration::from_secs(365 * 86_400);

/// Processes the messages of the inbox: [`Ledger::worker`] begins, [`run`](Self::run) works.
///
/// At most [`concurrency`](Self::concurrency) handlers run at the same time, and never two of one message. A message that waits
/// here for a handler is renewed. While a message runs whose lease ran out twice in a row, no other handler of this worker runs:
/// it may have killed the earlier processes. These bounds hold within one worker: a process needs only one.
#[must_use]
pub struct Worker<F> {
    ledger: Ledger,
    handler: F,
    concurrency: usize,
    grace: Duration,
}

impl<F> std::fmt::Debug for Worker<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Worker").field("concurrency", &self.concurrency).finish_non_exhaustive()
    }
}

impl Ledger {
    /// Processes the messages of the inbox, once it is run. `handler` is given the [`Claim`] and the message; it returns what a
    /// handler of [`process`](Self::process) does, and must not block its thread for long.
    pub fn worker<F, W, R>(&self, handler: F) -> Worker<F>
    where
        F: Fn(Claim, StoredMessage) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, Steer>> + Send + 'static,
        R: Into<EffectResult>,
    {
        Worker { ledger: self.clone(), handler, concurrency: 1, grace: Duration::from_secs(20) }
    }
}

impl<F> Worker<F> {
    /// How many handlers run at the same time: 1 (default) to 1000.
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency;
        self
    }

    /// How long [`run`](Self::run) waits at the end for handlers that run: 20 s by default.
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Works until `stop` ends, or the client is closed. Then messages that have not begun are released, and those that run end
    /// and settle. Returns false where one still runs after the grace.
    ///
    /// All of it is a task: dropping this future ends the work as `stop` does.
    ///
    /// # Errors
    /// [`Error`], before anything is sent.
    pub async fn run<W, R>(self, stop: impl Future<Output = ()> + Send + 'static) -> Result<bool, Error>
    where
        F: Fn(Claim, StoredMessage) -> W + Send + Sync + 'static,
        W: Future<Output = Result<R, Steer>> + Send + 'static,
        R: Into<EffectResult> + 'static,
    {
        if !CONCURRENCY.contains(&self.concurrency) {
            let bound = format!("is {}; 1 to 1000 are allowed", self.concurrency);
            return Err(InvalidField::new("concurrency", bound).into());
        }
        let inner = Arc::clone(&self.ledger.inner);
        let entered = inner.enter()?;
        let stopping = CancellationToken::new();
        let _caller = stopping.clone().drop_guard();
        let queue = WorkQueue::new(self.concurrency, inner.options.lease.unwrap_or(ASSUMED_LEASE));
        let work = Arc::new(Work {
            inner,
            handler: self.handler,
            queue: Mutex::new(queue),
            changed: Notify::new(),
            stopping,
        });
        let grace = self.grace;
        let task = tokio::spawn(telemetry::within(async move {
            let watched = Arc::clone(&work);
            let watching = AbortOnDropHandle::new(tokio::spawn(async move {
                // Also where `stop` panics: else neither it nor a close would be heard any more.
                let _stopping = watched.stopping.clone().drop_guard();
                tokio::select! {
                    () = stop => {}
                    () = watched.inner.inflight.stopped() => {}
                }
            }));
            Arc::clone(&work).take().await;
            drop(watching);
            let ended = work.drained(grace).await;
            drop(entered);
            ended
        }));
        match task.await {
            Ok(ended) => Ok(ended),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(Error::Closed), // The runtime ends.
        }
    }
}

/// Calls its function when it is dropped.
struct Deferred<F: FnMut()>(F);

impl<F: FnMut()> Drop for Deferred<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// One run of a worker.
struct Work<F> {
    inner: Arc<Inner>,
    handler: F,
    queue: Mutex<WorkQueue>,
    /// A handler has ended.
    changed: Notify,
    stopping: CancellationToken,
}

impl<F, W, R> Work<F>
where
    F: Fn(Claim, StoredMessage) -> W + Send + Sync + 'static,
    W: Future<Output = Result<R, Steer>> + Send + 'static,
    R: Into<EffectResult> + 'static,
{
    fn queue(&self) -> MutexGuard<'_, WorkQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(self: Arc<Self>) {
        let mut again = None;
        while !self.stopping.is_cancelled() {
            let suspect = self.queue().suspect();
            let Some(request) = again.take().or_else(|| self.request()) else {
                let lost = async {
                    match &suspect {
                        Some(hold) => drop(hold.cancelled().await),
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    () = self.changed.notified() => {}
                    () = self.stopping.cancelled() => {}
                    () = lost => self.begin(), // A suspect holds up the others no longer.
                }
                continue;
            };
            let wait = span(request.wait.as_ref());
            let (budget, timeout) = (CLAIM_BUDGET + wait, CALL_TIMEOUT + wait);
            // It is not cut: the outcome of a call that is cancelled would be unknown, and its messages held by their leases.
            let called = repeated(&*self.inner.transport, Method::ClaimNext, &request, budget, timeout).await;
            let pause = match called {
                Ok((answer, sent)) => self.arrived(&request, answer, sent),
                Err(failure) => {
                    // The identical request, with its claim_id, finds what it was handed out.
                    again = failure.unknown().then_some(request);
                    self.refused(&failure)
                }
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.stopping.cancelled() => {}
            }
        }
    }

    /// The next `ClaimNext`. `None` while enough messages are at hand.
    fn request(&self) -> Option<pb::ClaimNextRequest> {
        let queue = self.queue();
        let most = queue.room();
        (most > 0).then(|| self.inner.options.next(most, queue.wait()))
    }

    fn refused(&self, failure: &Failure) -> Duration {
        if failure.reason.as_deref() == Some("CLAIM_CLOSED") {
            return SHORTEST_DELAY; // What it was handed out has ended: a new claim_id takes the rest.
        }
        let outcome = refused(failure, Outcome::new(LATER));
        self.inner.report.outcome(&outcome);
        if let Advice::RetryLater { after } = outcome.advice { after } else { DEFAULT_DELAY }
    }

    /// Begins what was handed out. Returns how long to wait before the next call.
    fn arrived(
        self: &Arc<Self>,
        request: &pb::ClaimNextRequest,
        answer: pb::ClaimNextResponse,
        sent: Instant,
    ) -> Duration {
        let mut items = Vec::new();
        for handed in answer.messages {
            if let Some(item) = self.item(request, handed, sent) {
                items.push(item);
            }
        }
        if items.is_empty() {
            return span(answer.retry_after.as_ref()).max(SHORTEST_DELAY);
        }
        self.queue().add(items);
        self.begin();
        Duration::ZERO
    }

    /// A message of a handout, which is renewed from now on.
    fn item(&self, request: &pb::ClaimNextRequest, handed: pb::Handed, sent: Instant) -> Option<Item> {
        let (key, message) = (handed.key?, handed.message.unwrap_or_default());
        let claim = pb::ClaimRequest {
            key: Some(key.clone()),
            lease: request.lease,
            event_type: message.event_type.clone(),
            ..pb::ClaimRequest::default()
        };
        let hold = Arc::new(Hold::new(Arc::clone(&self.inner.transport), claim, handed.acquired?, sent));
        let message = StoredMessage {
            key: Key::of(key.source, key.id),
            message: message.into(),
            stored_at: handed.stored_at.and_then(|at| at.try_into().ok()),
        };
        // By this process's clock a long wait may have used up the lease: then it is renewed immediately.
        let renewed = (Some(Keeping::begin(&hold)), self.inner.inflight.join());
        Some(Item { hold, message, parent: Parent::current(), held: renewed })
    }

    /// Begins what may begin now.
    fn begin(self: &Arc<Self>) {
        let mut queue = self.queue();
        while let Some(item) = queue.next() {
            tokio::spawn(telemetry::within(Arc::clone(self).serve(item)));
        }
    }

    async fn serve(self: Arc<Self>, item: Item) {
        let (began, key) = (Instant::now(), item.message.key.clone());
        // Also where the handler's future panics while it is dropped: else its slot would be lost.
        let _ended = Deferred(|| {
            self.queue().ended(&key, began.elapsed());
            self.begin();
            self.changed.notify_one();
        });
        let Item { hold, message, parent, held: renewed } = item;
        let stopping = || self.stopping.is_cancelled();
        let handler = |claim| (self.handler)(claim, message);
        let work = self.inner.handed(hold, stopping, handler);
        self.inner.telemetry.delivery(parent, work).await;
        drop(renewed);
    }

    /// Releases what has not begun, and waits for what runs.
    async fn drained(&self, grace: Duration) -> bool {
        let until = Instant::now() + grace.min(LONGEST_GRACE);
        let left = self.queue().drain();
        for item in left {
            if item.hold.lost().is_none() {
                drop(timeout_at(until, given_back(&item.hold, "CLOSING")).await);
            }
        }
        loop {
            if self.queue().idle() {
                return true;
            }
            if timeout_at(until, self.changed.notified()).await.is_err() {
                return self.queue().idle();
            }
        }
    }
}
