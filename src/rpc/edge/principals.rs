//! What the calls of one principal may take, whoever else calls: how many are under way, how many a second brings, how
//! many bytes their requests have. All connections of a principal share its account.
//!
//! Settlements are the last to be refused: what was granted must come to its end. All other calls may take five eighths.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::domain::{Reason, Rejection, Span};
use crate::identity::{Identity, Right, Rpc};
use crate::metrics::{Limited, Metrics};
use crate::once_a_second::{SECOND, warn_once_a_second};

/// How many principals have an account of their own. Beyond that those that do nothing are forgotten, and should all be at
/// work, new ones share one account.
const ACCOUNTS_MAX: usize = 10_000;
/// Beyond which part of a limit only settlements pass, in eighths.
const OTHERS_EIGHTHS: usize = 5;

/// What each principal may take; zero: any amount.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrincipalLimits {
    /// How many calls it may have under way.
    pub calls_max: usize,
    /// How many calls each second brings it, items of batches counted one by one.
    pub calls_per_second: usize,
    /// How many bytes its requests under way may have.
    pub bytes_max: usize,
}

/// All accounts; none: nothing is limited. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Principals(Option<Arc<All>>);

struct All {
    limits: PrincipalLimits,
    metrics: Metrics,
    /// Times are told from here on.
    start: Instant,
    accounts: Mutex<Accounts>,
    /// That of those for whom there is no room.
    shared: Arc<Account>,
}

#[derive(Default)]
struct Accounts {
    by_principal: HashMap<Box<str>, Arc<Account>>,
    tidied: Option<Instant>,
}

/// What one principal has taken.
#[derive(Debug, Default)]
struct Account {
    calls: AtomicUsize,
    bytes: AtomicUsize,
    /// When a whole second's calls may come at once again, in nanoseconds. Each call takes its share of a second.
    full_at: AtomicU64,
}

impl Principals {
    pub(crate) fn new(limits: PrincipalLimits, metrics: Metrics) -> Principals {
        let PrincipalLimits { calls_max, calls_per_second, bytes_max } = limits;
        if (calls_max, calls_per_second, bytes_max) == (0, 0, 0) {
            return Principals(None);
        }
        let (accounts, shared) = Default::default();
        Principals(Some(Arc::new(All { limits, metrics, start: Instant::now(), accounts, shared })))
    }

    /// What a new connection knows of them.
    pub(crate) fn connection(&self) -> OfConnection {
        OfConnection { all: self.0.clone(), last: Mutex::default() }
    }
}

impl All {
    fn account(&self, principal: &str) -> Arc<Account> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(account) = accounts.by_principal.get(principal) {
            return Arc::clone(account);
        }
        if accounts.by_principal.len() >= ACCOUNTS_MAX && !accounts.tidy(self.now()) {
            return Arc::clone(&self.shared);
        }
        let account = Arc::<Account>::default();
        accounts.by_principal.insert(principal.into(), Arc::clone(&account));
        account
    }

    fn now(&self) -> u64 {
        nanos(self.start.elapsed())
    }
}

impl Accounts {
    /// Forgets those that no connection knows, no call uses and that have nothing to wait for: once a second at most.
    /// Whether there is room now.
    fn tidy(&mut self, now: u64) -> bool {
        let looked = Instant::now();
        if self.tidied.is_some_and(|at| looked.saturating_duration_since(at) < SECOND) {
            return false;
        }
        self.tidied = Some(looked);
        let in_use = |account: &Arc<Account>| {
            Arc::strong_count(account) > 1 || account.full_at.load(Ordering::Relaxed) > now
        };
        self.by_principal.retain(|_, account| in_use(account));
        self.by_principal.len() < ACCOUNTS_MAX
    }
}

/// The accounts as one connection knows them: most have one principal, whose account nobody has to look for.
pub(crate) struct OfConnection {
    all: Option<Arc<All>>,
    last: Mutex<Option<(Arc<Identity>, Arc<Account>)>>,
}

impl OfConnection {
    /// Lets a call of a principal pass; none: nothing is limited.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`.
    pub(super) fn admit(&self, who: &Arc<Identity>, rpc: Option<Rpc>) -> Result<Option<Admitted>, Rejection> {
        let Some(all) = &self.all else { return Ok(None) };
        let account = self.account(all, who);
        let settles = rpc.is_some_and(|rpc| rpc.needs == Right::Settle);
        let call =
            Admitted { all: Arc::clone(all), account, who: Arc::clone(who), rpc, settles, counted: false };
        call.begun().map(Some)
    }

    fn account(&self, all: &All, who: &Arc<Identity>) -> Arc<Account> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, account)) = &*last
            && Arc::ptr_eq(known, who)
        {
            return Arc::clone(account);
        }
        let account = all.account(&who.principal);
        *last = Some((Arc::clone(who), Arc::clone(&account)));
        account
    }
}

/// A call that its principal may make: it counts until this is dropped.
pub(super) struct Admitted {
    all: Arc<All>,
    account: Arc<Account>,
    who: Arc<Identity>,
    rpc: Option<Rpc>,
    settles: bool,
    counted: bool,
}

impl Admitted {
    fn begun(mut self) -> Result<Admitted, Rejection> {
        let max = self.all.limits.calls_max;
        if max > 0 && !take(&self.account.calls, 1, self.part(max)) {
            return Err(self.refused(Limited::Calls, None));
        }
        // From here on it gives back what it has taken.
        self.counted = max > 0;
        self.item()?;
        Ok(self)
    }

    /// Takes one call of those that a second brings: for the call itself, and for each item of a batch after the first.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`.
    pub(super) fn item(&self) -> Result<(), Rejection> {
        let Some(each) = SECOND_NANOS.checked_div(whole(self.all.limits.calls_per_second)) else {
            return Ok(());
        };
        let eighths = if self.settles { 8 } else { whole(OTHERS_EIGHTHS) };
        // One call passes however few a second brings.
        let ahead_max = (SECOND_NANOS / 8 * eighths).max(each);
        let now = self.all.now();
        let mut wait = 0;
        let later = |full_at: u64| {
            let next = full_at.max(now).saturating_add(each);
            wait = (next - now).saturating_sub(ahead_max);
            (wait == 0).then_some(next)
        };
        let taken = self.account.full_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        taken.map(drop).map_err(|_| self.refused(Limited::Rate, Some(Duration::from_nanos(wait))))
    }

    /// Takes bytes of a request.
    ///
    /// # Errors
    /// `QUOTA_EXCEEDED`.
    pub(super) fn take_bytes(&self, bytes: usize) -> Result<(), Rejection> {
        let max = self.all.limits.bytes_max;
        if max == 0 || take(&self.account.bytes, bytes, self.part(max)) {
            return Ok(());
        }
        Err(self.refused(Limited::Bytes, None))
    }

    pub(super) fn give_back_bytes(&self, bytes: usize) {
        if self.all.limits.bytes_max > 0 {
            self.account.bytes.fetch_sub(bytes, Ordering::SeqCst);
        }
    }

    /// What this kind of call may take of a limit.
    fn part(&self, max: usize) -> usize {
        if self.settles { max } else { max.saturating_mul(OTHERS_EIGHTHS).div_ceil(8) }
    }

    fn refused(&self, limit: Limited, wait: Option<Duration>) -> Rejection {
        let PrincipalLimits { calls_max, calls_per_second, bytes_max } = self.all.limits;
        let (setting, max, what) = match limit {
            Limited::Calls => ("principal_calls_max", calls_max, "calls under way"),
            Limited::Rate => ("principal_calls_per_second", calls_per_second, "calls a second"),
            Limited::Bytes => ("principal_bytes_max", bytes_max, "bytes of requests under way"),
        };
        let (principal, rpc) = (&*self.who.principal, self.rpc.map_or("", |rpc| rpc.name));
        self.all.metrics.limited(limit);
        warn_once_a_second!(principal, rpc, setting, max, "refused: a limit of the principal is reached");
        let kept = if self.settles { "" } else { ", of which three eighths are kept for settlements" };
        Rejection {
            retry_after: wait.map(|wait| Span::from_std(wait).max(Span(1))),
            ..Rejection::new(
                Reason::QuotaExceeded,
                format!(
                    "{principal} may have {max} {what} on this server ({setting}){kept}; nothing was changed: try again \
                     later"
                ),
            )
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        if self.counted {
            self.account.calls.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

const SECOND_NANOS: u64 = 1_000_000_000;

fn take(used: &AtomicUsize, more: usize, max: usize) -> bool {
    let room = |used: usize| used.checked_add(more).filter(|sum| *sum <= max);
    used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, room).is_ok()
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
