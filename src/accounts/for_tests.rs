//! Limits and accounts of a small server, for unit tests of this and other rooms.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{AccountLimits, Accounts, ConnectionAccount, PrincipalLimits};
use crate::metrics::Metrics;

pub(crate) const LIMITS: AccountLimits = AccountLimits {
    connection_bytes_max: 1 << 18,
    server_bytes_max: 4 << 20,
    message_bytes_max: 1 << 16,
    principals: PrincipalLimits { calls_max: 0, calls_per_second: 0, bytes_max: 0 },
    stall_max: Duration::from_secs(10),
};

/// The accounts of a server with these limits.
pub(crate) fn accounts(limits: AccountLimits) -> Accounts {
    Accounts::new(limits, Metrics::new().expect("metrics"), Box::new(|_| Ok(())))
}

/// The account of a connection to a separate server.
pub(crate) fn connection() -> Arc<ConnectionAccount> {
    let address = IpAddr::from([192, 0, 2, 1]);
    ConnectionAccount::new(&accounts(LIMITS), address, CancellationToken::new())
}
