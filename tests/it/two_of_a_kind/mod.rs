//! Two of a kind: each limit that is counted for each owner (a consumer, a principal, an address, a key, a connection). Two owners
//! have the same limit; one uses it up, and the other one still has all that it may have.
//!
//! The catalogues: the settings and the fields of policies in `docs/configuration.md` that bound one owner, the rows that do in
//! docs/contract.md, section 10, and the limits of principals that the metrics count.

mod catalogue;
mod scene;
mod takes;

use std::ops::RangeInclusive;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use idempotency_ledger::domain::{Policy, ReplayMode};
use idempotency_ledger::ledger::WaitBounds;
use idempotency_ledger::rpc::{ConnectionLimits, PrincipalLimits};

use self::scene::{OWNERS, Scene};
use crate::harness::server::Setup;

/// Takes as much as the owner of this number may have, and holds it. Returns how much that was, and why there was not more.
type Take = for<'a> fn(&'a mut Scene, usize) -> LocalBoxFuture<'a, (usize, String)>;

/// A limit that is counted for each owner.
struct Limit {
    name: &'static str,
    /// What documents it: a setting, a field of a policy, or the first words of a row of docs/contract.md, section 10; and whose
    /// it is.
    documented: &'static [(&'static str, &'static str)],
    setup: fn() -> Setup,
    /// Whether the owners are principals, each with a token.
    principals: bool,
    /// Lets an owner have nearly all that it may have.
    fill: Option<for<'a> fn(&'a Scene, usize) -> LocalBoxFuture<'a, ()>>,
    take: Take,
    /// How much the first owner takes, and then the second one.
    takes: [RangeInclusive<usize>; 2],
    refused: &'static str,
    /// Whether time gives more: then the first owner may have some again.
    refills: bool,
    /// The series that counts refusals.
    counted: Option<&'static str>,
}

const WAITS: &str = "calls that wait on a server";
/// How long calls may wait: longer than a busy machine needs for a row.
const WAIT: Duration = Duration::from_secs(29);
/// How long a condition may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn principals(limits: PrincipalLimits) -> Setup {
    Setup { principals: limits, ..Setup::default() }
}

fn waits(server: usize, key: usize) -> Setup {
    Setup { waits: WaitBounds { server, key }, max_wait: WAIT, ..Setup::default() }
}

/// Both consumers have this policy.
fn policies(policy: &Policy) -> Setup {
    OWNERS.iter().fold(Setup::default(), |setup, consumer| setup.with(consumer, policy.clone()))
}

fn replays() -> Setup {
    policies(&Policy { replay: ReplayMode::Rebuild, ..Policy::default() })
}

fn limit(
    name: &'static str,
    documented: &'static [(&'static str, &'static str)],
    setup: fn() -> Setup,
    take: Take,
    takes: [RangeInclusive<usize>; 2],
    refused: &'static str,
) -> Limit {
    let (principals, fill, refills, counted) = (false, None, false, None);
    Limit { name, documented, setup, principals, fill, take, takes, refused, refills, counted }
}

fn limits() -> Vec<Limit> {
    let both = |number: usize| [number..=number, number..=number];
    vec![
        // Where time gives more, a slow machine takes some of that too.
        Limit {
            refills: true,
            ..limit(
                "claims_of_a_consumer_a_second",
                &[("claims_per_second", "consumer")],
                || policies(&Policy { claims_per_second: 2, ..Policy::default() }),
                takes::claims,
                [2..=20, 2..=20],
                "QUOTA_EXCEEDED",
            )
        },
        Limit {
            principals: true,
            refills: true,
            counted: Some("idempotency_ledger_principal_refusals_total{limit=\"rate\"}"),
            ..limit(
                "calls_of_a_principal_a_second",
                &[("principal_calls_per_second", "principal")],
                || principals(PrincipalLimits { calls_per_second: 4, ..PrincipalLimits::default() }),
                takes::claims,
                [2..=20, 2..=20],
                "QUOTA_EXCEEDED",
            )
        },
        Limit {
            principals: true,
            counted: Some("idempotency_ledger_principal_refusals_total{limit=\"calls\"}"),
            // Five of eight: settlements have the rest.
            ..limit(
                "calls_of_a_principal_under_way",
                &[("principal_calls_max", "principal")],
                || principals(PrincipalLimits { calls_max: 8, ..PrincipalLimits::default() }),
                takes::imports,
                both(5),
                "QUOTA_EXCEEDED",
            )
        },
        Limit {
            principals: true,
            counted: Some("idempotency_ledger_principal_refusals_total{limit=\"bytes\"}"),
            // An import takes 133 KiB and its headers, of five eighths of a MiB.
            ..limit(
                "bytes_of_a_principal_under_way",
                &[("principal_bytes_max", "principal")],
                || principals(PrincipalLimits { bytes_max: 1 << 20, ..PrincipalLimits::default() }),
                takes::imports,
                both(4),
                "QUOTA_EXCEEDED",
            )
        },
        limit(
            "bytes_of_a_connection_under_way",
            &[("connection_bytes_max", "connection")],
            || Setup { connection_bytes_max: 1 << 20, ..Setup::default() },
            takes::imports,
            both(7),
            "OVERLOADED",
        ),
        Limit {
            counted: Some("idempotency_ledger_connections_closed_total{why=\"per_address\"}"),
            ..limit(
                "connections_of_an_address",
                &[("connections_per_address_max", "address")],
                || Setup {
                    connections: ConnectionLimits { per_address_max: 3, ..ConnectionLimits::default() },
                    ..Setup::default()
                },
                takes::connections,
                both(3),
                "closed",
            )
        },
        limit(
            "waiting_calls_of_a_key",
            &[(WAITS, "key")],
            || waits(100, 3),
            takes::waits_of_a_key,
            both(3),
            "no place",
        ),
        // A consumer has as many as it leaves free: half of 12, then half of the 6 that are left.
        limit(
            "waiting_calls_of_a_consumer",
            &[(WAITS, "consumer")],
            || waits(12, 100),
            takes::waits_of_a_consumer,
            [6..=6, 3..=3],
            "no place",
        ),
        Limit {
            principals: true,
            ..limit(
                "waiting_calls_of_a_principal",
                &[(WAITS, "principal")],
                || waits(12, 100),
                takes::waits_of_a_principal,
                [6..=6, 3..=3],
                "no place",
            )
        },
        limit(
            "waiting_calls_of_a_connection",
            &[(WAITS, "connection")],
            || waits(10_000, 1_000),
            takes::waits_of_a_connection,
            both(128),
            "no place",
        ),
        limit(
            "waiting_handouts_of_a_consumer",
            &[(WAITS, "consumer")],
            || waits(12, 100),
            takes::handouts_of_a_consumer,
            [6..=6, 3..=3],
            "no place",
        ),
        Limit {
            principals: true,
            ..limit(
                "waiting_handouts_of_a_principal",
                &[(WAITS, "principal")],
                || waits(12, 100),
                takes::handouts_of_a_principal,
                [6..=6, 3..=3],
                "no place",
            )
        },
        limit(
            "waiting_handouts_of_a_connection",
            &[(WAITS, "connection")],
            || waits(10_000, 1_000),
            takes::handouts_of_a_connection,
            both(128),
            "no place",
        ),
        limit(
            "waiting_calls_of_an_address_by_http1",
            &[(WAITS, "address")],
            || Setup {
                connections: ConnectionLimits { per_address_max: 8, ..ConnectionLimits::default() },
                max_wait: WAIT,
                ..Setup::default()
            },
            takes::waits_of_an_address,
            both(4),
            "no place",
        ),
        Limit {
            principals: true,
            fill: Some(takes::fill_holds),
            ..limit(
                "holds_of_a_principal",
                &[("holds in force", "principal")],
                Setup::default,
                takes::holds,
                both(2),
                "STATE_NOT_ALLOWED",
            )
        },
        Limit {
            principals: true,
            ..limit(
                "imports_and_bulk_redrives_of_a_principal",
                &[("imports and bulk redrives that one principal has open", "principal")],
                // Both owners share a connection.
                || Setup { connection_bytes_max: 64 << 20, ..Setup::default() },
                takes::imports,
                both(64),
                "OVERLOADED",
            )
        },
        Limit {
            fill: Some(takes::fill_runs_of_a_consumer),
            ..limit(
                "replay_runs_of_a_consumer",
                &[("replay runs that count", "consumer")],
                replays,
                takes::runs,
                both(2),
                "STATE_NOT_ALLOWED",
            )
        },
        // Half of 10,000, then half of the 5,000 that are left.
        Limit {
            principals: true,
            fill: Some(takes::fill_runs_of_a_principal),
            ..limit(
                "replay_runs_of_a_principal",
                &[("replay runs that count", "principal")],
                replays,
                takes::runs,
                both(2),
                "STATE_NOT_ALLOWED",
            )
        },
        // Five eighths of 64 KiB, at 5 KiB and the headers of each; then as many as it leaves free of what the first one left.
        limit(
            "health_checks_of_an_address",
            &[],
            || Setup { server_bytes_max: 1 << 20, ..Setup::default() },
            takes::watches,
            [7..=7, 4..=4],
            "OVERLOADED",
        ),
    ]
}

async fn second_owner_has_its_own(limit: Limit) {
    let Limit { name, takes, refused, .. } = &limit;
    let mut scene = Scene::start((limit.setup)(), limit.principals).await;
    for (owner, expected) in takes.iter().enumerate() {
        if let Some(fill) = limit.fill {
            fill(&scene, owner).await;
        }
        let (taken, why) = (limit.take)(&mut scene, owner).await;
        assert!(expected.contains(&taken), "{name}: owner {owner} takes {taken} of {expected:?}");
        assert_eq!(why, *refused, "{name}: owner {owner}");
    }
    if !limit.refills {
        let (taken, why) = (limit.take)(&mut scene, 0).await;
        assert_eq!((taken, why.as_str()), (0, *refused), "{name}: the first owner is refused again");
    }
    if let Some(series) = limit.counted {
        // A connection is counted a moment after its client has seen its end.
        scene.until(name, |server| server.metric(series).unwrap() >= 2.0).await;
    }
    scene.stop().await;
}

/// A limit that one owner has used up is whole for another one: a test for each row.
macro_rules! used_up_by_one_and_whole_for_another {
    ($($name:ident),* $(,)?) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];

        $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            let limit = limits().into_iter().find(|limit| limit.name == stringify!($name)).unwrap();
            second_owner_has_its_own(limit).await;
        })*
    };
}

used_up_by_one_and_whole_for_another!(
    claims_of_a_consumer_a_second,
    calls_of_a_principal_a_second,
    calls_of_a_principal_under_way,
    bytes_of_a_principal_under_way,
    bytes_of_a_connection_under_way,
    connections_of_an_address,
    waiting_calls_of_a_key,
    waiting_calls_of_a_consumer,
    waiting_calls_of_a_principal,
    waiting_calls_of_a_connection,
    waiting_handouts_of_a_consumer,
    waiting_handouts_of_a_principal,
    waiting_handouts_of_a_connection,
    waiting_calls_of_an_address_by_http1,
    holds_of_a_principal,
    imports_and_bulk_redrives_of_a_principal,
    replay_runs_of_a_consumer,
    replay_runs_of_a_principal,
    health_checks_of_an_address,
);
