//! Time that a test measures, without the machine's delays: a bound on it stays strict next to other tests.

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// In each round the reference thread sleeps for this time, and then computes for that time.
const SLEEPS: Duration = Duration::from_millis(10);
const COMPUTES: Duration = Duration::from_millis(1);
const ROUND: Duration = SLEEPS.saturating_add(COMPUTES);

static RUNNING: Mutex<Weak<Reference>> = Mutex::new(Weak::new());

/// A thread that does nothing but known work while a test measures. What a round takes beyond that is the machine's delay. It
/// shares nothing with any server, so a server that is slow or stalls does not delay it.
struct Reference {
    seen: Mutex<Seen>,
}

struct Seen {
    delayed: Duration,
    round_began: Instant,
}

impl Reference {
    fn get() -> Arc<Reference> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reference) = running.upgrade() {
            return reference;
        }
        let seen = Seen { delayed: Duration::ZERO, round_began: Instant::now() };
        let reference = Arc::new(Reference { seen: Mutex::new(seen) });
        *running = Arc::downgrade(&reference);
        let weak = Arc::downgrade(&reference);
        std::thread::spawn(move || {
            while let Some(reference) = weak.upgrade() {
                reference.round();
            }
        });
        reference
    }

    fn round(&self) {
        std::thread::sleep(SLEEPS);
        let enough = computed() + COMPUTES;
        while computed() < enough {
            std::hint::black_box((0..1_000_u64).map(std::hint::black_box).sum::<u64>());
        }
        let (now, mut seen) = (Instant::now(), self.seen.lock().unwrap());
        let began = std::mem::replace(&mut seen.round_began, now);
        seen.delayed += (now - began).saturating_sub(ROUND);
    }

    /// All delays so far, that of the present round included.
    fn delayed(&self) -> Duration {
        let seen = self.seen.lock().unwrap();
        seen.delayed + seen.round_began.elapsed().saturating_sub(ROUND)
    }
}

/// For how long this thread had a processor.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
}

/// A stop watch that does not count the time for which the machine delayed a thread next to the test.
pub(crate) struct Timer {
    reference: Arc<Reference>,
    began: Instant,
    before: Duration,
}

impl Timer {
    pub(crate) fn start() -> Timer {
        let reference = Reference::get();
        let before = reference.delayed();
        Timer { reference, began: Instant::now(), before }
    }

    /// For how long the machine has delayed the reference since the start.
    pub(crate) fn delayed(&self) -> Duration {
        self.reference.delayed().saturating_sub(self.before)
    }

    /// The time since the start, with the machine's delays: for a bound that says how long something takes at least.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The time since the start, without the machine's delays.
    pub(crate) fn took(&self) -> Duration {
        self.elapsed().saturating_sub(self.delayed())
    }

    /// Fails if more than this time has passed.
    pub(crate) fn within(&self, bound: Duration, what: &str) {
        let (took, delayed) = (self.took(), self.delayed());
        assert!(took < bound, "{what}: took {took:?} of at most {bound:?}, and the machine {delayed:?} more");
    }
}

/// What the future returns, which must be ready within this time.
pub(crate) async fn within<T>(bound: Duration, what: &str, future: impl Future<Output = T>) -> T {
    let (timer, mut future) = (Timer::start(), pin!(future));
    loop {
        let left = bound.saturating_sub(timer.took()).max(Duration::from_millis(1));
        if let Ok(output) = tokio::time::timeout(left, &mut future).await {
            return output;
        }
        timer.within(bound, what);
    }
}

#[test]
fn timer_counts_sleep_and_subtracts_delays_only() {
    let (timer, began) = (Timer::start(), Instant::now());
    std::thread::sleep(Duration::from_millis(300));
    let (took, delayed, elapsed) = (timer.took(), timer.delayed(), began.elapsed());
    assert!(took <= elapsed && took + delayed + ROUND >= elapsed, "{took:?} and {delayed:?} of {elapsed:?}");
}
