//! The owners of calls and bytes: a principal, whose connections share one account, or the address of a client without a
//! credential.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::balance::{Balance, Requests};
use super::limits::{OwnerKind, part_of_calls};
use crate::common::log_limit::SECOND;
use crate::common::still_counted::StillCounted;
use crate::identity::ANONYMOUS;

/// Maximum number of owners with a separate account. Above it, owners that hold nothing are forgotten; if all hold something,
/// new owners share one account.
const OWNERS_MAX: usize = 10_000;
const SECOND_NANOS: u64 = 1_000_000_000;

/// What one owner holds.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) name: Box<str>,
    pub(super) kind: OwnerKind,
    pub(super) requests: Requests,
    pub(super) answers: Balance,
    calls: AtomicUsize,
    /// Token bucket: when it is full again, in nanoseconds. Each call moves it by its share of a second.
    full_at: AtomicU64,
}

impl Owner {
    fn new(name: &str, kind: OwnerKind) -> Arc<Owner> {
        let (requests, answers) = (Requests::default(), Balance::default());
        let (calls, full_at) = (AtomicUsize::new(0), AtomicU64::new(0));
        Arc::new(Owner { name: name.into(), kind, requests, answers, calls, full_at })
    }

    /// Counts one more call, unless there are `max` already; returns whether it did.
    pub(super) fn begin_call(&self, max: usize) -> bool {
        let room = |calls: usize| calls.checked_add(1).filter(|sum| *sum <= max);
        self.calls.fetch_update(Relaxed, Relaxed, room).is_ok()
    }

    #[cfg(test)]
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Relaxed)
    }

    fn still_counted(&self, left: &mut StillCounted) {
        let whose = format!("of {}", self.name);
        left.note(format_args!("calls {whose}"), self.calls.load(Relaxed));
        self.requests.still_counted(left, &whose);
        left.note(format_args!("bytes of answers {whose}"), self.answers.bytes());
    }

    pub(super) fn end_call(&self) {
        self.calls.fetch_sub(1, Relaxed);
    }

    /// Takes one call from the token bucket. One call always passes, however low the rate is.
    ///
    /// # Errors
    /// The time to wait.
    pub(super) fn take_rate(&self, per_second: usize, settles: bool, now: u64) -> Result<(), Duration> {
        let Some(each) = SECOND_NANOS.checked_div(whole(per_second)) else { return Ok(()) };
        let ahead_max = (SECOND_NANOS / 8 * whole(part_of_calls(8, settles))).max(each);
        let mut wait = 0;
        let later = |full_at: u64| {
            let next = full_at.max(now).saturating_add(each);
            wait = (next - now).saturating_sub(ahead_max);
            (wait == 0).then_some(next)
        };
        let taken = self.full_at.fetch_update(Relaxed, Relaxed, later);
        taken.map(drop).map_err(|_| Duration::from_nanos(wait))
    }
}

fn whole(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// All owners.
pub(super) struct Owners {
    /// Times are counted from here.
    start: Instant,
    known: Mutex<Known>,
    /// The shared accounts of owners that find no space.
    other_principals: Arc<Owner>,
    other_strangers: Arc<Owner>,
}

#[derive(Default)]
struct Known {
    principals: HashMap<Box<str>, Arc<Owner>>,
    strangers: HashMap<Box<str>, Arc<Owner>>,
    tidied: Option<Instant>,
}

impl Owners {
    pub(super) fn new() -> Owners {
        Owners {
            start: Instant::now(),
            known: Mutex::default(),
            other_principals: Owner::new("other principals", OwnerKind::Principal),
            other_strangers: Owner::new("other addresses", OwnerKind::Stranger),
        }
    }

    /// Nanoseconds since the start.
    pub(super) fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn principal(&self, name: &str) -> Arc<Owner> {
        let kind = if name == ANONYMOUS { OwnerKind::Anonymous } else { OwnerKind::Principal };
        self.of(name, kind, |known| &mut known.principals)
            .unwrap_or_else(|| Arc::clone(&self.other_principals))
    }

    /// A client of this address without a credential.
    pub(super) fn stranger(&self, address: &str) -> Arc<Owner> {
        let of = self.of(address, OwnerKind::Stranger, |known| &mut known.strangers);
        of.unwrap_or_else(|| Arc::clone(&self.other_strangers))
    }

    /// Notes what is counted of each owner.
    pub(super) fn still_counted(&self, left: &mut StillCounted) {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let others = [&self.other_principals, &self.other_strangers];
        for owner in known.principals.values().chain(known.strangers.values()).chain(others) {
            owner.still_counted(left);
        }
    }

    /// `None` if no space is left for another owner.
    fn of(
        &self,
        name: &str,
        kind: OwnerKind,
        map: impl Fn(&mut Known) -> &mut HashMap<Box<str>, Arc<Owner>>,
    ) -> Option<Arc<Owner>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(owner) = map(&mut known).get(name) {
            return Some(Arc::clone(owner));
        }
        if map(&mut known).len() >= OWNERS_MAX {
            known.tidy(self.now());
            if map(&mut known).len() >= OWNERS_MAX {
                return None;
            }
        }
        let owner = Owner::new(name, kind);
        map(&mut known).insert(name.into(), Arc::clone(&owner));
        Some(owner)
    }
}

impl Known {
    /// Forgets owners that no connection knows, no call uses and whose token bucket is full: at most once a second.
    fn tidy(&mut self, now: u64) {
        let looked = Instant::now();
        if self.tidied.is_some_and(|at| looked.saturating_duration_since(at) < SECOND) {
            return;
        }
        self.tidied = Some(looked);
        let in_use = |owner: &Arc<Owner>| Arc::strong_count(owner) > 1 || owner.full_at.load(Relaxed) > now;
        self.principals.retain(|_, owner| in_use(owner));
        self.strangers.retain(|_, owner| in_use(owner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passed(owner: &Owner, per_second: usize, settles: bool) -> usize {
        (0..10_000).take_while(|_| owner.take_rate(per_second, settles, 0).is_ok()).count()
    }

    #[test]
    fn a_second_brings_as_many_calls_as_are_allowed() {
        for (per_second, others, settlements) in [(1, 1, 0), (2, 1, 1), (8, 5, 3), (1_000, 625, 375)] {
            let owner = Owner::new("a", OwnerKind::Principal);
            assert_eq!(passed(&owner, per_second, false), others, "of {per_second}");
            assert_eq!(passed(&owner, per_second, true), settlements, "of {per_second}");
            let wait = owner.take_rate(per_second, true, 0).expect_err("all are used");
            assert_eq!(
                owner.take_rate(per_second, true, u64::try_from(wait.as_nanos()).expect("short")),
                Ok(()),
                "of {per_second}"
            );
        }
        assert_eq!(passed(&Owner::new("a", OwnerKind::Principal), 0, false), 10_000, "zero means unlimited");
    }

    #[test]
    fn idle_owners_are_forgotten_and_owners_without_space_share() {
        let owners = Owners::new();
        let known = || owners.known.lock().expect("no panic").principals.len();
        for number in 0..OWNERS_MAX * 3 {
            drop(owners.principal(&format!("idle {number}")));
            owners.known.lock().expect("no panic").tidied = None;
            assert!(known() <= OWNERS_MAX, "{number}");
        }
        let owners = Owners::new();
        let busy: Vec<_> =
            (0..OWNERS_MAX).map(|number| owners.principal(&format!("busy {number}"))).collect();
        let (late, later) = (owners.principal("late"), owners.principal("later"));
        assert!(Arc::ptr_eq(&late, &later), "they share one account");
        assert!(Arc::ptr_eq(&busy[7], &owners.principal("busy 7")), "others keep their own");
        let address = owners.stranger("busy 7");
        assert!(
            !Arc::ptr_eq(&busy[7], &address) && address.kind == OwnerKind::Stranger,
            "an address is not a name"
        );
    }

    /// A client that connects again would have a full bucket.
    #[test]
    fn owner_is_not_forgotten_before_its_bucket_is_full() {
        let owners = Owners::new();
        let take = || owners.principal("spent").take_rate(1, false, 0);
        assert_eq!(take(), Ok(()));
        for (now, is_known) in [(SECOND_NANOS - 1, true), (SECOND_NANOS, false)] {
            let mut known = owners.known.lock().expect("no panic");
            known.tidied = None;
            known.tidy(now);
            drop(known);
            assert_eq!(take().is_err(), is_known, "after {now} ns: a new owner has its first call");
        }
    }
}
