//! What operators see.

use idempotency_ledger::domain::{Key, Span};
use idempotency_ledger::proto;

use crate::harness::details::{acquired, claim, fields, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    an_entry_is_shown_without_token_and_claim_id,
    an_entry_is_found_by_the_hash_of_its_key,
    lists_page_through_a_consumer_by_state,
);

async fn an_entry_is_shown_without_token_and_claim_id(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    server.advance(Span(123_457)).await;
    let mut request = tonic::Request::new(claim("c", "1"));
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    request.metadata_mut().insert("traceparent", trace.parse().unwrap());
    let held = acquired(&server.client.claim(request).await.unwrap().into_inner());
    let asked = proto::GetEntryRequest { key: key("c", "1"), ..Default::default() };
    let seen = server.admin.get_entry(asked).await.unwrap().into_inner().entry.unwrap();
    assert_eq!(
        (seen.state(), seen.attempts, seen.owner.as_str()),
        (proto::EntryState::InProgress, 1, "worker")
    );
    assert_eq!((seen.principal.as_str(), seen.traceparent.as_str()), ("anonymous", trace));
    assert!(!seen.expired && seen.lease_until.is_some() && seen.retain_until.is_some());
    // Neither now nor after any change; nor does an instant tell when exactly it was made.
    for _ in 0..4 {
        let asked = proto::GetEntryRequest { key: key("c", "1"), ..Default::default() };
        let seen = server.admin.get_entry(asked).await.unwrap().into_inner().entry.unwrap();
        assert!(!format!("{seen:?}").contains(&held.token.to_string()), "the token is not shown");
        for at in [seen.granted_at, seen.lease_until, seen.hold_until, seen.created_at, seen.updated_at] {
            assert_eq!(at.unwrap().nanos % 1_000_000, 0, "{seen:?}");
        }
        server.advance(Span::from_secs(1)).await;
        let renew = proto::RenewRequest { key: key("c", "1"), token: held.token, ..Default::default() };
        server.client.renew(renew).await.unwrap();
    }
    let missing = proto::GetEntryRequest { key: key("c", "2"), ..Default::default() };
    let refused = refusal(&server.admin.get_entry(missing).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (tonic::Code::NotFound, "ENTRY_NOT_FOUND"));
    server.stop().await;
}

async fn an_entry_is_found_by_the_hash_of_its_key(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for id in ["1", "2"] {
        server.client.claim(claim("c", id)).await.unwrap();
    }
    let hash = Key::new("c", "tests", "2").hash();
    let asked = |key, key_hash: &str| proto::GetEntryRequest { key, key_hash: key_hash.to_owned() };
    let by_key = server.admin.get_entry(asked(key("c", "2"), "")).await.unwrap().into_inner();
    assert_eq!(by_key.entry.as_ref().unwrap().key, key("c", "2"));
    for key_hash in [hash.to_string(), hash.simple().to_string(), hash.to_string().to_uppercase()] {
        let by_hash = server.admin.get_entry(asked(None, &key_hash)).await.unwrap().into_inner();
        assert_eq!(by_hash, by_key, "{key_hash}");
    }
    let other = Key::new("c", "tests", "3").hash().to_string();
    let refused = refusal(&server.admin.get_entry(asked(None, &other)).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (tonic::Code::NotFound, "ENTRY_NOT_FOUND"));
    for (key, key_hash, wrong) in [
        (None, "", "key"),
        (None, "order-2", "key_hash"),
        (None, &other[1..], "key_hash"),
        (key("c", "2"), &hash.to_string(), "key_hash"),
    ] {
        let status = server.admin.get_entry(asked(key, key_hash)).await.unwrap_err();
        assert_eq!(fields(&status), [wrong], "{key_hash:?}: {status:?}");
    }
    server.stop().await;
}

async fn lists_page_through_a_consumer_by_state(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for number in 0..25 {
        let id = format!("m{number}");
        let held = acquired(&server.client.claim(claim("c", &id)).await.unwrap().into_inner());
        server.client.claim(claim("other", &id)).await.unwrap();
        let (key, token) = (key("c", &id), held.token);
        match number % 5 {
            0 => drop(
                server
                    .client
                    .complete(proto::CompleteRequest { key, token, ..Default::default() })
                    .await
                    .unwrap(),
            ),
            1 => {
                let kind = proto::FailureKind::Park.into();
                server
                    .client
                    .fail(proto::FailRequest { key, token, kind, ..Default::default() })
                    .await
                    .unwrap();
            }
            2 => drop(
                server
                    .client
                    .release(proto::ReleaseRequest {
                        key,
                        token,
                        delay: None,
                        unpin_fingerprint: false,
                        event_type: String::new(),
                    })
                    .await
                    .unwrap(),
            ),
            _ => {}
        }
    }
    for (state, expected) in [
        (proto::EntryState::Unspecified, 25),
        (proto::EntryState::Completed, 5),
        (proto::EntryState::Parked, 5),
        (proto::EntryState::Received, 5),
        (proto::EntryState::InProgress, 10),
        (proto::EntryState::FailedTerminal, 0),
    ] {
        let mut seen = std::collections::HashSet::new();
        let mut page_token = String::new();
        loop {
            let request = proto::ListEntriesRequest {
                filter: Some(proto::EntryFilter {
                    consumer: "c".into(),
                    states: (state != proto::EntryState::Unspecified)
                        .then(|| state.into())
                        .into_iter()
                        .collect(),
                    ..Default::default()
                }),
                page_size: 3,
                page_token: page_token.clone(),
                ..Default::default()
            };
            let page = server.admin.list_entries(request).await.unwrap().into_inner();
            assert!(page.entries.len() <= 3);
            for entry in page.entries {
                assert!(state == proto::EntryState::Unspecified || entry.state() == state);
                assert!(seen.insert(entry.key.unwrap().id), "seen twice");
            }
            page_token = page.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        assert_eq!(seen.len(), expected, "{state:?}");
    }
    server.stop().await;
}
