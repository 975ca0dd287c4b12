//! What is set for connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::addresses::Addresses;
use crate::accounts::Accounts;

/// How many connections each address may have, and for how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionLimits {
    /// How many of one address, or of one /64 network of IPv6; zero: as many as may be open.
    pub per_address_max: usize,
    /// How long one may be without a call; none: for ever.
    pub idle_max: Option<Duration>,
    /// How long one may be open, give or take a tenth; none: for ever.
    pub age_max: Option<Duration>,
    /// How long its streams go on after that.
    pub age_grace: Duration,
}

/// What a listener takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// gRPC, which is HTTP/2.
    Grpc,
    /// HTTP/1.1 and HTTP/2.
    Http,
}

/// How many connections there may be at once, and how many of each address.
#[derive(Clone)]
pub(crate) struct Places {
    pub(super) all: Arc<Semaphore>,
    pub(super) by_address: Option<Addresses>,
}

impl Places {
    pub(crate) fn new(connections_max: usize, limits: ConnectionLimits) -> Places {
        let by_address = (limits.per_address_max > 0).then(|| Addresses::new(limits.per_address_max));
        Places { all: Arc::new(Semaphore::new(connections_max)), by_address }
    }
}

/// What holds for connections.
#[derive(Clone)]
pub(crate) struct AcceptOptions {
    /// What the listener takes.
    pub(crate) takes: Takes,
    /// The places of the listener, and of another one that shares them.
    pub(crate) places: Places,
    pub(crate) limits: ConnectionLimits,
    /// How long a call may take that is no stream.
    pub(crate) call_max: Duration,
    /// What the calls of all connections hold.
    pub(crate) accounts: Accounts,
}
