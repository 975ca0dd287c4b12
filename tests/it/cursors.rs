//! Every cursor: all that there is, on pages of any size, each once and in order, also where many were made at
//! the same instant.

use bytes::Bytes;
use idempotency_ledger::domain::{
    AuditEvent, AuditListing, AuditOf, Claim, Claimant, Command, Context, Entry, EntryFilter, Key, Listing,
    Policy, PolicyVersion, RequestDigest, Span, StoreTime, decide,
};
use idempotency_ledger::proto;
use idempotency_ledger::store::{EffectiveRetention, Session, Write, WriteResult};
use prost_reflect::DynamicMessage;
use serde_json::{Value, json};
use tonic::Code;

use crate::harness::details::{claim, fields, refusal};
use crate::harness::dynamic::Rpc;
use crate::harness::on_both_stores;
use crate::harness::raw::channel;
use crate::harness::server::{Kind, START, TestServer, TestStore, put_new};

on_both_stores!(
    pages_of_the_audit_leave_nothing_out,
    pages_of_entries_leave_nothing_out,
    pages_of_policy_versions_leave_nothing_out,
    pages_of_consumers_leave_nothing_out,
    page_token_serves_the_call_and_filter_that_gave_it,
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
        digest: Some(RequestDigest::of("tests", request_id.as_bytes())),
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
    // Under an id that the first consumer has used, at the same instant.
    let other = event("10", START, "other", &Key::new("other", "s", "1"));
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
                found.extend(page.iter().map(|one| (one.at, one.request_id.clone(), one.consumer.clone())));
                let Some(last) = page.last() else { break };
                before = Some((last.at, last.stored_id()));
            }
            assert_eq!(found.len(), all.len() + more, "{of:?} by {limit}");
            found.retain(|(.., consumer)| consumer == "c");
            let found: Vec<_> = found.into_iter().map(|(at, id, _)| (at, id)).collect();
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
                    assert!(page.rows.len() <= limit);
                    found.extend(
                        page.rows
                            .into_iter()
                            .flat_map(|row| row.entry)
                            .map(|entry| (entry.created_at, entry.key)),
                    );
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

/// Each RPC with pages: what it is asked for, of which there is more than one page of one; and another thing that it may
/// be asked for. None: it is always asked for the same.
pub(crate) fn paged() -> Vec<(&'static str, Value, Option<Value>)> {
    let of = |consumer: &str| json!({ "consumer": consumer });
    let rows = vec![
        ("ListEntries", json!({ "filter": of("c") }), Some(json!({ "filter": of("d") }))),
        ("SummarizeEntries", json!({}), Some(of("c"))),
        ("ListAuditEvents", of("c"), Some(of("d"))),
        ("ListPolicies", json!({}), None),
        ("ListPolicyVersions", of("c"), Some(of("d"))),
        ("ListReplayRuns", of("c"), Some(of("d"))),
    ];
    let mut known: Vec<String> =
        Rpc::with_field(&["page_token"]).iter().map(|rpc| rpc.name().to_owned()).collect();
    let mut covered: Vec<&str> = rows.iter().map(|(rpc, ..)| *rpc).collect();
    known.sort();
    covered.sort_unstable();
    assert_eq!(covered, known, "each RPC with pages has a row");
    rows
}

/// Two consumers with two of everything.
async fn filled(server: &mut TestServer) {
    for consumer in ["c", "d"] {
        for version in 0..2 {
            let policy = proto::Policy {
                replay: proto::ReplayMode::Rebuild.into(),
                max_attempts: Some(version + 1),
                ..Default::default()
            };
            let set = proto::SetPolicyRequest {
                consumer: consumer.into(),
                request_id: format!("{consumer} {version}"),
                expected_version: version,
                reason: "why".into(),
                policy: Some(policy),
                ..Default::default()
            };
            server.admin.set_policy(set).await.unwrap();
            let run = proto::CreateReplayRunRequest {
                consumer: consumer.into(),
                replay_run: format!("run-{version}"),
                request_id: format!("{consumer} run {version}"),
                reason: "why".into(),
                ends_in: None,
            };
            server.admin.create_replay_run(run).await.unwrap();
            server.client.claim(claim(consumer, &version.to_string())).await.unwrap();
        }
    }
}

async fn page_token_serves_the_call_and_filter_that_gave_it(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    filled(&mut server).await;
    let channel = channel(&server).await;
    let rpcs = Rpc::with_field(&["page_token"]);
    let rpc = |name: &str| rpcs.iter().find(|rpc| rpc.name() == name).unwrap();
    let page = async |name: &str, asked: &Value, token: &str| {
        let mut asked = asked.clone();
        (asked["pageSize"], asked["pageToken"]) = (1.into(), token.into());
        let mut answers = rpc(name).call(&channel, None, &rpc(name).request(&asked)).await?;
        Ok::<_, tonic::Status>(answers.remove(0))
    };
    let next = |page: &DynamicMessage| {
        page.get_field_by_name("next_page_token").unwrap().as_str().unwrap().to_owned()
    };
    let mut tokens = Vec::new();
    for (name, asked, _) in paged() {
        let first = page(name, &asked, "").await.unwrap();
        let token = next(&first);
        assert!(!token.is_empty(), "{name} has one page alone");
        let second = page(name, &asked, &token).await.unwrap();
        assert_ne!(next(&second), token, "{name} goes on");
        tokens.push((name, token));
    }
    for (name, asked, other) in paged() {
        let (_, own) = tokens.iter().find(|(of, _)| *of == name).unwrap();
        let mut wrong: Vec<String> =
            ["-1", "1", "c", "run-0", "garbage", "\u{1f}", " "].map(str::to_owned).to_vec();
        wrong.extend(tokens.iter().filter(|(of, _)| *of != name).map(|(_, token)| token.clone()));
        wrong.extend((1..own.len()).map(|end| own[..end].to_owned()));
        wrong.extend((0..own.len()).map(|at| {
            let changed = if &own[at..=at] == "A" { "B" } else { "A" };
            format!("{}{changed}{}", &own[..at], &own[at + 1..])
        }));
        wrong.extend([format!("{own}="), format!("{own}A"), "A".repeat(10_000)]);
        let rows = wrong.iter().map(|token| (&asked, token)).chain(other.iter().map(|other| (other, own)));
        for (asked, token) in rows {
            let refused = page(name, asked, token).await.expect_err(&format!("{name} {asked} takes {token}"));
            let said = (refused.code(), refusal(&refused).reason, fields(&refused));
            let expected = (Code::InvalidArgument, "INVALID_FIELD".to_owned(), vec!["page_token".to_owned()]);
            assert_eq!(said, expected, "{name} {asked} {token}");
        }
    }
    server.stop().await;
}
