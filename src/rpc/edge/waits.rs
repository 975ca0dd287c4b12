//! Calls that wait, of one connection. A connection has 256 streams, and clients of grpc-go and grpc-java queue what goes
//! beyond: were all of them taken by calls that wait, the client's own Complete would wait behind them. A call of HTTP/1.1
//! holds its connection while it waits: half of the connections, and half of an address's share, are left to others.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::accounts::ConnectionAccount;
use crate::listener::{Addresses, FromAddress};

/// The calls of HTTP/1.1 that wait on this server.
pub(crate) struct HttpWaits {
    count: AtomicUsize,
    max: usize,
    /// `None` if an address may have any number of connections.
    by_address: Option<Addresses>,
}

impl HttpWaits {
    /// Where there are this many connections at most, and of one address; zero: any number of them.
    pub(crate) fn new(connections_max: usize, per_address_max: usize) -> Arc<HttpWaits> {
        let by_address = (per_address_max > 0).then(|| Addresses::new(per_address_max / 2));
        Arc::new(HttpWaits { count: AtomicUsize::new(0), max: connections_max / 2, by_address })
    }

    fn take(self: &Arc<HttpWaits>, address: IpAddr) -> Option<HttpPlace> {
        let of_address = match &self.by_address {
            Some(addresses) => Some(addresses.connected(address)?),
            None => None,
        };
        let room = |count: usize| (count < self.max).then_some(count + 1);
        self.count.fetch_update(Relaxed, Relaxed, room).ok()?;
        Some(HttpPlace { of: Arc::clone(self), _of_address: of_address })
    }
}

/// The place of a call of HTTP/1.1 that waits, until this is dropped.
struct HttpPlace {
    of: Arc<HttpWaits>,
    _of_address: Option<FromAddress>,
}

impl Drop for HttpPlace {
    fn drop(&mut self) {
        self.of.count.fetch_sub(1, Relaxed);
    }
}

/// The place of a call that waits, until this is dropped.
pub(crate) struct WaitPlace {
    connection: Arc<ConnectionAccount>,
    _http: Option<HttpPlace>,
}

impl WaitPlace {
    /// A place of this connection. `http`: where it is one of HTTP/1.1. `None` if there is none.
    pub(crate) fn take(
        connection: &Arc<ConnectionAccount>,
        http: Option<&Arc<HttpWaits>>,
    ) -> Option<WaitPlace> {
        let http = match http {
            Some(http) => Some(http.take(connection.address())?),
            None => None,
        };
        connection.begin_wait().then(|| WaitPlace { connection: Arc::clone(connection), _http: http })
    }
}

impl Drop for WaitPlace {
    fn drop(&mut self) {
        self.connection.end_wait();
    }
}
