//! A server in this process, on a store of its own, with a clock that tests can set.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use futures_util::future::OptionFuture;
use idempotency_ledger::domain::{ClockLimits, Entry, Key, Reading, Span, StoreTime};
use idempotency_ledger::ledger::{Ledger, LedgerOptions, Policies, PurgeOptions, adopt};
use idempotency_ledger::metrics::Metrics;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::rpc::{Listeners, ServeOptions, serve};
use idempotency_ledger::store::{
    Clock, Found, LeftAlone, PostgresOptions, PostgresSource, PostgresStore, Purpose, Replica, SchemaName,
    Session, SqliteStore, Store,
};
use idempotency_ledger::traces::Traces;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::transport::Channel;

use super::behind::Behind;
use super::must_stop::MustStop;
use super::pooler::Pooler;
use super::postgres;
use super::reopened::sqlite_after_another;
use super::scraped::nothing_is_in_use;
pub(crate) use super::setup::Setup;

/// The kinds of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sqlite,
    Postgres,
    /// Postgres behind a pooler of transactions.
    Pooled,
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub(crate) struct TestClock(AtomicI64);

impl Clock for TestClock {
    fn now(&self) -> StoreTime {
        StoreTime(self.0.load(Ordering::SeqCst))
    }
}

pub(crate) const START: StoreTime = StoreTime(1_780_000_000_000_000); // some day in 2026

/// A store, and how to move its clock.
pub(crate) struct TestStore {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) database: Option<String>,
    pub(super) clock: Arc<TestClock>,
    pub(super) folder: tempfile::TempDir,
    pub(super) behind: Behind,
}

pub(crate) async fn migrate_postgres(url: &str) {
    postgres_store(url).migrate().await.unwrap();
}

pub(crate) fn postgres_store(url: &str) -> PostgresStore {
    postgres_store_of(PostgresSource::of_url(url), None)
}

/// A store whose sessions live for so long.
pub(crate) fn postgres_store_of(source: PostgresSource, lifetime: Option<Duration>) -> PostgresStore {
    PostgresStore::new(&PostgresOptions { lifetime, ..options(source) }).unwrap()
}

/// A store behind a pooler of transactions, with one session for claims.
pub(crate) fn pooled_store(url: &str) -> PostgresStore {
    let options = options(PostgresSource::of_url(url));
    PostgresStore::new(&PostgresOptions { sessions: 1, transaction_pooling: true, ..options }).unwrap()
}

pub(super) fn options(source: PostgresSource) -> PostgresOptions {
    PostgresOptions {
        source,
        schema: SchemaName::default(),
        sessions: coalescing("IDEMPOTENCY_LEDGER_SESSIONS", 3),
        lifetime: None,
        lock_wait: Duration::from_millis(250),
        prepared_statements: true,
        transaction_pooling: false,
        clock_limits: ClockLimits::NONE, // the clock is a test's own
    }
}

/// A setting that says how much is coalesced: `tests/prove` sets it for servers of the tests' own process, too.
fn coalescing(variable: &str, usual: usize) -> usize {
    std::env::var(variable).map_or(usual, |set| set.parse().expect("a number"))
}

/// Maximum number of commands in a batch of these servers.
pub(crate) fn batch_max() -> usize {
    coalescing("IDEMPOTENCY_LEDGER_BATCH_MAX", 1_000)
}

/// A database of the shared cluster, behind a pooler of its own.
async fn pooled_url(database: &str) -> String {
    let cluster = postgres::shared();
    let pooler = Pooler::before(([127, 0, 0, 1], cluster.port).into()).await;
    pooler.url(cluster.port, &cluster.url(database))
}

impl TestStore {
    pub(crate) async fn new(kind: Kind) -> TestStore {
        let folder = tempfile::tempdir().unwrap();
        let clock = Arc::new(TestClock(AtomicI64::new(START.micros())));
        let (store, database): (Arc<dyn Store>, _) = match kind {
            Kind::Sqlite => {
                let store = SqliteStore::new(&folder.path().join("ledger.db"), clock.clone()).unwrap();
                store.migrate().await.unwrap();
                (Arc::new(store), None)
            }
            Kind::Postgres => {
                let database = postgres::database().await;
                let store = postgres_store(&postgres::shared().url(&database));
                (Arc::new(store), Some(database))
            }
            Kind::Pooled => {
                let database = postgres::database().await;
                (Arc::new(pooled_store(&pooled_url(&database).await)), Some(database))
            }
        };
        let made = TestStore { store, database, clock, folder, behind: Behind::default() };
        made.set_clock(START).await;
        made
    }

    /// A store that was there before, with its migrations, at this instant.
    pub(crate) async fn found(
        folder: tempfile::TempDir,
        database: Option<String>,
        now: StoreTime,
    ) -> TestStore {
        let clock = Arc::new(TestClock(AtomicI64::new(now.micros())));
        let store: Arc<dyn Store> = match &database {
            Some(database) => Arc::new(postgres_store(&postgres::shared().url(database))),
            None => Arc::new(sqlite_after_another(&folder.path().join("ledger.db"), clock.clone()).await),
        };
        let found = TestStore { store, database, clock, folder, behind: Behind::default() };
        found.set_clock(now).await;
        found
    }

    /// A SQLite store as a new process finds it.
    pub(crate) async fn reopened(self) -> TestStore {
        let TestStore { store, database, clock, folder, behind } = self;
        drop(store);
        let path = folder.path().join("ledger.db");
        let store = sqlite_after_another(&path, clock.clone()).await;
        TestStore { store: Arc::new(store), database, clock, folder, behind }
    }

    /// The same store as another replica, or a new process, finds it: it knows nothing but what was written.
    pub(crate) async fn afresh(self) -> TestStore {
        let Some(database) = self.database.clone() else { return self.reopened().await };
        let store = Arc::new(postgres_store(&postgres::shared().url(&database)));
        TestStore { store, ..self }
    }

    /// Sets the store's clock; it stands still there.
    pub(crate) async fn set_clock(&self, now: StoreTime) {
        self.clock.0.store(now.micros(), Ordering::SeqCst);
        if self.database.is_some() {
            let statement = format!("UPDATE ledger.test_clock SET fixed = {}", now.micros());
            self.execute(&statement).await;
        }
    }

    pub(crate) fn now(&self) -> StoreTime {
        self.clock.now()
    }

    pub(crate) async fn session(&self) -> Box<dyn Session> {
        self.store.open(Purpose::Changes).await.unwrap()
    }
}

/// A replica that reads this format of stored policies.
pub(crate) fn replica(speaks: i32) -> Replica {
    Replica {
        id: uuid::Uuid::from_u128(u128::from(speaks.unsigned_abs())),
        speaks,
        version: "of a test".into(),
    }
}

/// Inserts first grants as they are; the clock stands at `now`.
pub(crate) async fn put_new(session: &mut dyn Session, now: StoreTime, entries: &[Entry]) {
    let back = StoreTime(-now.micros());
    let rows: Vec<Entry> = entries.iter().map(|entry| entry.clone().stamped(back, back.micros())).collect();
    let inserted = session.entries().insert(&rows, StoreTime::MAX).await.unwrap();
    let expected: Vec<Option<i64>> = entries.iter().map(|entry| Some(entry.token)).collect();
    assert_eq!(inserted.tokens(), expected, "an entry was there before");
}

/// A running server, on any store.
pub(crate) struct Served {
    pub(crate) client: LedgerServiceClient<Channel>,
    pub(crate) admin: AdminServiceClient<Channel>,
    pub(crate) address: std::net::SocketAddr,
    pub(crate) http_address: std::net::SocketAddr,
    pub(super) ledger: Ledger,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
    must_stop: MustStop,
}

/// A running server on a store of its own.
pub(crate) struct TestServer {
    pub(crate) at: TestStore,
    pub(crate) client: LedgerServiceClient<Channel>,
    pub(crate) admin: AdminServiceClient<Channel>,
    pub(super) served: Served,
}

impl Served {
    pub(crate) async fn start(store: Arc<dyn Store>, setup: Setup) -> Served {
        let inbox = setup.inbox();
        let policies = Policies::new(setup.default, setup.own);
        let mut session = store.open(Purpose::Changes).await.unwrap();
        let in_force = adopt(&policies, &mut *session).await.unwrap();
        drop(session);
        let options = LedgerOptions {
            queue_max: setup.queue_max,
            queue_bytes_max: setup.queue_bytes_max,
            batch_max: setup.batch_max,
            registered_only: setup.registered_only,
            window_required: setup.window_required,
            log_error_texts: false,
            policies_trusted_for: setup.policies_trusted_for,
            count_every: setup.count_every,
            purge: PurgeOptions {
                every: setup.purge_every,
                rest_factor: 1,
                audit_retention: setup.audit_retention,
                ..PurgeOptions::default()
            },
            waits: setup.waits,
            inbox,
        };
        let ledger = Ledger::start(store, policies, in_force, options, Metrics::new().unwrap());
        let public = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = public.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel::<()>();
        let serving = ledger.clone();
        let edge = ServeOptions {
            limits: setup.limits,
            connections_max: setup.connections_max,
            connections: setup.connections,
            principals: setup.principals,
            connection_bytes_max: setup.connection_bytes_max,
            server_bytes_max: setup.server_bytes_max,
            stall_max: setup.stall_max,
            deadline_max: Duration::from_secs(30),
            max_wait: setup.max_wait,
            slow_call: Duration::from_secs(1),
            drain_wait: Duration::ZERO,
            drain_max: Duration::from_secs(10),
            reflection: setup.reflection,
        };
        let bound =
            async |at: Option<_>| OptionFuture::from(at.map(TcpListener::bind)).await.map(Result::unwrap);
        let (admin, admin_http) = (bound(setup.admin).await, bound(setup.admin_http).await);
        let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let http_address = http.local_addr().unwrap();
        let tls = setup.guard.trust().tls.is_some();
        let served = tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            let listeners = Listeners { public, admin, http: Some(http), admin_http, hosts: setup.hosts };
            let drained = serve(listeners, serving, setup.guard, edge, Traces::off(), stopped).await.unwrap();
            assert!(drained, "calls are under way at the end of the test");
        });
        let channel = Channel::from_shared(format!("http://{address}")).unwrap();
        // Of no use where the server speaks TLS.
        let channel = if tls { channel.connect_lazy() } else { channel.connect().await.unwrap() };
        Served {
            client: LedgerServiceClient::new(channel.clone()).max_decoding_message_size(64 << 20),
            admin: AdminServiceClient::new(channel),
            address,
            http_address,
            ledger,
            stop,
            served,
            must_stop: MustStop::default(),
        }
    }

    /// Drains, and ends.
    pub(crate) async fn stop(mut self) {
        self.must_stop.stops();
        drop(self.client);
        drop(self.admin);
        drop(self.stop);
        self.served.await.unwrap();
        nothing_is_in_use(&self.ledger);
    }
}

impl TestServer {
    pub(crate) async fn start(kind: Kind) -> TestServer {
        TestServer::start_with(kind, Setup::default()).await
    }

    pub(crate) async fn start_with(kind: Kind, setup: Setup) -> TestServer {
        TestServer::on(TestStore::new(kind).await, setup).await
    }

    /// A server on a store that may have been used before.
    pub(crate) async fn on(at: TestStore, setup: Setup) -> TestServer {
        let served = Served::start(Arc::clone(&at.store), setup).await;
        TestServer { at, client: served.client.clone(), admin: served.admin.clone(), served }
    }

    pub(crate) async fn stop(self) -> TestStore {
        drop(self.client);
        drop(self.admin);
        self.served.stop().await;
        self.at
    }

    pub(crate) fn address(&self) -> std::net::SocketAddr {
        self.served.address
    }

    /// Where it serves by HTTP.
    pub(crate) fn http_address(&self) -> std::net::SocketAddr {
        self.served.http_address
    }

    /// Waits until the purge has looked for the first time, as it does at each start.
    pub(crate) async fn looked(&self) {
        let mut session = self.at.session().await;
        let none = LeftAlone { own: HashMap::new(), others: Span(0) };
        while session.operators().purge_status(&none, 1).await.unwrap().1.workers.is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Moves the store's clock on.
    pub(crate) async fn advance(&self, span: Span) {
        self.at.set_clock(self.at.now() + span).await;
    }

    /// Stores entries as they are, whatever state they are in.
    pub(crate) async fn put(&self, entries: &[Entry]) {
        let mut session = self.at.session().await;
        for part in entries.chunks(500) {
            let mut fresh: Vec<Entry> = part.to_vec();
            fresh.sort_by_key(|entry| entry.key.hash());
            for entry in &mut fresh {
                (entry.version, entry.created_at) = (self.at.now().micros(), self.at.now());
            }
            put_new(&mut *session, self.at.now(), &fresh).await;
            // The insert knows only first grants; the rest of the row comes with a replacement.
            for entry in &mut fresh {
                entry.version += 1;
            }
            let replaced = session.entries().replace(&fresh).await.unwrap();
            assert!(replaced.iter().all(|done| *done));
        }
    }

    /// The entry of a key, as stored.
    pub(crate) async fn entry(&self, key: &Key) -> Option<Entry> {
        self.entries(std::slice::from_ref(key)).await.pop().unwrap()
    }

    pub(crate) async fn entries(&self, keys: &[Key]) -> Vec<Option<Entry>> {
        let mut session = self.at.session().await;
        let mut all = Vec::new();
        for part in keys.chunks(500) {
            let (_, found): (Reading, Vec<Found>) = {
                let loaded = session.entries().load(part).await.unwrap();
                (loaded.reading, loaded.found)
            };
            all.extend(found.into_iter().map(|found| match found {
                Found::Absent => None,
                Found::Entry(entry) => Some(*entry),
                Found::Collision | Found::Unreadable(_) => panic!("{found:?}"),
            }));
        }
        all
    }
}
