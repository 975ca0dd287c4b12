//! Which writes of a faulty store fail, and how; and the gate at which they wait.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use idempotency_ledger::store::EffectiveRetention;
use tokio::sync::{Semaphore, oneshot};

/// How the next write fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inject {
    /// It does not: the fault is for one behind it.
    Nothing,
    /// It is carried out, and its answer is lost.
    LostAnswer,
    /// It is carried out, comes to the gate a second time, and then its answer is lost.
    LateLostAnswer,
    /// It is carried out and answered, and the store refuses the read that follows.
    NoReadAfter,
    /// The connection breaks before it is carried out.
    LostRequest,
    /// The store refuses it.
    Unavailable,
    /// It loses against another one.
    Conflict,
    /// The task that carries it out dies of a bug.
    Panic,
}

pub(crate) struct Plan {
    faults: Mutex<VecDeque<Inject>>,
    /// How many statements wrote, or tried to.
    pub(crate) writes: AtomicUsize,
    /// How many statements asked for entries by their keys.
    pub(crate) loads: AtomicUsize,
    /// Every reading of the policies is refused.
    pub(crate) no_policies: AtomicBool,
    /// Every count of messages that are due is refused.
    pub(crate) no_due_counts: AtomicBool,
    /// The next reading of all policies says that it has read them, and waits.
    pub(super) slow_reading: Mutex<Option<(oneshot::Sender<()>, oneshot::Receiver<()>)>>,
    /// Another server puts this in force just before the next retentions.
    pub(crate) overtakes: Mutex<Option<EffectiveRetention>>,
    /// With how many sessions the ledger works.
    pub(crate) sessions: AtomicUsize,
    /// No session can be opened.
    pub(crate) no_sessions: AtomicBool,
    /// Each write takes a permit; there are more than enough until a test closes the gate.
    pub(super) gate: Semaphore,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            faults: Mutex::default(),
            writes: AtomicUsize::new(0),
            loads: AtomicUsize::new(0),
            no_policies: AtomicBool::new(false),
            no_due_counts: AtomicBool::new(false),
            slow_reading: Mutex::default(),
            overtakes: Mutex::default(),
            sessions: AtomicUsize::new(1),
            no_sessions: AtomicBool::new(false),
            gate: Semaphore::new(OPEN),
        }
    }
}

/// The permits of an open gate.
const OPEN: usize = 1 << 20;

impl Plan {
    pub(crate) fn next(&self, faults: impl IntoIterator<Item = Inject>) {
        self.faults.lock().unwrap().extend(faults);
    }

    /// Whether a write that will fail has not been sent yet.
    pub(crate) fn has_faults(&self) -> bool {
        !self.faults.lock().unwrap().is_empty()
    }

    /// What was to fail, and has not been sent yet, does not fail.
    pub(crate) fn clear(&self) {
        self.faults.lock().unwrap().clear();
    }

    /// From now on writes wait at the gate.
    pub(crate) fn close(&self) {
        self.gate.forget_permits(usize::MAX);
    }

    /// The next reading of all policies stands still once it has read them. The first resolves then; the
    /// reading goes on when the second is dropped.
    pub(crate) fn slow_reading(&self) -> (oneshot::Receiver<()>, oneshot::Sender<()>) {
        let ((read, has_read), (go_on, going_on)) = (oneshot::channel(), oneshot::channel());
        *self.slow_reading.lock().unwrap() = Some((read, going_on));
        (has_read, go_on)
    }

    /// Lets one write through.
    pub(crate) fn let_through(&self) {
        self.gate.add_permits(1);
    }

    pub(crate) fn open(&self) {
        self.gate.add_permits(OPEN - self.gate.available_permits());
    }

    /// Waits until so many writes have come to the gate, ever.
    pub(crate) async fn arrived(&self, writes: usize) {
        let came = async {
            while self.writes.load(Ordering::SeqCst) < writes {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), came).await.expect("a write comes to the gate");
    }

    pub(super) fn take(&self) -> Option<Inject> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        let fault = self.faults.lock().unwrap().pop_front();
        assert!(fault != Some(Inject::Panic), "a bug, on demand");
        fault
    }
}
