//! The settings, checked as a whole.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use super::checker::Checker;
use super::database::{Database, database};
use super::given::Given;
use super::http::{HttpSettings, http};
use super::identity::{IdentitySettings, identity};
use super::issuers::IssuerArgs;
use super::local_listen::ObserveListen;
use super::settings::Settings;
use crate::common::duration_arg::DurationArg;
use crate::ledger::{InboxOptions, LedgerOptions, Policies, PurgeOptions, WaitBounds};
use crate::rpc::{CALL_OVERHEAD_MAX, ConnectionLimits, Limits, PrincipalLimits, ServeOptions};
use crate::store::SchemaName;

const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 50_051);

/// A replica whose policies are older than this does not grant by them, so that a hold is in force everywhere within this time.
/// Policies are read once a second.
const POLICIES_TRUSTED_FOR: Duration = Duration::from_secs(10);

/// A configuration that was checked as a whole.
#[derive(Debug)]
pub struct Config {
    /// The gRPC listener.
    pub listen: SocketAddr,
    /// The listener for operators; `None` if they use `listen`.
    pub admin_listen: Option<SocketAddr>,
    /// The HTTP listeners.
    pub http: HttpSettings,
    /// The sources of callers' identities.
    pub identity: IdentitySettings,
    /// The listener for metrics and probes.
    pub observe_listen: ObserveListen,
    /// The database of the ledger.
    pub database: Database,
    /// The schema of a Postgres database that holds it.
    pub schema: SchemaName,
    /// The number of Postgres connections for claims and settlements.
    pub sessions: usize,
    /// The lifetime of a session with Postgres; `None` if sessions are not rotated.
    pub max_connection_lifetime: Option<Duration>,
    /// The number of threads that serve calls; for zero see [`Config::runtime_threads`].
    pub threads: usize,
    /// How long claims and settlements wait for a row that another session has locked.
    pub lock_wait: Duration,
    /// Whether prepared statements have names.
    pub prepared_statements: bool,
    /// Whether a pooler may run each transaction on another connection (transaction pooling).
    pub transaction_pooling: bool,
    /// How long to wait for the store at the start.
    pub startup_wait: Duration,
    /// Options of the ledger.
    pub ledger: LedgerOptions,
    /// Options of the listeners and calls.
    pub serve: ServeOptions,
    /// The policies.
    pub policies: Policies,
}

/// The longest wait at the start and at the end.
const WAIT_MAX: Duration = Duration::from_mins(10);
const DAY: Duration = Duration::from_hours(24);

/// Builds a configuration; problems are added to the checker.
pub(super) fn settings(
    given: &Settings,
    policies: Policies,
    issuers: &BTreeMap<String, IssuerArgs>,
    checker: &mut Checker,
) -> Config {
    let (secs, millis) = (Duration::from_secs, Duration::from_millis);
    let listen = checker.address("listen", given.listen.as_ref(), LISTEN_DEFAULT);
    let admin_listen = checker.admin_listen("admin_listen", given.admin_listen.as_ref());
    let http = http(given, admin_listen, checker);
    let listeners = [
        Some(("listen", listen)),
        admin_listen.map(|address| ("admin_listen", address)),
        http.listen.address().map(|address| ("http_listen", address)),
        http.admin_listen.map(|address| ("admin_http_listen", address)),
    ];
    let config = Config {
        listen,
        admin_listen,
        http,
        identity: identity(given, issuers, &listeners, checker),
        observe_listen: checker.local_listen("observe_listen", given.observe_listen.as_ref()),
        database: database(given, checker),
        schema: checker.schema("schema", given.schema.as_ref()),
        sessions: checker.number("sessions", given.sessions.as_ref(), 3, 1..=32),
        max_connection_lifetime: checker.time_or_ever(
            "max_connection_lifetime",
            given.max_connection_lifetime.as_ref(),
            secs(1_800),
            secs(10)..=DAY,
        ),
        threads: checker.number("threads", given.threads.as_ref(), 0, 0..=256),
        lock_wait: checker.time("lock_wait", given.lock_wait.as_ref(), millis(250), millis(10)..=secs(1)),
        prepared_statements: checker.switch("prepared_statements", given.prepared_statements.as_ref(), true),
        transaction_pooling: checker.switch("transaction_pooling", given.transaction_pooling.as_ref(), false),
        startup_wait: checker.time(
            "startup_wait",
            given.startup_wait.as_ref(),
            secs(10),
            Duration::ZERO..=WAIT_MAX,
        ),
        ledger: ledger(given, checker),
        serve: serve(given, checker),
        policies,
    };
    batches_fit(&config, checker);
    if matches!(config.database, Database::Sqlite { .. }) && config.schema != SchemaName::default() {
        checker.wrong(
            "schema",
            "is a schema of a Postgres database, and database_url names a SQLite file: leave it out",
        );
    }
    config
}

fn ledger(given: &Settings, checker: &mut Checker) -> LedgerOptions {
    let mut number = |name: &str, value: Option<&Given<usize>>, default, bounds| {
        checker.number(name, value, default, bounds)
    };
    let queue_max = number("queue_max", given.queue_max.as_ref(), 8_192, 16..=1_000_000);
    let queue_bytes_max =
        number("queue_bytes_max", given.queue_bytes_max.as_ref(), 64 << 20, 1 << 20..=1 << 40);
    let batch_max = number("batch_max", given.batch_max.as_ref(), 1_000, 1..=1_000);
    let inbox_sessions = number("inbox_sessions", given.inbox_sessions.as_ref(), 1, 1..=100);
    let inbox_bytes_max =
        number("inbox_bytes_max", given.inbox_bytes_max.as_ref(), 10 << 30, 1 << 20..=1 << 50);
    let purge_batch = number("purge_batch", given.purge_batch.as_ref(), 500, 1..=1_000);
    let mut time = |name: &str, value: Option<&Given<DurationArg>>, default, bounds| {
        checker.time(name, value, default, bounds)
    };
    let tenth = Duration::from_millis(100);
    let purge_every = time("purge_every", given.purge_every.as_ref(), Duration::from_secs(10), tenth..=DAY);
    let count_every =
        time("count_every", given.count_every.as_ref(), Duration::from_mins(1), Duration::from_secs(1)..=DAY);
    let audit_retention =
        time("audit_retention", given.audit_retention.as_ref(), DAY * 365, DAY..=DAY * 3_650);
    LedgerOptions {
        queue_max,
        queue_bytes_max,
        batch_max,
        log_error_texts: checker.switch("log_error_texts", given.log_error_texts.as_ref(), false),
        registered_only: checker.switch("require_registration", given.require_registration.as_ref(), false),
        window_required: checker.switch(
            "require_redelivery_window",
            given.require_redelivery_window.as_ref(),
            false,
        ),
        policies_trusted_for: POLICIES_TRUSTED_FOR,
        count_every,
        purge: PurgeOptions {
            every: purge_every,
            batch: purge_batch,
            audit_retention,
            ..PurgeOptions::default()
        },
        waits: WaitBounds::default(),
        inbox: InboxOptions {
            sessions: inbox_sessions,
            bytes_max: u64::try_from(inbox_bytes_max).unwrap_or(u64::MAX),
            queue_max,
            queue_bytes_max,
            waits: WaitBounds::default(),
        },
    }
}

fn serve(given: &Settings, checker: &mut Checker) -> ServeOptions {
    let limits = limits(given, checker);
    let (connections, principals) = (connections(given, checker), principals(given, checker));
    let mut number = |name: &str, value: Option<&Given<usize>>, default, bounds| {
        checker.number(name, value, default, bounds)
    };
    let connections_max = number("connections_max", given.connections_max.as_ref(), 10_000, 1..=1_000_000);
    let connection_bytes_max =
        number("connection_bytes_max", given.connection_bytes_max.as_ref(), 16 << 20, 65_536..=1 << 30);
    let server_bytes_max =
        number("server_bytes_max", given.server_bytes_max.as_ref(), 256 << 20, 65_536..=1 << 40);
    let mut time = |name: &str, value: Option<&Given<DurationArg>>, default, bounds| {
        checker.time(name, value, default, bounds)
    };
    let secs = Duration::from_secs;
    let tenth = Duration::from_millis(100);
    let options = ServeOptions {
        limits,
        connections_max,
        connections,
        principals,
        connection_bytes_max,
        server_bytes_max,
        stall_max: time("stall_max", given.stall_max.as_ref(), secs(10), secs(1)..=WAIT_MAX),
        deadline_max: time("deadline_max", given.deadline_max.as_ref(), secs(30), tenth..=WAIT_MAX),
        max_wait: time(
            "max_wait",
            given.max_wait.as_ref(),
            secs(10),
            Duration::ZERO..=Duration::from_mins(1),
        ),
        slow_call: time("slow_call", given.slow_call.as_ref(), secs(1), Duration::from_millis(1)..=WAIT_MAX),
        drain_wait: time("drain_wait", given.drain_wait.as_ref(), secs(5), Duration::ZERO..=WAIT_MAX),
        drain_max: time("drain_max", given.drain_max.as_ref(), secs(15), Duration::ZERO..=WAIT_MAX),
        reflection: true,
    };
    ServeOptions { reflection: checker.switch("reflection", given.reflection.as_ref(), true), ..options }
}

/// The limits on the number and lifetime of connections.
fn connections(given: &Settings, checker: &mut Checker) -> ConnectionLimits {
    let (second, hour, week) = (Duration::from_secs(1), Duration::from_hours(1), DAY * 7);
    let (per_address, grace) = (&given.connections_per_address_max, &given.connection_age_grace);
    let (idle, age) = (&given.connection_idle_max, &given.connection_age_max);
    ConnectionLimits {
        per_address_max: checker.number(
            "connections_per_address_max",
            per_address.as_ref(),
            5_000,
            0..=1_000_000,
        ),
        idle_max: checker.time_or_ever(
            "connection_idle_max",
            idle.as_ref(),
            Duration::from_mins(15),
            second..=DAY,
        ),
        // Off by default: not every client library handles GOAWAY without failing calls.
        age_max: checker.time_or_ever("connection_age_max", age.as_ref(), Duration::ZERO, second..=week),
        age_grace: checker.time("connection_age_grace", grace.as_ref(), hour, Duration::ZERO..=week),
    }
}

/// The limits of each principal. Without authentication all calls belong to one principal, so a limit of a principal is one of
/// the server then: by default its calls are not limited, and its bytes only by the server's limit.
fn principals(given: &Settings, checker: &mut Checker) -> PrincipalLimits {
    let (calls, bytes) = (0..=1_000_000, 0..=1 << 40);
    let per_second = given.principal_calls_per_second.as_ref();
    PrincipalLimits {
        calls_max: checker.number(
            "principal_calls_max",
            given.principal_calls_max.as_ref(),
            0,
            calls.clone(),
        ),
        calls_per_second: checker.number("principal_calls_per_second", per_second, 0, calls),
        bytes_max: checker.number("principal_bytes_max", given.principal_bytes_max.as_ref(), 0, bytes),
    }
}

/// The limits of fields and batches.
fn limits(given: &Settings, checker: &mut Checker) -> Limits {
    let usual = Limits::default();
    let mut number = |name: &str, value: Option<&Given<usize>>, default, bounds| {
        checker.number(name, value, default, bounds)
    };
    let bytes = 65_536..=16_777_216;
    Limits {
        consumer: number("consumer_bytes_max", given.consumer_bytes_max.as_ref(), usual.consumer, 1..=1_024),
        source: number("source_bytes_max", given.source_bytes_max.as_ref(), usual.source, 1..=1_024),
        id: number("id_bytes_max", given.id_bytes_max.as_ref(), usual.id, 1..=4_096),
        owner: number("owner_bytes_max", given.owner_bytes_max.as_ref(), usual.owner, 1..=1_024),
        fingerprint: number(
            "fingerprint_bytes_max",
            given.fingerprint_bytes_max.as_ref(),
            usual.fingerprint,
            1..=256,
        ),
        error: number("error_bytes_max", given.error_bytes_max.as_ref(), usual.error, 64..=65_536),
        result: number("result_bytes_max", given.result_bytes_max.as_ref(), usual.result, 0..=1_048_576),
        checkpoint: number(
            "checkpoint_bytes_max",
            given.checkpoint_bytes_max.as_ref(),
            usual.checkpoint,
            0..=1_048_576,
        ),
        batch_items: number("batch_items_max", given.batch_items_max.as_ref(), usual.batch_items, 1..=1_000),
        batch_bytes: number("batch_bytes_max", given.batch_bytes_max.as_ref(), usual.batch_bytes, bytes),
    }
}

/// Checks that the largest batch fits each limit that applies to it.
fn batches_fit(config: &Config, checker: &mut Checker) {
    let LedgerOptions { queue_max, queue_bytes_max, .. } = config.ledger;
    let ServeOptions { connection_bytes_max, server_bytes_max, limits, principals, .. } = config.serve;
    let Limits { batch_items, batch_bytes, .. } = limits;
    if queue_max * 5 / 8 < batch_items {
        let least = (batch_items * 8).div_ceil(5);
        let why = format!("so that a batch of {batch_items} claims (batch_items_max) fits");
        checker.wrong("queue_max", &format!("is {queue_max}, must be at least {least} {why}"));
    }
    if queue_bytes_max / 8 * 5 < batch_bytes {
        let least = batch_bytes.div_ceil(5) * 8;
        let why = format!("so that the claims of a batch of {batch_bytes} bytes (batch_bytes_max) fit");
        checker.wrong("queue_bytes_max", &format!("is {queue_bytes_max}, must be at least {least} {why}"));
    }
    let largest = batch_bytes + CALL_OVERHEAD_MAX;
    if connection_bytes_max < largest {
        let why = "so that the largest request (batch_bytes_max) fits";
        let text = format!("is {connection_bytes_max}, must be at least {largest} {why}");
        checker.wrong("connection_bytes_max", &text);
    }
    let claims = largest.div_ceil(5) * 8;
    let why = format!("so that a batch of {batch_bytes} bytes (batch_bytes_max) fits");
    if (1..claims).contains(&principals.bytes_max) {
        let text = format!("is {}, must be at least {claims} {why}; or 0", principals.bytes_max);
        checker.wrong("principal_bytes_max", &text);
    }
    if server_bytes_max < claims {
        let text = format!("is {server_bytes_max}, must be at least {claims} {why}");
        checker.wrong("server_bytes_max", &text);
    }
    if server_bytes_max < connection_bytes_max {
        let why = "the bytes of one connection (connection_bytes_max)";
        let text = format!("is {server_bytes_max}, must be at least {connection_bytes_max}, {why}");
        checker.wrong("server_bytes_max", &text);
    }
}
