//! Completions that are guessed to find their claim open.

use bytes::Bytes;
use idempotency_ledger::domain::{Command, Entry, Policy, Settle, Span, Terms};
use idempotency_ledger::store::Completion;

use super::{granted, insert, load, next};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestStore};

on_both_stores!(a_guessed_completion_writes_what_the_core_would_decide,);

async fn a_guessed_completion_writes_what_the_core_would_decide(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let entry = granted("1", START);
    insert(&mut *session, &entry).await;
    // Alone, and two at a time: with a result, and without one that was too large.
    let without = (granted("2", START), granted("3", START));
    insert(&mut *session, &without.0).await;
    insert(&mut *session, &without.1).await;
    let now = START + Span::from_secs(40);
    at.set_clock(now).await;
    let of = |entry: &Entry, result: &'static [u8]| Completion {
        key: entry.key.clone(),
        token: entry.token,
        result: Bytes::from_static(result),
        result_dropped: result.is_empty(),
        terms: Terms::of(&Policy::default()),
    };
    session.entries().complete(&[of(&without.0, b"")]).await.unwrap();
    let mut both = [of(&entry, b"done"), of(&without.1, b"")];
    both.sort_by_key(|one| one.key.hash());
    session.entries().complete(&both).await.unwrap();
    for (entry, result) in [(&entry, &b"done"[..]), (&without.0, b""), (&without.1, b"")] {
        let complete = Settle::Complete { result: Bytes::from_static(result), left_out: result.is_empty() };
        let decided = next(entry, &Command::Settle(entry.token, complete), now);
        assert_eq!(decided.result_dropped, result.is_empty());
        assert_eq!(load(&mut *session, entry.key.id()).await, Some(decided));
    }
}
