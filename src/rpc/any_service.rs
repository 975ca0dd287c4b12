//! Any service behind the HTTP door: for the conformance suite of Connect alone.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use prost_reflect::DescriptorPool;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tower::Service;

use super::door::{Hosts, HttpDoor, Methods, Translated};
use super::edge::auth::CallOrigin;
use super::edge::layer::{Edge, EdgeOptions};
use super::edge::methods::methods;
use super::edge::waits::HttpWaits;
use crate::accounts::{AccountLimits, Accounts, PrincipalLimits};
use crate::identity::{Authenticator, Guard, Trust};
use crate::listener::{self, AcceptOptions, ConnectionLimits, ConnectionPermits, Protocols};
use crate::metrics::Metrics;
use crate::traces::Traces;

/// Serves a service, of this full name in the pool, until the process ends.
///
/// # Errors
/// The server cannot start.
pub async fn serve<S>(
    listener: TcpListener,
    service: S,
    pool: &DescriptorPool,
    name: &str,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>>
where
    S: Service<Request<Body>, Response = Response<Body>, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
{
    let deadline_max = Duration::from_secs(30);
    let message_bytes_max = 4 << 20;
    let metrics = Metrics::new()?;
    let calls = metrics.calls(methods()?)?;
    let limits = AccountLimits {
        connection_bytes_max: 16 << 20,
        server_bytes_max: 256 << 20,
        message_bytes_max,
        principals: PrincipalLimits::default(),
        stall_max: Duration::from_secs(10),
    };
    let accounts = Accounts::new(limits, metrics.clone(), Box::new(|_| Ok(())));
    let methods = Methods::of(pool, &[name]);
    let guard = Guard::new(Trust::default());
    let options =
        EdgeOptions { deadline_max, bytes_max: message_bytes_max, slow_call: deadline_max, bare: true };
    let (doors, waits) = (guard.clone(), HttpWaits::new(1_000, 0));
    let service_of = move |peer, account: Arc<_>, leaving| {
        let entrance =
            CallOrigin::new(Authenticator::new(doors.clone(), peer), Arc::clone(&account), &waits, leaving);
        let services = Translated::new(service.clone());
        let edge = Edge::new(services, options, &calls, entrance, Traces::off());
        HttpDoor::new(edge, account, doors.clone(), methods.clone(), Hosts::default()).of_another_service()
    };
    let limits = ConnectionLimits::default();
    let permits = ConnectionPermits::new(1_000, limits);
    let options =
        AcceptOptions { protocols: Protocols::Http, permits, limits, call_max: deadline_max, accounts };
    listener::run(listener, options, guard, service_of, metrics, CancellationToken::new()).await;
    Ok(())
}
