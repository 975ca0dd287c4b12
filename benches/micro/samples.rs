//! The message, the claim and the entries that are measured: of the usual sizes.

use bytes::Bytes;
use idempotency_ledger::domain::{
    Claim, Claimant, ClockLimits, Command, Context, Decision, Entry, FailureKind, Key, Policy, Reading,
    Settle, Span, StoreTime, decide,
};
use idempotency_ledger::proto;
use uuid::Uuid;

pub(crate) const CONSUMER: &str = "payments";
pub(crate) const SOURCE: &str = "//shop.example/orders";
pub(crate) const ID: &str = "0192f3a4-7c1e-7d3b-9a51-5c0e8f6b2d17";
const OWNER: &str = "worker-7f9c-2";
const NOW: StoreTime = StoreTime(1_780_000_000_000_000);

pub(crate) fn key() -> Key {
    Key::new(CONSUMER, SOURCE, ID)
}

pub(crate) fn entry_key() -> proto::EntryKey {
    proto::EntryKey { consumer: CONSUMER.into(), source: SOURCE.into(), id: ID.into(), ..Default::default() }
}

pub(crate) fn claim_request() -> proto::ClaimRequest {
    proto::ClaimRequest {
        key: Some(entry_key()),
        claim_id: claim_id(1).to_string(),
        owner: OWNER.into(),
        fingerprint: Bytes::from_static(&[7; 32]),
        ..proto::ClaimRequest::default()
    }
}

pub(crate) fn complete_request() -> proto::CompleteRequest {
    proto::CompleteRequest {
        key: Some(entry_key()),
        token: NOW.micros(),
        result: Bytes::from_static(&[1; 64]),
        result_left_out: false,
        event_type: String::new(),
    }
}

/// Of a delivery: one version 4 UUID for each number.
fn claim_id(delivery: u128) -> Uuid {
    Uuid::from_u128(0x5f0c_1d5e_8a1b_4c2d_9e3f_0a1b_2c3d_0000 + delivery)
}

pub(crate) fn claim(delivery: u128) -> Command {
    let claimant =
        Claimant { claim_id: claim_id(delivery), principal: "anonymous".into(), owner: OWNER.into() };
    Command::Claim(Claim {
        claimant,
        lease: None,
        fingerprint: Bytes::from_static(&[7; 32]),
        occurred_at: None,
        traceparent: String::new(),
        handed_out: false,
    })
}

pub(crate) fn complete(token: i64) -> Command {
    Command::Settle(token, Settle::Complete { result: Bytes::from_static(&[1; 64]), left_out: false })
}

fn fail(token: i64) -> Command {
    let error = "the provider answered 503".to_owned();
    Command::Settle(
        token,
        Settle::Fail { kind: FailureKind::Retryable, error, retry_after: Some(Span::ZERO) },
    )
}

pub(crate) fn decided(key: &Key, entry: Option<&Entry>, command: &Command) -> Decision {
    let reading = Reading { now: NOW, token_offset: 0, mark: 0, limits: ClockLimits::NONE };
    decide(key, entry, command, &Context::at(&reading, &Policy::default(), 1))
}

/// The entry after these commands; each takes the token of the one before.
fn after(commands: impl IntoIterator<Item = fn(u128, i64) -> Command>) -> Entry {
    let key = key();
    let mut entry: Option<Entry> = None;
    for (number, command) in (1..).zip(commands) {
        let token = entry.as_ref().map_or(0, |entry| entry.token);
        entry = decided(&key, entry.as_ref(), &command(number, token)).write.or(entry);
    }
    entry.expect("the first command grants a claim")
}

/// Granted for the first time.
pub(crate) fn granted() -> Entry {
    after([|number, _| claim(number)] as [fn(u128, i64) -> Command; 1])
}

/// Granted and completed.
pub(crate) fn completed() -> Entry {
    after([|number, _| claim(number), |_, token| complete(token)] as [fn(u128, i64) -> Command; 2])
}

/// Granted, and failed, as often as an entry remembers.
pub(crate) fn failed_often() -> Entry {
    let pair: [fn(u128, i64) -> Command; 2] = [|number, _| claim(number), |_, token| fail(token)];
    after(pair.into_iter().cycle().take(2 * 11))
}
