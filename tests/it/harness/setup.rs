//! How the server of a test is set up.

use std::collections::BTreeMap;
use std::time::Duration;

use idempotency_ledger::domain::Policy;
use idempotency_ledger::identity::{Guard, Trust};
use idempotency_ledger::ledger::{InboxOptions, PurgeOptions, WaitBounds};
use idempotency_ledger::rpc::{ConnectionLimits, Hosts, Limits, PrincipalLimits};

/// How a test's server differs from the usual one.
#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) default: Policy,
    pub(crate) own: BTreeMap<String, Policy>,
    pub(crate) registered_only: bool,
    pub(crate) window_required: bool,
    pub(crate) policies_trusted_for: Duration,
    pub(crate) limits: Limits,
    pub(crate) purge_every: Duration,
    pub(crate) count_every: Duration,
    pub(crate) audit_retention: Duration,
    pub(crate) batch_max: usize,
    pub(crate) queue_max: usize,
    pub(crate) queue_bytes_max: usize,
    pub(crate) connection_bytes_max: usize,
    pub(crate) server_bytes_max: usize,
    pub(crate) stall_max: Duration,
    pub(crate) connections_max: usize,
    pub(crate) connections: ConnectionLimits,
    pub(crate) principals: PrincipalLimits,
    pub(crate) guard: Guard,
    pub(crate) admin: Option<std::net::SocketAddr>,
    pub(crate) admin_http: Option<std::net::SocketAddr>,
    pub(crate) hosts: Hosts,
    pub(crate) reflection: bool,
    pub(crate) max_wait: Duration,
    pub(crate) waits: WaitBounds,
    pub(crate) inbox_sessions: usize,
    pub(crate) inbox_bytes_max: u64,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            default: Policy::default(),
            own: BTreeMap::new(),
            registered_only: false,
            window_required: false,
            policies_trusted_for: Duration::from_secs(60),
            limits: Limits::default(),
            purge_every: Duration::from_secs(86_400),
            count_every: Duration::from_secs(60),
            audit_retention: PurgeOptions::default().audit_retention,
            batch_max: super::server::batch_max(),
            queue_max: 8_192,
            queue_bytes_max: 64 << 20,
            connection_bytes_max: 16 << 20,
            server_bytes_max: 256 << 20,
            stall_max: Duration::from_secs(10),
            connections_max: 10_000,
            connections: ConnectionLimits::default(),
            principals: PrincipalLimits::default(),
            guard: Guard::new(Trust::default()),
            admin: None,
            admin_http: None,
            hosts: Hosts::default(),
            reflection: true,
            max_wait: Duration::from_secs(10),
            waits: WaitBounds::default(),
            inbox_sessions: 1,
            inbox_bytes_max: 10 << 30,
        }
    }
}

impl Setup {
    /// With a policy of its own for a consumer.
    pub(crate) fn with(mut self, consumer: &str, policy: Policy) -> Setup {
        policy.validate().unwrap();
        self.own.insert(consumer.to_owned(), policy);
        self
    }

    pub(super) fn inbox(&self) -> InboxOptions {
        InboxOptions {
            sessions: self.inbox_sessions,
            bytes_max: self.inbox_bytes_max,
            queue_max: self.queue_max,
            queue_bytes_max: self.queue_bytes_max,
            waits: self.waits,
        }
    }
}
