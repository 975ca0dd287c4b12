//! The conformance of stores: each case runs on both. What the ledger relies on, and nothing else.

mod at_once;
mod batches;
mod changes;
mod commits;
mod completions;
mod inbox;
mod met;
mod purges;
mod statements;
mod turns;
mod written;

use bytes::Bytes;
use idempotency_ledger::domain::{
    Claim, Claimant, Command, Context, Entry, Key, Policy, Settle, Span, StoreTime, Terms, decide,
};
use idempotency_ledger::store::{Completion, Done, Fault, Found, Purpose, Session, StoreError};

use crate::harness::server::{Kind, START, TestStore, put_new, replica};
use crate::harness::{on_all_stores, postgres as pg};

on_all_stores!(
    a_row_comes_back_as_it_was_written,
    an_insert_leaves_an_entry_that_is_there,
    a_guess_is_shifted_by_the_stores_clock,
    a_replacement_needs_the_version_before,
    a_replacement_is_not_written_after_its_instant,
    replicas_that_can_not_read_a_format_are_found_and_forgotten,
    a_completion_needs_the_latest_token_and_an_open_claim,
    loads_come_in_the_order_that_was_asked_for,
    grants_and_purges_stop_while_the_clock_is_behind,
    the_mark_of_the_clock_survives_a_restart,
    every_kind_of_text_survives,
    a_batch_keeps_what_only_some_of_its_rows_have,
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
        handed_out: false,
    })
}

fn context(policy: &Policy, now: StoreTime) -> Context<'_> {
    Context {
        policy,
        now,
        token_offset: 0,
        position: 1,
        clock_behind: false,
        clock_before_release: false,
        clock_ahead: false,
    }
}

/// What the core decides for a first claim.
fn granted(id: &str, now: StoreTime) -> Entry {
    let key = Key::new("stores", "tests", id);
    let policy = Policy::default();
    let context = context(&policy, now);
    decide(&key, None, &claim(1), &context).write.unwrap()
}

fn next(entry: &Entry, command: &Command, now: StoreTime) -> Entry {
    let policy = Policy { max_attempts: 0, ..Policy::default() };
    let context = context(&policy, now);
    decide(&entry.key, Some(entry), command, &context).write.unwrap()
}

async fn load(session: &mut dyn Session, id: &str) -> Option<Entry> {
    match session.entries().load(&[Key::new("stores", "tests", id)]).await.unwrap().found.pop().unwrap() {
        Found::Entry(entry) => Some(*entry),
        Found::Absent => None,
        other @ (Found::Collision | Found::Unreadable(_)) => panic!("{other:?}"),
    }
}

async fn load_all(session: &mut dyn Session, keys: &[Key]) -> Vec<Entry> {
    let entry = |found| match found {
        Found::Entry(entry) => *entry,
        other => panic!("{other:?}"),
    };
    session.entries().load(keys).await.unwrap().found.into_iter().map(entry).collect()
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
                    checkpoint_dropped: false,
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
        |e| Command::Settle(e.token, Settle::Release { delay: Span::ZERO, unpin: false }),
        |_| claim(4),
        |e| {
            let token = e.history[1].token.unwrap();
            Command::Settle(token, Settle::Complete { result: Bytes::new(), left_out: false })
        },
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
        |e| {
            let result = Bytes::from_static(&[0, 255, 1]);
            Command::Settle(e.token, Settle::Complete { result, left_out: false })
        },
    ];
    for step in steps {
        now = now + Span::from_secs(60);
        let before = token(&entry);
        entry = next(&entry, &step(&entry), now);
        assert!(entry.token >= before);
        assert_eq!(session.entries().replace(std::slice::from_ref(&entry)).await.unwrap(), [true]);
        assert_eq!(load(&mut *session, "1").await.as_ref(), Some(&entry));
    }
    assert!(entry.history[1].reported_done && entry.superseded_completes == 1 && entry.doubled, "{entry:?}");
}

async fn an_insert_leaves_an_entry_that_is_there(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let entry = granted("1", START);
    insert(&mut *session, &entry).await;
    let again = granted("1", StoreTime(0));
    assert_eq!(session.entries().insert(&[again], StoreTime::MAX).await.unwrap().tokens(), [None]);
    assert_eq!(load(&mut *session, "1").await, Some(entry));
}

async fn a_guess_is_shifted_by_the_stores_clock(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let guess = granted("1", StoreTime(0));
    let inserted = session.entries().insert(std::slice::from_ref(&guess), START).await.unwrap();
    let expected = guess.stamped(START, START.micros());
    assert_eq!((inserted.reading.now, inserted.tokens()), (START, vec![Some(expected.token)]));
    assert_eq!(load(&mut *session, "1").await, Some(expected.clone()));
    assert_eq!(expected, granted("1", START), "the guess is what the core would have decided");

    // The clock has passed what the guess was made for.
    let until = START - Span(1);
    let inserted = session.entries().insert(&[granted("2", StoreTime(0))], until).await.unwrap();
    assert_eq!((inserted.reading.now, inserted.tokens()), (START, vec![None]));
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
    // It is written again with each heartbeat, and kept for a day.
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
        terms: Terms::of(&Policy::default()),
        result_dropped: false,
    };
    for (case, completion, done) in [
        ("an older token", with("1", entry.token - 1), None),
        ("a token from the future", with("1", entry.token + 1), None),
        ("no entry", with("2", entry.token), None),
        ("the latest token", with("1", entry.token), Some(false)),
        ("completed already", with("1", entry.token), None),
    ] {
        assert_eq!(
            session.entries().complete(&[completion]).await.unwrap(),
            [done.map(|late| Done { late, attempt: 1, doubled: false })],
            "{case}"
        );
    }
    let late = granted("late", START);
    insert(&mut *session, &late).await;
    at.set_clock(START + Span::from_secs(30)).await;
    let done = [Some(Done { late: true, attempt: 1, doubled: false })];
    assert_eq!(session.entries().complete(&[with("late", late.token)]).await.unwrap(), done);
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
    // A store that is opened again knows nothing but what was written down.
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

/// Also what all of them share, or none has: a batch is sent without it.
async fn a_batch_keeps_what_only_some_of_its_rows_have(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let mut number = 0;
    // What each row has: its consumer and source, a UUID as its id, seconds of lease, a principal, an owner, a fingerprint,
    // a trace; and the result of its completion.
    for rows in [
        [("a", "x", false, 30, "", "", "", "", ""), ("a", "x", false, 30, "", "", "", "", "")],
        [
            ("a", "x", true, 30, "p", "o", "print", "00-1", "done"),
            ("a", "x", true, 30, "p", "o", "print", "00-1", "done"),
        ],
        [("a", "x", true, 30, "", "", "print", "", "done"), ("b", "y", false, 40, "p", "o", "", "00-1", "")],
        [("a", "y", false, 40, "p", "o", "", "00-1", ""), ("a", "x", true, 30, "", "", "print", "", "done")],
    ] {
        let entries = rows.map(|(consumer, source, is_uuid, lease, principal, owner, print, trace, _)| {
            number += 1;
            let id = uuid::Uuid::from_u128(number);
            let id = if is_uuid { id.to_string() } else { id.simple().to_string() };
            let policy = Policy { retention: Span::from_secs(lease * 1_000), ..Policy::default() };
            let context = context(&policy, START);
            let claimant = Claimant {
                claim_id: uuid::Uuid::from_u128(number),
                principal: principal.into(),
                owner: owner.into(),
            };
            let claim = Command::Claim(Claim {
                claimant,
                lease: Some(Span::from_secs(lease)),
                fingerprint: Bytes::from_static(print.as_bytes()),
                occurred_at: None,
                traceparent: trace.into(),
                handed_out: false,
            });
            decide(&Key::new(consumer, source, &id), None, &claim, &context).write.unwrap()
        });
        let keys = entries.each_ref().map(|entry| entry.key.clone());
        put_new(&mut *session, START, &entries).await;
        assert_eq!(load_all(&mut *session, &keys).await, entries, "{rows:?}");
        let completions = entries.each_ref().map(|entry| Completion {
            key: entry.key.clone(),
            token: entry.token,
            result: Bytes::from_static(rows[usize::from(entry.key != keys[0])].8.as_bytes()),
            terms: Terms::of(&Policy::default()),
            result_dropped: false,
        });
        assert!(session.entries().complete(&completions).await.unwrap().iter().all(Option::is_some));
        let results = load_all(&mut *session, &keys).await.into_iter().map(|entry| entry.result);
        assert!(results.eq(rows.iter().map(|row| row.8)), "{rows:?}");
    }
}
