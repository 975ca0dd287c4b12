//! Every cursor: all that there is, on pages of any size, each once and in order, also where many were made at
//! the same instant.

use bytes::Bytes;
use idempotency_ledger::domain::{
    AuditEvent, AuditListing, AuditOf, Claim, Claimant, Command, Context, Entry, EntryFilter, Key, Listing,
    Policy, PolicyVersion, Span, StoreTime, decide,
};
use idempotency_ledger::store::{EffectiveRetention, Session, Write, WriteResult};

use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestStore, put_new};

on_both_stores!(
    pages_of_the_audit_leave_nothing_out,
    pages_of_entries_leave_nothing_out,
    pages_of_policy_versions_leave_nothing_out,
    pages_of_consumers_leave_nothing_out,
);

const PAGES: [usize; 4] = [1, 2, 3, 100];

fn event(request_id: &str, at: StoreTime, consumer: &str, key: &Key) -> AuditEvent {
    AuditEvent {
        request_id: request_id.into(),
        at,
        actor: "tests".into(),
        action: "TEST".into(),
        consumer: consumer.into(),
        key: Some(key.hash()),
        reason: "tests".into(),
        before: None,
        after: None,
    }
}

async fn pages_of_the_audit_leave_nothing_out(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let key = Key::new("c", "s", "1");
    let mut all = Vec::new();
    // Bulk changes write hundreds of events at one instant; the ids are in no order of time.
    for number in 0..12 {
        let now = START + Span::from_secs(number / 4);
        all.push((now, format!("{}", (number * 5) % 12 + 10)));
        let (now, id) = all.last().unwrap();
        let done = session.operators().change(&Write::Nothing, &event(id, *now, "c", &key)).await.unwrap();
        assert_eq!(done, WriteResult::Done);
    }
    let other = event("99", START, "other", &Key::new("other", "s", "1"));
    session.operators().change(&Write::Nothing, &other).await.unwrap();
    all.sort_by(|one, two| two.cmp(one));
    for limit in PAGES {
        for (of, more) in
            [(AuditOf::Consumer("c".into()), 0), (AuditOf::Entry(key.hash()), 0), (AuditOf::All, 1)]
        {
            let (mut found, mut before) = (Vec::new(), None);
            loop {
                let listing = AuditListing { of: of.clone(), before, limit };
                let page = session.operators().audit(&listing).await.unwrap();
                assert!(page.len() <= limit);
                found.extend(page.iter().map(|one| (one.at, one.request_id.clone())));
                let Some(last) = page.last() else { break };
                before = Some((last.at, last.request_id.clone()));
            }
            assert_eq!(found.len(), all.len() + more, "{of:?} by {limit}");
            found.retain(|(_, id)| id != "99");
            assert_eq!(found, all, "{of:?} by {limit}");
        }
    }
}

fn granted(consumer: &str, number: u128, now: StoreTime) -> Entry {
    let claim = Claim {
        claimant: Claimant {
            claim_id: uuid::Uuid::from_u128(number),
            principal: "anonymous".into(),
            owner: "owner".into(),
        },
        lease: None,
        fingerprint: Bytes::new(),
        occurred_at: None,
        traceparent: String::new(),
    };
    let policy = Policy::default();
    let context = Context { policy: &policy, now, token_offset: 0, position: 1, clock_behind: false };
    let key = Key::new(consumer, "s", &number.to_string());
    decide(&key, None, &Command::Claim(claim), &context).write.unwrap()
}

async fn put(session: &mut dyn Session, now: StoreTime, mut entries: Vec<Entry>) -> Vec<(StoreTime, Key)> {
    entries.sort_by_key(|entry| entry.key.hash());
    put_new(session, now, &entries).await;
    entries.into_iter().map(|entry| (entry.created_at, entry.key)).collect()
}

async fn pages_of_entries_leave_nothing_out(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let mut all = Vec::new();
    for (round, numbers) in [(0, 0..5), (1, 5..6), (2, 6..13)] {
        // Some stand in the index of what is not COMPLETED, the newest do not yet.
        let now = START + Span::from_secs(round * 100);
        at.set_clock(now).await;
        all.extend(put(&mut *session, now, numbers.map(|number| granted("c", number, now)).collect()).await);
        put(&mut *session, now, vec![granted("other", u128::try_from(round).unwrap(), now)]).await;
        while session.upkeep().index_open_claims(2).await.unwrap() > 0 {}
    }
    for newest_first in [false, true] {
        all.sort_by_key(|(at, key)| (*at, key.hash()));
        if newest_first {
            all.reverse();
        }
        for states in [vec![], vec![2], vec![2, 6]] {
            for limit in PAGES {
                let filter = EntryFilter { states: states.clone(), ..EntryFilter::of("c") };
                let (mut found, mut after) = (Vec::new(), None);
                loop {
                    let listing = Listing { filter: filter.clone(), newest_first, after, limit };
                    let page = session.operators().list(&listing).await.unwrap();
                    assert!(page.entries.len() <= limit);
                    found.extend(page.entries.into_iter().map(|entry| (entry.created_at, entry.key)));
                    after = page.next;
                    if after.is_none() {
                        break;
                    }
                }
                assert_eq!(found, all, "{states:?}, by {limit}, newest first: {newest_first}");
            }
        }
    }
}

async fn pages_of_policy_versions_leave_nothing_out(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    for (consumer, number) in [("c", 1), ("other", 1), ("c", 2), ("c", 3), ("other", 2), ("c", 4), ("c", 5)] {
        let policy = PolicyVersion {
            consumer: consumer.into(),
            version: number,
            policy: Some("{}".into()),
            created_at: START,
            actor: "tests".into(),
            reason: "tests".into(),
        };
        let in_force =
            EffectiveRetention { consumer: consumer.into(), retention: None, window_floor: StoreTime(0) };
        let event = event(&format!("{consumer}-{number}"), START, consumer, &Key::new("c", "s", "1"));
        assert_eq!(
            session.policy_book().add_policy(&policy, &in_force, &event).await.unwrap(),
            WriteResult::Done
        );
    }
    for limit in PAGES {
        let (mut found, mut before) = (Vec::new(), i32::MAX);
        loop {
            let page = session.policy_book().policy_versions("c", before, limit).await.unwrap();
            assert!(page.len() <= limit);
            found.extend(page.iter().map(|one| one.version));
            let Some(last) = page.last() else { break };
            before = last.version;
        }
        assert_eq!(found, [5, 4, 3, 2, 1], "by {limit}");
    }
}

async fn pages_of_consumers_leave_nothing_out(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let names = ["B", "a", "a-", "a1", "b", "e\u{301}", "\u{e9}"];
    for (number, name) in names.iter().enumerate() {
        put(&mut *session, START, vec![granted(name, number as u128, START)]).await;
    }
    // One that has a policy, and no entries.
    let empty = EffectiveRetention { consumer: "a0".into(), retention: None, window_floor: START };
    session.policy_book().put_in_force(&[empty], None).await.unwrap();
    for limit in PAGES {
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let page = session.operators().consumers(&after, limit).await.unwrap();
            assert!(page.len() <= limit);
            found.extend(page.iter().cloned());
            let Some(last) = page.last() else { break };
            after = last.clone();
        }
        assert_eq!(found, names, "by {limit}");
    }
}
