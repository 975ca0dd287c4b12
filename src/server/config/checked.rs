//! The settings, checked as a whole.

use std::net::SocketAddr;
use std::time::Duration;

use super::database::{Database, database};
use super::settings::Settings;
use crate::duration_arg::DurationArg;
use crate::ledger::{LedgerOptions, Policies, PurgeOptions};
use crate::rpc::{Limits, ServeOptions};

/// Within this time a hold is in force everywhere: older policies grant nothing after it. They are asked for once
/// a second.
const POLICIES_TRUSTED_FOR: Duration = Duration::from_secs(10);

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

/// A configuration; what is wrong with it is added to the problems, each with the setting's name.
pub(super) fn settings(settings: &Settings, policies: Policies, problems: &mut Vec<String>) -> Config {
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
    let purge_batch = number("purge_batch", settings.purge_batch, 500, 1, 1_000);
    batches_fit((queue_max, queue_bytes_max, connection_bytes_max, server_bytes_max), &limits, problems);
    let mut time =
        |name: &str, value: Option<DurationArg>, default: Duration, min: Duration, max: Duration| {
            let value = value.map_or(default, Duration::from);
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
    let purge_every = time("purge_every", settings.purge_every, Duration::from_secs(10), tenth, day);
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
            purge: PurgeOptions {
                every: purge_every,
                batch: purge_batch,
                audit_retention,
                ..PurgeOptions::default()
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
