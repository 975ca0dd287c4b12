//! The audit by operation, action, actor and time, and what each event changed.

use idempotency_ledger::domain::{AuditEvent, RequestDigest, Span, StoreTime};
use idempotency_ledger::proto::{self, ListAuditEventsRequest};
use idempotency_ledger::store::{Write, WriteResult};

use crate::harness::details::{acquired, claim, fields, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestServer};

on_both_stores!(
    audit_is_listed_by_operation_action_actor_and_time,
    audit_pages_with_a_filter_leave_nothing_out,
    audit_filters_are_refused_by_field,
    audit_events_show_what_changed,
);

fn event(request_id: &str, seconds: i64, consumer: &str, actor: &str, action: &str) -> AuditEvent {
    AuditEvent {
        request_id: request_id.into(),
        at: START + Span::from_secs(seconds),
        actor: actor.into(),
        action: action.into(),
        consumer: consumer.into(),
        key: None,
        reason: "tests".into(),
        before: None,
        after: None,
        digest: Some(RequestDigest::of("tests", request_id.as_bytes())),
    }
}

async fn written(server: &TestServer, events: impl IntoIterator<Item = AuditEvent>) {
    let mut session = server.at.session().await;
    for event in events {
        let done = session.operators().change(&Write::Nothing, &event).await.unwrap();
        assert_eq!(done, WriteResult::Done);
    }
}

/// The ids of the events on all pages of this size.
async fn ids(server: &mut TestServer, request: &ListAuditEventsRequest, page_size: i32) -> Vec<String> {
    let mut request = ListAuditEventsRequest { page_size, ..request.clone() };
    let mut ids = Vec::new();
    loop {
        let page = server.admin.list_audit_events(request.clone()).await.unwrap().into_inner();
        assert!(page.events.len() <= usize::try_from(page_size).unwrap());
        ids.extend(page.events.into_iter().map(|event| event.request_id));
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            return ids;
        }
    }
}

fn at(seconds: i64) -> Option<prost_types::Timestamp> {
    let StoreTime(micros) = START + Span::from_secs(seconds);
    Some(prost_types::Timestamp { seconds: micros / 1_000_000, nanos: 0 })
}

async fn audit_is_listed_by_operation_action_actor_and_time(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    written(
        &server,
        [
            event("op", 0, "c", "ann", "REDRIVE_ENTRIES"),
            event("op/1", 2, "c", "ann", "REDRIVE"),
            event("op/2", 1, "c", "ann", "REDRIVE"),
            // Ids that begin alike, and the same ids of another consumer.
            event("op0", 3, "c", "bob", "PARK"),
            event("op-2/1", 3, "c", "bob", "PARK"),
            event("op/1", 4, "d", "bob", "REDRIVE"),
            event("zz", 5, "d", "bob", "SET_POLICY"),
        ],
    )
    .await;
    let of = |consumer: &str| ListAuditEventsRequest { consumer: consumer.into(), ..Default::default() };
    let actions = |actions: &[&str]| actions.iter().map(|action| (*action).to_owned()).collect();
    for (request, expected) in [
        (ListAuditEventsRequest { operation: "op".into(), ..of("c") }, &["op/2", "op/1", "op"][..]),
        (ListAuditEventsRequest { operation: "op".into(), ..of("d") }, &["op/1"]),
        (ListAuditEventsRequest { operation: "o".into(), ..of("c") }, &[]),
        (
            ListAuditEventsRequest { operation: "op".into(), actions: actions(&["REDRIVE"]), ..of("c") },
            &["op/2", "op/1"],
        ),
        (ListAuditEventsRequest { operation: "op".into(), from: at(1), until: at(2), ..of("c") }, &["op/2"]),
        (
            ListAuditEventsRequest { actions: actions(&["PARK", "SET_POLICY"]), ..of("") },
            &["zz", "op0", "op-2/1"],
        ),
        (ListAuditEventsRequest { actor: "ann".into(), ..of("") }, &["op/1", "op/2", "op"]),
        (ListAuditEventsRequest { actor: "an".into(), ..of("") }, &[]),
        (ListAuditEventsRequest { from: at(4), ..of("") }, &["zz", "op/1"]),
        (ListAuditEventsRequest { until: at(1), ..of("") }, &["op"]),
        (ListAuditEventsRequest { from: at(1), until: at(3), ..of("c") }, &["op/1", "op/2"]),
        (ListAuditEventsRequest { from: at(6), ..of("") }, &[]),
    ] {
        for size in [1, 2, 100] {
            assert_eq!(ids(&mut server, &request, size).await, expected, "by {size}: {request:?}");
        }
    }
    server.stop().await;
}

/// A page reads at most 1,000 events: those that fit lie far apart.
async fn audit_pages_with_a_filter_leave_nothing_out(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let rare = |number: i64| number % 700 == 0;
    let all = (0..2_200).map(|number| {
        let action = if rare(number) { "PARK" } else { "REDRIVE" };
        event(&format!("{number:04}"), number / 3, "c", "ann", action)
    });
    written(&server, all).await;
    let request = ListAuditEventsRequest { actions: vec!["PARK".into()], ..Default::default() };
    for size in [1, 3, 100] {
        assert_eq!(ids(&mut server, &request, size).await, ["2100", "1400", "0700", "0000"], "by {size}");
    }
    let first = server.admin.list_audit_events(request.clone()).await.unwrap().into_inner();
    assert_eq!((first.events.len(), first.next_page_token.is_empty()), (2, false), "of 1,000 that were read");
    // The token of a filter is that of no other one.
    let other = ListAuditEventsRequest {
        page_token: first.next_page_token,
        actions: vec!["REDRIVE".into()],
        ..Default::default()
    };
    let refused = server.admin.list_audit_events(other).await.unwrap_err();
    assert_eq!(fields(&refused), ["page_token"]);
    server.stop().await;
}

async fn audit_filters_are_refused_by_field(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let actions = |actions: &[&str]| actions.iter().map(|action| (*action).to_owned()).collect();
    for (what, request, wrong) in [
        (
            "an operation of no consumer",
            ListAuditEventsRequest { operation: "op".into(), ..Default::default() },
            &["operation"][..],
        ),
        (
            "an operation and a key",
            ListAuditEventsRequest { operation: "op".into(), key: key("c", "1"), ..Default::default() },
            &["operation"],
        ),
        (
            "a slash, which parts the ids of its events",
            ListAuditEventsRequest { operation: "op/1".into(), consumer: "c".into(), ..Default::default() },
            &["operation"],
        ),
        (
            "beyond each bound",
            ListAuditEventsRequest {
                actions: actions(&["", "PARK", "park", "PRAK"]),
                actor: "a".repeat(513),
                from: at(2),
                until: at(2),
                ..Default::default()
            },
            &["actions[0]", "actions[2]", "actions[3]", "actor", "from"],
        ),
        (
            "more actions than there are",
            ListAuditEventsRequest { actions: actions(&["PARK"; 33]), ..Default::default() },
            &["actions"],
        ),
    ] {
        let refused = server.admin.list_audit_events(request).await.unwrap_err();
        assert_eq!(fields(&refused), wrong, "{what}");
    }
    server.stop().await;
}

async fn audit_events_show_what_changed(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    acquired(&server.client.claim(claim("c", "1")).await.unwrap().into_inner());
    let request = proto::GetEntryRequest { key: key("c", "1"), ..Default::default() };
    let entry = server.admin.get_entry(request).await.unwrap().into_inner().entry.unwrap();
    let park = proto::ParkEntryRequest {
        key: key("c", "1"),
        request_id: "park".into(),
        expected_version: entry.version,
        reason: "why".into(),
    };
    server.admin.park_entry(park).await.unwrap();
    for (version, lease) in [(0, 40), (1, 120)] {
        let policy = proto::Policy {
            lease: Some(prost_types::Duration { seconds: lease, nanos: 0 }),
            ..Default::default()
        };
        let set = proto::SetPolicyRequest {
            consumer: "c".into(),
            request_id: format!("set {version}"),
            expected_version: version,
            reason: "why".into(),
            policy: Some(policy),
            ..Default::default()
        };
        server.admin.set_policy(set).await.unwrap();
    }
    let request = ListAuditEventsRequest { consumer: "c".into(), ..Default::default() };
    let events = server.admin.list_audit_events(request).await.unwrap().into_inner().events;
    let changes = |id: &str| {
        let event = events.iter().find(|event| event.request_id == id).unwrap();
        let texts = event.changes.iter().map(|one| format!("{} {}>{}", one.path, one.from, one.to));
        texts.collect::<Vec<_>>()
    };
    assert_eq!(changes("park"), ["state IN_PROGRESS>PARKED", "cause >OPERATOR"]);
    assert_eq!(changes("set 0"), ["lease >40s"], "what was in force by the configuration is not recorded");
    assert_eq!(changes("set 1"), ["lease 40s>2m"]);
    server.stop().await;
}
