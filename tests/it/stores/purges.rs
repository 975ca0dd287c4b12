//! Purges: what they spare, and when they take nothing.

use idempotency_ledger::domain::{AuditEvent, Key, PolicyVersion, RequestDigest, Span, StoreTime};
use idempotency_ledger::store::{EffectiveRetention, WriteResult};

use super::turns::take_all;
use super::{claim, granted, insert, load, next};
use crate::harness::on_all_stores;
use crate::harness::server::{Kind, START, TestStore};

on_all_stores!(
    a_purge_spares_what_changed_since_it_was_judged,
    a_purge_by_rules_that_are_not_in_force_takes_nothing,
    a_key_made_anew_is_not_the_row_that_was_read,
    what_lies_where_a_row_was_read_is_deleted_only_if_it_is_the_row,
);

async fn a_purge_spares_what_changed_since_it_was_judged(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let entry = granted("1", START);
    insert(&mut *session, &entry).await;
    let now = START + Span::from_secs(60);
    at.set_clock(now).await;
    let reclaimed = next(&entry, &claim(2), now);
    session.entries().replace(std::slice::from_ref(&reclaimed)).await.unwrap();
    for (what, later, judged, taken) in [
        ("its token is not a minute below the clock", 0, reclaimed.version, 0),
        ("claimed a moment before", 61, entry.version, 0),
        ("judged as it is", 61, reclaimed.version, 1),
    ] {
        at.set_clock(now + Span::from_secs(later)).await;
        let purged = session.upkeep().purge(&[(entry.key.hash(), judged)], 0).await.unwrap();
        assert_eq!(purged, taken, "{what}");
    }
    assert_eq!(load(&mut *session, "1").await, None);
}

async fn a_purge_by_rules_that_are_not_in_force_takes_nothing(kind: Kind) {
    let at = TestStore::new(kind).await;
    let (mut session, mut other) = (at.session().await, at.session().await);
    insert(&mut *session, &granted("1", START)).await;
    let version = load(&mut *session, "1").await.unwrap().version;
    let judged = [(Key::new("stores", "tests", "1").hash(), version)];
    at.set_clock(START + Span::from_days(100)).await;
    let mut in_force = EffectiveRetention {
        consumer: "stores".into(),
        retention: Some(Span::from_days(7)),
        window_floor: START,
    };
    for step in ["a retention", "a floor", "a policy", "a policy that is not the next one", "nothing"] {
        let before = session.policy_book().policy_epoch().await.unwrap();
        let mut added = None;
        match step {
            "a floor" => in_force.window_floor = START + Span(1),
            "a policy" | "a policy that is not the next one" => {
                let policy = PolicyVersion {
                    consumer: "stores".into(),
                    version: 1,
                    policy: Some("{}".into()),
                    created_at: START,
                    actor: "tests".into(),
                    reason: "tests".into(),
                };
                let event = AuditEvent {
                    request_id: step.into(),
                    at: START,
                    actor: "tests".into(),
                    action: "SET_POLICY".into(),
                    consumer: "stores".into(),
                    key: None,
                    reason: "tests".into(),
                    before: None,
                    after: None,
                    digest: Some(RequestDigest::of("tests", step.as_bytes())),
                };
                added = Some(other.policy_book().add_policy(&policy, &in_force, &event).await.unwrap());
            }
            _ => {}
        }
        if added.is_none() {
            other.policy_book().put_in_force(std::slice::from_ref(&in_force), None).await.unwrap();
        }
        let changed = !matches!(step, "a policy that is not the next one" | "nothing");
        assert!(added.is_none_or(|added| (added == WriteResult::Done) == changed), "{step}: {added:?}");
        assert_eq!(session.policy_book().policy_epoch().await.unwrap() > before, changed, "{step}");
        if changed {
            assert_eq!(session.upkeep().purge(&judged, before).await.unwrap(), 0, "{step}");
        }
    }
    let now = session.policy_book().policy_epoch().await.unwrap();
    assert_eq!(session.upkeep().purge(&judged, now + 1).await.unwrap(), 0, "rules that nobody has seen yet");
    assert_eq!(session.upkeep().purge(&judged, now).await.unwrap(), 1);
}

/// What was decided or judged before a purge meets a new row of the same key, and leaves it alone.
async fn a_key_made_anew_is_not_the_row_that_was_read(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let old = granted("1", START);
    insert(&mut *session, &old).await;
    let now = START + Span::from_secs(120);
    let decided = next(&old, &claim(2), now);
    at.set_clock(now).await;
    let judged = (old.key.hash(), load(&mut *session, "1").await.unwrap().version);
    assert_eq!(session.upkeep().purge(&[judged], 0).await.unwrap(), 1);
    let fresh = session.entries().insert(&[granted("1", StoreTime(0))], StoreTime::MAX).await.unwrap();
    let after = load(&mut *session, "1").await;
    assert!(fresh.tokens()[0] > Some(old.token));
    at.set_clock(now + Span::from_secs(120)).await;
    assert_eq!(session.entries().replace(&[decided]).await.unwrap(), [false]);
    assert_eq!(session.upkeep().purge(&[judged], 0).await.unwrap(), 0);
    assert_eq!(load(&mut *session, "1").await, after);
}

/// The purge finds a row again by the place where it was read. Meanwhile the row may have changed, and thereby moved, or
/// another one may lie there that was written at the same instant.
async fn what_lies_where_a_row_was_read_is_deleted_only_if_it_is_the_row(kind: Kind) {
    let at = TestStore::new(kind).await;
    let (mut session, mut other) = (at.session().await, at.session().await);
    for id in ["over", "gone", "changed"] {
        insert(&mut *session, &granted(id, START)).await;
    }
    let turn = take_all(&mut *session).await.remove(0);
    let found = session.upkeep().created_between(&turn, StoreTime(0), START, 10).await.unwrap();
    let mut judged: Vec<_> = found.entries.iter().map(|entry| (entry.key.hash(), entry.version)).collect();
    judged.sort_unstable();
    let changed = found.entries.iter().find(|entry| entry.key.id() == "changed").unwrap();
    let reclaimed = next(changed, &claim(2), START + Span::from_secs(60));
    assert_eq!(other.entries().replace(&[reclaimed]).await.unwrap(), [true]);
    at.execute("DELETE FROM @entries WHERE id = 'gone'").await;
    if kind == Kind::Postgres {
        at.execute("VACUUM @entries").await;
    }
    insert(&mut *other, &granted("new", START)).await;
    if kind == Kind::Postgres {
        let there =
            "SELECT count(*) FROM @entries n JOIN @entries o ON o.id = 'over' AND o.version = n.version
            WHERE n.id = 'new' AND n.ctid = '(0,2)'";
        assert_eq!(at.number(there).await, 1, "it lies where the one that is gone was read");
    }
    at.set_clock(START + Span::from_secs(180)).await;
    assert_eq!(session.upkeep().purge(&judged, 0).await.unwrap(), 1);
    for (id, stays) in [("over", false), ("changed", true), ("gone", false), ("new", true)] {
        assert_eq!(load(&mut *session, id).await.is_some(), stays, "{id}");
    }
}
