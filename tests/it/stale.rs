//! Sessions that the store has ended, or whose statements it has forgotten: operators' calls succeed at once on a
//! new one, and so do those of consumers.

use std::sync::Arc;

use futures_util::StreamExt as _;
use idempotency_ledger::domain::Span;
use idempotency_ledger::proto;
use tonic::{Code, Status};

use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::faulty::{FaultyStore, Inject, Plan};
use crate::harness::on_both_stores;
use crate::harness::postgres::{self as pg, Cluster};
use crate::harness::server::{Kind, Served, Setup, TestServer, TestStore, migrate_postgres, postgres_store};

on_both_stores!(
    a_change_whose_answer_is_lost_is_found_out_by_the_server,
    a_refusal_after_an_unknown_outcome_proves_nothing,
);

type Admin = proto::admin_service_client::AdminServiceClient<tonic::transport::Channel>;

/// Ends every session of the ledger in a database, as a restart of Postgres does.
async fn terminate(database: &str) {
    let statement = format!(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
         WHERE datname = '{database}' AND application_name LIKE 'idempotency-ledger%'"
    );
    pg::shared().execute("postgres", &statement).await;
}

async fn version(admin: &mut Admin, id: &str) -> i64 {
    let request = proto::GetEntryRequest { key: key("c", id), ..Default::default() };
    admin.get_entry(request).await.unwrap().into_inner().entry.unwrap().version
}

/// Every kind of read, by its number; none: there are no more.
async fn read(admin: &mut Admin, number: usize) -> Option<Result<(), Status>> {
    let filter = Some(proto::EntryFilter {
        consumer: "c".into(),
        min_age: Some(Default::default()),
        ..Default::default()
    });
    Some(match number {
        0 => admin
            .get_entry(proto::GetEntryRequest { key: key("c", "1"), ..Default::default() })
            .await
            .map(drop),
        1 => admin.list_entries(proto::ListEntriesRequest { filter, ..Default::default() }).await.map(drop),
        2 => admin.summarize_entries(proto::SummarizeEntriesRequest::default()).await.map(drop),
        3 => admin.list_audit_events(proto::ListAuditEventsRequest::default()).await.map(drop),
        4 => admin.get_policy(proto::GetPolicyRequest { consumer: "c".into() }).await.map(drop),
        5 => admin.list_policies(proto::ListPoliciesRequest::default()).await.map(drop),
        6 => {
            let request = proto::ListPolicyVersionsRequest { consumer: "c".into(), ..Default::default() };
            admin.list_policy_versions(request).await.map(drop)
        }
        7 => admin.get_retention_status(proto::GetRetentionStatusRequest {}).await.map(drop),
        8 => {
            let request = proto::RaiseTokenOffsetRequest { validate_only: true, ..Default::default() };
            admin.raise_token_offset(request).await.map(drop)
        }
        9 => admin.list_holds(proto::ListHoldsRequest::default()).await.map(drop),
        _ => return None,
    })
}

/// Every kind of change, by its number; whether it says that it had been done before.
async fn change(admin: &mut Admin, number: usize, expected_version: i64) -> Option<Result<bool, Status>> {
    let (key, reason, request_id) = (key("c", "1"), "a test".to_owned(), format!("change {number}"));
    Some(match number {
        0 => {
            let request = proto::ParkEntryRequest { key, request_id, expected_version, reason };
            admin.park_entry(request).await.map(|answer| answer.into_inner().replayed)
        }
        1 => {
            let request = proto::RedriveEntryRequest {
                key,
                request_id,
                expected_version,
                reason,
                ..Default::default()
            };
            admin.redrive_entry(request).await.map(|answer| answer.into_inner().replayed)
        }
        2 => {
            let state = proto::EntryState::FailedTerminal.into();
            let request = proto::ResolveEntryRequest {
                key,
                request_id,
                expected_version,
                reason,
                state,
                ..Default::default()
            };
            admin.resolve_entry(request).await.map(|answer| answer.into_inner().replayed)
        }
        3 => {
            let policy = Some(proto::Policy { max_attempts: Some(3), ..Default::default() });
            let request = proto::SetPolicyRequest {
                consumer: "c".into(),
                request_id,
                reason,
                policy,
                ..Default::default()
            };
            admin.set_policy(request).await.map(|answer| answer.into_inner().replayed)
        }
        4 => {
            let request =
                proto::DeletePolicyRequest { consumer: "c".into(), request_id, reason, expected_version: 1 };
            admin.delete_policy(request).await.map(|answer| answer.into_inner().replayed)
        }
        5 => {
            let states = vec![proto::EntryState::FailedTerminal.into()];
            let filter = Some(proto::EntryFilter { consumer: "c".into(), states, ..Default::default() });
            let request = proto::RedriveEntriesRequest {
                operation_id: "bulk".into(),
                reason,
                filter,
                ..Default::default()
            };
            match admin.redrive_entries(request).await {
                Err(status) => Err(status),
                Ok(stream) => {
                    let told: Vec<_> = stream.into_inner().collect().await;
                    let last = told.into_iter().collect::<Result<Vec<_>, _>>();
                    last.map(|told| {
                        told.last()
                            .is_none_or(|last| (last.redriven, last.refused, last.finished) != (1, 0, true))
                    })
                }
            }
        }
        6 => {
            let entry = |id: &str| proto::ImportedEntry {
                key: crate::harness::details::key("c", id),
                completed_at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 0 }),
                ..Default::default()
            };
            let entries = vec![entry("i1"), entry("i2")];
            let part = proto::ImportEntriesRequest { operation_id: "import".into(), reason, entries };
            match admin.import_entries(futures_util::stream::iter([part])).await {
                Err(status) => Err(status),
                Ok(stream) => {
                    let told: Vec<_> = stream.into_inner().collect().await;
                    told.into_iter().next().unwrap().map(|told| told.stored != 2)
                }
            }
        }
        7 => {
            let token_offset = Some(prost_types::Duration { seconds: 3_600, nanos: 0 });
            let request =
                proto::RaiseTokenOffsetRequest { request_id, reason, token_offset, ..Default::default() };
            admin.raise_token_offset(request).await.map(|answer| answer.into_inner().replayed)
        }
        8 => {
            let request = proto::DeleteEntryRequest {
                key,
                request_id,
                expected_version,
                reason,
                force: true,
                ..Default::default()
            };
            admin.delete_entry(request).await.map(|answer| answer.into_inner().replayed)
        }
        9 => {
            let request = proto::HoldConsumersRequest { prefix: "h".into(), all: false, request_id, reason };
            admin.hold_consumers(request).await.map(|answer| answer.into_inner().replayed)
        }
        10 => {
            let request =
                proto::ResumeConsumersRequest { prefix: "h".into(), all: false, request_id, reason };
            admin.resume_consumers(request).await.map(|answer| answer.into_inner().replayed)
        }
        _ => return None,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_read_and_change_succeeds_at_the_first_call_after_the_sessions_ended() {
    let mut server = TestServer::start(Kind::Postgres).await;
    let database = server.at.database.clone().unwrap();
    server.client.claim(claim("c", "1")).await.unwrap();
    let mut number = 0;
    loop {
        terminate(&database).await;
        let Some(told) = read(&mut server.admin, number).await else { break };
        told.unwrap_or_else(|status| panic!("read {number}: {status:?}"));
        number += 1;
    }
    assert_eq!(number, 10);
    // Its lease and grace are over, and it is old enough to be deleted.
    server.advance(Span::from_secs(120)).await;
    for number in 0.. {
        let version =
            if (0..3).contains(&number) || number == 8 { version(&mut server.admin, "1").await } else { 0 };
        terminate(&database).await;
        let Some(told) = change(&mut server.admin, number, version).await else { break };
        let replayed = told.unwrap_or_else(|status| panic!("change {number}: {status:?}"));
        assert!(!replayed, "change {number} was done by this very call");
        server.advance(Span::from_secs(120)).await;
    }
    // What is refused is refused as ever: nothing was sent on the old connection.
    terminate(&database).await;
    let refused = change(&mut server.admin, 4, 0).await.unwrap();
    assert!(refused.unwrap(), "the repeat of a deletion says so");
    terminate(&database).await;
    let policy = Some(proto::Policy { max_attempts: Some(4), ..Default::default() });
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "stale".into(),
        reason: "a test".into(),
        expected_version: 1,
        policy,
        ..Default::default()
    };
    let refused = refusal(&server.admin.set_policy(request).await.unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Aborted, "VERSION_MISMATCH"));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_restart_of_postgres_the_first_summary_and_the_first_policy_succeed() {
    let mut cluster = tokio::task::spawn_blocking(|| Cluster::start("fsync = off")).await.unwrap();
    cluster.execute("postgres", "CREATE DATABASE l").await;
    let url = cluster.url("l");
    migrate_postgres(&url).await;
    let mut served = Served::start(Arc::new(postgres_store(&url)), Setup::default()).await;
    acquired(&served.client.claim(claim("c", "1")).await.unwrap().into_inner());
    for restart in 0..2 {
        read(&mut served.admin, 2).await.unwrap().unwrap();
        read(&mut served.admin, 4).await.unwrap().unwrap();
        cluster = tokio::task::spawn_blocking(move || {
            cluster.crash();
            cluster.run();
            cluster
        })
        .await
        .unwrap();
        if restart == 0 {
            read(&mut served.admin, 2).await.unwrap().unwrap();
            assert!(!change(&mut served.admin, 3, 0).await.unwrap().unwrap());
        } else {
            assert!(!change(&mut served.admin, 4, 1).await.unwrap().unwrap());
            read(&mut served.admin, 0).await.unwrap().unwrap();
        }
    }
    served.stop().await;
}

async fn faulty(kind: Kind) -> (TestServer, Arc<Plan>) {
    let mut at = TestStore::new(kind).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    (TestServer::on(at, Setup::default()).await, plan)
}

async fn a_change_whose_answer_is_lost_is_found_out_by_the_server(kind: Kind) {
    for fault in [Inject::LostAnswer, Inject::LostRequest, Inject::NoReadAfter, Inject::Unavailable] {
        let (mut server, plan) = faulty(kind).await;
        server.client.claim(claim("c", "1")).await.unwrap();
        server.advance(Span::from_secs(120)).await;
        for number in 0.. {
            let version = if (0..3).contains(&number) || number == 8 {
                version(&mut server.admin, "1").await
            } else {
                0
            };
            // An import reads nothing afterwards.
            if !(fault == Inject::NoReadAfter && number == 6) {
                plan.next([fault]);
            }
            let Some(told) = change(&mut server.admin, number, version).await else { break };
            let replayed = told.unwrap_or_else(|status| panic!("{fault:?} {number}: {status:?}"));
            assert!(!replayed, "{fault:?}: change {number} was done by this very call");
            server.advance(Span::from_secs(120)).await;
        }
        server.stop().await;
    }
}

async fn a_refusal_after_an_unknown_outcome_proves_nothing(kind: Kind) {
    let (mut server, plan) = faulty(kind).await;
    server.client.claim(claim("c", "1")).await.unwrap();
    let seen = version(&mut server.admin, "1").await;
    plan.next([Inject::LostRequest]);
    plan.close();
    let before = plan.writes.load(std::sync::atomic::Ordering::SeqCst);
    let mut admin = server.admin.clone();
    let asked = tokio::spawn(async move { change(&mut admin, 0, seen).await.unwrap() });
    plan.arrived(before + 1).await;
    // Somebody else changes the entry, before the first try breaks.
    server.at.execute("UPDATE @entries SET version = version + 1").await;
    plan.open();
    let refused = refusal(&asked.await.unwrap().unwrap_err());
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Unavailable, "OUTCOME_UNKNOWN"));
    // The repeat knows.
    let refused = refusal(&change(&mut server.admin, 0, seen).await.unwrap().unwrap_err());
    assert_eq!(refused.reason, "VERSION_MISMATCH");
    server.stop().await;
}

/// Claims, claims again (a load) and completes, on all hot sessions at once; operators look, too.
async fn all_goes_well(server: &TestServer, round: &str) {
    let calls = (0..40).map(|number| {
        let (mut client, id) = (server.client.clone(), format!("{round} {number}"));
        async move {
            let held = acquired(&client.claim(claim("c", &id)).await?.into_inner());
            client.claim(claim("c", &id)).await?;
            let request =
                proto::CompleteRequest { key: key("c", &id), token: held.token, ..Default::default() };
            client.complete(request).await?;
            client.claim(claim("c", &id)).await
        }
    });
    for answer in futures_util::future::join_all(calls).await {
        answer.unwrap_or_else(|status| panic!("{round}: {status:?}"));
    }
    for number in 1..9 {
        read(&mut server.admin.clone(), number)
            .await
            .unwrap()
            .unwrap_or_else(|status| panic!("{round}: {status:?}"));
    }
}

/// SQLSTATE 26000: the sessions' prepared statements are gone, as after DISCARD ALL, or behind a pooler.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forgotten_statements_are_prepared_again_on_a_new_session() {
    let server = TestServer::start(Kind::Postgres).await;
    let database = server.at.database.clone().unwrap();
    let cluster = pg::shared();
    all_goes_well(&server, "before").await;
    // A session that is listed forgets its statements when it asks for the time: nobody else can make it do so.
    cluster
        .execute(
            &database,
            "CREATE TABLE ledger.forgetful (pid int PRIMARY KEY);
             CREATE OR REPLACE FUNCTION ledger.clock() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
             BEGIN
                 IF EXISTS (SELECT 1 FROM ledger.forgetful WHERE pid = pg_backend_pid()) THEN
                     EXECUTE 'DEALLOCATE ALL';
                 END IF;
                 RETURN (SELECT fixed FROM ledger.test_clock);
             END $$",
        )
        .await;
    for round in ["first", "second"] {
        let listed = "INSERT INTO ledger.forgetful SELECT pid FROM pg_stat_activity \
                      WHERE datname = current_database() ON CONFLICT DO NOTHING";
        cluster.execute(&database, listed).await;
        all_goes_well(&server, round).await;
    }
    server.stop().await;
}

/// SQLSTATE 0A000: a column has another type by now, as after a migration.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_of_a_table_that_was_changed_is_made_again_on_a_new_session() {
    let server = TestServer::start(Kind::Postgres).await;
    let database = server.at.database.clone().unwrap();
    all_goes_well(&server, "before").await;
    for (round, column) in [("first", "last_error"), ("second", "history")] {
        let statement = format!("ALTER TABLE ledger.entries ALTER COLUMN {column} TYPE varchar");
        pg::shared().execute(&database, &statement).await;
        all_goes_well(&server, round).await;
    }
    server.stop().await;
}
