//! A granted claim: how long it is held, how it is renewed, what is announced and saved under it.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use crate::{
    calls::{CALL_TIMEOUT, Failure, Method, Transport, message, repeated, span},
    error::{ClaimError, OnExpiry},
    outcome::Outcome,
    proto as pb,
};

/// What the ledger answers where the claim is over. Any other error leaves the lease as it is.
const OVER: [&str; 4] = ["LEASE_LOST", "CLAIM_CLOSED", "ENTRY_NOT_FOUND", "TOKEN_FROM_FUTURE"];
/// A process that stood still for this long may find its lease over although no other claim was granted the key: a Renew
/// that is answered within the budget finds out.
const LATE: Duration = Duration::from_millis(100);
const LATE_BUDGET: Duration = Duration::from_secs(1);
const SHORTEST_WAIT: Duration = Duration::from_millis(100);
/// What a lease may fall short of its hold by rounding.
const ROUNDED: Duration = Duration::from_millis(1);
pub(crate) const LEASE_OVER: &str = "LEASE_OVER";

/// The instants of a claim. They count from before a call was sent, so that they are early rather than late.
#[derive(Clone, Copy, Debug)]
struct Times {
    lease_until: Instant,
    /// `None`: the server has named no end.
    hold_until: Option<Instant>,
    renew_at: Instant,
}

impl Times {
    /// The last part of the hold cannot be extended: the claim ends with its lease.
    fn last(&self) -> bool {
        self.hold_until.is_some_and(|end| self.lease_until + ROUNDED >= end)
    }

    fn wake(&self) -> Instant {
        if self.last() { self.lease_until } else { self.renew_at.min(self.lease_until) }
    }
}

/// Whether a claim is lost, and how many parts of its handler must not be cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loss {
    pub(crate) reason: Option<Arc<str>>,
    pub(crate) shields: usize,
}

/// A granted claim.
pub(crate) struct Hold {
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) key: pb::EntryKey,
    pub(crate) event_type: String,
    pub(crate) granted: pb::Acquired,
    lease: Option<prost_types::Duration>,
    times: Mutex<Times>,
    announced: AtomicBool,
    /// From the first Complete on: its outcome may be unknown, and nothing but a Complete may be sent.
    pub(crate) completing: AtomicBool,
    pub(crate) loss: watch::Sender<Loss>,
    /// One settlement at a time; what the first one came to, after which nothing else is sent.
    pub(crate) settling: tokio::sync::Mutex<()>,
    pub(crate) settled: OnceLock<Outcome>,
    /// Why the guard could not decide, or what its effect ended with, for the log.
    pub(crate) guard_fault: OnceLock<String>,
}

impl Hold {
    pub(crate) fn new(
        transport: Arc<dyn Transport>,
        request: pb::ClaimRequest,
        granted: pb::Acquired,
        sent: Instant,
    ) -> Self {
        let lease = span(granted.lease.as_ref());
        let hold_until = granted.hold.as_ref().and_then(|hold| sent.checked_add(span(Some(hold))));
        let times = Times { lease_until: sent + lease, hold_until, renew_at: sent + lease / 3 };
        Self {
            transport,
            key: request.key.unwrap_or_default(),
            event_type: request.event_type,
            granted,
            lease: request.lease,
            times: Mutex::new(times),
            announced: AtomicBool::new(false),
            completing: AtomicBool::new(false),
            loss: watch::Sender::new(Loss::default()),
            settling: tokio::sync::Mutex::new(()),
            settled: OnceLock::new(),
            guard_fault: OnceLock::new(),
        }
    }

    fn times(&self) -> MutexGuard<'_, Times> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn hold_until(&self) -> Option<Instant> {
        self.times().hold_until
    }

    fn lease_until(&self) -> Instant {
        self.times().lease_until
    }

    fn left(&self) -> Duration {
        self.lease_until().saturating_duration_since(Instant::now())
    }

    pub(crate) fn announced(&self) -> bool {
        self.announced.load(SeqCst)
    }

    pub(crate) fn on_expiry(&self) -> OnExpiry {
        match self.granted.on_expiry() {
            pb::OnExpiry::Unspecified => OnExpiry::Unknown,
            pb::OnExpiry::Reclaim => OnExpiry::Reclaim,
            pb::OnExpiry::Park => OnExpiry::Park,
            pb::OnExpiry::ParkIfStarted => OnExpiry::ParkIfStarted,
        }
    }

    /// Why the ledger or the renewals have given the claim up. `None` otherwise.
    pub(crate) fn lost(&self) -> Option<String> {
        self.loss.borrow().reason.as_deref().map(str::to_owned)
    }

    /// Why the claim must not be acted under any more. `None` while it is held.
    pub(crate) fn over(&self) -> Option<String> {
        let ended = || (Instant::now() >= self.lease_until()).then(|| LEASE_OVER.to_owned());
        self.lost().or_else(ended)
    }

    pub(crate) fn check(&self) -> Result<(), ClaimError> {
        self.over().map_or(Ok(()), |reason| Err(ClaimError::Lost { reason }))
    }

    /// The claim is lost, and no part of the handler is running that must not be cut.
    pub(crate) async fn cut(&self) -> String {
        self.lost_while(|loss| loss.shields == 0).await
    }

    /// The claim is lost.
    pub(crate) async fn cancelled(&self) -> String {
        self.lost_while(|_| true).await
    }

    async fn lost_while(&self, fits: impl Fn(&Loss) -> bool) -> String {
        let mut changes = self.loss.subscribe();
        // The sender is a part of this hold, so that an error cannot be.
        let lost = changes.wait_for(|loss| loss.reason.is_some() && fits(loss)).await;
        lost.ok().and_then(|loss| loss.reason.as_deref().map(str::to_owned)).unwrap_or_default()
    }

    async fn renew(
        &self,
        budget: Duration,
        effect_started: bool,
        checkpoint: Option<Bytes>,
    ) -> Result<pb::RenewResponse, Failure> {
        let (key, token, lease) = (Some(self.key.clone()), self.granted.token, self.lease);
        let request = pb::RenewRequest { key, token, lease, effect_started, checkpoint };
        let (answer, sent): (pb::RenewResponse, Instant) =
            repeated(&*self.transport, Method::Renew, &request, budget, CALL_TIMEOUT).await?;
        let left = span(answer.lease.as_ref());
        let mut times = self.times();
        times.lease_until = times.lease_until.max(sent + left);
        times.renew_at = sent + left / 3;
        if let Some(end) = answer.hold.as_ref().and_then(|hold| sent.checked_add(span(Some(hold)))) {
            times.hold_until = Some(times.hold_until.map_or(end, |known| known.min(end)));
        }
        drop(times);
        Ok(answer)
    }

    /// Whether the handler may run. A Claim that has waited may have used up its lease by this process's clock, which
    /// counts from before it was sent, and so may a process that stood still: a Renew says how it stands.
    pub(crate) async fn made_sure(&self) -> bool {
        if self.over().is_some() && self.renew(CALL_TIMEOUT, false, None).await.is_err() {
            return false;
        }
        self.over().is_none()
    }

    pub(crate) async fn announce(&self) -> Result<(), ClaimError> {
        self.check()?;
        let on_expiry = self.on_expiry();
        if !matches!(on_expiry, OnExpiry::Park | OnExpiry::ParkIfStarted) {
            return Err(ClaimError::NotProtected { on_expiry }); // Rule 15.
        }
        self.announced.store(true, SeqCst); // The ledger may know it although its answer is lost.
        let confirmed = self.renew(self.left(), true, None).await;
        confirmed.map_err(|failure| ClaimError::AnnouncementFailed { reason: failure.name() })?;
        self.check()
    }

    pub(crate) async fn save(&self, checkpoint: Bytes) -> Result<(), ClaimError> {
        self.check()?;
        match self.renew(self.left(), false, Some(checkpoint)).await {
            Ok(answer) if answer.checkpoint_dropped => Err(ClaimError::CheckpointDropped), // Rule 21.
            Ok(_) => Ok(()),
            Err(failure) if failure.reason.as_deref() == Some("TOO_LARGE") => {
                Err(ClaimError::CheckpointDropped)
            }
            Err(failure) => Err(ClaimError::Lost { reason: failure.name() }),
        }
    }

    /// Renews the lease at a third of it until the claim is settled or lost; the handler learns of the loss.
    pub(crate) async fn keep(self: Arc<Self>) {
        if let Some(reason) = self.renewing().await {
            self.loss.send_modify(|loss| loss.reason = Some(reason.into()));
        }
    }

    async fn renewing(&self) -> Option<String> {
        loop {
            let until = self.times().wake();
            sleep_until(until).await;
            if self.settled.get().is_some() {
                return None;
            }
            let (times, now) = (*self.times(), Instant::now());
            let over = now >= times.lease_until;
            if times.last() && over {
                return Some(LEASE_OVER.to_owned());
            }
            if times.last() || now < times.wake() {
                continue; // Announced or saved meanwhile, which renews too.
            }
            if over && now < until + LATE {
                return Some(LEASE_OVER.to_owned());
            }
            let budget = if over { LATE_BUDGET } else { times.lease_until - now };
            let Err(failure) = self.renew(budget, false, None).await else { continue };
            if let Some(reason) = failure.reason.filter(|reason| OVER.contains(&reason.as_str())) {
                // After a Complete the ledger has closed the claim, whether its answer has arrived here or not.
                return (!self.completing.load(SeqCst)).then_some(reason);
            }
            let (mut times, now) = (self.times(), Instant::now());
            if now >= times.lease_until {
                return Some(LEASE_OVER.to_owned());
            }
            // Refused for now (rights, the limit of the hold): the lease that is left still stands.
            let third = (times.lease_until - now) / 3;
            times.renew_at = times.lease_until.min(now + third.max(SHORTEST_WAIT));
        }
    }
}

/// Renews a lease until it is dropped.
pub(crate) struct Keeping(tokio::task::JoinHandle<()>);

impl Keeping {
    pub(crate) fn begin(hold: &Arc<Hold>) -> Self {
        Self(tokio::spawn(crate::telemetry::within(Arc::clone(hold).keep())))
    }
}

impl Drop for Keeping {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A delay of a settlement, at most what the ledger takes.
pub(crate) fn delay(duration: Duration) -> prost_types::Duration {
    const MOST: Duration = Duration::from_secs(30 * 86_400);
    message(duration.min(MOST))
}
