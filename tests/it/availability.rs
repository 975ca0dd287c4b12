//! What one lost session, one held row, one silent network and one absent standby cost everybody else.
//!
//! Each bar is a ratio or a time inside one run. `LEDGER_PROOF_SIZE` is the number of seconds that each harm
//! lasts; beside other tests the bars of rates are lower, since those use the machine too.

mod load;
mod log;
mod scene;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use sqlx::Executor as _;
use tokio::sync::watch;
use tonic_health::pb::health_check_response::ServingStatus;

use self::load::{Gap, Load};
use self::scene::{Scene, passed, rounds, within};
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::server::Setup;
use crate::harness::timer::Timer;

/// An operator has an answer within this time after a failover; a session that was idle for the other one is not
/// trusted.
const OPERATOR_WAITS: Duration = Duration::from_secs(5);
const OPERATOR_RESTS: Duration = Duration::from_millis(200);

async fn hold(scene: &Scene, id: &str) -> sqlx::PgConnection {
    let mut other = scene.cluster.connect("postgres").await;
    other.execute("BEGIN").await.unwrap();
    let statement = format!("SELECT 1 FROM ledger.entries WHERE id = '{id}' FOR UPDATE");
    other.execute(sqlx::AssertSqlSafe(statement)).await.unwrap();
    other
}

fn complete(id: &str, token: i64) -> proto::CompleteRequest {
    proto::CompleteRequest { key: key("held", id), token, ..Default::default() }
}

/// Two of three sessions end, and cannot come back: the third one does all the work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lost_session_refuses_nobody() {
    let scene = Scene::new("availability-session", 3).await;
    let load = Load::start(&scene.client(), 32);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut calm, mut harmed, mut share) = (0, 0, 0);
    for _ in 0..rounds() {
        scene.cluster.execute("postgres", "ALTER ROLE app CONNECTION LIMIT -1").await;
        scene.has_sessions(3).await;
        calm = load.during(scene.seconds()).await;
        scene.cluster.execute("postgres", "ALTER ROLE app CONNECTION LIMIT 0").await;
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE application_name = 'idempotency-ledger claims' LIMIT 2";
        scene.cluster.execute("postgres", end).await;
        harmed = load.during(scene.seconds()).await;
        let refused = load.refused();
        assert!(refused.is_empty(), "{refused:?}");
        share = harmed * 100 / calm.max(1);
        if share >= scene.bar(45) {
            break;
        }
    }
    assert!(share >= scene.bar(45), "{share} % of the calm rate: {harmed} pairs after {calm}");
    assert_eq!(scene.health().await, ServingStatus::Serving);
    load.end().await;
    scene.end(format!("two of three sessions lost: 0 refused, {share} % of {calm} calm pairs")).await;
}

/// Somebody else holds one row, which is renewed ten times a second: all others go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_held_row_stalls_nobody_else() {
    let scene = Scene::new("availability-row", 3).await;
    let mut client = scene.client();
    let token = acquired(&client.claim(claim("held", "hot")).await.unwrap().into_inner()).token;
    let load = Load::start(&client, 32);
    let over = Arc::new(AtomicBool::new(false));
    let renewing = tokio::spawn({
        let (mut client, over) = (client.clone(), Arc::clone(&over));
        async move {
            let mut refused = 0;
            while !over.load(Ordering::Relaxed) {
                let request = proto::RenewRequest { key: key("held", "hot"), token, ..Default::default() };
                if let Err(status) = client.renew(request).await {
                    assert_eq!(refusal(&status).reason, "OVERLOADED");
                    refused += 1;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            refused
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (mut calm, mut harmed, mut share, mut holds, timer) = (0, 0, 0, 0, Timer::start());
    for _ in 0..rounds() {
        (calm, harmed) = (0, 0);
        for _ in 0..scene.run.size {
            calm += load.during(Duration::from_secs(1)).await;
            let mut other = hold(&scene, "hot").await;
            harmed += load.during(Duration::from_secs(1)).await;
            other.execute("ROLLBACK").await.unwrap();
            holds += 1;
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        share = harmed * 100 / calm.max(1);
        if share >= scene.bar(80) {
            break;
        }
    }
    over.store(true, Ordering::Relaxed);
    let renewals = renewing.await.unwrap();
    assert!(renewals > 0, "the row was held");
    // One statement meets the row each time, and waits for `lock_wait`; the others are refused from memory. Where the machine keeps
    // the server from checking the row for a second, another statement meets it.
    let waited = scene.statements_locked();
    let most = holds + timer.delayed().as_secs();
    assert!(u64::from(waited) <= most, "not from memory: {waited} of {renewals} refusals, in {holds} locks");
    assert!(share >= scene.bar(80), "{share} % of the calm rate: {harmed} pairs beside {calm}");
    assert!(load.refused().is_empty(), "{:?}", load.refused());
    load.end().await;
    let told = format!("one row held: others {share} % of {calm} calm pairs, {renewals} renewals refused");
    scene.end(told).await;
}

/// A batch with one held row is answered soon, and only that item is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_with_a_held_row_is_answered_soon() {
    let scene = Scene::new("availability-batch", 1).await;
    let mut client = scene.client();
    let claims = || (0..1_000).map(|number| claim("held", &format!("m{number}"))).collect();
    let request = proto::BatchClaimRequest { requests: claims() };
    let granted = client.batch_claim(request).await.unwrap().into_inner().responses;
    let tokens: Vec<i64> = granted.iter().map(|one| acquired(one).token).collect();
    let renew = |number: usize| {
        Action::Renew(proto::RenewRequest {
            key: key("held", &format!("m{number}")),
            token: tokens[number],
            ..Default::default()
        })
    };
    let end = |number: usize| Action::Complete(complete(&format!("m{number}"), tokens[number]));
    let mut told = Vec::new();
    let mut held = hold(&scene, "m700").await;
    for (what, action) in [("renewals", &renew as &dyn Fn(usize) -> Action), ("completions", &end)] {
        let settle = |number| proto::Settlement { action: Some(action(number)) };
        let settlements = (0..1_000).map(settle).collect();
        let (timer, locked) = (Timer::start(), scene.statements_locked());
        let results = client.batch_settle(proto::BatchSettleRequest { settlements }).await;
        let took = passed(&timer);
        assert!(took < Duration::from_millis(1_500), "{what}: {took:?}");
        // The row is met once, and not by each half of the batch.
        let (met, most) = (scene.statements_locked() - locked, 1 + timer.delayed().as_secs());
        assert!(u64::from(met) <= most, "{what}: {met} statements waited for the row");
        for (number, result) in results.unwrap().into_inner().results.iter().enumerate() {
            match &result.outcome {
                Some(Outcome::Rejected(it)) if number == 700 => {
                    assert_eq!(it.reason(), proto::ErrorReason::Overloaded);
                }
                Some(Outcome::Complete(_) | Outcome::Renew(_)) if number != 700 => {}
                other => panic!("{what}, {number}: {other:?}"),
            }
        }
        told.push(format!("{what} {} ms", took.as_millis()));
        // Not from memory: the next batch meets the row again.
        held.execute("ROLLBACK").await.unwrap();
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        held = hold(&scene, "m700").await;
    }
    held.execute("ROLLBACK").await.unwrap();
    client.complete(complete("m700", tokens[700])).await.unwrap();
    scene.end(format!("batches of 1000 with one held row: {}", told.join(", "))).await;
}

/// What ends a claim waits for its row for as long as its caller does; nobody waits with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settlement_waits_for_its_row_alone() {
    let scene = Scene::new("availability-settlement", 3).await;
    let mut client = scene.client();
    let token = acquired(&client.claim(claim("held", "1")).await.unwrap().into_inner()).token;
    let mut other = hold(&scene, "1").await;
    let waits = tokio::spawn({
        let mut client = client.clone();
        async move { client.complete(complete("1", token)).await }
    });
    let mut impatient = tonic::Request::new(complete("1", token));
    impatient.set_timeout(Duration::from_secs(1));
    let late = client.complete(impatient).await.unwrap_err();
    assert_eq!(refusal(&late).reason, "DEADLINE_EXCEEDED");
    let refused = client.claim(claim("held", "1")).await.unwrap_err();
    assert_eq!(refusal(&refused).reason, "OVERLOADED");
    for number in 0..50 {
        acquired(&client.claim(claim("held", &format!("n{number}"))).await.unwrap().into_inner());
    }
    assert!(!waits.is_finished());
    other.execute("ROLLBACK").await.unwrap();
    waits.await.unwrap().unwrap();
    let answer = client.claim(claim("held", "1")).await.unwrap().into_inner();
    assert!(matches!(answer.verdict, Some(Verdict::Completed(_))), "{answer:?}");
    scene.end("a completion waited for its row, and was carried out".into()).await;
}

/// An insert under way cannot be seen: its key is refused, the others are granted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_insert_under_way_stalls_nobody_else() {
    let scene = Scene::new("availability-insert", 3).await;
    let mut client = scene.client();
    acquired(&client.claim(claim("held", "1")).await.unwrap().into_inner());
    let mut other = scene.cluster.connect("postgres").await;
    // The row is gone for others only once this ends, and so is the one that it makes in its place.
    other.execute("BEGIN; DELETE FROM ledger.entries WHERE id = '1'; COMMIT").await.unwrap();
    let id = idempotency_ledger::domain::Key::new("held", "tests", "1").hash();
    let insert = format!(
        "BEGIN; INSERT INTO ledger.entries SELECT (jsonb_populate_record(e, jsonb_build_object('key', '{id}'))).* \
         FROM ledger.entries e WHERE e.id = '2'"
    );
    acquired(&client.claim(claim("held", "2")).await.unwrap().into_inner());
    other.execute(sqlx::AssertSqlSafe(insert)).await.unwrap();
    let requests = (0..100).map(|number| claim("held", &format!("{number}"))).collect();
    let timer = Timer::start();
    let answers = client.batch_claim(proto::BatchClaimRequest { requests }).await.unwrap().into_inner();
    let took = passed(&timer);
    for (number, answer) in answers.responses.iter().enumerate() {
        match &answer.verdict {
            Some(Verdict::Rejected(it)) if number == 1 => {
                assert_eq!(it.reason(), proto::ErrorReason::Overloaded);
            }
            Some(Verdict::InProgress(_)) if number == 2 => {}
            Some(Verdict::Acquired(_)) if number != 1 => {}
            other => panic!("{number}: {other:?}"),
        }
    }
    assert!(took < Duration::from_secs(4), "{took:?}");
    other.execute("ROLLBACK").await.unwrap();
    scene.end(format!("a batch of 100 with an insert under way: {} ms", took.as_millis())).await;
}

/// An operator reads a policy and changes it, and waits for neither as long as for a job at the most; returns the
/// version after it.
async fn operator_works(scene: &Scene, version: i32) -> i32 {
    let mut admin = scene.served.admin.clone();
    let request = proto::GetPolicyRequest { consumer: "operated".into() };
    let read = within(OPERATOR_WAITS, "a read", admin.get_policy(request)).await.unwrap();
    assert_eq!(read.into_inner().policy.unwrap().version, version);
    let request = proto::SetPolicyRequest {
        consumer: "operated".into(),
        request_id: format!("version {version}"),
        expected_version: version,
        reason: "a test".into(),
        policy: Some(proto::Policy { claims_per_second: Some(version + 1_000), ..Default::default() }),
        ..Default::default()
    };
    let changed = within(OPERATOR_WAITS, "a change", admin.set_policy(request)).await.unwrap();
    changed.into_inner().policy.unwrap().version
}

/// Open connections become black holes, new ones work: for claims, and for operators, who come just then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_failover_costs_few_seconds() {
    let scene = Scene::new("availability-failover", 3).await;
    let load = Load::start(&scene.client(), 8);
    tokio::time::sleep(Duration::from_secs(1)).await;
    load.watch_gaps();
    let mut longest = Gap::default();
    let mut version = operator_works(&scene, 0).await;
    tokio::time::sleep(OPERATOR_RESTS).await;
    for _ in 0..scene.run.size.div_ceil(3) {
        scene.switch.kill_open();
        let failed = tokio::time::Instant::now();
        version = operator_works(&scene, version).await;
        tokio::time::sleep_until(failed + Duration::from_secs(7)).await;
        longest = longest.max(load.gap());
        load.watch_gaps();
    }
    let Gap { seen, passed } = longest;
    assert!(
        passed < Duration::from_secs(5),
        "{passed:?} without an answer, {seen:?} with the machine's delays"
    );
    assert!(seen > Duration::from_secs(1), "{seen:?}: nothing was silent");
    let pairs = load.during(Duration::from_secs(1)).await;
    assert!(pairs > 0);
    load.end().await;
    scene.end(format!("silent failover: at most {} ms without an answer", seen.as_millis())).await;
}

/// The network to Postgres is silent as a whole: health says so, and never for a short stall.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_tells_an_outage_and_no_short_stall() {
    let scene = Scene::new("availability-health", 3).await;
    let mut told = Vec::new();
    for busy in [true, false] {
        let load = busy.then(|| Load::start(&scene.client(), 8));
        tokio::time::sleep(Duration::from_secs(2)).await;
        scene.switch.silence(true);
        let stalled = Instant::now();
        while stalled.elapsed() < Duration::from_millis(1_900) {
            assert_eq!(scene.health().await, ServingStatus::Serving, "after {:?}", stalled.elapsed());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        scene.switch.silence(false);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(scene.health().await, ServingStatus::Serving, "after the stall");
        scene.switch.silence(true);
        let silent = Timer::start();
        scene.becomes(ServingStatus::NotServing).await;
        let took = silent.elapsed();
        assert!(passed(&silent) < Duration::from_secs(5), "NOT_SERVING after {took:?}");
        for (name, status) in [
            ("idempotency.ledger.v1.LedgerService", ServingStatus::NotServing),
            ("idempotency.ledger.v1.AdminService", ServingStatus::NotServing),
            ("accepting", ServingStatus::Serving),
            ("liveness", ServingStatus::Serving),
        ] {
            assert_eq!(scene.health_of(name).await, status, "{name}");
        }
        scene.switch.silence(false);
        scene.becomes(ServingStatus::Serving).await;
        told.push(format!("{}: {} ms", if busy { "busy" } else { "idle" }, took.as_millis()));
        if let Some(load) = load {
            load.end().await;
        }
    }
    scene.end(format!("a full outage shows within: {}", told.join(", "))).await;
}

/// No commit ends while the standby is away: few backends stay behind, nothing is acknowledged, and all is
/// well soon after.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_absent_standby_leaves_few_backends_behind() {
    // Small batches: all sessions are at work, and each is given up after its three seconds.
    let setup = Setup { batch_max: 4, ..Setup::default() };
    let scene = Scene::with("availability-standby", 13, setup).await;
    let load = Load::start(&scene.client(), 16);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let (most, seen) = (watch::Sender::new(BTreeMap::<String, i64>::new()), AtomicU64::new(0));
    scene.cluster.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'away'").await;
    scene.cluster.execute("postgres", "SELECT pg_reload_conf()").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let (before, away) = (load.pairs(), Instant::now());
    let mut watcher = scene.cluster.connect("postgres").await;
    while away.elapsed() < scene.seconds() {
        let rows: Vec<(String, i64)> = sqlx::query_as(
            "SELECT application_name, count(*) FROM pg_stat_activity \
             WHERE application_name LIKE 'idempotency-ledger%' GROUP BY 1",
        )
        .fetch_all(&mut watcher)
        .await
        .unwrap();
        most.send_modify(|most| {
            for (name, count) in rows {
                let name = name.trim_start_matches("idempotency-ledger ").to_owned();
                let highest = most.entry(name).or_default();
                *highest = (*highest).max(count);
            }
        });
        seen.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let acknowledged = load.pairs() - before;
    assert_eq!(acknowledged, 0, "acknowledged while no standby had it");
    let most = most.borrow().clone();
    // The server works with three sessions; one more is just tried, and one closed.
    assert!(most["claims"] <= 5, "{most:?}");
    assert!(most.iter().all(|(name, count)| name == "claims" || *count <= 2), "{most:?}");
    scene.cluster.execute("postgres", "ALTER SYSTEM RESET synchronous_standby_names").await;
    scene.cluster.execute("postgres", "SELECT pg_reload_conf()").await;
    let back = Timer::start();
    while load.pairs() == before {
        assert!(passed(&back) < Duration::from_secs(5), "not well: {:?}", load.refused());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let took = back.elapsed();
    scene.becomes(ServingStatus::Serving).await;
    load.end().await;
    let told = format!(
        "standby away for {} s: at most {most:?} backends, 0 acknowledged, well after {} ms",
        scene.run.size,
        took.as_millis()
    );
    scene.end(told).await;
}
