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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Grants;

    fn limited(limits: PrincipalLimits) -> Principals {
        Principals::new(limits, Metrics::new().expect("metrics"))
    }

    fn who(name: &str) -> Arc<Identity> {
        Arc::new(Identity { principal: name.into(), grants: Grants::EVERYTHING })
    }

    /// How many calls of an RPC pass at once.
    fn passed(connection: &OfConnection, name: &str, rpc: &str) -> Vec<Admitted> {
        let (who, rpc) = (who(name), Rpc::of(rpc));
        let pass = || connection.admit(&who, rpc).ok().flatten();
        std::iter::from_fn(pass).take(10_000).collect()
    }

    #[test]
    fn settlements_have_three_eighths_for_themselves() {
        for (max, others) in [(1, 1), (2, 2), (3, 2), (8, 5), (100, 63)] {
            let all = limited(PrincipalLimits { calls_max: max, ..PrincipalLimits::default() });
            let connection = all.connection();
            let claims = passed(&connection, "a", "Claim");
            assert_eq!(claims.len(), others, "of {max}");
            assert_eq!(passed(&connection, "a", "GetEntry").len(), 0, "of {max}");
            let settlements = passed(&connection, "a", "Complete");
            assert_eq!(settlements.len(), max - others, "of {max}");
            assert_eq!(passed(&all.connection(), "a", "Renew").len(), 0, "whatever the connection");
            assert_eq!(passed(&connection, "b", "Claim").len(), others, "another one");
            drop((claims, settlements));
            assert_eq!(passed(&connection, "a", "Complete").len(), max, "all went back, of {max}");
        }
    }

    #[test]
    fn a_second_brings_as_many_as_are_allowed() {
        for per_second in [1, 2, 8, 1_000] {
            let all = limited(PrincipalLimits { calls_per_second: per_second, ..PrincipalLimits::default() });
            let connection = all.connection();
            let claims = passed(&connection, "a", "Claim").len();
            let part = (per_second * 5 / 8).max(1);
            // A busy machine may be slow enough for more.
            assert!((part..=part + 1 + per_second / 10).contains(&claims), "{claims} of {per_second}");
            let settlements = passed(&connection, "a", "Complete").len();
            let rest = per_second - part;
            assert!(
                (rest..=rest + 1 + per_second / 10).contains(&settlements),
                "{settlements} of {per_second}"
            );
        }
    }

    #[test]
    fn who_does_nothing_is_forgotten_and_who_finds_no_room_shares() {
        let all = limited(PrincipalLimits { calls_max: 8, ..PrincipalLimits::default() });
        let connection = all.connection();
        let accounts = || {
            let all = all.0.as_ref().expect("limits");
            all.accounts.lock().expect("no panic").by_principal.len()
        };
        for number in 0..ACCOUNTS_MAX * 3 {
            drop(connection.admit(&who(&format!("idle {number}")), None).expect("it passes"));
            // Not once a second, as otherwise.
            all.0.as_ref().expect("limits").accounts.lock().expect("no panic").tidied = None;
            assert!(accounts() <= ACCOUNTS_MAX, "{number}");
        }
        let all = limited(PrincipalLimits { calls_max: 8, ..PrincipalLimits::default() });
        let connection = all.connection();
        let calls = (0..ACCOUNTS_MAX).map(|number| connection.admit(&who(&format!("busy {number}")), None));
        let calls: Vec<Option<Admitted>> = calls.map(|call| call.expect("it passes")).collect();
        let late = (0..100).filter_map(|number| connection.admit(&who(&format!("late {number}")), None).ok());
        assert_eq!(late.collect::<Vec<_>>().len(), 5, "they share one account");
        drop(calls);
    }

    #[test]
    fn without_a_limit_nothing_is_counted() {
        let connection = limited(PrincipalLimits::default()).connection();
        assert!(connection.admit(&who("a"), None).expect("it passes").is_none());
    }
}
