//! Messages and handouts in a store: what a statement must not do, whichever session runs it at the same time.

use std::sync::Arc;

use bytes::Bytes;
use idempotency_ledger::domain::{
    Body, Claimant, ClosedBy, Entry, Key, KeyHash, Span, State, StoreTime, Verdict,
};
use idempotency_ledger::store::{
    Choice, Choose, Chosen, Due, DueLook, DuePlace, EntryWithMessage, Fault, Handout, Inserted, Purpose,
    Session, StoreError,
};
use uuid::Uuid;

use super::granted;
use crate::harness::on_all_stores;
use crate::harness::server::{Kind, START, TestStore};

on_all_stores!(
    store_new_keeps_message_of_each_new_key_alone,
    store_new_after_its_instant_writes_nothing,
    store_new_replaces_message_of_an_earlier_life,
    attach_writes_where_the_version_is_expected_and_in_time,
    hand_out_after_its_instant_writes_nothing,
    hand_out_that_is_rolled_back_keeps_no_number_of_a_name,
    hand_out_skips_what_another_one_holds,
    repeat_of_a_handout_reads_no_message_of_a_later_life,
    erase_leaves_the_message_of_a_later_life,
    erase_returns_when_the_oldest_message_was_due,
    sweep_deletes_messages_without_an_entry,
);

/// An entry of a stored message, decided as of instant zero.
fn row(id: &str) -> EntryWithMessage {
    let key = Key::new("c", "tests", id);
    let entry = Entry {
        key,
        state: State::Received,
        closed_by: ClosedBy::Store,
        closed_at: Some(StoreTime(0)),
        claimant: None,
        attempts: 0,
        body: Some(Body::Kept),
        version: 0,
        token: 1,
        ..granted(id, StoreTime(0))
    };
    EntryWithMessage { entry, message: Bytes::from(format!("message {id}")) }
}

async fn opened(at: &TestStore) -> Box<dyn Session> {
    at.store.open(Purpose::Inbox).await.unwrap()
}

/// The hash of a key, as SQL has it.
fn literal_of(at: &TestStore, key: KeyHash) -> String {
    if at.database.is_some() { format!("'{key}'") } else { format!("x'{}'", key.simple()) }
}

async fn stored(session: &mut dyn Session, ids: &[&str]) -> Inserted {
    let mut rows: Vec<EntryWithMessage> = ids.iter().map(|id| row(id)).collect();
    rows.sort_by_key(|row| row.entry.key.hash());
    session.inbox().store_new(&rows, StoreTime::MAX).await.unwrap()
}

async fn loaded(session: &mut dyn Session, id: &str) -> Option<Entry> {
    let key = Key::new("c", "tests", id);
    let mut found = session.entries().load(std::slice::from_ref(&key)).await.unwrap().found;
    found.pop().unwrap().into_entry(key.hash()).unwrap()
}

async fn message(session: &mut dyn Session, id: &str) -> Option<Bytes> {
    let kept = session.inbox().message(Key::new("c", "tests", id).hash()).await.unwrap();
    kept.map(|kept| kept.message)
}

/// A look that grants all candidates for half a minute, up to this instant.
fn grants(until: StoreTime) -> Choose {
    Arc::new(move |due: &Due| {
        let granted = due.candidates.iter().filter_map(|one| one.entry.as_ref().ok()).map(|entry| {
            let mut next = entry.clone();
            (next.version, next.token) = (entry.version + 1, entry.token + 1);
            (next.state, next.closed_by, next.closed_at) = (State::InProgress, ClosedBy::Open, None);
            (next.lease_until, next.updated_at) = (due.reading.now + Span::from_secs(30), due.reading.now);
            (next, until)
        });
        Choice { writes: granted.collect(), ..Choice::default() }
    })
}

fn look() -> DueLook {
    let claim = Handout {
        claim_id: Uuid::from_u128(1),
        consumer: "c".into(),
        principal: "p".into(),
        owner: "o".into(),
        keys: Vec::new(),
    };
    DueLook { claim, after: DuePlace::default(), limit: 100 }
}

async fn store_new_keeps_message_of_each_new_key_alone(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = opened(&at).await;
    assert_eq!(stored(&mut *session, &["1", "2"]).await.tokens().iter().flatten().count(), 2);
    let again = stored(&mut *session, &["1", "2", "3"]).await;
    assert_eq!(again.tokens().iter().flatten().count(), 1, "only the third key is new");
    for id in ["1", "2", "3"] {
        let entry = loaded(&mut *session, id).await.unwrap();
        assert_eq!(
            (entry.state, entry.body, entry.closed_by),
            (State::Received, Some(Body::Kept), ClosedBy::Store)
        );
        assert_eq!((entry.not_before, entry.next_at(), entry.attempts), (START, Some(START), 0));
        assert_eq!(message(&mut *session, id).await, Some(row(id).message));
    }
    let many: Vec<String> = (0..1_000).map(|id| format!("many {id}")).collect();
    let ids: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(stored(&mut *session, &ids).await.tokens().iter().flatten().count(), 1_000);
}

async fn store_new_after_its_instant_writes_nothing(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = opened(&at).await;
    let done = session.inbox().store_new(&[row("1")], START - Span(1)).await.unwrap();
    assert_eq!(done.tokens(), [None]);
    assert!(loaded(&mut *session, "1").await.is_none() && message(&mut *session, "1").await.is_none());
}

async fn store_new_replaces_message_of_an_earlier_life(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = opened(&at).await;
    stored(&mut *session, &["1"]).await;
    at.execute("DELETE FROM @entries").await;
    let later = EntryWithMessage { message: Bytes::from_static(b"of a later life"), ..row("1") };
    let done = session.inbox().store_new(std::slice::from_ref(&later), StoreTime::MAX).await.unwrap();
    assert_eq!(done.tokens().iter().flatten().count(), 1);
    assert_eq!(message(&mut *session, "1").await, Some(later.message));
}

async fn attach_writes_where_the_version_is_expected_and_in_time(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = opened(&at).await;
    for id in ["1", "2", "3"] {
        let entry = Entry { key: Key::new("c", "tests", id), ..granted(id, START) };
        crate::harness::server::put_new(&mut *session, START, &[entry]).await;
    }
    let mut rows = Vec::new();
    for id in ["1", "2", "3"] {
        let mut entry = loaded(&mut *session, id).await.unwrap();
        entry.version += if id == "2" { 2 } else { 1 };
        entry.body = Some(Body::Kept);
        rows.push(EntryWithMessage { entry, message: Bytes::from_static(b"attached") });
    }
    rows.sort_by_key(|row| row.entry.key.hash());
    let until = |row: &EntryWithMessage| if row.entry.key.id() == "3" { START - Span(1) } else { START };
    let instants: Vec<StoreTime> = rows.iter().map(until).collect();
    let done = session.inbox().attach(&rows, &instants).await.unwrap();
    for (row, done) in rows.iter().zip(done) {
        let id = row.entry.key.id();
        assert_eq!(done, id == "1", "{id}");
        assert_eq!(message(&mut *session, id).await.is_some(), done, "{id}");
    }
}

async fn hand_out_after_its_instant_writes_nothing(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = opened(&at).await;
    stored(&mut *session, &["1"]).await;
    let late = session.inbox().hand_out(&look(), &grants(START - Span(1))).await;
    assert!(matches!(late, Err(StoreError::NotApplied(Fault::Conflict(_)))), "{late:?}");
    assert_eq!(loaded(&mut *session, "1").await.unwrap().state, State::Received);
    session.inbox().hand_out(&look(), &grants(START)).await.unwrap();
    assert_eq!(loaded(&mut *session, "1").await.unwrap().state, State::InProgress);
    let done = session.inbox().hand_out(&look(), &grants(START)).await.unwrap();
    assert!(done.choice.writes.is_empty(), "it is due no more");
    assert_eq!(done.next_due, loaded(&mut *session, "1").await.unwrap().next_at());
}

/// Names and terms have numbers. A number that a handout assigns is gone where the handout is rolled back.
async fn hand_out_that_is_rolled_back_keeps_no_number_of_a_name(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = opened(&at).await;
    stored(&mut *session, &["1"]).await;
    let (claim_id, grace) = (Uuid::from_u128(1), Span::from_secs(7));
    let claimant = Claimant { claim_id, principal: "a new principal".into(), owner: "o".into() };
    let grants_to_new = |until: StoreTime| -> Choose {
        let (grant, claimant) = (grants(until), claimant.clone());
        Arc::new(move |due: &Due| {
            let mut choice = grant(due);
            for (entry, _) in &mut choice.writes {
                (entry.claimant, entry.grace) = (Some(claimant.clone()), grace);
            }
            choice
        })
    };
    let late = session.inbox().hand_out(&look(), &grants_to_new(START - Span(1))).await;
    assert!(matches!(late, Err(StoreError::NotApplied(Fault::Conflict(_)))), "{late:?}");
    let done = session.inbox().hand_out(&look(), &grants_to_new(START)).await.unwrap();
    assert_eq!(done.choice.writes.len(), 1);
    // Another session reads only numbers that are stored.
    let entry = loaded(&mut *opened(&at).await, "1").await.unwrap();
    assert_eq!((entry.claimant, entry.grace), (Some(claimant), grace));
}

/// While one look judges its candidates, another one finds others: on Postgres it skips the rows that the first one has locked, and
/// is done before it. `SQLite` has one writer at a time: there the other one follows.
async fn hand_out_skips_what_another_one_holds(kind: Kind) {
    let at = TestStore::new(kind).await;
    let (mut one, mut other) = (opened(&at).await, opened(&at).await);
    stored(&mut *one, &["1", "2"]).await;
    let first = DueLook { limit: 1, ..look() };
    let overlaps = kind != Kind::Sqlite;
    let (judges, judging) = std::sync::mpsc::channel::<()>();
    let (other_is_done, go_on) = std::sync::mpsc::channel::<()>();
    let (grant, go_on) = (grants(START), std::sync::Mutex::new(go_on));
    let slow: Choose = Arc::new(move |due: &Due| {
        judges.send(()).unwrap();
        if overlaps {
            let patience = std::time::Duration::from_secs(30);
            go_on.lock().unwrap().recv_timeout(patience).expect("the other look ends before this one");
        }
        grant(due)
    });
    let holds = tokio::task::spawn_blocking(move || {
        let handle = tokio::runtime::Handle::current();
        handle.block_on(async { one.inbox().hand_out(&first, &slow).await.unwrap() })
    });
    tokio::task::spawn_blocking(move || judging.recv().unwrap()).await.unwrap();
    let claim = Handout { claim_id: Uuid::from_u128(2), ..look().claim };
    let both = other.inbox().hand_out(&DueLook { claim, ..look() }, &grants(START)).await.unwrap();
    if overlaps {
        assert!(!holds.is_finished(), "the first look still holds its row");
        other_is_done.send(()).unwrap();
    }
    let done = holds.await.unwrap();
    assert_eq!((done.choice.writes.len(), both.choice.writes.len()), (1, 1));
    assert_ne!(done.choice.writes[0].0.key, both.choice.writes[0].0.key);
    for id in ["1", "2"] {
        assert_eq!(loaded(&mut *other, id).await.unwrap().state, State::InProgress, "{id}");
    }
}

/// A look that answers all candidates as they are, as a repeat does that holds them.
fn answers(due: &Due) -> Choice {
    let chosen = due.candidates.iter().filter_map(|one| one.entry.as_ref().ok()).map(|entry| Chosen {
        key: entry.key.clone(),
        version: entry.version,
        verdict: Verdict::Suppressed { replay_run: String::new() },
    });
    Choice { chosen: chosen.collect(), repeated: due.before.is_some(), ..Choice::default() }
}

/// A repeat locks no row. While it judges its handout, an operator drops the message, and a Store attaches another one: the
/// claim of the handout is answered neither. `SQLite` has one writer at a time: there the change follows.
async fn repeat_of_a_handout_reads_no_message_of_a_later_life(kind: Kind) {
    let at = TestStore::new(kind).await;
    let (mut one, mut other) = (opened(&at).await, opened(&at).await);
    stored(&mut *one, &["1"]).await;
    let grant = grants(START);
    let first: Choose = Arc::new(move |due: &Due| Choice { chosen: answers(due).chosen, ..grant(due) });
    let done = one.inbox().hand_out(&look(), &first).await.unwrap();
    assert_eq!(done.messages.len(), 1);
    let overlaps = kind != Kind::Sqlite;
    let (judges, judging) = std::sync::mpsc::channel::<()>();
    let (is_changed, go_on) = std::sync::mpsc::channel::<()>();
    let go_on = std::sync::Mutex::new(go_on);
    let slow: Choose = Arc::new(move |due: &Due| {
        judges.send(()).unwrap();
        if overlaps {
            let patience = std::time::Duration::from_secs(30);
            go_on.lock().unwrap().recv_timeout(patience).expect("the entry is changed meanwhile");
        }
        answers(due)
    });
    let repeats = tokio::task::spawn_blocking(move || {
        let handle = tokio::runtime::Handle::current();
        handle.block_on(async { one.inbox().hand_out(&look(), &slow).await.unwrap() })
    });
    tokio::task::spawn_blocking(move || judging.recv().unwrap()).await.unwrap();
    let mut entry = loaded(&mut *other, "1").await.unwrap();
    entry.version += 1;
    (entry.state, entry.closed_by, entry.body) = (State::Received, ClosedBy::Operator, Some(Body::Erased));
    assert_eq!(other.entries().replace(std::slice::from_ref(&entry)).await.unwrap(), [true]);
    entry.version += 1;
    entry.body = Some(Body::Kept);
    let later = EntryWithMessage { entry, message: Bytes::from_static(b"of a later life") };
    assert_eq!(other.inbox().attach(&[later], &[StoreTime::MAX]).await.unwrap(), [true]);
    if overlaps {
        is_changed.send(()).unwrap();
    }
    let done = repeats.await.unwrap();
    assert!(done.choice.repeated);
    let read: Vec<Option<Bytes>> =
        done.messages.into_iter().map(|kept| kept.map(|kept| kept.message)).collect();
    assert_eq!(read, [(!overlaps).then(|| row("1").message)]);
}

async fn erase_leaves_the_message_of_a_later_life(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = opened(&at).await;
    stored(&mut *session, &["due", "later", "open"]).await;
    let mut done = Vec::new();
    for id in ["due", "later"] {
        let mut entry = loaded(&mut *session, id).await.unwrap();
        entry.version += 1;
        (entry.state, entry.closed_by, entry.erase_at) = (State::Completed, ClosedBy::Complete, Some(START));
        done.push(entry);
    }
    done.sort_by_key(|entry| entry.key.hash());
    assert_eq!(session.entries().replace(&done).await.unwrap(), [true, true]);
    // The message of another life of its key.
    let later = Key::new("c", "tests", "later").hash();
    at.execute(&format!(
        "UPDATE @ledger.messages SET generation = generation + 5 WHERE key = {}",
        literal_of(&at, later)
    ))
    .await;
    let erased = session.inbox().erase(10).await.unwrap();
    assert_eq!((erased.count, erased.oldest_due), (2, Some(START)));
    for (id, is_there) in [("due", false), ("later", true), ("open", true)] {
        assert_eq!(message(&mut *session, id).await.is_some(), is_there, "{id}");
    }
    let entry = loaded(&mut *session, "due").await.unwrap();
    assert_eq!((entry.body, entry.erase_at, entry.state), (Some(Body::Erased), None, State::Completed));
    assert_eq!(session.inbox().erase(10).await.unwrap().count, 0, "each is erased once");
}

async fn erase_returns_when_the_oldest_message_was_due(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = opened(&at).await;
    let due = |seconds: i64| START - Span::from_secs(seconds);
    let ids = [("1", 20), ("2", 10), ("3", 30), ("4", 0)];
    stored(&mut *session, &ids.map(|(id, _)| id)).await;
    let mut done = Vec::new();
    for (id, seconds) in ids {
        let mut entry = loaded(&mut *session, id).await.unwrap();
        entry.version += 1;
        (entry.state, entry.closed_by) = (State::Completed, ClosedBy::Complete);
        entry.erase_at = Some(due(seconds));
        done.push(entry);
    }
    done.sort_by_key(|entry| entry.key.hash());
    assert_eq!(session.entries().replace(&done).await.unwrap(), [true; 4]);
    // The oldest ones of two batches, and then there is nothing to erase.
    for (count, oldest) in [(2, Some(due(30))), (2, Some(due(10))), (0, None)] {
        let erased = session.inbox().erase(2).await.unwrap();
        assert_eq!((erased.count, erased.oldest_due, erased.now), (count, oldest, START));
    }
}

async fn sweep_deletes_messages_without_an_entry(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = opened(&at).await;
    stored(&mut *session, &["gone", "kept", "erased"]).await;
    let literal = |id: &str| literal_of(&at, Key::new("c", "tests", id).hash());
    at.execute(&format!("DELETE FROM @entries WHERE key = {}", literal("gone"))).await;
    at.execute(&format!("UPDATE @entries SET body = 2, next_at = NULL WHERE key = {}", literal("erased")))
        .await;
    at.set_clock(START + Span::from_secs(120)).await;
    let mut place = Some(Default::default());
    while let Some(after) = place {
        place = session.inbox().sweep_messages(after, 1).await.unwrap();
    }
    for (id, is_there) in [("gone", false), ("kept", true), ("erased", false)] {
        assert_eq!(message(&mut *session, id).await.is_some(), is_there, "{id}");
    }
}
