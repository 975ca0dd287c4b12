//! What only grows, whoever writes it and whatever the clock does: the mark of the clock, window floors, the
//! marks of open claims.

use bytes::Bytes;
use idempotency_ledger::domain::{
    AuditEvent, Claim, Claimant, Command, Context, Entry, Key, Policy, RequestDigest, Span, StoreTime, decide,
};
use idempotency_ledger::store::{EffectiveRetention, Fault, Session, StoreError, Write, WriteResult};
use sqlx::Executor as _;

use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, START, TestStore, put_new, replica};

on_both_stores!(
    the_mark_does_not_follow_a_clock_that_runs_back,
    the_mark_is_of_the_clock_and_its_offset,
    a_window_floor_is_lowered_by_nobody,
    a_window_floor_outlives_the_policy,
    what_was_written_down_meanwhile_stays,
    nothing_is_purged_or_deleted_while_the_clock_is_behind,
);

fn granted(id: &str, now: StoreTime) -> Entry {
    let claim = Claim {
        claimant: Claimant {
            claim_id: uuid::Uuid::from_u128(1),
            principal: "anonymous".into(),
            owner: "owner".into(),
        },
        lease: None,
        fingerprint: Bytes::new(),
        occurred_at: None,
        traceparent: String::new(),
        handed_out: false,
    };
    let policy = Policy::default();
    let context = Context {
        policy: &policy,
        now,
        token_offset: 0,
        position: 1,
        clock_behind: false,
        clock_before_release: false,
        clock_ahead: false,
    };
    decide(&Key::new("c", "s", id), None, &Command::Claim(claim), &context).write.unwrap()
}

/// A replica that starts now grants nothing.
async fn is_behind(session: &mut dyn Session) -> bool {
    let refused = session.entries().insert(&[granted("new", StoreTime(0))], StoreTime::MAX).await;
    let loaded = session.entries().load(&[]).await.unwrap().reading.behind();
    assert_eq!(loaded, matches!(refused, Err(StoreError::NotApplied(Fault::ClockBehind))), "{refused:?}");
    loaded
}

async fn the_mark_does_not_follow_a_clock_that_runs_back(kind: Kind) {
    let at = TestStore::new(kind).await;
    at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    at.set_clock(START - Span::from_secs(3_600)).await;
    // The replicas that saw the clock before go on beating, and those that start now too.
    at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    let at = at.afresh().await;
    at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    at.set_clock(START - Span::from_secs(1)).await;
    let at = at.afresh().await;
    assert!(is_behind(&mut *at.session().await).await);
    at.set_clock(START).await;
    assert!(!is_behind(&mut *at.session().await).await);
}

async fn the_mark_is_of_the_clock_and_its_offset(kind: Kind) {
    let at = TestStore::new(kind).await;
    at.execute("UPDATE @ledger.meta SET token_offset = 3600000000").await;
    at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    assert_eq!(
        at.number("SELECT clock_mark FROM @ledger.meta").await,
        (START + Span::from_secs(3_600)).micros()
    );
    at.set_clock(START - Span::from_secs(1)).await;
    let at = at.afresh().await;
    assert!(is_behind(&mut *at.session().await).await);
}

fn retention_of_c(retention: Option<Span>, window_floor: StoreTime) -> EffectiveRetention {
    EffectiveRetention { consumer: "c".into(), retention, window_floor }
}

async fn a_window_floor_is_lowered_by_nobody(kind: Kind) {
    let at = TestStore::new(kind).await;
    let (mut one, mut other) = (at.session().await, at.session().await);
    one.policy_book().put_in_force(&[retention_of_c(Some(Span::from_days(30)), START)], None).await.unwrap();
    // It was decided before that, by a replica that is slow: with another retention, or with the same.
    for retention in [Some(Span::from_days(14)), Some(Span::from_days(30)), None] {
        other
            .policy_book()
            .put_in_force(&[retention_of_c(retention, START - Span::from_days(1))], None)
            .await
            .unwrap();
        let all = one.policy_book().effective_retentions().await.unwrap().1;
        let floors: Vec<_> = all.iter().map(|one| (one.consumer.as_str(), one.window_floor)).collect();
        assert_eq!(floors, [("c", START)], "{retention:?}");
    }
}

async fn a_window_floor_outlives_the_policy(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    session
        .policy_book()
        .put_in_force(&[retention_of_c(Some(Span::from_days(30)), START)], None)
        .await
        .unwrap();
    session.policy_book().put_in_force(&[retention_of_c(None, START)], None).await.unwrap();
    drop(session);
    let at = at.afresh().await;
    let all = at.session().await.policy_book().effective_retentions().await.unwrap().1;
    assert_eq!(all, [retention_of_c(None, START)]);
}

async fn what_was_written_down_meanwhile_stays(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let (nothing, first) =
        (EffectiveRetention::nothing("c"), retention_of_c(Some(Span::from_days(9)), START));
    let second = retention_of_c(Some(Span::from_days(8)), START);
    for (seen, next, changed) in [
        (&nothing, &first, 1),
        (&nothing, &second, 0),
        (&retention_of_c(None, START), &second, 0),
        (&retention_of_c(Some(Span::from_days(9)), StoreTime(0)), &second, 0),
        (&first, &second, 1),
    ] {
        let seen = std::slice::from_ref(seen);
        assert_eq!(
            session.policy_book().put_in_force(std::slice::from_ref(next), Some(seen)).await.unwrap(),
            changed
        );
        let stands = session.policy_book().effective_retentions().await.unwrap().1;
        assert_eq!(stands, std::slice::from_ref(if changed == 1 { next } else { &first }));
    }
}

/// Long after its last token, so that nothing but the clock forbids it.
async fn nothing_is_purged_or_deleted_while_the_clock_is_behind(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let entry = granted("1", START);
    put_new(&mut *session, START, std::slice::from_ref(&entry)).await;
    at.set_clock(START + Span::from_days(100)).await;
    session.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    at.set_clock(START + Span::from_days(99)).await;
    let rules = session.policy_book().policy_epoch().await.unwrap();
    let judged = [(entry.key.hash(), entry.version)];
    assert_eq!(session.upkeep().purge(&judged, rules).await.unwrap(), 0);
    let delete = Write::Delete(entry.key.hash(), entry.version);
    let event = AuditEvent {
        request_id: "erase".into(),
        at: START,
        actor: "tests".into(),
        action: "DELETE".into(),
        consumer: "c".into(),
        key: Some(entry.key.hash()),
        reason: "tests".into(),
        before: None,
        after: None,
        digest: Some(RequestDigest::of("tests", b"erase")),
    };
    let erased = session.operators().change(&delete, &event).await;
    assert!(!matches!(erased, Ok(WriteResult::Done)), "a token of the next entry could be lower: {erased:?}");
    assert_eq!(at.number("SELECT count(*) FROM @entries").await, 1);
    at.set_clock(START + Span::from_days(100)).await;
    assert_eq!(session.upkeep().purge(&judged, rules).await.unwrap(), 1);
}

/// The two races of the marks of open claims, on Postgres: SQLite has none.
#[tokio::test]
async fn a_claim_that_is_completed_meanwhile_is_not_marked() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut session = at.session().await;
    let entry = granted("1", START);
    put_new(&mut *session, START, std::slice::from_ref(&entry)).await;
    at.set_clock(START + Span::from_secs(3_600)).await;
    let database = at.database.clone().unwrap();
    let mut holder = pg::shared().connect(&database).await;
    holder.execute("BEGIN").await.unwrap();
    holder.execute("UPDATE ledger.entries SET state = 4, version = version + 1").await.unwrap();
    let marking = tokio::spawn(async move { session.upkeep().index_open_claims(10).await });
    pg::somebody_waits(&database).await;
    holder.execute("COMMIT").await.unwrap();
    marking.await.unwrap().unwrap();
    assert_eq!(at.row("1").await["attention"], None);
}

#[tokio::test]
async fn a_mark_of_open_claims_is_lowered_by_nobody() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut session = at.session().await;
    for (number, id) in ["1", "2"].into_iter().enumerate() {
        let now = START + Span::from_secs(i64::try_from(number).unwrap());
        at.set_clock(now).await;
        put_new(&mut *session, now, &[granted(id, now)]).await;
    }
    at.set_clock(START + Span::from_secs(3_600)).await;
    let database = at.database.clone().unwrap();
    let mut holder = pg::shared().connect(&database).await;
    // Another replica is further on, and commits while this one waits for the row of the consumer.
    holder.execute("BEGIN").await.unwrap();
    let further =
        format!("UPDATE ledger.consumers SET marked_at = {}", (START + Span::from_secs(60)).micros());
    holder.execute(sqlx::AssertSqlSafe(further)).await.unwrap();
    let marking = tokio::spawn(async move { session.upkeep().index_open_claims(1).await });
    pg::somebody_waits(&database).await;
    holder.execute("COMMIT").await.unwrap();
    marking.await.unwrap().unwrap();
    let marked = at.number("SELECT min(marked_at) FROM ledger.consumers").await;
    assert_eq!(marked, (START + Span::from_secs(60)).micros());
}
