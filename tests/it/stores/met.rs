//! What an insert of Postgres gives back of the entries that it meets, also of those that come, go and change while
//! it runs: in a batch, and alone.

use bytes::Bytes;
use idempotency_ledger::domain::{
    self, AuditEvent, Command, Context, Entry, FailureKind, Import, Imported, Key, Policy, RequestDigest,
    Settle, Span, StoreTime, Terms,
};
use idempotency_ledger::store::{Completion, Done, Found, InsertOutcome, Session, Write, WriteResult};
use sqlx::{AssertSqlSafe, Executor as _, PgConnection};

use super::{claim, granted, insert, load, next};
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, START, TestStore, put_new};

/// What an insert says, in words.
#[derive(Debug, PartialEq)]
enum Said {
    Granted,
    /// What was found, as a text.
    Met(String),
    Unseen,
}

impl Said {
    fn met(found: &Found) -> Said {
        Said::Met(format!("{found:?}"))
    }
}

fn key(id: &str) -> Key {
    Key::new("stores", "tests", id)
}

/// Guesses, sorted as a batch is.
fn guesses(ids: &[&str]) -> Vec<Entry> {
    let mut rows: Vec<Entry> = ids.iter().map(|id| granted(id, StoreTime(0))).collect();
    rows.sort_by_key(|row| row.key.hash());
    rows
}

/// What became of the guesses, in the order of the ids.
async fn ask(session: &mut dyn Session, ids: &[&str], until: StoreTime) -> Vec<Said> {
    let rows = guesses(ids);
    let inserted = session.entries().insert(&rows, until).await.unwrap();
    assert_eq!(inserted.outcomes.len(), rows.len());
    let said = |outcome: &InsertOutcome| match outcome {
        InsertOutcome::Granted(token) => {
            assert!(*token > START.micros());
            Said::Granted
        }
        InsertOutcome::Conflict(found) => Said::met(found),
        InsertOutcome::UnknownConflict => Said::Unseen,
    };
    let all = || rows.iter().zip(&inserted.outcomes);
    ids.iter().map(|id| said(all().find(|(row, _)| row.key.id() == *id).unwrap().1)).collect()
}

async fn put(session: &mut dyn Session, ids: &[&str]) -> Vec<Entry> {
    let mut rows: Vec<Entry> = ids.iter().map(|id| granted(id, START)).collect();
    rows.sort_by_key(|row| row.key.hash());
    put_new(session, START, &rows).await;
    ids.iter().map(|id| rows.iter().find(|row| row.key.id() == *id).unwrap().clone()).collect()
}

async fn complete(session: &mut dyn Session, entry: &Entry) {
    let completion = Completion {
        key: entry.key.clone(),
        token: entry.token,
        result: Bytes::from_static(b"done"),
        terms: Terms::of(&Policy::default()),
        result_dropped: false,
    };
    let done = Done { late: false, attempt: entry.attempts, doubled: false };
    assert_eq!(session.entries().complete(&[completion]).await.unwrap(), [Some(done)]);
}

/// A transaction of somebody else, which does this and stays open.
async fn other(at: &TestStore, statement: &str) -> PgConnection {
    let mut other = pg::shared().connect(at.database.as_ref().unwrap()).await;
    other.execute("BEGIN").await.unwrap();
    other.execute(AssertSqlSafe(statement)).await.unwrap();
    other
}

/// Asks, and ends the other transaction once the insert waits for it.
async fn ask_while(at: &TestStore, mut other: PgConnection, ids: &[&str]) -> Vec<Said> {
    let mut session = at.session().await;
    let (said, ()) = tokio::join!(ask(&mut *session, ids, StoreTime::MAX), async {
        pg::somebody_waits(at.database.as_ref().unwrap()).await;
        other.execute("COMMIT").await.unwrap();
    });
    said
}

/// A statement that makes a row like that of `like`, under another key.
fn copy(like: &str, id: &str) -> String {
    let hash = key(id).hash();
    format!(
        "INSERT INTO ledger.entries
         SELECT (jsonb_populate_record(e, '{{\"key\": \"{hash}\", \"id\": \"{id}\"}}')).*
         FROM ledger.entries e WHERE e.id = '{like}'"
    )
}

/// A session of a store that has met an entry a moment ago: now its inserts look for entries.
async fn stirred(at: &TestStore) -> Box<dyn Session> {
    let mut session = at.session().await;
    put(&mut *session, &["stirs"]).await;
    assert!(matches!(&ask(&mut *session, &["stirs"], StoreTime::MAX).await[..], [Said::Met(_)]));
    session
}

/// What is met is what a load finds, whatever its state, and also where it is no entry of this key.
#[tokio::test]
async fn an_insert_gives_back_what_a_load_would_find() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut session = at.session().await;
    let there = ["open", "completed", "failed", "collides", "unreadable"];
    let rows = put(&mut *session, &there).await;
    complete(&mut *session, &rows[1]).await;
    let fail = Settle::Fail { kind: FailureKind::Terminal, error: "no".into(), retry_after: None };
    let failed = next(&rows[2], &Command::Settle(rows[2].token, fail), START + Span::from_secs(1));
    assert_eq!(session.entries().replace(&[failed]).await.unwrap(), [true]);
    at.execute("UPDATE @entries SET id = 'of another key' WHERE id = 'collides'").await;
    at.execute("UPDATE @entries SET state = 99 WHERE id = 'unreadable'").await;
    let mut expected = Vec::new();
    for id in there {
        expected.push(Said::met(&session.entries().load(&[key(id)]).await.unwrap().found[0]));
    }
    for (place, word) in
        [(0, "InProgress"), (1, "done"), (2, "FailedTerminal"), (3, "Collision"), (4, "state")]
    {
        assert!(matches!(&expected[place], Said::Met(text) if text.contains(word)), "{:?}", expected[place]);
    }
    // A session that has learnt no names yet.
    let mut session = at.session().await;
    let ids = ["new", "open", "completed", "failed", "other", "collides", "unreadable"];
    let mut said = ask(&mut *session, &ids, StoreTime::MAX).await;
    assert_eq!((said.remove(4), said.remove(0)), (Said::Granted, Said::Granted));
    assert_eq!(said, expected);
    for (id, expected) in there.iter().zip(expected) {
        assert_eq!(ask(&mut *session, &[id], StoreTime::MAX).await, [expected], "alone");
    }
    assert_eq!(ask(&mut *session, &["alone"], StoreTime::MAX).await, [Said::Granted]);
}

#[tokio::test]
async fn after_the_instant_an_insert_tells_only_what_is_there() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut session = at.session().await;
    let entry = put(&mut *session, &["there"]).await.remove(0);
    let met = Said::met(&Found::Entry(Box::new(entry)));
    let late = START - Span(1);
    assert_eq!(ask(&mut *session, &["new", "there"], late).await, [Said::Unseen, Said::Unseen]);
    let mut session = stirred(&at).await;
    assert_eq!(ask(&mut *session, &["new", "there"], late).await, [Said::Unseen, met]);
    assert_eq!(ask(&mut *session, &["new"], late).await, [Said::Unseen]);
    assert_eq!(load(&mut *session, "new").await, None);
}

/// The statement began before the row was committed: it does not see it, and says that it does not know.
#[tokio::test]
async fn what_comes_while_an_insert_runs_is_not_taken_for_absent() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut session = stirred(&at).await;
    insert(&mut *session, &granted("there", START)).await;
    let said = ask_while(&at, other(&at, &copy("there", "raced")).await, &["raced", "new"]).await;
    assert_eq!(said, [Said::Unseen, Said::Granted]);
    let raced = Said::met(&session.entries().load(&[key("raced")]).await.unwrap().found[0]);
    assert_eq!(ask(&mut *session, &["raced"], StoreTime::MAX).await, [raced]);
    // Alone it looks once more, and sees it.
    let said = ask_while(&at, other(&at, &copy("there", "again")).await, &["again"]).await;
    let again = Said::met(&session.entries().load(&[key("again")]).await.unwrap().found[0]);
    assert_eq!(said, [again]);
}

/// Where no message came again for a while, an insert looks for no entries. The first that meets one is sent anew, and
/// does.
#[tokio::test]
async fn after_a_quiet_time_an_insert_that_meets_an_entry_is_sent_anew() {
    for raced in [false, true] {
        let at = TestStore::new(Kind::Postgres).await;
        let mut session = at.session().await;
        put(&mut *session, &["there"]).await;
        let ids = ["before", "met", "after"];
        let said = if raced {
            ask_while(&at, other(&at, &copy("there", "met")).await, &ids).await
        } else {
            put(&mut *session, &["met"]).await;
            ask(&mut *session, &ids, StoreTime::MAX).await
        };
        let met = Said::met(&session.entries().load(&[key("met")]).await.unwrap().found[0]);
        assert_eq!(said, [Said::Granted, met, Said::Granted], "raced: {raced}");
        for id in ["before", "after"] {
            assert!(load(&mut *session, id).await.is_some(), "{id}");
        }
    }
}

/// An operator's insert stands in a transaction, whose other statements must not fail by it.
#[tokio::test]
async fn an_operators_insert_that_meets_an_entry_is_lost() {
    let policy = Policy::default();
    let context = Context {
        policy: &policy,
        now: START,
        token_offset: 0,
        position: 1,
        clock_behind: false,
        clock_before_release: false,
        clock_ahead: false,
    };
    let imported = |row: &Entry| {
        let import = Import { completed_at: None, result: Bytes::new(), fingerprint: Bytes::new() };
        match domain::import(&row.key, None, &import, &context).unwrap() {
            Imported::Stored(entry) => *entry,
            other => panic!("{other:?}"),
        }
    };
    for ids in [&["met"][..], &["met", "new"]] {
        let at = TestStore::new(Kind::Postgres).await;
        let mut session = at.session().await;
        put(&mut *session, &["met"]).await;
        let event = AuditEvent {
            request_id: "operator".into(),
            at: START,
            actor: "tests".into(),
            action: "OPERATOR".into(),
            consumer: "stores".into(),
            key: None,
            reason: "tests".into(),
            before: None,
            after: None,
            digest: Some(RequestDigest::of("tests", b"operator")),
        };
        let rows = guesses(ids);
        let done = if let [row] = &rows[..] {
            session.operators().change(&Write::Insert(Box::new(row.clone())), &event).await
        } else {
            let rows: Vec<_> = rows.iter().map(imported).collect();
            session.operators().write_entries(&rows, &[], &[event]).await
        };
        assert_eq!(done.unwrap(), WriteResult::Lost, "{ids:?}");
        assert_eq!(at.number("SELECT count(*) FROM @ledger.entries").await, 1, "{ids:?}");
        assert_eq!(at.number("SELECT count(*) FROM @ledger.audit").await, 0, "{ids:?}");
    }
}

/// The statement still sees a row that was deleted after it began: what counts is that it has inserted one.
#[tokio::test]
async fn what_goes_while_an_insert_runs_is_granted_anew() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut session = at.session().await;
    let rows = put(&mut *session, &["gone", "kept", "alone"]).await;
    let now = START + Span::from_secs(60);
    at.set_clock(now).await;
    let delete = |id: &str| format!("DELETE FROM ledger.entries WHERE id = '{id}'");
    let said = ask_while(&at, other(&at, &delete("gone")).await, &["gone", "kept"]).await;
    assert_eq!(said, [Said::Granted, Said::met(&Found::Entry(Box::new(rows[1].clone())))]);
    let said = ask_while(&at, other(&at, &delete("alone")).await, &["alone"]).await;
    assert_eq!(said, [Said::Granted]);
    for (id, old) in [("gone", &rows[0]), ("alone", &rows[2])] {
        let fresh = load(&mut *session, id).await.unwrap();
        assert!(fresh.token > old.token && fresh.version > old.version, "{id}");
    }
}

/// An entry is given back as the statement saw it when it began. Whoever decides on that writes only where it is still
/// the same.
#[tokio::test]
async fn what_changes_while_an_insert_runs_cannot_be_overwritten() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut session = stirred(&at).await;
    let row = put(&mut *session, &["changed"]).await.remove(0);
    let mut waited_for = other(&at, &copy("changed", "raced")).await;
    let mut asking = at.session().await;
    let (said, ()) = tokio::join!(ask(&mut *asking, &["changed", "raced"], StoreTime::MAX), async {
        pg::somebody_waits(at.database.as_ref().unwrap()).await;
        complete(&mut *session, &row).await;
        waited_for.execute("COMMIT").await.unwrap();
    });
    assert_eq!(said, [Said::met(&Found::Entry(Box::new(row.clone()))), Said::Unseen]);
    let reclaimed = next(&row, &claim(2), START + Span::from_secs(60));
    assert_eq!(session.entries().replace(&[reclaimed]).await.unwrap(), [false]);
}

/// What was inserted is told, though what was met cannot be read at this moment.
#[tokio::test]
async fn an_insert_that_is_done_is_not_told_as_failed() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut session = at.session().await;
    put(&mut *session, &["known"]).await;
    at.execute("UPDATE @entries SET terms = terms + 1").await;
    at.execute("ALTER TABLE @ledger.terms RENAME TO hidden").await;
    assert_eq!(ask(&mut *session, &["known", "new"], StoreTime::MAX).await, [Said::Unseen, Said::Granted]);
    at.execute("ALTER TABLE @ledger.hidden RENAME TO terms").await;
    assert!(load(&mut *session, "new").await.is_some());
}
