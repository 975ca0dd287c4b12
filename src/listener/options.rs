//! The settings of a listener and of its connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::addresses::Addresses;
use crate::accounts::Accounts;
use crate::common::still_counted::StillCounted;

/// Limits of the number and lifetime of connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionLimits {
    /// Connections of one address, or of one IPv6 /64 network; zero: no limit but that of all connections.
    pub per_address_max: usize,
    /// Longest time without a call; `None` for no limit.
    pub idle_max: Option<Duration>,
    /// Longest lifetime, give or take a tenth; `None` for no limit.
    pub age_max: Option<Duration>,
    /// Grace period of its streams after that.
    pub age_grace: Duration,
}

/// The protocols that a listener accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocols {
    /// gRPC, which is HTTP/2.
    Grpc,
    /// HTTP/1.1 and HTTP/2.
    Http,
}

/// The permits of open connections, in all and for each address.
#[derive(Clone)]
pub(crate) struct ConnectionPermits {
    max: usize,
    pub(super) all: Arc<Semaphore>,
    pub(super) by_address: Option<Addresses>,
}

impl ConnectionPermits {
    pub(crate) fn new(connections_max: usize, limits: ConnectionLimits) -> ConnectionPermits {
        let by_address = (limits.per_address_max > 0).then(|| Addresses::new(limits.per_address_max));
        let all = Arc::new(Semaphore::new(connections_max));
        ConnectionPermits { max: connections_max, all, by_address }
    }

    /// Returns the counts of connections that are not zero, after all connections have ended.
    pub(crate) fn still_counted(&self) -> StillCounted {
        let mut left = StillCounted::default();
        left.note("permits of connections", self.max.saturating_sub(self.all.available_permits()));
        left.note("connections by address", self.by_address.as_ref().map_or(0, Addresses::count));
        left
    }
}

/// The options of a listener.
#[derive(Clone)]
pub(crate) struct AcceptOptions {
    /// The protocols that the listener accepts.
    pub(crate) protocols: Protocols,
    /// The connection permits of the listener, which it may share with another one.
    pub(crate) permits: ConnectionPermits,
    pub(crate) limits: ConnectionLimits,
    /// How long a call may take that is not a stream.
    pub(crate) call_max: Duration,
    /// The accounts of the calls of all connections.
    pub(crate) accounts: Accounts,
}
