//! Refusals keep nothing. On a server where each resource has room for a few calls, each reason for a refusal is met 20 times in a
//! row (twice where the server waits before it refuses), over a connection that stays open, or over one for each call. A refusal
//! that keeps its place is soon followed by another reason; and after all of them no more bytes, calls, places and connections are
//! in use than before. The harness checks at the end of each server that no count is left.
//!
//! The catalogue: the enum `ErrorReason` of `ledger.proto`.

mod calls;
mod preparations;
mod scene;

use std::time::Duration;

use futures_util::future::{BoxFuture, LocalBoxFuture};
use idempotency_ledger::domain::{Policy, ReplayMode, Span};
use idempotency_ledger::ledger::WaitBounds;
use idempotency_ledger::proto::ErrorReason;
use idempotency_ledger::rpc::{ConnectionLimits, PrincipalLimits};

use self::scene::Scene;
use crate::harness::server::Setup;
use crate::inbox::inbox;

/// How often a refusal is met: more often than the server has room for calls.
const TIMES: usize = 20;

/// Meets a refusal, as the call of this number; returns its reason.
type Call = for<'s> fn(&'s mut Scene, usize) -> LocalBoxFuture<'s, String>;

struct Refusal {
    name: &'static str,
    /// The reason, as the contract writes it.
    reason: &'static str,
    setup: fn() -> Setup,
    prepare: Option<fn(Scene) -> BoxFuture<'static, Scene>>,
    call: Call,
    times: usize,
}

/// Each resource has room for a few calls.
fn tight() -> Setup {
    Setup {
        queue_max: 4,
        queue_bytes_max: 64 << 10,
        connection_bytes_max: 1 << 20,
        server_bytes_max: 4 << 20,
        connections_max: 8,
        connections: ConnectionLimits { per_address_max: 8, ..ConnectionLimits::default() },
        principals: PrincipalLimits { calls_max: 4, bytes_max: 1 << 20, ..PrincipalLimits::default() },
        waits: WaitBounds { server: 4, key: 2 },
        ..Setup::default()
    }
}

fn with(policy: Policy) -> Setup {
    tight().with("c", policy)
}

fn refusal(name: &'static str, reason: &'static str, call: Call) -> Refusal {
    Refusal { name, reason, setup: tight, prepare: None, call, times: TIMES }
}

fn refusals() -> Vec<Refusal> {
    vec![
        refusal("faulty_field", "INVALID_FIELD", calls::claims_without_consumer),
        refusal("too_many_items", "TOO_MANY_ITEMS", calls::claims_too_many),
        refusal("too_large_message", "TOO_LARGE", calls::completes_with_a_large_result),
        Refusal {
            prepare: Some(preparations::completed),
            ..refusal("closed_claim", "CLAIM_CLOSED", calls::releases)
        },
        Refusal {
            prepare: Some(preparations::started),
            ..refusal("started_effect", "EFFECT_STARTED", calls::releases)
        },
        Refusal {
            setup: || with(Policy { max_hold: Span::from_secs(1_000), ..Policy::default() }),
            prepare: Some(preparations::held_for_long),
            ..refusal("hold_that_is_over", "LEASE_LIMIT_REACHED", calls::renews)
        },
        Refusal {
            prepare: Some(preparations::held_for_long),
            ..refusal("token_of_the_future", "TOKEN_FROM_FUTURE", calls::completes_by_a_later_token)
        },
        Refusal {
            setup: || with(Policy { disabled: true, ..Policy::default() }),
            ..refusal("disabled_consumer", "CONSUMER_DISABLED", calls::claims)
        },
        Refusal {
            setup: || Setup { registered_only: true, ..tight() },
            ..refusal("unknown_consumer", "UNKNOWN_CONSUMER", calls::claims)
        },
        refusal("short_retention", "RETENTION_TOO_SHORT", calls::sets_a_short_retention),
        Refusal {
            prepare: Some(preparations::held_for_long),
            ..refusal("state_of_the_entry", "STATE_NOT_ALLOWED", calls::deletes)
        },
        Refusal {
            prepare: Some(preparations::taken_over),
            ..refusal("lost_lease", "LEASE_LOST", calls::renews)
        },
        refusal("other_version", "VERSION_MISMATCH", calls::sets_another_version),
        refusal("absent_entry", "ENTRY_NOT_FOUND", calls::gets_an_absent_entry),
        Refusal {
            prepare: Some(preparations::deleted_policy),
            ..refusal("absent_policy", "POLICY_NOT_FOUND", calls::deletes_the_policy)
        },
        refusal("absent_credential", "UNAUTHENTICATED", calls::claims_without_a_credential),
        refusal("absent_right", "CONSUMER_NOT_ALLOWED", calls::claims_without_a_right),
        Refusal {
            setup: || Setup {
                connection_bytes_max: 512 << 10,
                principals: PrincipalLimits::default(),
                ..tight()
            },
            prepare: Some(preparations::full_of_imports),
            ..refusal("full_connection", "OVERLOADED", calls::imports)
        },
        Refusal {
            prepare: Some(preparations::full_of_imports),
            ..refusal("calls_of_a_principal", "QUOTA_EXCEEDED", calls::claims)
        },
        // An import takes 133 KiB, of five eighths of 200.
        Refusal {
            setup: || Setup {
                principals: PrincipalLimits { bytes_max: 200 << 10, ..PrincipalLimits::default() },
                ..tight()
            },
            ..refusal("bytes_of_a_principal", "QUOTA_EXCEEDED", calls::imports)
        },
        Refusal {
            setup: || with(Policy { claims_per_second: 1, ..Policy::default() }),
            ..refusal("claims_a_second", "QUOTA_EXCEEDED", calls::claims_until_there_are_too_many)
        },
        Refusal {
            setup: || Setup { inbox_bytes_max: 1, ..with(inbox()) },
            prepare: Some(preparations::full_backlog),
            ..refusal("full_backlog", "BACKLOG_FULL", calls::stores)
        },
        refusal("store_that_refuses", "STORE_UNAVAILABLE", calls::claims_of_a_store_that_refuses),
        Refusal {
            prepare: Some(preparations::clock_behind),
            ..refusal("clock_behind", "STORE_CLOCK_BEHIND", calls::claims_new_key)
        },
        Refusal {
            prepare: Some(preparations::clock_ahead),
            ..refusal("clock_ahead", "STORE_CLOCK_AHEAD", calls::claims_new_key)
        },
        // Each import lasts until its connection is too old. That of the other calls must last until the first look.
        Refusal {
            setup: || {
                let age_max = Some(Duration::from_secs(4));
                let age_grace = Duration::from_secs(1);
                let connections = ConnectionLimits { age_max, age_grace, ..ConnectionLimits::default() };
                Setup { connections, ..tight() }
            },
            times: 2,
            ..refusal("end_of_a_connection", "DRAINING", calls::imports_until_the_end)
        },
        refusal("unknown_outcome", "OUTCOME_UNKNOWN", calls::claims_without_an_outcome),
        refusal("deadline", "DEADLINE_EXCEEDED", calls::claims_too_late),
        // Each body stops half-way, for as long as the server waits.
        Refusal {
            setup: || Setup { stall_max: Duration::from_millis(500), ..tight() },
            times: 2,
            ..refusal("half_a_request", "DEADLINE_EXCEEDED", calls::sends_half)
        },
        Refusal {
            prepare: Some(preparations::held),
            ..refusal("reset_of_a_waiting_call", "CANCELLED", calls::waits_and_goes_away)
        },
        Refusal {
            prepare: Some(preparations::another_key),
            ..refusal("key_behind_the_hash", "KEY_COLLISION", calls::claims)
        },
        Refusal {
            prepare: Some(preparations::unreadable_entry),
            ..refusal("unreadable_entry", "ENTRY_UNREADABLE", calls::claims)
        },
        refusal("spoiled_statement", "INTERNAL", calls::claims_poison),
        refusal("unknown_method", "UNIMPLEMENTED", calls::calls_no_method),
        Refusal {
            prepare: Some(preparations::unreadable_policy),
            ..refusal("unreadable_policy", "POLICY_UNREADABLE", calls::claims)
        },
        Refusal {
            prepare: Some(preparations::completed),
            ..refusal("young_entry", "TOO_RECENT", calls::deletes_by_force)
        },
        Refusal {
            setup: || with(Policy { replay: ReplayMode::Rebuild, ..Policy::default() }),
            ..refusal("unknown_run", "REPLAY_RUN_UNKNOWN", calls::replays)
        },
        Refusal {
            setup: || with(Policy { replay: ReplayMode::Rebuild, ..Policy::default() }),
            prepare: Some(preparations::closed_run),
            ..refusal("closed_run", "REPLAY_RUN_CLOSED", calls::replays)
        },
        Refusal {
            setup: || with(Policy { replay: ReplayMode::Rebuild, ..Policy::default() }),
            prepare: Some(preparations::forbidden_run),
            ..refusal("forbidden_replay", "REPLAY_FORBIDDEN", calls::replays)
        },
        refusal("absent_inbox", "INBOX_OFF", calls::stores),
    ]
}

async fn refusal_keeps_nothing(refusal: Refusal) {
    let Refusal { name, reason, times, .. } = refusal;
    let mut scene = Scene::start((refusal.setup)()).await;
    if let Some(prepare) = refusal.prepare {
        scene = prepare(scene).await;
    }
    let before = scene.in_use_at_rest().await;
    for number in 0..times {
        assert_eq!((refusal.call)(&mut scene, number).await, reason, "{name}: call {number}");
    }
    scene.until_in_use(name, before).await;
    scene.stop().await;
}

/// A refusal keeps nothing: a test for each row.
macro_rules! each_keeps_nothing {
    ($($name:ident),* $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];

        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let refusal = refusals().into_iter().find(|refusal| refusal.name == stringify!($name)).unwrap();
            refusal_keeps_nothing(refusal).await;
        })*
    };
}

each_keeps_nothing!(
    faulty_field,
    too_many_items,
    too_large_message,
    closed_claim,
    started_effect,
    hold_that_is_over,
    token_of_the_future,
    disabled_consumer,
    unknown_consumer,
    short_retention,
    state_of_the_entry,
    lost_lease,
    other_version,
    absent_entry,
    absent_policy,
    absent_credential,
    absent_right,
    full_connection,
    calls_of_a_principal,
    bytes_of_a_principal,
    claims_a_second,
    full_backlog,
    store_that_refuses,
    clock_behind,
    clock_ahead,
    end_of_a_connection,
    unknown_outcome,
    deadline,
    half_a_request,
    reset_of_a_waiting_call,
    key_behind_the_hash,
    unreadable_entry,
    spoiled_statement,
    unknown_method,
    unreadable_policy,
    young_entry,
    unknown_run,
    closed_run,
    forbidden_replay,
    absent_inbox,
);

#[test]
fn every_reason_has_a_row() {
    let refusals = refusals();
    assert_eq!(refusals.iter().map(|refusal| refusal.name).collect::<Vec<_>>(), TESTED, "each row is a test");
    // The numbers have gaps where values were reserved.
    let all = (1..1_000).filter_map(|number| ErrorReason::try_from(number).ok());
    let words: Vec<&str> =
        all.map(|reason| reason.as_str_name().trim_start_matches("ERROR_REASON_")).collect();
    assert!(words.len() >= 37, "{words:?}");
    let has_row = |word: &&str| refusals.iter().any(|refusal| refusal.reason == *word);
    let missing: Vec<_> = words.into_iter().filter(|word| !has_row(word)).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
}
