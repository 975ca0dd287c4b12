//! Many entries and their events in one write: all of it, or nothing.

use bytes::Bytes;
use idempotency_ledger::domain::{
    self, AuditEvent, Context, Entry, Import, Imported, ImportedEntry, Key, Policy, RequestDigest, Span,
};
use idempotency_ledger::store::{Fault, Session, StoreError, WriteResult};

use super::{granted, load};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestStore, put_new};

on_both_stores!(
    one_entry_that_another_writer_changed_stops_the_whole_write,
    events_alone_are_written_and_their_digests_are_found,
    new_entries_wait_for_a_sound_clock,
);

fn event(id: &str) -> AuditEvent {
    AuditEvent {
        request_id: id.into(),
        at: START,
        actor: "tests".into(),
        action: "OPERATOR".into(),
        consumer: "stores".into(),
        key: None,
        reason: "tests".into(),
        before: None,
        after: None,
        digest: Some(RequestDigest::of("tests", id.as_bytes())),
    }
}

/// Entries that are not there yet.
fn fresh(ids: &[&str]) -> Vec<ImportedEntry> {
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
    let import = Import { completed_at: None, result: Bytes::new(), fingerprint: Bytes::new() };
    let mut rows: Vec<ImportedEntry> = ids
        .iter()
        .map(|id| match domain::import(&Key::new("stores", "tests", id), None, &import, &context).unwrap() {
            Imported::Stored(entry) => *entry,
            other => panic!("{other:?}"),
        })
        .collect();
    rows.sort_by_key(|row| row.entry().key.hash());
    rows
}

/// Entries that are there, as a first version and a second one.
async fn stored(session: &mut dyn Session, ids: &[&str]) -> Vec<Entry> {
    let mut rows: Vec<Entry> = ids.iter().map(|id| granted(id, START)).collect();
    rows.sort_by_key(|row| row.key.hash());
    put_new(session, START, &rows).await;
    let mut next = Vec::new();
    for id in ids {
        let before = load(session, id).await.unwrap();
        next.push(Entry { version: before.version + 1, last_error: "changed".into(), ..before });
    }
    next.sort_by_key(|row| row.key.hash());
    next
}

async fn one_entry_that_another_writer_changed_stops_the_whole_write(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let next = stored(&mut *session, &["a", "b"]).await;
    let stale: Vec<Entry> = next
        .iter()
        .map(|row| Entry { version: row.version + i64::from(row.key.id() == "b"), ..row.clone() })
        .collect();
    for (fresh, changed) in [(fresh(&["c"]), &stale), (vec![], &stale), (fresh(&["a", "c"]), &vec![])] {
        let written = session.operators().write_entries(&fresh, changed, &[event("1")]).await.unwrap();
        assert_eq!(written, WriteResult::Lost);
        assert!(load(&mut *session, "c").await.is_none(), "nothing new");
        assert_eq!(load(&mut *session, "a").await.unwrap().last_error, "", "nothing changed");
        assert_eq!(at.number("SELECT count(*) FROM @ledger.audit").await, 0, "no event");
    }
    let written = session.operators().write_entries(&fresh(&["c", "d"]), &next, &[event("1")]).await.unwrap();
    assert_eq!(written, WriteResult::Done);
    for id in ["a", "b"] {
        assert_eq!(load(&mut *session, id).await.unwrap().last_error, "changed", "{id}");
    }
    assert!(load(&mut *session, "d").await.is_some());
    // One of two events is there: the request was carried out before, and nothing of it is repeated.
    let again: Vec<Entry> =
        next.iter().map(|row| Entry { version: row.version + 1, ..row.clone() }).collect();
    let events = [event("0"), event("1")];
    let written = session.operators().write_entries(&fresh(&["e"]), &again, &events).await.unwrap();
    assert_eq!(written, WriteResult::Repeated);
    assert!(load(&mut *session, "e").await.is_none());
    assert_eq!(at.number("SELECT count(*) FROM @ledger.audit").await, 1);
}

async fn events_alone_are_written_and_their_digests_are_found(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let events = [event("1"), event("2")];
    assert_eq!(session.operators().write_entries(&[], &[], &events).await.unwrap(), WriteResult::Done);
    let ids = ["1", "2", "3"].map(|id| AuditEvent::id_of("stores", id));
    let found = session.operators().event_digests(&ids).await.unwrap();
    let expected = [Some(&events[0].digest), Some(&events[1].digest), None];
    assert_eq!(ids.each_ref().map(|id| found.get(id)), expected);
    assert!(session.operators().event_digests(&[]).await.unwrap().is_empty());
}

/// A token of a clock that is behind would be lower than one that was given before.
async fn new_entries_wait_for_a_sound_clock(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    stored(&mut *session, &["a"]).await;
    at.set_clock(START - Span::from_secs(1)).await;
    let written = session.operators().write_entries(&fresh(&["c"]), &[], &[event("1")]).await;
    assert!(matches!(written, Err(StoreError::NotApplied(Fault::ClockBehind))), "{written:?}");
    at.set_clock(START + Span::from_secs(1)).await;
    assert!(load(&mut *session, "c").await.is_none());
    assert_eq!(at.number("SELECT count(*) FROM @ledger.audit").await, 0, "no event");
    let written = session.operators().write_entries(&fresh(&["c"]), &[], &[event("1")]).await.unwrap();
    assert_eq!(written, WriteResult::Done);
}
