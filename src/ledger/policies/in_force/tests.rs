//! Until when policies are trusted, and when they are read again, with a store in memory.

use std::collections::BTreeMap;

use super::*;
use crate::domain::PolicyVersion;
use crate::store::{Purpose, SqliteStore, Store, SystemClock};

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

/// Policies that were read long ago, of a store in memory.
async fn of_a_store() -> (PoliciesInForce, Box<dyn Session>) {
    let store = SqliteStore::in_memory(Arc::new(SystemClock));
    store.migrate().await.expect("a schema");
    let session = store.open(Purpose::Claims).await.expect("a session");
    let read = InForce::unread(Policies::default());
    (PoliciesInForce::new(Policies::default(), read, TRUSTED_FOR, false), session)
}

const TRUSTED_FOR: Duration = Duration::from_secs(10);

#[tokio::test]
async fn policies_are_trusted_until_their_time_is_over_by_either_clock() {
    let (live, mut session) = of_a_store().await;
    let as_of = StoreTime(1_000_000_000);
    let read = live.refresh_as_of(&mut *session, as_of).await.unwrap();
    let until = as_of + Span::from_secs(8);
    for (now, trusted) in [(as_of, true), (until, true), (until + Span::from_millis(1), false)] {
        assert_eq!(read.trusted(now), trusted, "{now:?}");
    }
    for (milliseconds, fresh) in [(0, true), (9_999, true), (10_000, false), (10_001, false)] {
        let now = read.asked_at + Duration::from_millis(milliseconds);
        assert_eq!(read.fresh_at(now), fresh, "{milliseconds} ms");
    }
}

#[tokio::test]
async fn each_look_uses_the_policies_that_were_read_last() {
    let (mut live, mut session) = of_a_store().await;
    let own = Policy { lease: Span::from_secs(77), ..Policy::default() };
    live.file = Policies::new(Policy::default(), BTreeMap::from([("own".to_owned(), own)]));
    assert!(!live.registered("own"), "it was not read yet");
    live.refresh_as_of(&mut *session, StoreTime(1)).await.unwrap();
    for (consumer, lease, registered) in
        [("own", Span::from_secs(77), true), ("other", Policy::default().lease, false)]
    {
        assert_eq!((live.of(consumer).lease, live.registered(consumer)), (lease, registered), "{consumer}");
        let policies = live.current();
        assert_eq!((policies.of(consumer).lease, policies.registered(consumer)), (lease, registered));
    }
}

#[tokio::test]
async fn log_reports_policies_that_cannot_be_read() {
    let (_, mut session) = of_a_store().await;
    let newer = PolicyVersion {
        consumer: "pay".into(),
        version: 1,
        policy: Some(r#"{"quorum":3}"#.into()),
        created_at: StoreTime(1),
        actor: "a".into(),
        reason: "r".into(),
    };
    let unreadable = Policies::default().with(std::slice::from_ref(&newer), None);
    let start = PoliciesInForce::new(Policies::default(), InForce::unread(unreadable), TRUSTED_FOR, false);
    let reported = |live: &PoliciesInForce| live.alerts.lock().unwrap().reported();
    assert_eq!(reported(&start), Some(1), "at the start");
    start.refresh_as_of(&mut *session, StoreTime(1)).await.unwrap();
    assert_eq!(reported(&start), None, "all can be read again");
}

#[tokio::test]
async fn batches_leave_reading_to_the_heartbeat_after_a_failure() {
    let (live, mut session) = of_a_store().await;
    let mut reads = async || live.reread(&mut *session, StoreTime(1)).await.unwrap().is_some();
    assert!(reads().await);
    drop(live.failed.attempt(Instant::now() + Duration::from_mins(1)));
    assert!(!reads().await, "one failed less than a second ago");
    drop(live.failed.attempt(Instant::now().checked_sub(Duration::from_secs(1)).unwrap()));
    assert!(reads().await, "one failed a second ago");
}
