use super::*;
use crate::cli::screens::{NOW, before, check};
use crate::proto::{AllowedChange, Attempt, ClosedBy, Entry, EntryChange, EntryKey, EntryState, ParkCause};

fn allowed(needs_force: bool) -> Vec<AllowedChange> {
    [EntryChange::Redrive, EntryChange::Resolve, EntryChange::Park]
        .map(|change| AllowedChange {
            change: change.into(),
            needs_force: needs_force && change != EntryChange::Park,
        })
        .to_vec()
}

fn parked() -> Entry {
    let error = "provider answered 502 for order-001900: <html><head><title>502 Bad Gateway</title></head><body>\
                 https://provider.example/v1/charges/ch_0123456789abcdef0123456789abcdef0123456789abcdef0123456789";
    let attempt = |attempt, ago| Attempt {
        attempt,
        started_at: before(ago),
        ended_at: before(ago - 1),
        owner: "billing-7b9f4d5c8d-x2x8q/1".into(),
        outcome: ClosedBy::FailRetryable.into(),
        error: error.into(),
        reported_done: false,
    };
    Entry {
        key: Some(EntryKey {
            consumer: "payments".into(),
            source: "shop".into(),
            id: "order-001900".into(),
            ..EntryKey::default()
        }),
        state: EntryState::Parked.into(),
        cause: ParkCause::AttemptsExhausted.into(),
        closed_by: ClosedBy::FailRetryable.into(),
        version: 1_795_266_673_201_005,
        attempts: 3,
        owner: "billing-7b9f4d5c8d-x2x8q/1".into(),
        principal: "spiffe://shop.example/ns/payments/sa/billing-workers-of-the-european-region".into(),
        last_error: error.into(),
        history: vec![attempt(1, 300), attempt(2, 120)],
        granted_at: before(9),
        lease_until: before(-21),
        hold_until: before(-86_391),
        closed_at: before(8),
        parked_at: before(8),
        created_at: before(300),
        updated_at: before(8),
        retention: Some(prost_types::Duration { seconds: 604_800, nanos: 0 }),
        fingerprint: vec![0xab; 32].into(),
        allowed_changes: allowed(false),
        ..Entry::default()
    }
}

/// A holder that has not been heard of since its claim was granted.
fn held() -> Entry {
    Entry {
        key: Some(EntryKey {
            consumer: "payments".into(),
            source: "shop".into(),
            id: "order-17".into(),
            ..EntryKey::default()
        }),
        state: EntryState::InProgress.into(),
        version: 1_795_266_200_000_001,
        attempts: 1,
        owner: "billing-7b9f/1".into(),
        principal: "token:billing".into(),
        granted_at: before(480),
        lease_until: before(-360),
        hold_until: before(-85_920),
        created_at: before(480),
        updated_at: before(480),
        retention: Some(prost_types::Duration { seconds: 604_800, nanos: 0 }),
        allowed_changes: allowed(true),
        ..Entry::default()
    }
}

#[test]
fn get_screens_wrap_and_cut_nothing() {
    let now = Timestamp { seconds: NOW, nanos: 0 };
    check("get-parked", |output| lines(output, "ledger", &parked(), 4, &now));
    check("get-held", |output| lines(output, "ledger", &held(), 4, &now));
    for columns in [40, 80, 120] {
        let shown = lines(Output::of_width(columns), "ledger", &parked(), 4, &now);
        let words: String = shown.iter().map(|line| line.trim()).collect();
        assert!(!words.contains('…'), "{shown:?}");
        assert!(words.replace(' ', "").contains(&parked().principal), "{shown:?}");
    }
    let piped = lines(Output::plain(), "ledger", &parked(), 4, &now);
    assert!(piped.iter().any(|line| line == &format!("last error   {}", parked().last_error)), "{piped:?}");
}

#[test]
fn held_by_reports_when_the_holder_was_last_heard_of() {
    let now = Timestamp { seconds: NOW, nanos: 0 };
    let base = held();
    for (entry, says) in [
        (base.clone(), Some("billing-7b9f/1 since 8m, last renewed never, lease ends in 6m")),
        (
            Entry { updated_at: before(120), ..base.clone() },
            Some("billing-7b9f/1 since 8m, last renewed 2m ago, lease ends in 6m"),
        ),
        (
            Entry { lease_until: before(60), ..base.clone() },
            Some("billing-7b9f/1 since 8m, last renewed never, lease ended 1m ago"),
        ),
        (
            Entry { owner: String::new(), ..base },
            Some("a client without a name since 8m, last renewed never, lease ends in 6m"),
        ),
        (parked(), None),
    ] {
        assert_eq!(held_by(&entry, &now).as_deref(), says);
    }
}

#[test]
fn get_shows_fields_that_few_entries_have() {
    let now = Timestamp { seconds: NOW, nanos: 0 };
    let entry = Entry {
        expired: true,
        message_state: proto::MessageState::Erased.into(),
        superseded_completes: 2,
        checkpoint_bytes: 1,
        traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
        ..held()
    };
    let shown = lines(Output::plain(), "ledger", &entry, 4, &now);
    let fields: Vec<(&str, &str)> = shown
        .iter()
        .filter_map(|line| line.split_once("  ").map(|(name, text)| (name, text.trim_start())))
        .collect();
    for field in [
        ("state", "IN_PROGRESS (expired)"),
        ("message", "erased"),
        ("superseded", "2 Completes by holders that had lost their claim"),
        ("checkpoint", "1 byte"),
        ("trace", entry.traceparent.as_str()),
    ] {
        assert!(fields.contains(&field), "must show {field:?}: {shown:?}");
    }
}
