//! What is set for connections.

use std::time::Duration;

use crate::rpc::edge::account::Accounts;

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

/// What holds for connections.
#[derive(Clone)]
pub(crate) struct AcceptOptions {
    /// How many there may be at once.
    pub(crate) connections_max: usize,
    pub(crate) limits: ConnectionLimits,
    /// How long a call may take that is no stream.
    pub(crate) call_max: Duration,
    /// What the calls of all connections hold.
    pub(crate) accounts: Accounts,
}
