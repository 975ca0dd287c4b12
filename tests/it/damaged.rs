//! Rows whose columns cannot be read: every list and outcome names them, no number counts them as done, and an operator can
//! delete them.

use std::collections::BTreeSet;

use idempotency_ledger::domain::{Key, Policy, Span, TOKEN_MAX};
use idempotency_ledger::proto::{self, EntryFilter, EntryState, FailureKind};
use tonic::Code;

use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::inbox::{handed, message, next};

on_both_stores!(
    lists_name_rows_that_cannot_be_read,
    bulk_redrive_refuses_rows_that_cannot_be_read_and_names_them,
    delete_by_hash_mends_a_row_that_cannot_be_read,
    delete_by_hash_leaves_a_row_that_can_be_read,
    a_call_that_names_a_row_that_cannot_be_read_is_refused,
    a_token_without_a_higher_one_is_granted_no_more,
);

/// What is damaged in which of the rows.
const DAMAGES: [(&str, &str, &str); 6] = [
    ("m0", "history", "history = '[{'"),
    ("m1", "closed_by", "closed_by = 99"),
    ("m2", "state", "state = 42"),
    ("m3", "cause", "cause = 77"),
    ("m4", "token", "token = 9007199254740991"),
    ("m5", "version", "version = 9223372036854775807"),
];

fn hash(id: &str) -> String {
    Key::new("c", "tests", id).hash().to_string()
}

async fn damage(server: &TestServer, id: &str, set: &str) {
    server.at.execute(&format!("UPDATE @entries SET {set} WHERE id = '{id}'")).await;
}

/// Nine messages that wait for a person; six of their rows are damaged then.
async fn parked_and_damaged(kind: Kind) -> TestServer {
    let mut server = TestServer::start(kind).await;
    for number in 0..9 {
        let id = format!("m{number}");
        let token = acquired(&server.client.claim(claim("c", &id)).await.unwrap().into_inner()).token;
        let kind = FailureKind::Park.into();
        let fail = proto::FailRequest { key: key("c", &id), token, kind, ..Default::default() };
        server.client.fail(fail).await.unwrap();
    }
    server.advance(Span::from_secs(120)).await;
    for (id, _, set) in DAMAGES {
        damage(&server, id, set).await;
    }
    server
}

fn parked() -> Option<EntryFilter> {
    let states = vec![EntryState::Parked.into()];
    Some(EntryFilter { consumer: "c".into(), states, ..Default::default() })
}

async fn lists_name_rows_that_cannot_be_read(kind: Kind) {
    let mut server = parked_and_damaged(kind).await;
    let by_cause =
        parked().map(|filter| EntryFilter { causes: vec![proto::ParkCause::Consumer.into()], ..filter });
    let all = Some(EntryFilter { consumer: "c".into(), ..Default::default() });
    for filter in [parked(), by_cause, all] {
        for (page_size, order) in [(2, 1), (2, 2), (100, 1)] {
            let mut request = proto::ListEntriesRequest {
                filter: filter.clone(),
                order,
                page_size,
                page_token: String::new(),
            };
            let (mut read, mut damaged) = (Vec::new(), Vec::new());
            loop {
                let page = server.admin.list_entries(request.clone()).await.unwrap().into_inner();
                let shown = page.entries.len() + page.unreadable.len();
                assert!(i32::try_from(shown).unwrap() <= page_size, "{shown}");
                read.extend(page.entries.iter().map(|entry| entry.key.clone().unwrap().id));
                damaged.extend(page.unreadable);
                if page.next_page_token.is_empty() {
                    break;
                }
                request.page_token = page.next_page_token;
            }
            read.sort();
            assert_eq!(read, ["m6", "m7", "m8"]);
            damaged.sort_by(|one, other| one.key_hash.cmp(&other.key_hash));
            let named: Vec<_> =
                damaged.iter().map(|one| (one.key_hash.clone(), one.column.clone())).collect();
            let mut expected: Vec<_> =
                DAMAGES.iter().map(|(id, column, _)| (hash(id), (*column).to_owned())).collect();
            expected.sort();
            assert_eq!(named, expected, "{filter:?}");
            assert!(damaged.iter().all(|one| one.created_at.is_some()));
        }
    }
    server.stop().await;
}

async fn bulk_redrive_refuses_rows_that_cannot_be_read_and_names_them(kind: Kind) {
    let mut server = parked_and_damaged(kind).await;
    for dry_run in [true, false] {
        let request = proto::RedriveEntriesRequest {
            filter: parked(),
            operation_id: "op".into(),
            reason: "the provider is back".into(),
            dry_run,
            rate: 1_000,
            ..Default::default()
        };
        let mut stream = server.admin.redrive_entries(request).await.unwrap().into_inner();
        let (mut outcomes, mut last) = (Vec::new(), None);
        while let Some(told) = stream.message().await.unwrap() {
            outcomes.extend(told.outcomes.clone());
            last = Some(told);
        }
        let last = last.unwrap();
        assert_eq!((last.redriven, last.refused, last.finished), (3, 6, true), "{last:?}");
        let refused: BTreeSet<_> =
            outcomes.iter().filter(|one| one.key.is_none()).map(|one| one.key_hash.clone()).collect();
        assert_eq!(refused, DAMAGES.iter().map(|(id, ..)| hash(id)).collect());
        for outcome in &outcomes {
            let reason = outcome.rejected.as_ref().map(|rejected| rejected.reason());
            let damaged = outcome.key.is_none().then_some(proto::ErrorReason::EntryUnreadable);
            assert_eq!((reason, outcome.redriven), (damaged, damaged.is_none()), "{outcome:?}");
            assert!(!outcome.key_hash.is_empty());
        }
    }
    server.stop().await;
}

fn delete(id: &str, force: bool) -> proto::DeleteEntryRequest {
    proto::DeleteEntryRequest {
        request_id: format!("delete {id} {force}"),
        reason: "the disk lied".into(),
        key_hash: hash(id),
        force,
        ..Default::default()
    }
}

async fn delete_by_hash_mends_a_row_that_cannot_be_read(kind: Kind) {
    let mut server = parked_and_damaged(kind).await;
    for (id, column, _) in DAMAGES {
        let status = server.client.claim(claim("c", id)).await.unwrap_err();
        let refused = refusal(&status);
        assert_eq!(
            (refused.code, refused.reason.as_str()),
            (Code::Internal, "ENTRY_UNREADABLE"),
            "{status:?}"
        );
        assert!(status.message().contains(&hash(id)) && status.message().contains(column), "{status:?}");
        let refused = server.admin.delete_entry(delete(id, false)).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, "STATE_NOT_ALLOWED", "its effect may have happened");
        let gone = server.admin.delete_entry(delete(id, true)).await.unwrap().into_inner();
        assert!(!gone.replayed);
        let again = server.admin.delete_entry(delete(id, true)).await.unwrap().into_inner();
        assert!(again.replayed, "a repeat changes nothing");
        let held = acquired(&server.client.claim(claim("c", id)).await.unwrap().into_inner());
        assert_eq!(held.attempt, 1, "{id} is new");
    }
    let used = proto::DeleteEntryRequest { request_id: delete("m0", true).request_id, ..delete("m1", true) };
    let refused = server.admin.delete_entry(used).await.unwrap_err();
    assert_eq!(fields(&refused), ["request_id"], "it deleted another entry: {refused:?}");
    let audit = proto::ListAuditEventsRequest { key: key("c", "m0"), ..Default::default() };
    let event = server.admin.list_audit_events(audit).await.unwrap().into_inner().events.remove(0);
    assert_eq!(
        (event.action.as_str(), event.consumer.as_str(), event.key_hash.clone()),
        ("DELETE", "", hash("m0"))
    );
    assert!(event.before_json.contains("history") && event.after_json.contains("true"), "{event:?}");
    server.stop().await;
}

async fn delete_by_hash_leaves_a_row_that_can_be_read(kind: Kind) {
    let mut server = parked_and_damaged(kind).await;
    let reason = |status: tonic::Status| refusal(&status).reason;
    let refused = server.admin.delete_entry(delete("m6", true)).await.unwrap_err();
    assert_eq!(reason(refused), "STATE_NOT_ALLOWED");
    let refused = server.admin.delete_entry(delete("absent", true)).await.unwrap_err();
    assert_eq!(reason(refused), "ENTRY_NOT_FOUND");
    // What was handed out a moment ago must not be handed out again.
    acquired(&server.client.claim(claim("c", "young")).await.unwrap().into_inner());
    damage(&server, "young", "closed_by = 99").await;
    let refused = server.admin.delete_entry(delete("young", true)).await.unwrap_err();
    assert_eq!(reason(refused), "TOO_RECENT");
    // A token of the future may have been handed out after it was damaged: waiting a minute does not help.
    let ahead = server.at.now() + Span::from_days(3_650);
    damage(&server, "young", &format!("token = {}", ahead.micros())).await;
    let refused = server.admin.delete_entry(delete("young", true)).await.unwrap_err();
    assert!(refused.message().contains("docs/runbooks.md"), "{refused:?}");
    assert_eq!(reason(refused), "ENTRY_UNREADABLE");
    for request in [
        proto::DeleteEntryRequest { key: key("c", "m0"), ..delete("m0", true) },
        proto::DeleteEntryRequest { expected_version: 1, ..delete("m0", true) },
        proto::DeleteEntryRequest { key_hash: "m0".into(), ..delete("m0", true) },
    ] {
        assert_eq!(reason(server.admin.delete_entry(request).await.unwrap_err()), "INVALID_FIELD");
    }
    assert!(server.entry(&Key::new("c", "tests", "m6")).await.is_some());
    server.stop().await;
}

/// Nothing is stored, shown or changed by a row that cannot be read.
async fn a_call_that_names_a_row_that_cannot_be_read_is_refused(kind: Kind) {
    let policy = Policy { inbox: true, ..Policy::default() };
    let mut server = TestServer::start_with(kind, Setup::default().with("c", policy)).await;
    server.client.store(message("m")).await.unwrap();
    damage(&server, "m", "closed_by = 99").await;
    let read = proto::GetMessageRequest { key: key("c", "m"), reason: "an audit".into() };
    let redrive = proto::RedriveEntryRequest {
        key: key("c", "m"),
        request_id: "redrive".into(),
        expected_version: 1,
        reason: "the provider is back".into(),
        ..Default::default()
    };
    for refused in [
        server.client.store(message("m")).await.map(drop),
        server.admin.get_message(read).await.map(drop),
        server.admin.redrive_entry(redrive).await.map(drop),
    ] {
        let status = refused.unwrap_err();
        assert_eq!(refusal(&status).reason, "ENTRY_UNREADABLE", "{status:?}");
        assert!(status.message().contains(&hash("m")), "{status:?}");
    }
    assert!(handed(&mut server, next(1)).await.is_empty());
    server.stop().await;
}

async fn a_token_without_a_higher_one_is_granted_no_more(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for (stored, granted) in [
        (TOKEN_MAX - 2, Some(TOKEN_MAX - 1)),
        (TOKEN_MAX - 1, None),
        (TOKEN_MAX, None),
        (TOKEN_MAX + 1, None),
        (i64::MAX, None),
        (-1, None),
    ] {
        let id = format!("t{stored}");
        let token = acquired(&server.client.claim(claim("c", &id)).await.unwrap().into_inner()).token;
        let release = proto::ReleaseRequest { key: key("c", &id), token, ..Default::default() };
        server.client.release(release).await.unwrap();
        damage(&server, &id, &format!("token = {stored}")).await;
        let claimed = server.client.claim(claim("c", &id)).await;
        let Some(token) = granted else {
            assert_eq!(refusal(&claimed.unwrap_err()).reason, "ENTRY_UNREADABLE", "{stored}");
            continue;
        };
        assert_eq!(acquired(&claimed.unwrap().into_inner()).token, token);
        let request = proto::CompleteRequest { key: key("c", &id), token, ..Default::default() };
        server.client.complete(request).await.unwrap();
    }
    server.stop().await;
}

/// `SQLite` keeps any value in any column: a settlement completes no row whose attempts are no number, and a list leaves out
/// a row without a name and shows all others.
#[tokio::test]
async fn values_of_another_type_are_answered_by_sqlite() {
    let mut server = TestServer::start(Kind::Sqlite).await;
    let mut tokens = Vec::new();
    for id in ["attempts", "key", "sound"] {
        tokens.push(acquired(&server.client.claim(claim("c", id)).await.unwrap().into_inner()).token);
    }
    damage(&server, "attempts", "attempts = 'x'").await;
    damage(&server, "key", "key = x'010203'").await;
    let complete = |token| proto::CompleteRequest { key: key("c", "attempts"), token, ..Default::default() };
    let refused = server.client.complete(complete(tokens[0])).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "ENTRY_UNREADABLE", "{refused:?}");
    damage(&server, "attempts", "attempts = 1").await;
    server.client.complete(complete(tokens[0])).await.unwrap();
    let filter = Some(EntryFilter { consumer: "c".into(), ..Default::default() });
    let request = proto::ListEntriesRequest { filter, page_size: 10, ..Default::default() };
    let page = server.admin.list_entries(request).await.unwrap().into_inner();
    let mut shown: Vec<_> = page.entries.into_iter().map(|entry| entry.key.unwrap().id).collect();
    shown.sort();
    assert_eq!(shown, ["attempts", "sound"]);
    server.stop().await;
}
