//! How the purge keeps up, as operators are told: what waits, for how long, and what each server did.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use idempotency_ledger::domain::{PurgeWorker, Span};
use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::store::{LeftAlone, POSTGRES_STATEMENTS, SQLITE_STATEMENTS};
use sqlx::{Executor as _, Row as _};
use tonic::transport::Channel;

use crate::harness::details::{acquired, claim, key};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::server::{Kind, Served, Setup, TestServer, TestStore};
use crate::harness::{on_both_stores, postgres as pg};

on_both_stores!(
    what_waits_is_counted,
    purge_status_finds_oldest_due_entry_beyond_due_max,
    what_a_server_forgot_is_told_until_a_day_after_its_end,
    servers_that_are_gone_leave_no_rows,
    what_went_wrong_is_told_in_our_words,
    audit_events_go_after_their_retention,
);

const HOUR: i64 = 3_600;

async fn status(admin: &mut AdminServiceClient<Channel>) -> proto::GetRetentionStatusResponse {
    admin.get_retention_status(proto::GetRetentionStatusRequest {}).await.unwrap().into_inner()
}

/// Waits for what the purge writes down by itself.
async fn until(
    admin: &mut AdminServiceClient<Channel>,
    there: impl Fn(&proto::GetRetentionStatusResponse) -> bool,
) -> proto::GetRetentionStatusResponse {
    for _ in 0..1_000 {
        let told = status(admin).await;
        if there(&told) {
            return told;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the purge never told: {:?}", status(admin).await);
}

fn purging(every: Duration) -> Setup {
    Setup { purge_every: every, ..Setup::default() }
}

async fn completed(server: &mut TestServer, ids: &[&str]) {
    for id in ids {
        let token = acquired(&server.client.claim(claim("c", id)).await.unwrap().into_inner()).token;
        let request = proto::CompleteRequest { key: key("c", id), token, ..Default::default() };
        server.client.complete(request).await.unwrap();
    }
}

async fn what_waits_is_counted(kind: Kind) {
    // It looks at the start, and not again in the time of this test.
    let mut server = TestServer::start_with(kind, purging(Duration::from_secs(3_600))).await;
    let told = until(&mut server.admin, |told| told.workers.len() == 1).await;
    assert_eq!((told.due, told.oldest_due_age, told.falling_behind), (0, None, false));
    completed(&mut server, &["1", "2", "3"]).await;
    // Two hours after its retention an entry is looked at first; ten rounds of an hour are too long.
    let due = 7 * 24 + 2;
    for (hours, count, falling_behind) in
        [(due - 1, 0, false), (due, 3, false), (due + 10, 3, false), (due + 11, 3, true)]
    {
        server.at.set_clock(crate::harness::server::START + Span::from_secs(hours * HOUR)).await;
        let told = status(&mut server.admin).await;
        let age = (count > 0).then(|| prost_types::Duration { seconds: (hours - due) * HOUR, nanos: 0 });
        assert_eq!((told.due, told.oldest_due_age), (count, age), "{hours} h");
        assert_eq!((told.due_is_lower_bound, told.falling_behind), (false, falling_behind), "{hours} h");
    }
    let left_alone = LeftAlone { own: HashMap::new(), others: Span::from_secs(due * HOUR) };
    let mut session = server.at.session().await;
    let (_, some) = session.operators().purge_status(&left_alone, 2).await.unwrap();
    assert_eq!(some.due, 2, "it counts no further than it is asked to");
    server.stop().await;
}

async fn purge_status_finds_oldest_due_entry_beyond_due_max(kind: Kind) {
    let mut server = TestServer::start_with(kind, purging(Duration::from_secs(3_600))).await;
    completed(&mut server, &["1", "2", "3"]).await;
    let token = acquired(&server.client.claim(claim("d", "1")).await.unwrap().into_inner()).token;
    let request = proto::CompleteRequest { key: key("d", "1"), token, ..Default::default() };
    server.client.complete(request).await.unwrap();
    server.advance(Span::from_secs(20 * HOUR)).await;
    let mut session = server.at.session().await;
    // How many hours the purge leaves alone entries of c and of d, and the hour since which the oldest entry is due.
    for (of_c, of_d, since) in [(10, 10, 10), (15, 10, 10), (10, 15, 10)] {
        let own = HashMap::from([("c".to_owned(), Span::from_secs(of_c * HOUR))]);
        let left_alone = LeftAlone { own, others: Span::from_secs(of_d * HOUR) };
        for due_max in 1..=5 {
            let (_, found) = session.operators().purge_status(&left_alone, due_max).await.unwrap();
            let oldest = Some(crate::harness::server::START + Span::from_secs(since * HOUR));
            assert_eq!((found.due, found.oldest), (due_max.min(4), oldest), "{of_c} h, {of_d} h");
        }
    }
    drop(session);
    server.stop().await;
}

async fn what_a_server_forgot_is_told_until_a_day_after_its_end(kind: Kind) {
    let mut server = TestServer::start_with(kind, purging(Duration::from_millis(20))).await;
    completed(&mut server, &["1", "2", "3"]).await;
    server.advance(Span::from_days(8)).await;
    // What is due is counted before the servers are asked.
    let done = |told: &proto::GetRetentionStatusResponse| {
        told.due == 0 && told.workers.iter().any(|one| one.purged_total == 3)
    };
    let told = until(&mut server.admin, done).await;
    let worker = told.workers[0].clone();
    assert_eq!((told.workers.len(), told.due), (1, 0));
    assert!((worker.purged_per_second - 0.05).abs() < 1e-9, "{worker:?}");
    assert_eq!((worker.last_error.as_str(), worker.last_error_at), ("", None));
    assert_eq!(worker.last_run_at, told.as_of);

    let at = server.stop().await;
    let mut server = TestServer::on(at, purging(Duration::from_millis(20))).await;
    server.advance(Span::from_secs(23 * HOUR)).await;
    let told =
        until(&mut server.admin, |told| told.workers.len() == 2 && told.workers[0].last_run_at == told.as_of)
            .await;
    assert_eq!(told.workers[1].replica, worker.replica, "the latest first");
    assert_ne!(told.workers[0].replica, worker.replica, "each start has an id of its own");
    server.advance(Span::from_secs(2 * HOUR)).await;
    let told = until(&mut server.admin, |told| told.workers.len() == 1).await;
    assert_ne!(told.workers[0].replica, worker.replica);
    server.stop().await;
}

/// Each start of a server has a row of its own: without an end they would only grow.
async fn servers_that_are_gone_leave_no_rows(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let start = crate::harness::server::START;
    for (number, hours, left) in [(1, 0, 1), (2, 1, 2), (3, 23, 3), (4, 25, 3), (5, 26, 3), (6, 100, 1)] {
        let worker = PurgeWorker {
            replica: uuid::Uuid::from_u128(number),
            last_run_at: start + Span::from_secs(hours * HOUR),
            purged_total: 0,
            purged_per_second: 0.0,
            last_error: None,
            last_error_at: None,
        };
        session.upkeep().report_purge(&worker).await.unwrap();
        assert_eq!(at.number("SELECT count(*) FROM @ledger.purges").await, left, "after {hours} h");
    }
}

async fn what_went_wrong_is_told_in_our_words(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    server.looked().await;
    completed(&mut server, &["1"]).await;
    server.advance(Span::from_days(8)).await;
    let plan = Arc::new(Plan::default());
    plan.next([Inject::Unavailable, Inject::LostAnswer]);
    let store = FaultyStore { inner: Arc::clone(&server.at.store), plan };
    let mut other = Served::start(Arc::new(store), purging(Duration::from_millis(20))).await;
    let lost = "the connection to the store was lost";
    let told = until(&mut other.admin, |told| told.workers.iter().any(|one| one.last_error == lost)).await;
    let worker = told.workers.iter().find(|one| one.last_error == lost).unwrap();
    assert_eq!(worker.last_error_at.as_ref().unwrap().seconds / 60, told.as_of.unwrap().seconds / 60);
    assert_eq!(told.due, 0, "it went on");
    other.stop().await;
    server.stop().await;
}

async fn audit_events_go_after_their_retention(kind: Kind) {
    let month = Duration::from_secs(30 * 86_400);
    let setup = Setup { audit_retention: month, ..purging(Duration::from_millis(20)) };
    let mut server = TestServer::start_with(kind, setup).await;
    for version in 0..4 {
        let request = proto::SetPolicyRequest {
            consumer: "c".into(),
            request_id: version.to_string(),
            expected_version: version,
            reason: "tuned".into(),
            policy: Some(proto::Policy { max_attempts: Some(version + 1), ..Default::default() }),
            update_mask: None,
            validate_only: false,
        };
        server.admin.set_policy(request).await.unwrap();
        server.advance(Span::from_days(10)).await;
    }
    // Now they are 40, 30, 20 and 10 days old; one is as old as it may be.
    let mut left = Vec::new();
    for _ in 0..1_000 {
        let request = proto::ListAuditEventsRequest::default();
        let page = server.admin.list_audit_events(request).await.unwrap().into_inner();
        left = page.events.into_iter().map(|event| event.request_id).collect();
        if left.len() <= 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(left, ["3", "2", "1"]);
    let now = server.at.now();
    let mut session = server.at.session().await;
    assert_eq!(session.upkeep().purge_audit(now, 2).await.unwrap(), 2, "no more than asked for");
    let page = server.admin.list_audit_events(proto::ListAuditEventsRequest::default()).await.unwrap();
    assert_eq!(page.into_inner().events[0].request_id, "3", "the oldest first");
    server.stop().await;
}

const BACKLOG: &str = "'{1}', '{8}', '{9}', 10";

/// Each statement, what its parameters are in a test, and the index that it must go by.
const BY_INDEX: [(&str, &str, &str); 7] = [
    ("-- ledger.audit\n", "9, '', 10", "audit_by_time"),
    ("-- ledger.audit_of_consumer\n", "9, '', 10, 'c'", "audit_by_consumer"),
    ("-- ledger.audit_of_entry\n", "9, '', 10, '00000000-0000-0000-0000-000000000000'", "audit_by_key"),
    ("-- ledger.audit_purge\n", "9, 10", "audit_by_time"),
    ("-- ledger.backlog\n", BACKLOG, "entries_by_consumer"),
    ("-- ledger.created\n", "1, 8, 9, 10", "entries_by_consumer"),
    ("-- ledger.created_first\n", "1, 9", "entries_by_consumer"),
];

fn named(all: &'static [&'static str], name: &str) -> &'static str {
    all.iter().find(|statement| statement.starts_with(name)).unwrap()
}

#[tokio::test]
async fn what_grows_is_read_by_its_indexes_on_postgres() {
    let at = TestStore::new(Kind::Postgres).await;
    let mut connection = pg::shared().connect(at.database.as_ref().unwrap()).await;
    let settings = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off";
    connection.execute(settings).await.unwrap();
    for (number, (name, values, index)) in BY_INDEX.into_iter().enumerate() {
        let mut statement = named(&POSTGRES_STATEMENTS, name).to_owned();
        let mut types = "";
        if statement.contains("ledger.forget_audit(") {
            let body = "SELECT prosrc FROM pg_proc WHERE oid = 'ledger.forget_audit'::regproc";
            (statement, types) = (connection.fetch_one(body).await.unwrap().get(0), "(bigint, bigint)");
        }
        let prepare = format!("PREPARE s{number}{types} AS {statement}");
        connection.execute(sqlx::AssertSqlSafe(prepare)).await.unwrap();
        let explain = format!("EXPLAIN EXECUTE s{number} ({values})");
        let plan = sqlx::raw_sql(sqlx::AssertSqlSafe(explain)).fetch_all(&mut connection).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get(0)).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(&format!("using {index}")) && !plan.contains("Sort"), "{name}{plan}");
    }
}

#[tokio::test]
async fn what_grows_is_read_by_its_indexes_on_sqlite() {
    let at = TestStore::new(Kind::Sqlite).await;
    let mut connection = at.sqlite().await;
    for (name, _, index) in BY_INDEX {
        let statement = format!("EXPLAIN QUERY PLAN {}", named(&SQLITE_STATEMENTS, name));
        let plan = sqlx::query(sqlx::AssertSqlSafe(statement)).fetch_all(&mut connection).await.unwrap();
        let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
        let plan = plan.join("\n");
        assert!(plan.contains(&format!("INDEX {index} ")) && !plan.contains("TEMP B-TREE"), "{name}{plan}");
    }
}

/// Somebody holds a row: the others are forgotten, and operators are told at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_row_does_not_hold_up_the_purge() {
    let setup = Setup { purge_every: Duration::from_millis(20), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Postgres, setup).await;
    for id in ["held", "1", "2", "3", "4"] {
        let token = acquired(&server.client.claim(claim("c", id)).await.unwrap().into_inner()).token;
        let request = proto::CompleteRequest { key: key("c", id), token, ..Default::default() };
        server.client.complete(request).await.unwrap();
    }
    let database = server.at.database.clone().unwrap();
    let mut other = crate::harness::postgres::shared().connect(&database).await;
    sqlx::Executor::execute(&mut other, "BEGIN").await.unwrap();
    let hold = "SELECT 1 FROM ledger.entries WHERE id = 'held' FOR UPDATE";
    sqlx::Executor::execute(&mut other, hold).await.unwrap();
    server.advance(Span::from_days(8)).await;
    let told = async {
        loop {
            let request = proto::GetRetentionStatusRequest {};
            let status = server.admin.get_retention_status(request).await.unwrap().into_inner();
            let worker = status.workers.first();
            if worker.is_some_and(|one| {
                one.purged_total == 4 && one.last_error.contains("locked by another session")
            }) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), told)
        .await
        .expect("the others are forgotten, and it is told");
    sqlx::Connection::close(other).await.unwrap();
    server.stop().await;
}
