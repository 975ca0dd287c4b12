//! The audit trail of changes: pages, filters, and bounds.

use idempotency_ledger::domain::{AuditEvent, RequestDigest, Span};
use idempotency_ledger::proto;
use idempotency_ledger::store::Write;

use super::{park, take};
use crate::harness::details::{fields, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, START, TestServer};

on_both_stores!(the_audit_is_paged_newest_first, a_page_of_the_audit_is_bounded_in_bytes,);

async fn the_audit_is_paged_newest_first(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for number in 0..7 {
        let id = number.to_string();
        take(&mut server, &id).await;
        let request = park(&mut server, &id).await;
        server.admin.park_entry(request).await.unwrap();
        // Two of them at the same instant.
        if number != 3 {
            server.advance(Span::from_secs(1)).await;
        }
    }
    let mut request = proto::ListAuditEventsRequest { page_size: 3, ..Default::default() };
    let mut seen = Vec::new();
    loop {
        let page = server.admin.list_audit_events(request.clone()).await.unwrap().into_inner();
        seen.extend(page.events.into_iter().map(|event| event.request_id));
        if page.next_page_token.is_empty() {
            break;
        }
        request.page_token = page.next_page_token;
    }
    assert_eq!(seen, ["park 6", "park 5", "park 4", "park 3", "park 2", "park 1", "park 0"]);
    let other = proto::ListAuditEventsRequest { consumer: "d".into(), ..request };
    assert_eq!(fields(&server.admin.list_audit_events(other).await.unwrap_err()), ["page_token"]);
    for (filter, found) in [
        (proto::ListAuditEventsRequest { consumer: "c".into(), ..Default::default() }, 7),
        (proto::ListAuditEventsRequest { consumer: "d".into(), ..Default::default() }, 0),
        (proto::ListAuditEventsRequest { key: key("c", "4"), ..Default::default() }, 1),
        (proto::ListAuditEventsRequest { key: key("c", "8"), ..Default::default() }, 0),
        (proto::ListAuditEventsRequest { consumer: "c".into(), key: key("c", "4"), ..Default::default() }, 1),
    ] {
        let page = server.admin.list_audit_events(filter.clone()).await.unwrap().into_inner();
        assert_eq!(page.events.len(), found, "{filter:?}");
    }
    let nobodys =
        proto::ListAuditEventsRequest { consumer: "d".into(), key: key("c", "4"), ..Default::default() };
    assert_eq!(fields(&server.admin.list_audit_events(nobodys).await.unwrap_err()), ["consumer"]);
    server.stop().await;
}

async fn a_page_of_the_audit_is_bounded_in_bytes(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let mut session = server.at.session().await;
    for number in 0..1_000 {
        let event = AuditEvent {
            request_id: number.to_string(),
            at: START,
            actor: "anonymous".into(),
            action: "PARK".into(),
            consumer: "c".into(),
            key: None,
            reason: "r".repeat(1_024),
            before: None,
            after: Some("a".repeat(6 * 1_024)),
            digest: Some(RequestDigest::of("tests", number.to_string().as_bytes())),
        };
        session.operators().change(&Write::Nothing, &event).await.unwrap();
    }
    let mut request = proto::ListAuditEventsRequest { page_size: 1_000, ..Default::default() };
    let mut pages = Vec::new();
    loop {
        let page = server.admin.list_audit_events(request.clone()).await.unwrap().into_inner();
        pages.push(page.events.len());
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!((pages.len(), pages.iter().sum::<usize>()), (3, 1_000), "{pages:?}");
    server.stop().await;
}
