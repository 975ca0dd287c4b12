//! Until when policies are trusted, and when they are read again.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::*;
use crate::domain::{AuditEvent, PolicyVersion, Reading};
use crate::ledger::policies::alerts::tests::of_newer_version;
use crate::store::{
    Entries, HoldBook, Inbox, Operators, PolicyBook, ReplayBook, Replica, Upkeep, WriteResult,
};

#[test]
fn all_policies_are_read_each_minute_and_after_a_change() {
    let read = InForce { epoch: Some(7), ..InForce::unread(Policies::default()) };
    let second = |second| read.read_at + Duration::from_secs(second);
    let mut last = read.clone();
    for (at, epoch, is_still) in
        [(1, 7, true), (30, 8, false), (30, 7, true), (59, 7, true), (60, 7, false), (61, 7, false)]
    {
        let as_of = StoreTime(i64::try_from(at).unwrap());
        let still = last.still(as_of, epoch, second(at));
        assert_eq!(still.as_ref().map(|still| still.as_of), is_still.then_some(as_of), "second {at}");
        last = still.unwrap_or(last);
    }
}

const TRUSTED_FOR: Duration = Duration::from_secs(10);

fn of(read: Policies) -> PoliciesInForce {
    PoliciesInForce::new(Policies::default(), InForce::unread(read), TRUSTED_FOR, false)
}

#[test]
fn policies_are_trusted_until_their_time_is_over_by_either_clock() {
    let (as_of, asked_at) = (StoreTime(1_000_000_000), Instant::now() + Duration::from_hours(1));
    let read = Snapshot {
        read: InForce::unread(Policies::default()),
        trusted_until: trusted_until(as_of, TRUSTED_FOR),
        asked_at,
        trusted_for: TRUSTED_FOR,
        number: 1,
    };
    let until = as_of + Span::from_secs(8);
    for (now, trusted) in [(as_of, true), (until, true), (until + Span::from_millis(1), false)] {
        assert_eq!(read.trusted(now), trusted, "{now:?}");
    }
    for (milliseconds, fresh) in [(0, true), (9_999, true), (10_000, false), (10_001, false)] {
        assert_eq!(read.fresh_at(asked_at + Duration::from_millis(milliseconds)), fresh, "{milliseconds} ms");
    }
}

#[test]
fn policies_in_force_answer_by_what_was_read() {
    let own = Policy { lease: Span::from_secs(77), ..Policy::default() };
    let live = of(Policies::new(Policy::default(), BTreeMap::from([("own".to_owned(), own)])));
    for (consumer, lease, registered) in
        [("own", Span::from_secs(77), true), ("other", Policy::default().lease, false)]
    {
        assert_eq!((live.of(consumer).lease, live.registered(consumer)), (lease, registered), "{consumer}");
        let policies = live.current();
        assert_eq!((policies.of(consumer).lease, policies.registered(consumer)), (lease, registered));
    }
}

#[test]
fn log_reports_policies_that_cannot_be_read() {
    let live = of(Policies::default().with(&[of_newer_version()], None));
    let reported = || live.alerts.lock().unwrap().reported();
    assert_eq!(reported(), Some(1), "at the start");
    live.alert(&Policies::default());
    assert_eq!(reported(), None, "all can be read again");
}

#[tokio::test]
async fn batches_leave_reading_to_the_heartbeat_after_a_failure() {
    let (live, mut session) = (of(Policies::default()), RefusingSession::default());
    let second = Duration::from_secs(1);
    for (failed_at, looks) in [
        (None, 1),
        // Ahead of this clock: recent, however slow the machine is.
        (Some(Instant::now() + 60 * second), 1),
        (Some(Instant::now().checked_sub(second).unwrap()), 2),
    ] {
        if let Some(failed_at) = failed_at {
            drop(live.failed.attempt(failed_at));
        }
        assert!(live.reread(&mut session, StoreTime(1)).await.unwrap().is_none());
        assert_eq!(session.looks, looks, "{failed_at:?}");
    }
}

/// A session that refuses each look at the policies, and counts the looks.
#[derive(Default)]
struct RefusingSession {
    looks: usize,
}

impl Session for RefusingSession {
    fn entries(&mut self) -> &mut dyn Entries {
        unreachable!("policies are read")
    }

    fn upkeep(&mut self) -> &mut dyn Upkeep {
        unreachable!("policies are read")
    }

    fn operators(&mut self) -> &mut dyn Operators {
        unreachable!("policies are read")
    }

    fn policy_book(&mut self) -> &mut dyn PolicyBook {
        self
    }

    fn replay_book(&mut self) -> &mut dyn ReplayBook {
        unreachable!("the epoch was refused")
    }

    fn hold_book(&mut self) -> &mut dyn HoldBook {
        unreachable!("the epoch was refused")
    }

    fn inbox(&mut self) -> &mut dyn Inbox {
        unreachable!("policies are read")
    }
}

#[async_trait]
impl PolicyBook for RefusingSession {
    async fn policy_epoch(&mut self) -> Result<i64, StoreError> {
        self.looks += 1;
        Err(StoreError::NotApplied(Fault::Unavailable("on demand".into())))
    }

    async fn policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError> {
        unreachable!("the epoch was refused")
    }

    async fn policy_versions(&mut self, _: &str, _: i32, _: usize) -> Result<Vec<PolicyVersion>, StoreError> {
        unreachable!("the epoch was refused")
    }

    async fn add_policy(
        &mut self,
        _: &PolicyVersion,
        _: &EffectiveRetention,
        _: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        unreachable!("policies are read")
    }

    async fn effective_retentions(&mut self) -> Result<(Reading, Vec<EffectiveRetention>), StoreError> {
        unreachable!("the epoch was refused")
    }

    async fn put_in_force(
        &mut self,
        _: &[EffectiveRetention],
        _: Option<&[EffectiveRetention]>,
    ) -> Result<usize, StoreError> {
        unreachable!("policies are read")
    }

    async fn replicas_below(&mut self, _: i32, _: StoreTime, _: usize) -> Result<Vec<Replica>, StoreError> {
        unreachable!("policies are read")
    }
}
