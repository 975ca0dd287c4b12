//! Limits on the waiting calls of one connection. A connection has 256 streams, and clients of grpc-go and
//! grpc-java queue calls beyond that: if waiting calls took all streams, the client's own Complete would wait
//! behind them. A waiting HTTP/1.1 call occupies its connection: half of the connections, and half of an
//! address's share, are left to other calls.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::accounts::ConnectionAccount;
use crate::common::still_counted::StillCounted;
use crate::listener::{Addresses, FromAddress};

/// The waiting HTTP/1.1 calls of this server.
pub(crate) struct HttpWaits {
    count: AtomicUsize,
    max: usize,
    /// `None` if an address may have any number of connections.
    by_address: Option<Addresses>,
}

impl HttpWaits {
    /// For these maximum numbers of connections, of the server and of one address; zero if unlimited.
    pub(crate) fn new(connections_max: usize, per_address_max: usize) -> Arc<HttpWaits> {
        let by_address = (per_address_max > 0).then(|| Addresses::new(per_address_max / 2));
        Arc::new(HttpWaits { count: AtomicUsize::new(0), max: connections_max / 2, by_address })
    }

    /// Returns the counts of waiting HTTP/1.1 calls that are not zero, after all of these calls have ended.
    pub(crate) fn still_counted(&self) -> StillCounted {
        let mut left = StillCounted::default();
        left.note("waiting calls of HTTP/1.1", self.count.load(Relaxed));
        left.note(
            "waiting calls of HTTP/1.1 by address",
            self.by_address.as_ref().map_or(0, Addresses::count),
        );
        left
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

/// The permit of a waiting HTTP/1.1 call, until this is dropped.
struct HttpPlace {
    of: Arc<HttpWaits>,
    _of_address: Option<FromAddress>,
}

impl Drop for HttpPlace {
    fn drop(&mut self) {
        self.of.count.fetch_sub(1, Relaxed);
    }
}

/// The permit of a waiting call, until this is dropped.
pub(crate) struct WaitPlace {
    connection: Arc<ConnectionAccount>,
    _http: Option<HttpPlace>,
}

impl WaitPlace {
    /// Takes a permit of this connection. `http` if the call uses HTTP/1.1. `None` if all permits are taken.
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
