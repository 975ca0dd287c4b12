//! Behind a pooler each transaction may be another connection's, and its commit is sent by itself. What that one becomes
//! decides what is answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use idempotency_ledger::domain::{Key, Policy, StoreTime, Terms};
use idempotency_ledger::proto::ClaimRequest;
use idempotency_ledger::store::{
    Completion, Fault, Inserted, PostgresStore, Purpose, Session, Store as _, StoreError,
};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, PgConnection, Row as _};
use tonic::Code;

use super::granted;
use crate::harness::details::{acquired, claim};
use crate::harness::pooler::{Commits, Pooler};
use crate::harness::postgres::{self as pg, Cluster};
use crate::harness::random::Random;
use crate::harness::server::{Served, Setup, migrate_postgres, pooled_store};

/// A database behind a pooler.
struct Scene {
    database: String,
    pooler: Pooler,
    store: Arc<PostgresStore>,
}

fn address(cluster: &Cluster) -> SocketAddr {
    ([127, 0, 0, 1], cluster.port).into()
}

impl Scene {
    async fn new() -> Scene {
        let database = pg::database().await;
        let (pooler, store) = pooled(pg::shared(), &database).await;
        Scene { database, pooler, store }
    }

    async fn session(&self) -> Box<dyn Session> {
        self.store.open(Purpose::Claims).await.unwrap()
    }

    /// A connection past the pooler.
    async fn connection(&self) -> PgConnection {
        pg::shared().connect(&self.database).await
    }

    /// Which of the entries are there, with their states.
    async fn states(&self) -> Vec<(String, i16)> {
        let statement = "SELECT id, state FROM ledger.entries ORDER BY id";
        sqlx::query_as(statement).fetch_all(&mut self.connection().await).await.unwrap()
    }
}

async fn pooled(cluster: &Cluster, database: &str) -> (Pooler, Arc<PostgresStore>) {
    let pooler = Pooler::before(address(cluster)).await;
    let store = pooled_store(&pooler.url(cluster.port, &cluster.url(database)));
    (pooler, Arc::new(store))
}

async fn cluster(settings: &'static str) -> Cluster {
    let cluster = tokio::task::spawn_blocking(move || Cluster::start(settings)).await.unwrap();
    migrate_postgres(&cluster.url("postgres")).await;
    cluster
}

async fn insert(session: &mut dyn Session, ids: &[&str]) -> Result<Inserted, StoreError> {
    let mut rows: Vec<_> = ids.iter().map(|id| granted(id, StoreTime(0))).collect();
    rows.sort_by_key(|row| row.key.hash());
    session.entries().insert(&rows, StoreTime::MAX).await
}

async fn complete(session: &mut dyn Session, ids: &[&str], token: i64) -> Result<usize, StoreError> {
    let with = |id: &&str| Completion {
        key: Key::new("stores", "tests", id),
        token,
        result: Bytes::new(),
        terms: Terms::of(&Policy::default()),
        result_dropped: false,
    };
    let all: Vec<Completion> = ids.iter().map(with).collect();
    let done = session.entries().complete(&all).await?;
    Ok(done.iter().flatten().count())
}

/// What the store says of a statement whose commit became this.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    Done,
    Unknown,
    Stale,
}

fn told<T: std::fmt::Debug>(answer: Result<T, StoreError>) -> Told {
    match answer {
        Ok(_) => Told::Done,
        Err(StoreError::Unknown(_)) => Told::Unknown,
        Err(StoreError::NotApplied(Fault::Stale(_))) => Told::Stale,
        other => panic!("{other:?}"),
    }
}

/// Nothing is answered well before its commit was; where that answer is lost, nobody knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_becomes_of_a_commit_is_what_is_told() {
    for (commits, expected, applied) in [
        (Commits::Pass, Told::Done, true),
        (Commits::Vanish, Told::Unknown, false),
        (Commits::Unanswered, Told::Unknown, true),
        (Commits::Disowned, Told::Unknown, true),
    ] {
        for ids in [&["1"][..], &["1", "2"]] {
            let scene = Scene::new().await;
            let mut session = scene.session().await;
            // The names are learnt in transactions of their own.
            insert(&mut *session, &["0"]).await.unwrap();
            scene.pooler.commits(commits);
            assert_eq!(told(insert(&mut *session, ids).await), expected, "{commits:?}, {ids:?}");
            let there = scene.states().await.len() - 1;
            assert_eq!(there, if applied { ids.len() } else { 0 }, "{commits:?}, {ids:?}");

            let scene = Scene::new().await;
            let mut session = scene.session().await;
            insert(&mut *session, ids).await.unwrap();
            let token = "UPDATE ledger.entries SET token = 7";
            pg::shared().execute(&scene.database, token).await;
            scene.pooler.commits(commits);
            assert_eq!(told(complete(&mut *session, ids, 7).await), expected, "{commits:?}, {ids:?}");
            let open = scene.states().await.iter().filter(|(_, state)| *state == 2).count();
            assert_eq!(open, if applied { 0 } else { ids.len() }, "{commits:?}, {ids:?}");
        }
    }
}

/// While a commit waits, so does its caller, and nobody sees what it did.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_waits_for_its_commit() {
    let scene = Scene::new().await;
    let mut session = scene.session().await;
    insert(&mut *session, &["0"]).await.unwrap();
    let before = scene.pooler.commits_seen();
    scene.pooler.commits(Commits::Wait);
    let inserting = tokio::spawn(async move { insert(&mut *session, &["1"]).await });
    scene.pooler.commit_since(before).await;
    assert_eq!(scene.states().await.len(), 1);
    assert!(!inserting.is_finished(), "it is answered before its commit");
    scene.pooler.commits(Commits::Pass);
    assert!(inserting.await.unwrap().unwrap().tokens()[0].is_some());
    assert_eq!(scene.states().await.len(), 2);
}

/// What is sent after a statement that was given up must not become a part of its transaction, which never ends well.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_follows_a_statement_that_was_given_up() {
    let scene = Scene::new().await;
    let mut session = scene.session().await;
    insert(&mut *session, &["0"]).await.unwrap();
    let before = scene.pooler.commits_seen();
    scene.pooler.commits(Commits::Wait);
    tokio::select! {
        inserted = insert(&mut *session, &["1"]) => panic!("{inserted:?}"),
        _commits = scene.pooler.commit_since(before) => {}
    }
    // Nothing is sent: it would wait behind the commit.
    let next = tokio::time::timeout(Duration::from_secs(5), insert(&mut *session, &["2"]));
    assert_eq!(told(next.await.expect("it is refused at once")), Told::Stale);
    scene.pooler.commits(Commits::Pass);
    assert_eq!(told(session.entries().load(&[]).await), Told::Stale);
    drop(session);
    let mut session = scene.session().await;
    assert_eq!(scene.store.left_behind(), 0);
    insert(&mut *session, &["2"]).await.unwrap();
    assert!(scene.states().await.iter().any(|(id, _)| id == "2"));
}

/// A commit that comes too late finds no transaction: its rows were free by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_stands_still_before_a_commit_holds_no_row_for_long() {
    let scene = Scene::new().await;
    let mut session = scene.session().await;
    insert(&mut *session, &["0"]).await.unwrap();
    let before = scene.pooler.commits_seen();
    scene.pooler.commits(Commits::Wait);
    let inserting = tokio::spawn(async move { insert(&mut *session, &["1"]).await });
    scene.pooler.commit_since(before).await;
    let idle = "SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND state = 'idle in transaction'";
    let mut connection = scene.connection().await;
    let ended =
        async { while sqlx::query_scalar::<_, i64>(idle).fetch_one(&mut connection).await.unwrap() > 0 {} };
    tokio::time::timeout(Duration::from_secs(5), ended).await.expect("the server ends the transaction");
    scene.pooler.commits(Commits::Pass);
    assert_eq!(told(inserting.await.unwrap()), Told::Stale);
    assert_eq!(scene.states().await.len(), 1);
}

/// Through the whole server: the claim was applied, and its repeats find that out, the server's own among them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_whose_commit_is_not_answered_is_not_lost() {
    let scene = Scene::new().await;
    let served = Served::start(Arc::clone(&scene.store) as Arc<_>, Setup::default()).await;
    let mut client = served.client.clone();
    // The names are learnt in transactions of their own.
    client.claim(claim("c", "0")).await.unwrap();
    scene.pooler.commits(Commits::Unanswered);
    let request = ClaimRequest { claim_id: Random::new(1).claim_id(), ..claim("c", "1") };
    let claiming = tokio::spawn(async move {
        loop {
            match client.claim(request.clone()).await {
                Ok(answer) => return acquired(&answer.into_inner()),
                Err(status) if status.code() == Code::Unavailable => {}
                Err(status) => panic!("{status}"),
            }
        }
    });
    let mut connection = scene.connection().await;
    let applied = async {
        let count = "SELECT count(*) FROM ledger.entries";
        while sqlx::query_scalar::<_, i64>(count).fetch_one(&mut connection).await.unwrap() < 2 {}
    };
    tokio::time::timeout(Duration::from_secs(10), applied).await.expect("it is applied");
    scene.pooler.commits(Commits::Pass);
    let grant = tokio::time::timeout(Duration::from_secs(20), claiming).await.unwrap().unwrap();
    assert_eq!((grant.attempt, grant.replayed), (1, true));
    served.stop().await;
}

/// Another server behind the same pooler may know other entries and other numbers: nothing is read or written there
/// before it was looked at, and what it lacks is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_stays_with_its_server() {
    let (own, other) = tokio::join!(cluster("fsync = off"), cluster("fsync = off"));
    let (pooler, store) = pooled(&own, "postgres").await;
    let mut session = store.open(Purpose::Changes).await.unwrap();
    insert(&mut *session, &["1"]).await.unwrap();
    pooler.goes_over_to(address(&other));
    assert_eq!(told(insert(&mut *session, &["2"]).await), Told::Stale);
    assert_eq!(told(session.entries().load(&[]).await), Told::Stale);
    assert_eq!(store.losses(), 0);
    let mut session = store.open(Purpose::Changes).await.unwrap();
    assert_eq!(store.losses(), 1, "the first entry is not there");
    insert(&mut *session, &["2"]).await.unwrap();
    for (cluster, ids) in [(&own, ["1"]), (&other, ["2"])] {
        let mut connection = cluster.connect("postgres").await;
        let there: Vec<String> =
            sqlx::query_scalar("SELECT id FROM ledger.entries").fetch_all(&mut connection).await.unwrap();
        assert_eq!(there, ids);
    }
}

/// Whoever else uses the pooler's connections may have told them anything: each commit is as durable as it was at the
/// begin.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_as_durable_as_at_the_begin() {
    let scene = Scene::new().await;
    let database = &scene.database;
    let mut connection = scene.connection().await;
    let watch = "CREATE TABLE ledger.seen (value text); CREATE FUNCTION ledger.see() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN INSERT INTO ledger.seen VALUES (current_setting('synchronous_commit')); RETURN NULL; END $$;
                 CREATE TRIGGER see AFTER INSERT ON ledger.entries EXECUTE FUNCTION ledger.see()";
    pg::shared().execute(database, watch).await;
    for (at_the_begin, later) in [("on", "off"), ("remote_write", "local")] {
        let set = |value: &str| format!("ALTER DATABASE {database} SET synchronous_commit = {value}");
        pg::shared().execute("postgres", &set(at_the_begin)).await;
        scene.pooler.goes_over_to(address(pg::shared()));
        let mut session = scene.session().await;
        pg::shared().execute("postgres", &set(later)).await;
        scene.pooler.goes_over_to(address(pg::shared()));
        insert(&mut *session, &[at_the_begin]).await.unwrap();
        let seen = "DELETE FROM ledger.seen RETURNING value";
        let seen: Vec<String> = sqlx::query_scalar(seen).fetch_all(&mut connection).await.unwrap();
        assert_eq!(seen, [at_the_begin]);
    }
}

/// Whoever else has a connection of the pooler's finds it as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_end_with_their_transaction() {
    let scene = Scene::new().await;
    let mut session = scene.session().await;
    let cluster = pg::shared();
    let url = scene.pooler.url(cluster.port, &cluster.url(&scene.database));
    let options: PgConnectOptions = url.parse().unwrap();
    let mut other = options.application_name("idempotency-ledger claims").connect().await.unwrap();
    for number in 0..6 {
        insert(&mut *session, &[&number.to_string()]).await.unwrap();
        let settings = "SELECT current_setting('statement_timeout') || current_setting('enable_seqscan') ||
                        current_setting('plan_cache_mode') || pg_backend_pid()";
        let row = sqlx::raw_sql(settings).fetch_one(&mut other).await.unwrap();
        let found: String = row.get(0);
        assert!(found.starts_with("0onauto"), "{found}");
    }
}

/// A commit that waits for a standby ends with that wait alone: behind a pooler, too, a server leaves few behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_that_wait_for_a_standby_are_few() {
    let cluster = cluster("fsync = off").await;
    let (_pooler, store) = pooled(&cluster, "postgres").await;
    drop(store.open(Purpose::Claims).await.unwrap());
    assert_eq!(store.left_behind(), 0);
    cluster.execute("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'away'").await;
    cluster.reload().await;
    let mut said = Vec::new();
    for _ in 0..2 {
        let refused = store.open(Purpose::Claims).await.err().map(|error| error.to_string());
        said.push(refused.unwrap_or_default());
    }
    assert!(said[0].contains("a write was not answered"), "{said:?}");
    assert!(said[1].contains("1 statements that this server gave up"), "{said:?}");
    assert_eq!(store.left_behind(), 1);
    cluster.execute("postgres", "ALTER SYSTEM RESET synchronous_standby_names").await;
    cluster.reload().await;
    while let Err(error) = store.open(Purpose::Claims).await {
        assert!(matches!(error, StoreError::NotApplied(Fault::Unavailable(_))), "{error}");
    }
    assert_eq!(store.left_behind(), 0);
}

/// `migrate` needs a connection of its own, and says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn migrate_is_told_to_go_past_the_pooler() {
    let scene = Scene::new().await;
    let mut said = Vec::new();
    for _ in 0..3 {
        said.extend(scene.store.migrate().await.err().map(|error| error.to_string()));
    }
    assert!(!said.is_empty(), "it works behind this pooler");
    assert!(said.iter().all(|text| text.contains("past its pooler")), "{said:?}");
}
