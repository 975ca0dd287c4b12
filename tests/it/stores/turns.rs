//! Turns of the purge: whose it is, and what is found in them.

use idempotency_ledger::domain::{Entry, Key, Namespace, Span, StoreTime};
use idempotency_ledger::store::{EffectiveRetention, PurgePlace, PurgeTurn, Session};

use super::granted;
use crate::harness::on_all_stores;
use crate::harness::server::{Kind, START, TestStore, put_new};

on_all_stores!(
    a_turn_is_one_servers_until_it_ends_or_is_held_no_longer,
    the_consumer_that_is_due_for_the_longest_time_comes_first,
    another_retention_makes_its_consumers_due_and_ends_their_turns,
    another_retention_makes_replay_runs_of_its_consumer_due_and_ends_their_turns,
    what_was_created_between_two_instants_comes_in_batches,
);

const MINUTE: Span = Span::from_secs(60);

fn of(consumer: &str, id: &str) -> Entry {
    let key = Key::new(consumer, "tests", id);
    Entry { key, ..granted(id, START) }
}

async fn take(session: &mut dyn Session) -> Option<PurgeTurn> {
    session.upkeep().take_purge_turn(MINUTE).await.unwrap()
}

/// All turns that there are.
pub(super) async fn take_all(session: &mut dyn Session) -> Vec<PurgeTurn> {
    let mut turns = Vec::new();
    while let Some(turn) = take(session).await {
        turns.push(turn);
        assert!(turns.len() < 10, "turns are given more than once: {turns:?}");
    }
    turns
}

async fn name(session: &mut dyn Session) -> Option<String> {
    take(session).await.map(|turn| turn.consumer)
}

async fn a_turn_is_one_servers_until_it_ends_or_is_held_no_longer(kind: Kind) {
    let at = TestStore::new(kind).await;
    let (mut one, mut other) = (at.session().await, at.session().await);
    assert_eq!(name(&mut *one).await, None, "nobody has an entry");
    put_new(&mut *one, START, &[of("c", "1")]).await;
    let mut mine = take(&mut *one).await.expect("a new consumer is due");
    let nothing = PurgePlace { passed: StoreTime(0), again: StoreTime(0), again_due: StoreTime(0) };
    assert_eq!((mine.consumer.as_str(), mine.place, mine.taken.now), ("c", nothing, START));
    assert_eq!(name(&mut *other).await, None, "one server has it");
    mine.place = PurgePlace { passed: START, again: START + Span(1), again_due: START + Span::from_days(1) };
    one.upkeep().end_purge_turn(&mine, START + Span::from_secs(10)).await.unwrap();
    assert_eq!(name(&mut *other).await, None, "it is not due again");
    at.set_clock(START + Span::from_secs(10)).await;
    let theirs = take(&mut *other).await.expect("it is due again");
    assert_eq!(theirs.place, mine.place, "where the other server had come to");
    at.set_clock(START + Span::from_secs(10) + MINUTE).await;
    let late = theirs;
    let mut mine = take(&mut *one).await.expect("the other server has held it for too long");
    mine.place.passed = START + Span(7);
    let due = START + Span::from_days(1);
    other.upkeep().end_purge_turn(&late, due).await.unwrap();
    one.upkeep().end_purge_turn(&mine, due).await.unwrap();
    at.set_clock(due).await;
    assert_eq!(
        take(&mut *one).await.map(|turn| turn.place),
        Some(mine.place),
        "what came too late is not kept"
    );
}

async fn the_consumer_that_is_due_for_the_longest_time_comes_first(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    put_new(&mut *session, START, &[of("a", "1")]).await;
    put_new(&mut *session, START, &[of("b", "1")]).await;
    put_new(&mut *session, START, &[of("c", "1")]).await;
    let turns = take_all(&mut *session).await;
    for (consumer, due) in [("a", 30), ("b", 10), ("c", 400 * 86_400)] {
        let turn = turns.iter().find(|turn| turn.consumer == consumer).expect("each of them is due");
        session.upkeep().end_purge_turn(turn, START + Span::from_secs(due)).await.unwrap();
    }
    // A year ahead: that was written by a clock that was wrong.
    assert_eq!(name(&mut *session).await.as_deref(), Some("c"));
    assert_eq!(name(&mut *session).await, None);
    at.set_clock(START + Span::from_secs(30)).await;
    assert_eq!(name(&mut *session).await.as_deref(), Some("b"));
    assert_eq!(name(&mut *session).await.as_deref(), Some("a"));
}

async fn another_retention_makes_its_consumers_due_and_ends_their_turns(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let days = |consumer: &str, days: i64| EffectiveRetention {
        consumer: consumer.into(),
        retention: Some(Span::from_days(days)),
        window_floor: StoreTime(0),
    };
    let all = [days("", 7), days("own", 7)];
    session.policy_book().put_in_force(&all, None).await.unwrap();
    put_new(&mut *session, START, &[of("default", "1")]).await;
    for (changed, expected) in
        [(days("own", 5), vec!["own"]), (days("", 5), vec!["default"]), (days("", 5), vec![])]
    {
        for turn in take_all(&mut *session).await {
            session.upkeep().end_purge_turn(&turn, at.now() + MINUTE).await.unwrap();
        }
        at.set_clock(at.now() + MINUTE).await;
        let held = take_all(&mut *session).await;
        assert_eq!(held.len(), 2, "each is due again after a minute");
        session.policy_book().put_in_force(std::slice::from_ref(&changed), None).await.unwrap();
        // Their turns went by another retention: what they came to is not kept.
        for turn in held {
            session.upkeep().end_purge_turn(&turn, at.now() + Span::from_days(1)).await.unwrap();
        }
        let due: Vec<_> = take_all(&mut *session).await.into_iter().map(|turn| turn.consumer).collect();
        assert_eq!(due, expected, "{changed:?}");
        at.set_clock(at.now() + Span::from_days(1)).await;
    }
}

/// A replay run follows the retention of its consumer, with whose name the name of the run begins.
async fn another_retention_makes_replay_runs_of_its_consumer_due_and_ends_their_turns(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let own = |days: i64| EffectiveRetention {
        consumer: "own".into(),
        retention: Some(Span::from_days(days)),
        window_floor: StoreTime(0),
    };
    session.policy_book().put_in_force(&[own(7)], None).await.unwrap();
    let (run, run_of_another) = (Namespace::new("own", "run"), Namespace::new("owner", "run"));
    for namespace in [&run, &run_of_another] {
        let key = Key::of(namespace.clone(), "tests".into(), "1".into());
        put_new(&mut *session, START, &[Entry { key, ..granted("1", START) }]).await;
    }
    let held = take_all(&mut *session).await;
    assert_eq!(held.len(), 3, "the consumer and both runs: {held:?}");
    session.policy_book().put_in_force(&[own(5)], None).await.unwrap();
    for turn in held {
        session.upkeep().end_purge_turn(&turn, START + Span::from_days(1)).await.unwrap();
    }
    let mut due: Vec<_> = take_all(&mut *session).await.into_iter().map(|turn| turn.consumer).collect();
    due.sort();
    assert_eq!(due, ["own", run.name()]);
}

async fn what_was_created_between_two_instants_comes_in_batches(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let at_second = |second: i64| START + Span::from_secs(second);
    for (second, ids) in [(1, vec!["1"]), (2, vec!["2a", "2b", "2c"]), (3, vec!["3"]), (4, vec!["4"])] {
        at.set_clock(at_second(second)).await;
        let mut entries: Vec<Entry> = ids.iter().map(|id| granted(id, at_second(second))).collect();
        entries.sort_by_key(|entry| entry.key.hash());
        put_new(&mut *session, at_second(second), &entries).await;
        put_new(&mut *session, at_second(second), &[of("other", ids[0])]).await;
    }
    let mut turns = take_all(&mut *session).await.into_iter();
    let turn = turns.find(|turn| turn.consumer == "stores").unwrap();
    for (after, until, limit, expected, last) in [
        (0, 9, 10, "1 2a 2b 2c 3 4", Some(4)),
        (0, 3, 10, "1 2a 2b 2c 3", Some(3)),
        (1, 9, 1, "2a 2b 2c", Some(2)),
        (0, 9, 2, "1 2a 2b 2c", Some(2)),
        (2, 9, 1, "3", Some(3)),
        (4, 9, 5, "", None),
    ] {
        let found =
            session.upkeep().created_between(&turn, at_second(after), at_second(until), limit).await.unwrap();
        let mut ids: Vec<&str> = found.entries.iter().map(|entry| entry.key.id()).collect();
        ids.sort_unstable();
        let case = format!("after {after} until {until}, {limit}");
        assert_eq!((ids.join(" ").as_str(), found.last), (expected, last.map(at_second)), "{case}");
        assert_eq!(found.count, ids.len(), "{case}");
    }
    for (after, first) in [(0, Some(1)), (2, Some(3)), (4, None)] {
        let found = session.upkeep().first_created_after(&turn, at_second(after)).await.unwrap();
        assert_eq!(found, first.map(at_second), "after {after}");
    }
}
