//! The conformance of stores: each case runs on both. What the ledger relies on, and nothing else.

use bytes::Bytes;
use idempotency_ledger::domain::{
    AuditEvent, Claim, Claimant, Command, Context, Entry, Key, Policy, PolicyVersion, Settle, Span,
    StoreTime, decide,
};
use idempotency_ledger::store::{
    Completion, EffectiveRetention, Fault, Found, Purpose, Session, StoreError, WriteResult,
};
use sqlx::{Connection as _, Executor as _, Row as _, SqlSafeStr as _};

use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, START, TestStore, put_new, replica};

on_both_stores!(
    a_row_comes_back_as_it_was_written,
    an_insert_leaves_an_entry_that_is_there,
    a_guess_is_shifted_by_the_stores_clock,
    a_replacement_needs_the_version_before,
    a_replacement_is_not_written_after_its_instant,
    replicas_that_can_not_read_a_format_are_found_and_forgotten,
    a_completion_needs_the_latest_token_and_an_open_claim,
    a_guessed_completion_writes_what_the_core_would_decide,
    loads_come_in_the_order_that_was_asked_for,
    a_purge_spares_what_changed_since_it_was_judged,
    a_purge_by_rules_that_are_not_in_force_takes_nothing,
    a_key_made_anew_is_not_the_row_that_was_read,
    grants_and_purges_stop_while_the_clock_is_behind,
    the_mark_of_the_clock_survives_a_restart,
    every_kind_of_text_survives,
);

fn claim(number: u128) -> Command {
    Command::Claim(Claim {
        claimant: Claimant {
            claim_id: uuid::Uuid::from_u128(number),
            principal: "anonymous".into(),
            owner: format!("owner-{number}"),
        },
        lease: None,
        fingerprint: Bytes::from_static(b"print"),
        occurred_at: None,
        traceparent: "00-trace".into(),
    })
}

/// What the core decides for a first claim.
fn granted(id: &str, now: StoreTime) -> Entry {
    let key = Key::new("stores", "tests", id);
    let policy = Policy::default();
    let context = Context { policy: &policy, now, token_offset: 0, position: 1, clock_behind: false };
    decide(&key, None, &claim(1), &context).write.unwrap()
}

fn next(entry: &Entry, command: &Command, now: StoreTime) -> Entry {
    let policy = Policy { max_attempts: 0, ..Policy::default() };
    let context = Context { policy: &policy, now, token_offset: 0, position: 1, clock_behind: false };
    decide(&entry.key, Some(entry), command, &context).write.unwrap()
}

async fn load(session: &mut dyn Session, id: &str) -> Option<Entry> {
    match session.entries().load(&[Key::new("stores", "tests", id)]).await.unwrap().found.pop().unwrap() {
        Found::Entry(entry) => Some(*entry),
        Found::Absent => None,
        other @ (Found::Collision | Found::Unreadable(_)) => panic!("{other:?}"),
    }
}

async fn insert(session: &mut dyn Session, entry: &Entry) {
    put_new(session, START, std::slice::from_ref(entry)).await;
}

async fn a_row_comes_back_as_it_was_written(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let mut entry = granted("1", START);
    insert(&mut *session, &entry).await;
    assert_eq!(load(&mut *session, "1").await.as_ref(), Some(&entry));
    // A whole life, so that each column was something else at some time.
    let mut now = START;
    let token = |entry: &Entry| entry.token;
    let steps: Vec<fn(&Entry) -> Command> = vec![
        |e| {
            Command::Settle(
                e.token,
                Settle::Renew {
                    lease: None,
                    effect_started: true,
                    checkpoint: Some(Bytes::from_static(b"half")),
                },
            )
        },
        |_| claim(2),
        |e| {
            Command::Settle(
                e.token,
                Settle::Fail {
                    kind: idempotency_ledger::domain::FailureKind::Retryable,
                    error: "first \"error\"\n".into(),
                    retry_after: Some(Span::ZERO),
                },
            )
        },
        |_| claim(3),
        |e| Command::Settle(e.token, Settle::Release { delay: Span::ZERO }),
        |_| claim(4),
        |e| {
            Command::Settle(
                e.token,
                Settle::Fail {
                    kind: idempotency_ledger::domain::FailureKind::Park,
                    error: String::new(),
                    retry_after: None,
                },
            )
        },
        |e| Command::Settle(e.token, Settle::Complete { result: Bytes::from_static(&[0, 255, 1]) }),
    ];
    for step in steps {
        now = now + Span::from_secs(60);
        let before = token(&entry);
        entry = next(&entry, &step(&entry), now);
        assert!(entry.token >= before);
        assert_eq!(session.entries().replace(std::slice::from_ref(&entry)).await.unwrap(), [true]);
        assert_eq!(load(&mut *session, "1").await.as_ref(), Some(&entry));
    }
}

async fn an_insert_leaves_an_entry_that_is_there(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let entry = granted("1", START);
    insert(&mut *session, &entry).await;
    let again = granted("1", StoreTime(0));
    assert_eq!(session.entries().insert(&[again], StoreTime::MAX).await.unwrap().tokens, [None]);
    assert_eq!(load(&mut *session, "1").await, Some(entry));
}

async fn a_guess_is_shifted_by_the_stores_clock(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let guess = granted("1", StoreTime(0));
    let inserted = session.entries().insert(std::slice::from_ref(&guess), START).await.unwrap();
    let expected = guess.stamped(START, START.micros());
    assert_eq!((inserted.reading.now, inserted.tokens), (START, vec![Some(expected.token)]));
    assert_eq!(load(&mut *session, "1").await, Some(expected.clone()));
    assert_eq!(expected, granted("1", START), "the guess is what the core would have decided");

    // The clock has passed what the guess was made for.
    let until = START - Span(1);
    let inserted = session.entries().insert(&[granted("2", StoreTime(0))], until).await.unwrap();
    assert_eq!((inserted.reading.now, inserted.tokens), (START, vec![None]));
    assert_eq!(load(&mut *session, "2").await, None);
}

async fn a_replacement_needs_the_version_before(kind: Kind) {
    let at = TestStore::new(kind).await;
    let (mut one, mut other) = (at.session().await, at.session().await);
    let entry = granted("1", START);
    insert(&mut *one, &entry).await;
    let now = START + Span::from_secs(60);
    let (mine, yours) = (next(&entry, &claim(2), now), next(&entry, &claim(3), now));
    assert_eq!(one.entries().replace(std::slice::from_ref(&mine)).await.unwrap(), [true]);
    assert_eq!(other.entries().replace(&[yours]).await.unwrap(), [false]);
    assert_eq!(load(&mut *other, "1").await, Some(mine));
}

async fn a_replacement_is_not_written_after_its_instant(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let mut rows = [granted("1", START), granted("2", START), granted("3", START)];
    rows.sort_by_key(|row| row.key.hash());
    put_new(&mut *session, START, &rows).await;
    let now = START + Span::from_secs(60);
    let changed: Vec<Entry> = rows.iter().map(|row| next(row, &claim(2), now)).collect();
    at.set_clock(now).await;
    let until = [now - Span(1), now, StoreTime::MAX];
    assert_eq!(session.entries().replace_until(&changed, &until).await.unwrap(), [false, true, true]);
    let id = rows[0].key.id().to_owned();
    assert_eq!(load(&mut *session, &id).await.as_ref(), Some(&rows[0]));
    assert_eq!(
        session.entries().replace(&changed[..1]).await.unwrap(),
        [true],
        "without an instant it is written"
    );
}

async fn replicas_that_can_not_read_a_format_are_found_and_forgotten(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    session.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    at.set_clock(START + Span::from_secs(60)).await;
    session.upkeep().write_heartbeat(&replica(2)).await.unwrap();
    let minute = START + Span::from_secs(60);
    for (format, since, found) in [
        (1, StoreTime(0), &[][..]),
        (2, StoreTime(0), &[1]),
        (3, StoreTime(0), &[1, 2]),
        (3, minute, &[2]),
        (3, minute + Span(1), &[]),
    ] {
        let below = session.policy_book().replicas_below(format, since, 10).await.unwrap();
        assert_eq!(
            below,
            found.iter().map(|speaks| replica(*speaks)).collect::<Vec<_>>(),
            "{format} {since:?}"
        );
    }
    assert_eq!(session.policy_book().replicas_below(3, StoreTime(0), 1).await.unwrap(), [replica(1)]);
    // It is written anew with each heartbeat, and kept for a day.
    at.set_clock(START + Span::from_days(1)).await;
    session.upkeep().write_heartbeat(&replica(2)).await.unwrap();
    assert_eq!(
        session.policy_book().replicas_below(3, START + Span::from_days(1), 10).await.unwrap(),
        [replica(2)]
    );
    assert_eq!(session.policy_book().replicas_below(3, StoreTime(0), 10).await.unwrap().len(), 2);
    at.set_clock(START + Span::from_days(1) + Span(1)).await;
    session.upkeep().write_heartbeat(&replica(2)).await.unwrap();
    assert_eq!(session.policy_book().replicas_below(3, StoreTime(0), 10).await.unwrap(), [replica(2)]);
}

async fn a_completion_needs_the_latest_token_and_an_open_claim(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let entry = granted("1", START);
    insert(&mut *session, &entry).await;
    let with = |id: &str, token| Completion {
        key: Key::new("stores", "tests", id),
        token,
        result: Bytes::new(),
        retention: Span::from_days(7),
    };
    for (case, completion, done) in [
        ("an older token", with("1", entry.token - 1), None),
        ("a token from the future", with("1", entry.token + 1), None),
        ("no entry", with("2", entry.token), None),
        ("the latest token", with("1", entry.token), Some(false)),
        ("completed already", with("1", entry.token), None),
    ] {
        assert_eq!(session.entries().complete(&[completion]).await.unwrap(), [done], "{case}");
    }
    let late = granted("late", START);
    insert(&mut *session, &late).await;
    at.set_clock(START + Span::from_secs(30)).await;
    assert_eq!(session.entries().complete(&[with("late", late.token)]).await.unwrap(), [Some(true)]);
}

async fn a_guessed_completion_writes_what_the_core_would_decide(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let entry = granted("1", START);
    insert(&mut *session, &entry).await;
    let now = START + Span::from_secs(40);
    at.set_clock(now).await;
    let result = Bytes::from_static(b"done");
    let completion = Completion {
        key: entry.key.clone(),
        token: entry.token,
        result: result.clone(),
        retention: Span::from_days(7),
    };
    session.entries().complete(&[completion]).await.unwrap();
    let decided = next(&entry, &Command::Settle(entry.token, Settle::Complete { result }), now);
    assert_eq!(load(&mut *session, "1").await, Some(decided));
}

async fn loads_come_in_the_order_that_was_asked_for(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let mut rows: Vec<Entry> = (0..50).map(|number| granted(&format!("m{number}"), START)).collect();
    rows.sort_by_key(|row| row.key.hash());
    put_new(&mut *session, START, &rows).await;
    let keys: Vec<Key> = (0..60).map(|number| Key::new("stores", "tests", &format!("m{number}"))).collect();
    let loaded = session.entries().load(&keys).await.unwrap();
    for (number, (key, found)) in keys.iter().zip(loaded.found).enumerate() {
        match found {
            Found::Entry(entry) => assert_eq!((entry.key, number < 50), (key.clone(), true)),
            Found::Absent => assert!(number >= 50),
            Found::Collision | Found::Unreadable(_) => panic!("{found:?}"),
        }
    }
}

async fn a_purge_spares_what_changed_since_it_was_judged(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let entry = granted("1", START);
    insert(&mut *session, &entry).await;
    let now = START + Span::from_secs(60);
    at.set_clock(now).await;
    let reclaimed = next(&entry, &claim(2), now);
    session.entries().replace(std::slice::from_ref(&reclaimed)).await.unwrap();
    let hash = entry.key.hash();
    assert_eq!(
        session.upkeep().purge(&[(hash, reclaimed.version)], 0).await.unwrap(),
        0,
        "its token is not a minute below the clock"
    );
    at.set_clock(now + Span::from_secs(61)).await;
    assert_eq!(
        session.upkeep().purge(&[(hash, entry.version)], 0).await.unwrap(),
        0,
        "claimed a moment before"
    );
    assert_eq!(session.upkeep().purge(&[(hash, reclaimed.version)], 0).await.unwrap(), 1);
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
    assert!(fresh.tokens[0] > Some(old.token));
    at.set_clock(now + Span::from_secs(120)).await;
    assert_eq!(session.entries().replace(&[decided]).await.unwrap(), [false]);
    assert_eq!(session.upkeep().purge(&[judged], 0).await.unwrap(), 0);
    assert_eq!(session.upkeep().look_again(&[(judged.0, judged.1, now)]).await.unwrap(), 0);
    assert_eq!(load(&mut *session, "1").await, after);
}

async fn grants_and_purges_stop_while_the_clock_is_behind(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let entry = granted("1", START - Span::from_secs(9));
    insert(&mut *session, &entry).await;
    at.set_clock(START - Span::from_secs(1)).await;
    let refused = session.entries().insert(&[granted("2", StoreTime(0))], StoreTime::MAX).await;
    assert!(matches!(refused, Err(StoreError::NotApplied(Fault::ClockBehind))), "{refused:?}");
    assert_eq!(load(&mut *session, "2").await, None);
    assert_eq!(session.upkeep().purge(&[(entry.key.hash(), entry.version)], 0).await.unwrap(), 0);
    assert!(session.entries().load(&[]).await.unwrap().reading.behind());
}

async fn the_mark_of_the_clock_survives_a_restart(kind: Kind) {
    let at = TestStore::new(kind).await;
    at.session().await.upkeep().write_heartbeat(&replica(1)).await.unwrap();
    // A store that is opened anew knows nothing but what was written down.
    at.set_clock(START - Span::from_secs(1)).await;
    let Some(database) = &at.database else { return restarted_sqlite(at).await };
    let fresh = crate::harness::server::postgres_store(&pg::shared().url(database));
    let mut session = idempotency_ledger::store::Store::open(&fresh, Purpose::Changes).await.unwrap();
    assert!(session.entries().load(&[]).await.unwrap().reading.behind());
}

async fn restarted_sqlite(at: TestStore) {
    let at = at.reopened().await;
    assert!(at.session().await.entries().load(&[]).await.unwrap().reading.behind());
}

async fn every_kind_of_text_survives(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let ids = ["e\u{301}", "\u{e9}", " padded ", "'; DROP TABLE entries; --", "\u{1F600}", "a\\b", "%_"];
    let mut rows: Vec<Entry> = ids.iter().map(|id| granted(id, START)).collect();
    rows.sort_by_key(|row| row.key.hash());
    put_new(&mut *session, START, &rows).await;
    for id in ids {
        assert_eq!(load(&mut *session, id).await.unwrap().key.id(), id);
    }
}

#[tokio::test]
async fn every_statement_of_postgres_can_be_prepared_and_has_a_name() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut connection = pg::shared().connect(at.database.as_ref().unwrap()).await;
    for statement in idempotency_ledger::store::POSTGRES_STATEMENTS.iter().copied() {
        assert!(statement.starts_with("-- ledger."), "{statement}");
        connection.prepare(sqlx::AssertSqlSafe(statement).into_sql_str()).await.unwrap();
    }
}

#[tokio::test]
async fn every_statement_of_sqlite_can_be_prepared_and_has_a_name() {
    let mut connection = sqlx::SqliteConnection::connect("sqlite::memory:").await.unwrap();
    sqlx::migrate!("migrations/sqlite").run_direct(None, &mut connection, false).await.unwrap();
    for statement in idempotency_ledger::store::SQLITE_STATEMENTS.iter().copied() {
        assert!(statement.starts_with("-- ledger."), "{statement}");
        connection.prepare(sqlx::AssertSqlSafe(statement).into_sql_str()).await.unwrap();
    }
}

/// On a table that was never analysed and holds many rows of one consumer, the hot statements read
/// their rows by key.
#[tokio::test]
async fn the_plans_of_the_hot_statements_are_pinned() {
    let at = TestStore::new(Kind::Postgres).await;
    let database = at.database.clone().unwrap();
    let mut session = at.session().await;
    for part in 0..10 {
        let mut rows: Vec<Entry> =
            (0..500).map(|number| granted(&format!("m{part}-{number}"), START)).collect();
        rows.sort_by_key(|row| row.key.hash());
        put_new(&mut *session, START, &rows).await;
    }
    let scans = async |database: &str| -> (i64, i64) {
        let mut connection = pg::shared().connect(database).await;
        // Statistics reach the view when their backend has been idle for a moment.
        tokio::time::sleep(std::time::Duration::from_millis(1_500)).await;
        let row =
            sqlx::query("SELECT seq_scan, seq_tup_read FROM pg_stat_user_tables WHERE relname = 'entries'")
                .fetch_one(&mut connection)
                .await
                .unwrap();
        connection.close().await.unwrap();
        (row.get(0), row.get(1))
    };
    let before = scans(&database).await;
    let mut keys: Vec<Key> =
        (0..500).map(|number| Key::new("stores", "tests", &format!("m3-{number}"))).collect();
    keys.sort_by_key(Key::hash);
    let loaded = session.entries().load(&keys).await.unwrap();
    let entries: Vec<Entry> = loaded
        .found
        .into_iter()
        .map(|found| match found {
            Found::Entry(entry) => next(&entry, &claim(2), START + Span::from_secs(60)),
            Found::Absent | Found::Collision | Found::Unreadable(_) => panic!("{found:?}"),
        })
        .collect();
    assert!(session.entries().replace(&entries).await.unwrap().iter().all(|done| *done));
    let completions: Vec<Completion> = entries
        .iter()
        .map(|entry| Completion {
            key: entry.key.clone(),
            token: entry.token,
            result: Bytes::new(),
            retention: Span::from_days(7),
        })
        .collect();
    assert!(session.entries().complete(&completions).await.unwrap().iter().all(Option::is_some));
    assert_eq!(scans(&database).await, before, "a hot statement read the whole table");
}

/// A completion touches no index: the claims that operators must find enter theirs only when they are old, or
/// were changed.
#[tokio::test]
async fn completions_are_heap_only_updates() {
    let at = TestStore::new(Kind::Postgres).await;
    let database = at.database.clone().unwrap();
    let mut session = at.session().await;
    for part in 0..10 {
        let mut rows: Vec<Entry> =
            (0..500).map(|number| granted(&format!("m{part}-{number}"), START)).collect();
        rows.sort_by_key(|row| row.key.hash());
        put_new(&mut *session, START, &rows).await;
        let completions: Vec<Completion> = rows
            .iter()
            .map(|row| Completion {
                key: row.key.clone(),
                token: row.token,
                result: Bytes::from_static(b"done"),
                retention: Span::from_days(7),
            })
            .collect();
        assert!(session.entries().complete(&completions).await.unwrap().iter().all(Option::is_some));
    }
    drop(session);
    let mut connection = pg::shared().connect(&database).await;
    let statement = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'entries'";
    let (updated, heap_only) = loop {
        // Statistics reach the view when their backend has been idle for a moment, or has gone.
        let row = sqlx::query(statement).fetch_one(&mut connection).await.unwrap();
        let (updated, heap_only): (i64, i64) = (row.get(0), row.get(1));
        if updated >= 5_000 {
            break (updated, heap_only);
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    };
    connection.close().await.unwrap();
    assert!(heap_only * 100 >= updated * 90, "{heap_only} of {updated}");
}
