//! What clients do: claims, settlements, look-ups, waits, and calls that queue.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;

use super::scene::{Day, complete, setup};
use super::{Event, PATIENCE, Scene as _, all_happen, events, value};
use crate::edge::frames::message;
use crate::harness::details::{claim, key};
use crate::harness::faulty::Inject;
use crate::harness::on_both_stores;
use crate::harness::server::Kind;
use crate::{replays, waiting};

on_both_stores!(metrics_move_with_what_clients_do);

/// Soon after this a server gives a statement up.
const STATEMENT_MAX: Duration = Duration::from_millis(2_500);

async fn metrics_move_with_what_clients_do(kind: Kind) {
    let mut day = Day::start(kind, setup()).await;
    all_happen(&mut day, EVENTS).await;
    day.stop().await;
}

pub(super) const EVENTS: &[Event<Day>] = &[
    Event {
        what: "a claim is granted",
        happens: is_granted,
        rises: &[
            r#"claims_total{consumer="c",event_type="",verdict="acquired"}"#,
            r#"queue_wait_seconds_count{lane="claim"}"#,
            "batch_commands_count",
            r#"store_statement_seconds_count{statement="insert"}"#,
            r#"store_statement_rows_count{statement="insert"}"#,
            r#"grpc_server_started_total{grpc_method="Claim",grpc_service="idempotency.ledger.v1.LedgerService",grpc_type="unary"}"#,
            r#"grpc_server_handled_total{grpc_code="OK",grpc_method="Claim",grpc_service="idempotency.ledger.v1.LedgerService",grpc_type="unary"}"#,
            r#"grpc_server_handling_seconds_count{grpc_method="Claim",grpc_service="idempotency.ledger.v1.LedgerService",grpc_type="unary"}"#,
            r#"entries{consumer="c",state="in_progress"}"#,
            "entries_counting_seconds_count",
            r#"stored_names{kind="source"}"#,
            r#"stored_names{kind="principal"}"#,
        ],
        falls: &[],
    },
    Event {
        what: "its lease and its grace end",
        happens: a_minute_passes,
        rises: &[
            r#"entries_oldest_seconds{consumer="c",kind="in_progress"}"#,
            r#"entries_oldest_seconds{consumer="c",kind="expired"}"#,
            r#"entries_expired{consumer="c"}"#,
            "entries_counted_timestamp_seconds",
        ],
        falls: &[],
    },
    Event {
        what: "the next delivery is granted its key",
        happens: is_granted_again,
        rises: &[r#"reclaims_total{consumer="c"}"#],
        falls: &[
            r#"entries_expired{consumer="c"}"#,
            r#"entries_oldest_seconds{consumer="c",kind="expired"}"#,
        ],
    },
    Event {
        what: "the second holder completes",
        happens: completes,
        rises: &[
            r#"settlements_total{consumer="c",operation="complete",outcome="ok"}"#,
            r#"claim_held_seconds_count{consumer="c",event_type="",operation="complete"}"#,
            r#"completion_attempts_count{consumer="c"}"#,
            r#"entries{consumer="c",state="completed"}"#,
        ],
        falls: &[
            r#"entries{consumer="c",state="in_progress"}"#,
            r#"entries_oldest_seconds{consumer="c",kind="in_progress"}"#,
        ],
    },
    Event {
        what: "the first holder reports the same effect",
        happens: completes_too,
        rises: &[r#"doubled_effects_total{consumer="c"}"#],
        falls: &[],
    },
    Event {
        what: "a look-up",
        happens: is_looked_up,
        rises: &[r#"lookups_total{consumer="c",state="completed"}"#],
        falls: &[],
    },
    Event {
        what: "a request without its fields, and one with a field that is too long",
        happens: has_wrong_fields,
        rises: &[
            r#"refusals_total{reason="INVALID_FIELD"}"#,
            r#"corrected_fields_total{field="event_type"}"#,
        ],
        falls: &[],
    },
    Event {
        what: "a token that was never granted",
        happens: has_a_token_from_the_future,
        rises: &[r#"alerts_total{reason="TOKEN_FROM_FUTURE"}"#],
        falls: &[],
    },
    Event {
        what: "the first of two attempts fails",
        happens: fails,
        rises: &[
            r#"attempts_failed_total{consumer="tried",event_type="",kind="retryable"}"#,
            r#"entries_near_exhaustion{consumer="tried"}"#,
            r#"entries{consumer="tried",state="failed_retryable"}"#,
        ],
        falls: &[],
    },
    Event {
        what: "the second one is parked",
        happens: is_parked,
        rises: &[
            r#"parked_total{cause="consumer",consumer="tried"}"#,
            r#"entries{consumer="tried",state="parked"}"#,
        ],
        falls: &[
            r#"entries_near_exhaustion{consumer="tried"}"#,
            r#"entries{consumer="tried",state="failed_retryable"}"#,
        ],
    },
    Event {
        what: "a claim is given back",
        happens: is_given_back,
        rises: &[r#"releases_in_a_row_count{consumer="c"}"#, r#"entries{consumer="c",state="received"}"#],
        falls: &[],
    },
    Event {
        what: "a replay",
        happens: is_replayed,
        rises: &[r#"replay_claims_total{consumer="c",event_type="",replay="true",verdict="acquired"}"#],
        falls: &[],
    },
    Event { what: "a call waits", happens: waits, rises: &["waiters"], falls: &[] },
    Event {
        what: "its verdict",
        happens: is_answered,
        rises: &[r#"wait_seconds_count{outcome="answered"}"#],
        falls: &["waiters"],
    },
    Event {
        what: "calls queue behind a write",
        happens: queue,
        rises: &[
            r#"queue_commands{lane="close"}"#,
            r#"queue_commands{lane="renew"}"#,
            r#"queue_commands{lane="release"}"#,
            r#"queue_commands{lane="claim"}"#,
            r#"queue_commands{lane="lookup"}"#,
            "queue_bytes",
        ],
        falls: &[],
    },
    Event {
        what: "the write is done",
        happens: are_served,
        rises: &[
            r#"queue_wait_seconds_count{lane="close"}"#,
            r#"queue_wait_seconds_count{lane="renew"}"#,
            r#"queue_wait_seconds_count{lane="release"}"#,
            r#"queue_wait_seconds_count{lane="lookup"}"#,
        ],
        falls: &[
            r#"queue_commands{lane="close"}"#,
            r#"queue_commands{lane="renew"}"#,
            r#"queue_commands{lane="release"}"#,
            r#"queue_commands{lane="claim"}"#,
            r#"queue_commands{lane="lookup"}"#,
            "queue_bytes",
        ],
    },
    Event {
        what: "a write fails",
        happens: is_refused_by_the_store,
        rises: &[r#"store_failures_total{kind="unavailable",statement="insert"}"#],
        falls: &[],
    },
    Event {
        what: "a request arrives in part",
        happens: sends_half,
        rises: &["connections", "request_bytes"],
        falls: &[],
    },
    Event {
        what: "its client goes away",
        happens: goes_away,
        rises: &[],
        falls: &["connections", "request_bytes"],
    },
    Event { what: "an answer is not read", happens: reads_nothing, rises: &["answer_bytes"], falls: &[] },
    Event {
        what: "the client of the answer goes away",
        happens: goes_away,
        rises: &[],
        falls: &["answer_bytes"],
    },
];

events! {
    is_granted(day: Day) {
        day.claims("c", "1").await;
    }

    a_minute_passes(day: Day) {
        day.server.advance(Span::from_secs(60)).await;
    }

    /// The first token is kept under another id.
    is_granted_again(day: Day) {
        let first = day.token("1");
        day.claims("c", "1").await;
        day.keeps("first", first);
    }

    completes(day: Day) {
        day.completes("1").await;
    }

    completes_too(day: Day) {
        let first = complete("1", day.token("first"));
        day.server.client.complete(first).await.unwrap_err();
    }

    is_looked_up(day: Day) {
        let request = proto::LookupRequest { key: key("c", "1"), wait: None };
        day.server.client.lookup(request).await.unwrap();
    }

    has_wrong_fields(day: Day) {
        day.server.client.claim(proto::ClaimRequest::default()).await.unwrap_err();
        let long = proto::ClaimRequest { event_type: "t".repeat(129), ..claim("c", "1") };
        day.server.client.claim(long).await.unwrap();
    }

    has_a_token_from_the_future(day: Day) {
        let token = day.claims("c", "future").await;
        // It may have been granted by a database that has lost it.
        day.server.advance(Span::from_secs(1)).await;
        day.server.client.complete(complete("future", token + 1_000)).await.unwrap_err();
    }

    fails(day: Day) {
        let token = day.claims("tried", "fails").await;
        let fail = fail(token, proto::FailureKind::Retryable);
        day.server.client.fail(fail).await.unwrap();
    }

    is_parked(day: Day) {
        let token = day.claims("tried", "fails").await;
        day.server.client.fail(fail(token, proto::FailureKind::Park)).await.unwrap();
    }

    is_given_back(day: Day) {
        let token = day.claims("c", "back").await;
        day.server.client.release(release("back", token)).await.unwrap();
    }

    is_replayed(day: Day) {
        day.server.admin.create_replay_run(replays::creates("r")).await.unwrap();
        day.server.client.claim(replays::replayed("r", "1")).await.unwrap();
    }

    waits(day: Day) {
        day.claims("c", "awaited").await;
        let mut client = day.server.client.clone();
        day.sends(async move { drop(client.claim(waiting::waits("c", "awaited")).await.unwrap()) });
    }

    is_answered(day: Day) {
        day.completes("awaited").await;
    }

    /// One write is at the gate; those that follow it wait for the only worker, until it gives that statement up. On a busy machine
    /// that may be before all are seen.
    queue(day: Day) {
        for attempt in 0..20 {
            let ids = ["closes", "renews", "releases"].map(|what| format!("{what} {attempt}"));
            for id in &ids {
                day.claims("c", id).await;
            }
            let writes = day.plan.writes.load(Ordering::SeqCst);
            day.plan.close();
            day.sends_a_claim(&format!("at the gate {attempt}"));
            day.plan.arrived(writes + 1).await;
            day.sends_a_claim(&format!("behind it {attempt}"));
            day.settles(&ids);
            let since = Instant::now();
            while since.elapsed() < STATEMENT_MAX {
                let now = day.series().await;
                let lanes = ["close", "renew", "release", "claim", "lookup"];
                if lanes.iter().all(|lane| value(&now, &format!("queue_commands{{lane=\"{lane}\"}}")) > 0.0) {
                    day.seen = Some(now);
                    return;
                }
            }
            day.plan.open();
            day.calls_end().await;
        }
    }

    are_served(day: Day) {
        day.plan.open();
        day.calls_end().await;
        // Those that waited for too long were refused.
        let ids = ["closes", "renews", "releases"].map(|what| format!("{what} again"));
        for id in &ids {
            until_granted(day, id).await;
        }
        day.settles(&ids);
    }

    is_refused_by_the_store(day: Day) {
        // The fault is for the next write.
        day.calls_end().await;
        day.plan.next([Inject::Unavailable]);
        day.sends_a_claim("refused");
    }

    sends_half(day: Day) {
        let mut bytes = message(&claim("c", &"x".repeat(200)));
        bytes.truncate(150);
        day.unread(bytes, false).await;
    }

    reads_nothing(day: Day) {
        day.unread(message(&claim("c", "1")), true).await;
    }

    goes_away(day: Day) {
        day.held.clear();
    }
}

/// Claims a key, also while a session that was given up is replaced.
async fn until_granted(day: &mut Day, id: &str) {
    let since = Instant::now();
    while day.server.client.claim(claim("c", "any")).await.is_err() {
        assert!(since.elapsed() < PATIENCE, "no claim is granted");
    }
    day.claims("c", id).await;
}

impl Day {
    /// Sends a Complete, a Renew and a Release of these keys, and a Lookup; their answers do not matter.
    fn settles(&mut self, [closes, renews, releases]: &[String; 3]) {
        let client = || self.server.client.clone();
        let [mut first, mut second, mut third, mut fourth] = [client(), client(), client(), client()];
        let closing = complete(closes, self.token(closes));
        let renewing =
            proto::RenewRequest { key: key("c", renews), token: self.token(renews), ..Default::default() };
        let releasing = release(releases, self.token(releases));
        let looking = proto::LookupRequest { key: key("c", "1"), wait: None };
        self.sends(async move { drop(first.complete(closing).await) });
        self.sends(async move { drop(second.renew(renewing).await) });
        self.sends(async move { drop(third.release(releasing).await) });
        self.sends(async move { drop(fourth.lookup(looking).await) });
    }
}

fn fail(token: i64, kind: proto::FailureKind) -> proto::FailRequest {
    let retry_after = waiting::secs(0);
    proto::FailRequest {
        key: key("tried", "fails"),
        token,
        kind: kind.into(),
        retry_after,
        ..Default::default()
    }
}

fn release(id: &str, token: i64) -> proto::ReleaseRequest {
    proto::ReleaseRequest { key: key("c", id), token, ..Default::default() }
}
