//! Settings that a server over Postgres has: of its sessions, of its operators, of its purge.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection, Row as _};
use tonic::Code;
use tonic::transport::Channel;

use super::{PATIENCE, Scene, import, probes, refused};
use crate::door::client::http1;
use crate::harness::details::{acquired, claim, key, refusal};
use crate::harness::postgres as pg;
use crate::harness::raw::channel_to;
use crate::waiting::secs;

const LIST: &str = "/idempotency.ledger.v1.AdminService/ListPolicies";

async fn connection(scene: &Scene) -> PgConnection {
    pg::shared().connect(scene.database.as_ref().unwrap()).await
}

async fn admin(scene: &Scene) -> AdminServiceClient<Channel> {
    AdminServiceClient::new(channel_to(scene.at("admin_listen")).await)
}

/// Waits until a statement reads this number. It polls: no event reports a change of a table.
async fn until(connection: &mut PgConnection, statement: &str, is: impl Fn(i64) -> bool) -> i64 {
    let since = Instant::now();
    loop {
        let number: i64 = connection.fetch_one(AssertSqlSafe(statement.to_owned())).await.unwrap().get(0);
        if is(number) {
            return number;
        }
        assert!(since.elapsed() < PATIENCE, "{number} by {statement}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn change(consumer: &str, request_id: &str, policy: proto::Policy) -> proto::SetPolicyRequest {
    proto::SetPolicyRequest {
        consumer: consumer.into(),
        request_id: request_id.into(),
        reason: "a setting".into(),
        policy: Some(policy),
        ..Default::default()
    }
}

fn policy(window: Option<prost_types::Duration>) -> proto::SetPolicyRequest {
    let policy = proto::Policy { max_attempts: Some(3), max_redelivery_window: window, ..Default::default() };
    change("c", &format!("set {}", window.is_some()), policy)
}

/// Lets the ledger keep messages of a consumer.
async fn keeps_messages(scene: &Scene) {
    let policy =
        proto::Policy { inbox: Some(true), max_redelivery_window: secs(3_600), ..Default::default() };
    admin(scene).await.set_policy(change("keeps", "keeps", policy)).await.unwrap();
}

fn stored(id: &str, bytes: usize) -> proto::StoreRequest {
    let message = proto::Message { payload: vec![b'x'; bytes].into(), ..Default::default() };
    proto::StoreRequest { key: key("keeps", id), message: Some(message), ..Default::default() }
}

/// What the sessions for claims say of themselves when they read the clock.
async fn seen(scene: &mut Scene, what: &str) -> Vec<String> {
    let mut connection = connection(scene).await;
    let as_before = "CREATE OR REPLACE FUNCTION ledger.clock() RETURNS bigint LANGUAGE sql VOLATILE AS
        $$ SELECT coalesce(fixed, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) + ahead FROM ledger.test_clock $$";
    let watched = as_before.replace(
        "$$ SELECT coalesce",
        &format!("$$ INSERT INTO ledger.seen SELECT current_setting('application_name'), ({what})::text; SELECT coalesce"),
    );
    connection
        .execute("CREATE TABLE IF NOT EXISTS ledger.seen (who text, value text); TRUNCATE ledger.seen")
        .await
        .unwrap();
    connection.execute(AssertSqlSafe(watched)).await.unwrap();
    let count = "SELECT count(*) FROM ledger.seen WHERE who = 'idempotency-ledger claims'";
    let since = Instant::now();
    while connection.fetch_one(count).await.unwrap().get::<i64, _>(0) == 0 {
        assert!(since.elapsed() < PATIENCE, "no session for claims reads the clock");
        drop(scene.client.claim(claim("c", &format!("seen {:?}", since.elapsed()))).await);
    }
    connection.execute(as_before).await.unwrap();
    let values = "SELECT DISTINCT value FROM ledger.seen WHERE who = 'idempotency-ledger claims'";
    sqlx::query_scalar(values).fetch_all(&mut connection).await.unwrap()
}

probes! {
    serves_operators(scene, _value) {
        admin(scene).await.list_policies(proto::ListPoliciesRequest::default()).await.unwrap();
        let mut there = AdminServiceClient::new(scene.server.channel().await.unwrap());
        let answer = there.list_policies(proto::ListPoliciesRequest::default()).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unimplemented, "not at `listen`");
    }

    serves_operators_by_http(scene, value) {
        assert_eq!(http1(value.parse().unwrap(), LIST, &[], b"{}").await.status, 200);
    }

    has_sessions(scene, value) {
        let mut connection = connection(scene).await;
        let wanted: i64 = value.parse().unwrap();
        let sessions = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'idempotency-ledger claims'";
        until(&mut connection, sessions, |number| number == wanted).await;
    }

    /// All of those that there are now end within the value and a tenth. By default they would stay for half an hour.
    replaces_sessions(scene, _value) {
        let mut connection = connection(scene).await;
        let now = "SELECT pid FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'idempotency-ledger claims'";
        let pids: Vec<i32> = sqlx::query_scalar(now).fetch_all(&mut connection).await.unwrap();
        assert!(!pids.is_empty());
        let left = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = ANY(ARRAY{pids:?})");
        until(&mut connection, &left, |number| number == 0).await;
    }

    /// They are opened as calls need them.
    has_sessions_of_the_inbox(scene, value) {
        keeps_messages(scene).await;
        let mut connection = connection(scene).await;
        let wanted: i64 = value.parse().unwrap();
        let sessions = "SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'idempotency-ledger inbox'";
        let (since, mut number, mut open) = (Instant::now(), 0, 0);
        while open < wanted {
            assert!(since.elapsed() < PATIENCE, "{open} sessions, not {wanted}");
            let stores = (0..8).map(|_| {
                number += 1;
                let mut client = scene.client.clone();
                async move { client.store(stored(&format!("small {number}"), 1)).await.unwrap() }
            });
            join_all(stores.collect::<Vec<_>>()).await;
            open = until(&mut connection, sessions, |_| true).await;
        }
        assert_eq!(open, wanted);
    }

    /// The server reads how many bytes there are every 10 s. By default far more may be stored.
    bounds_stored_bytes(scene, value) {
        keeps_messages(scene).await;
        let bytes = value.parse::<usize>().unwrap() / 4;
        let since = Instant::now();
        for number in 0.. {
            assert!(since.elapsed() < PATIENCE, "{number} messages of {bytes} bytes are stored");
            if let Err(status) = scene.client.store(stored(&number.to_string(), bytes)).await {
                assert_eq!(refusal(&status).reason, "BACKLOG_FULL", "{status:?}");
                assert!(number >= 4, "less than {value} bytes are stored");
                break;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    }

    wants_a_window(scene, _value) {
        refused(admin(scene).await.set_policy(policy(None)).await, "max_redelivery_window");
        admin(scene).await.set_policy(policy(secs(3_600))).await.unwrap();
    }

    /// `c` has a policy by now.
    refuses_strangers(scene, _value) {
        acquired(&scene.client.claim(claim("c", "registered")).await.unwrap().into_inner());
        refused(scene.client.claim(claim("stranger", "1")).await, "register it");
    }

    waits_for_rows(scene, value) {
        assert_eq!(seen(scene, "current_setting('lock_timeout')").await, [value]);
    }

    names_no_statement(scene, _value) {
        assert_eq!(seen(scene, "SELECT count(*) FROM pg_prepared_statements").await, ["0"]);
    }

    /// Next to the heartbeats, which come each second: by default ten of them pass between two looks.
    purges_often(scene, _value) {
        let mut connection = connection(scene).await;
        let beats = "SELECT max(heard_at) FROM ledger.replicas";
        let looks = "SELECT max(last_run_at) FROM ledger.purges";
        let (mut beat, mut look) = (0, 0);
        let (mut seen_beats, mut seen_looks) = (0, 0);
        while seen_looks < 4 {
            beat = until(&mut connection, beats, |number| number != beat).await;
            seen_beats += 1;
            let now = until(&mut connection, looks, |_| true).await;
            seen_looks += i32::from(now != look);
            look = now;
            assert!(seen_beats < 20, "{seen_looks} looks of the purge within {seen_beats} heartbeats");
        }
    }

    /// Five entries are due, and no statement deletes more than the value says.
    purges_few(scene, value) {
        let mut client = scene.client.clone();
        for number in 0..5 {
            let id = format!("purged {number}");
            let token = acquired(&client.claim(claim("c", &id)).await.unwrap().into_inner()).token;
            let done = proto::CompleteRequest { key: key("c", &id), token, ..Default::default() };
            client.complete(done).await.unwrap();
        }
        let mut connection = connection(scene).await;
        let watch = "CREATE TABLE ledger.deleted (count bigint);
            CREATE FUNCTION ledger.deletes() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN INSERT INTO ledger.deleted SELECT count(*) FROM gone; RETURN NULL; END $$;
            CREATE TRIGGER deletes AFTER DELETE ON ledger.entries REFERENCING OLD TABLE AS gone
            FOR EACH STATEMENT EXECUTE FUNCTION ledger.deletes()";
        connection.execute(sqlx::raw_sql(watch)).await.unwrap();
        let days = 40_i64 * 86_400 * 1_000_000;
        let ahead = format!("UPDATE ledger.test_clock SET ahead = ahead + {days}");
        connection.execute(AssertSqlSafe(ahead)).await.unwrap();
        until(&mut connection, "SELECT coalesce(sum(count), 0)::bigint FROM ledger.deleted", |sum| sum >= 5).await;
        let most = until(&mut connection, "SELECT max(count) FROM ledger.deleted", |_| true).await;
        assert_eq!(most.to_string(), value, "the most entries of one statement");
    }

    forgets_events(scene, _value) {
        let mut connection = connection(scene).await;
        let events = "SELECT count(*) FROM ledger.audit WHERE request_id LIKE 'set %'";
        // The clock has gone on by more than the audit's retention since the policy was set.
        until(&mut connection, events, |number| number == 0).await;
    }

    /// An import takes 133 KiB, of five eighths of the value.
    bounds_bytes(scene, value) {
        let mut admin = admin(scene).await;
        let room = value.parse::<usize>().unwrap() / 8 * 5 / (133 << 10);
        let mut open = Vec::new();
        for number in 0..=room {
            match import(&mut admin, number).await {
                Ok(stream) => open.push(stream),
                Err(_) if number + 2 > room => break,
                Err(status) => panic!("{number} of {room}: {status:?}"),
            }
        }
        refused(import(&mut admin, room + 1).await, "(principal_bytes_max)");
    }
}
