//! Configuration: flags, environment and a TOML file, in that order of precedence. Each setting is
//! declared once, here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

use crate::domain::{Backoff, FingerprintMode, OnExpiry, Policy, Span};
use crate::ledger::{LedgerOptions, Policies, SweepOptions};
use crate::rpc::{Limits, ServeOptions};

/// Where the ledger lives when nothing else is said.
pub const DATABASE_URL_DEFAULT: &str = "sqlite://data/ledger.db";
/// Within this time a hold is in force everywhere: older policies grant nothing after it. They are asked for once
/// a second.
const POLICIES_TRUSTED_FOR: Duration = Duration::from_secs(10);

/// A duration as people write it: `500ms`, `30s`, `15m`, `24h`, `7d`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct Human(Duration);

impl FromStr for Human {
    type Err = String;
    fn from_str(text: &str) -> Result<Human, String> {
        let parsed = humantime::parse_duration(text);
        parsed
            .map(Human)
            .map_err(|error| format!("`{text}` is no duration like 500ms, 30s, 15m, 24h or 7d: {error}"))
    }
}

impl From<Human> for Duration {
    fn from(human: Human) -> Duration {
        human.0
    }
}

impl TryFrom<String> for Human {
    type Error = String;
    fn try_from(text: String) -> Result<Human, String> {
        text.parse()
    }
}

/// Every setting of a server that flags, the environment and the top level of the file share.
#[derive(Clone, Debug, Default, Deserialize, clap::Args)]
#[serde(deny_unknown_fields, default)]
#[group(skip)]
#[allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "each text is also its flag's help")]
pub struct Settings {
    /// Where to listen [default: 127.0.0.1:50051]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
    /// Where the ledger lives: sqlite://FILE or postgres://USER:PASSWORD@HOST/DATABASE
    /// [default: sqlite://data/ledger.db]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DATABASE_URL", value_name = "URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// How many Postgres connections carry claims and settlements, 1 to 32 [default: 2]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_SESSIONS", value_name = "N")]
    pub sessions: Option<usize>,
    /// How long claims and settlements wait for a row that another session of the database holds, 10ms to 1s
    /// [default: 250ms]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LOCK_WAIT", value_name = "DURATION")]
    pub lock_wait: Option<Human>,
    /// Named prepared statements; false behind PgBouncer in transaction mode [default: true]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_PREPARED_STATEMENTS", value_name = "BOOL")]
    pub prepared_statements: Option<bool>,
    /// How long to wait for the store at the start, at most 10m [default: 10s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_STARTUP_WAIT", value_name = "DURATION")]
    pub startup_wait: Option<Human>,
    /// How many commands may wait in memory, 16 to 1000000 [default: 8192]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_QUEUE_MAX", value_name = "N")]
    pub queue_max: Option<usize>,
    /// How many bytes the commands that wait or are at work may have, 1048576 to 1099511627776
    /// [default: 67108864]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_QUEUE_BYTES_MAX", value_name = "N")]
    pub queue_bytes_max: Option<usize>,
    /// How many commands one batch takes to the store, 1 to 1000 [default: 1000]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_BATCH_MAX", value_name = "N")]
    pub batch_max: Option<usize>,
    /// How many client connections may be open at once, 1 to 1000000 [default: 10000]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONNECTIONS_MAX", value_name = "N")]
    pub connections_max: Option<usize>,
    /// How many bytes the requests under way of one connection may have, 65536 to 1073741824
    /// [default: 16777216]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONNECTION_BYTES_MAX", value_name = "N")]
    pub connection_bytes_max: Option<usize>,
    /// How many bytes the requests under way of all connections may have, 65536 to 1099511627776
    /// [default: 268435456]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_SERVER_BYTES_MAX", value_name = "N")]
    pub server_bytes_max: Option<usize>,
    /// The deadline of calls that bring none, and the longest of any, 100ms to 10m [default: 30s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DEADLINE_MAX", value_name = "DURATION")]
    pub deadline_max: Option<Human>,
    /// How long to go on serving after SIGTERM while saying NOT_SERVING, at most 10m [default: 5s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DRAIN_WAIT", value_name = "DURATION")]
    pub drain_wait: Option<Human>,
    /// How long calls under way may take after that, at most 10m [default: 15s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_DRAIN_MAX", value_name = "DURATION")]
    pub drain_max: Option<Human>,
    /// Grant only to consumers that have a policy of their own [default: false]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_REQUIRE_REGISTRATION", value_name = "BOOL")]
    pub require_registration: Option<bool>,
    /// How often the purge looks for entries whose retention is over, 100ms to 1d [default: 10s]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_SWEEP_EVERY", value_name = "DURATION")]
    pub sweep_every: Option<Human>,
    /// How many entries the purge looks at in one batch, 1 to 1000 [default: 500]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_SWEEP_BATCH", value_name = "N")]
    pub sweep_batch: Option<usize>,
    /// How long audit events of operators' changes are kept, 1d to 3650d [default: 365d]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_AUDIT_RETENTION", value_name = "DURATION")]
    pub audit_retention: Option<Human>,
    /// The longest `consumer`, in bytes, at most 1024 [default: 128]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CONSUMER_BYTES_MAX", value_name = "N")]
    pub consumer_bytes_max: Option<usize>,
    /// The longest `source`, in bytes, at most 1024 [default: 256]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_SOURCE_BYTES_MAX", value_name = "N")]
    pub source_bytes_max: Option<usize>,
    /// The longest `id`, in bytes, at most 4096 [default: 512]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_ID_BYTES_MAX", value_name = "N")]
    pub id_bytes_max: Option<usize>,
    /// The longest `owner`, in bytes, at most 1024 [default: 128]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_OWNER_BYTES_MAX", value_name = "N")]
    pub owner_bytes_max: Option<usize>,
    /// The longest `fingerprint`, in bytes, at most 256 [default: 64]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_FINGERPRINT_BYTES_MAX", value_name = "N")]
    pub fingerprint_bytes_max: Option<usize>,
    /// Longer errors are truncated, in bytes, 64 to 65536 [default: 2048]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_ERROR_BYTES_MAX", value_name = "N")]
    pub error_bytes_max: Option<usize>,
    /// The largest `result`, in bytes, at most 1048576 [default: 16384]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_RESULT_BYTES_MAX", value_name = "N")]
    pub result_bytes_max: Option<usize>,
    /// The largest `checkpoint`, in bytes, at most 1048576 [default: 16384]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_CHECKPOINT_BYTES_MAX", value_name = "N")]
    pub checkpoint_bytes_max: Option<usize>,
    /// How many items a batch may have, at most 1000 [default: 1000]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_BATCH_ITEMS_MAX", value_name = "N")]
    pub batch_items_max: Option<usize>,
    /// The largest request and batch answer, in bytes, at most 16777216 [default: 3670016]
    #[arg(long, env = "IDEMPOTENCY_LEDGER_BATCH_BYTES_MAX", value_name = "N")]
    pub batch_bytes_max: Option<usize>,
}

/// The file: the settings, and the policies.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct File {
    policy: PolicyFile,
    consumers: BTreeMap<String, PolicyFile>,
    #[serde(flatten)]
    settings: toml::Table,
}

/// A policy as the file has it; what is unset comes from the default policy.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PolicyFile {
    lease: Option<Human>,
    max_lease: Option<Human>,
    max_hold: Option<Human>,
    reclaim_grace: Option<Human>,
    on_expiry: Option<OnExpiry>,
    max_attempts: Option<i32>,
    backoff: BackoffFile,
    retention: Option<Human>,
    failed_retention: Option<Human>,
    abandoned_retention: Option<Human>,
    result_retention: Option<Human>,
    max_redelivery_window: Option<Human>,
    accept_risk: Option<bool>,
    reason: Option<String>,
    fingerprint: Option<FingerprintMode>,
    disabled: Option<bool>,
    claims_per_second: Option<i32>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct BackoffFile {
    initial: Option<Human>,
    multiplier: Option<f64>,
    max: Option<Human>,
    jitter: Option<f64>,
}

/// Where the ledger lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// One file, owned by one process.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Nobody chose it: its folder may be made.
        by_default: bool,
    },
    /// A server.
    Postgres {
        /// Its URL.
        url: String,
    },
}

/// A configuration that was checked as a whole.
#[derive(Debug)]
pub struct Config {
    /// Where to listen.
    pub listen: SocketAddr,
    /// Where the ledger lives.
    pub database: Database,
    /// How many Postgres connections carry claims and settlements.
    pub sessions: usize,
    /// How long claims and settlements wait for a row that somebody else holds.
    pub lock_wait: Duration,
    /// Named prepared statements.
    pub prepared_statements: bool,
    /// How long to wait for the store at the start.
    pub startup_wait: Duration,
    /// How the ledger works.
    pub ledger: LedgerOptions,
    /// How the edge behaves.
    pub serve: ServeOptions,
    /// The policies.
    pub policies: Policies,
}

impl Config {
    /// Merges flags and environment with the file, and checks everything.
    ///
    /// # Errors
    /// All that is wrong, each with the setting's name.
    pub fn load(flags: Settings, file: Option<&Path>) -> Result<Config, Vec<String>> {
        let file = match file {
            None => File::default(),
            Some(path) => read(path).map_err(|problem| vec![problem])?,
        };
        let lower: Settings = file
            .settings
            .clone()
            .try_into()
            .map_err(|error| vec![format!("the configuration file: {error}")])?;
        let mut problems = Vec::new();
        let policies = policies(&file, &mut problems);
        let config = settings(&flags.or(lower), policies, &mut problems);
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }
}

fn read(path: &Path) -> Result<File, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("config: {}: {error}", path.display()))?;
    toml::from_str(&text).map_err(|error| format!("config: {}: {error}", path.display()))
}

macro_rules! first {
    ($upper:ident, $lower:ident; $($field:ident),* $(,)?) => {
        Settings { $($field: $upper.$field.or($lower.$field)),* }
    };
}

impl Settings {
    fn or(self, lower: Settings) -> Settings {
        let upper = self;
        first!(upper, lower; listen, database_url, sessions, lock_wait, prepared_statements, startup_wait, queue_max,
            queue_bytes_max, batch_max, connections_max, connection_bytes_max, server_bytes_max, deadline_max, drain_wait, drain_max, require_registration, sweep_every, sweep_batch, audit_retention,
            consumer_bytes_max, source_bytes_max, id_bytes_max, owner_bytes_max, fingerprint_bytes_max,
            error_bytes_max, result_bytes_max, checkpoint_bytes_max, batch_items_max, batch_bytes_max)
    }
}

fn settings(settings: &Settings, policies: Policies, problems: &mut Vec<String>) -> Config {
    let mut number = |name: &str, value: Option<usize>, default: usize, min: usize, max: usize| {
        let value = value.unwrap_or(default);
        if !(min..=max).contains(&value) {
            problems.push(format!("{name}: is {value}, must be {min} to {max}"));
        }
        value
    };
    let limits = field_limits(settings, &mut number);
    let connections_max = number("connections_max", settings.connections_max, 10_000, 1, 1_000_000);
    let connection_bytes_max =
        number("connection_bytes_max", settings.connection_bytes_max, 16 << 20, 65_536, 1 << 30);
    let server_bytes_max = number("server_bytes_max", settings.server_bytes_max, 256 << 20, 65_536, 1 << 40);
    let queue_bytes_max = number("queue_bytes_max", settings.queue_bytes_max, 64 << 20, 1 << 20, 1 << 40);
    let queue_max = number("queue_max", settings.queue_max, 8_192, 16, 1_000_000);
    let batch_max = number("batch_max", settings.batch_max, 1_000, 1, 1_000);
    let sessions = number("sessions", settings.sessions, 2, 1, 32);
    let sweep_batch = number("sweep_batch", settings.sweep_batch, 500, 1, 1_000);
    batches_fit((queue_max, queue_bytes_max, connection_bytes_max, server_bytes_max), &limits, problems);
    let mut time = |name: &str, value: Option<Human>, default: Duration, min: Duration, max: Duration| {
        let value = value.map_or(default, |human| human.0);
        if value < min || value > max {
            problems.push(format!("{name}: is {value:?}, must be {min:?} to {max:?}"));
        }
        value
    };
    let (zero, minutes) = (Duration::ZERO, Duration::from_mins(10));
    let tenth = Duration::from_millis(100);
    let startup_wait = time("startup_wait", settings.startup_wait, Duration::from_secs(10), zero, minutes);
    let ten = Duration::from_millis(10);
    let lock_wait =
        time("lock_wait", settings.lock_wait, Duration::from_millis(250), ten, Duration::from_secs(1));
    let deadline_max = time("deadline_max", settings.deadline_max, Duration::from_secs(30), tenth, minutes);
    let drain_wait = time("drain_wait", settings.drain_wait, Duration::from_secs(5), zero, minutes);
    let drain_max = time("drain_max", settings.drain_max, Duration::from_secs(15), zero, minutes);
    let day = Duration::from_hours(24);
    let sweep_every = time("sweep_every", settings.sweep_every, Duration::from_secs(10), tenth, day);
    let audit_retention = time("audit_retention", settings.audit_retention, day * 365, day, day * 3_650);
    let database = database(settings.database_url.as_deref()).unwrap_or_else(|problem| {
        problems.push(problem);
        Database::Postgres { url: String::new() }
    });
    Config {
        listen: settings.listen.unwrap_or(SocketAddr::from(([127, 0, 0, 1], 50_051))),
        database,
        sessions,
        lock_wait,
        prepared_statements: settings.prepared_statements.unwrap_or(true),
        startup_wait,
        ledger: LedgerOptions {
            queue_max,
            queue_bytes_max,
            batch_max,
            registered_only: settings.require_registration.unwrap_or(false),
            policies_trusted_for: POLICIES_TRUSTED_FOR,
            sweep: SweepOptions {
                every: sweep_every,
                batch: sweep_batch,
                audit_retention,
                ..SweepOptions::default()
            },
        },
        serve: ServeOptions {
            limits,
            connections_max,
            connection_bytes_max,
            server_bytes_max,
            deadline_max,
            drain_wait,
            drain_max,
        },
        policies,
    }
}

/// The limits of fields and batches.
fn field_limits(
    settings: &Settings,
    number: &mut impl FnMut(&str, Option<usize>, usize, usize, usize) -> usize,
) -> Limits {
    let usual = Limits::default();
    Limits {
        consumer: number("consumer_bytes_max", settings.consumer_bytes_max, usual.consumer, 1, 1_024),
        source: number("source_bytes_max", settings.source_bytes_max, usual.source, 1, 1_024),
        id: number("id_bytes_max", settings.id_bytes_max, usual.id, 1, 4_096),
        owner: number("owner_bytes_max", settings.owner_bytes_max, usual.owner, 1, 1_024),
        fingerprint: number(
            "fingerprint_bytes_max",
            settings.fingerprint_bytes_max,
            usual.fingerprint,
            1,
            256,
        ),
        error: number("error_bytes_max", settings.error_bytes_max, usual.error, 64, 65_536),
        result: number("result_bytes_max", settings.result_bytes_max, usual.result, 0, 1_048_576),
        checkpoint: number(
            "checkpoint_bytes_max",
            settings.checkpoint_bytes_max,
            usual.checkpoint,
            0,
            1_048_576,
        ),
        batch_items: number("batch_items_max", settings.batch_items_max, usual.batch_items, 1, 1_000),
        batch_bytes: number(
            "batch_bytes_max",
            settings.batch_bytes_max,
            usual.batch_bytes,
            65_536,
            16_777_216,
        ),
    }
}

/// The largest batch must fit whatever it goes through.
fn batches_fit(
    (queue_max, queue_bytes_max, connection_bytes_max, server_bytes_max): (usize, usize, usize, usize),
    limits: &Limits,
    problems: &mut Vec<String>,
) {
    if queue_max * 5 / 8 < limits.batch_items {
        problems.push(format!(
            "queue_max: is {queue_max}, must be at least {} so that a batch of {} claims (batch_items_max) fits",
            (limits.batch_items * 8).div_ceil(5),
            limits.batch_items
        ));
    }
    if queue_bytes_max / 8 * 5 < limits.batch_bytes {
        problems.push(format!(
            "queue_bytes_max: is {queue_bytes_max}, must be at least {} so that the claims of a batch of {} bytes \
             (batch_bytes_max) fit",
            limits.batch_bytes.div_ceil(5) * 8,
            limits.batch_bytes
        ));
    }
    if connection_bytes_max < limits.batch_bytes {
        problems.push(format!(
            "connection_bytes_max: is {connection_bytes_max}, must be at least {} so that the largest request \
             (batch_bytes_max) fits",
            limits.batch_bytes
        ));
    }
    if server_bytes_max < connection_bytes_max {
        problems.push(format!(
            "server_bytes_max: is {server_bytes_max}, must be at least {connection_bytes_max}, the bytes of one \
             connection (connection_bytes_max)"
        ));
    }
}

/// Reads `database_url`.
///
/// # Errors
/// What is wrong with it, without a password it may contain.
pub fn database(url: Option<&str>) -> Result<Database, String> {
    let given = url.unwrap_or(DATABASE_URL_DEFAULT);
    if given.starts_with("postgres://") || given.starts_with("postgresql://") {
        return Ok(Database::Postgres { url: given.to_owned() });
    }
    match given.strip_prefix("sqlite://") {
        Some(path) if !path.is_empty() && !path.contains('?') && !path.contains(":memory:") => {
            Ok(Database::Sqlite { path: PathBuf::from(path), by_default: url.is_none() })
        }
        Some(_) => {
            Err("database_url: sqlite:// must be followed by the path of a file, without options".into())
        }
        None => Err("database_url: must start with sqlite:// or postgres://".into()),
    }
}

fn policies(file: &File, problems: &mut Vec<String>) -> Policies {
    let mut checked = |section: &str, policy: Policy| {
        if let Err(errors) = policy.validate() {
            problems.extend(errors.iter().map(|error| format!("{section}.{error}")));
        }
        policy
    };
    let default = checked("policy", file.policy.clone().resolve());
    let own = file.consumers.iter().map(|(name, own)| {
        let merged = own.clone().or(&file.policy);
        (name.clone(), checked(&format!("consumers.{name:?}"), merged.resolve()))
    });
    let own: BTreeMap<String, Policy> = own.collect();
    if own.contains_key("") {
        problems.push("consumers: a consumer's name is empty".into());
    }
    Policies::new(default, own)
}

impl PolicyFile {
    fn or(self, lower: &PolicyFile) -> PolicyFile {
        PolicyFile {
            lease: self.lease.or(lower.lease),
            max_lease: self.max_lease.or(lower.max_lease),
            max_hold: self.max_hold.or(lower.max_hold),
            reclaim_grace: self.reclaim_grace.or(lower.reclaim_grace),
            on_expiry: self.on_expiry.or(lower.on_expiry),
            max_attempts: self.max_attempts.or(lower.max_attempts),
            backoff: BackoffFile {
                initial: self.backoff.initial.or(lower.backoff.initial),
                multiplier: self.backoff.multiplier.or(lower.backoff.multiplier),
                max: self.backoff.max.or(lower.backoff.max),
                jitter: self.backoff.jitter.or(lower.backoff.jitter),
            },
            retention: self.retention.or(lower.retention),
            failed_retention: self.failed_retention.or(lower.failed_retention),
            abandoned_retention: self.abandoned_retention.or(lower.abandoned_retention),
            result_retention: self.result_retention.or(lower.result_retention),
            max_redelivery_window: self.max_redelivery_window.or(lower.max_redelivery_window),
            accept_risk: self.accept_risk.or(lower.accept_risk),
            reason: self.reason.or_else(|| lower.reason.clone()),
            fingerprint: self.fingerprint.or(lower.fingerprint),
            disabled: self.disabled.or(lower.disabled),
            claims_per_second: self.claims_per_second.or(lower.claims_per_second),
        }
    }

    /// With the defaults of the contract's section 8.
    fn resolve(self) -> Policy {
        let usual = Policy::default();
        let span =
            |human: Option<Human>, default: Span| human.map_or(default, |human| Span::from_std(human.0));
        let retention = span(self.retention, usual.retention);
        let max_redelivery_window = span(self.max_redelivery_window, usual.max_redelivery_window);
        let month = Span::from_days(30).max(retention);
        let accepted = self.accept_risk.unwrap_or(false);
        Policy {
            version: usual.version,
            lease: span(self.lease, usual.lease),
            max_lease: span(self.max_lease, usual.max_lease),
            max_hold: span(self.max_hold, usual.max_hold),
            reclaim_grace: span(self.reclaim_grace, usual.reclaim_grace),
            on_expiry: self.on_expiry.unwrap_or(usual.on_expiry),
            max_attempts: self.max_attempts.unwrap_or(usual.max_attempts),
            backoff: Backoff {
                initial: span(self.backoff.initial, usual.backoff.initial),
                multiplier: self.backoff.multiplier.unwrap_or(usual.backoff.multiplier),
                max: span(self.backoff.max, usual.backoff.max),
                jitter: self.backoff.jitter.unwrap_or(usual.backoff.jitter),
            },
            retention,
            failed_retention: span(self.failed_retention, month),
            abandoned_retention: span(self.abandoned_retention, month.max(max_redelivery_window)),
            result_retention: span(self.result_retention, retention),
            max_redelivery_window,
            accepted_risk: self.reason.filter(|reason| accepted && !reason.trim().is_empty()),
            fingerprint: self.fingerprint.unwrap_or(usual.fingerprint),
            disabled: self.disabled.unwrap_or(usual.disabled),
            claims_per_second: self.claims_per_second.unwrap_or(usual.claims_per_second),
            window_floor: usual.window_floor,
            doubt: usual.doubt,
        }
    }
}
