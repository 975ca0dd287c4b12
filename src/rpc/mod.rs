//! The edge: gRPC, and the HTTP door before it. No SQL, no rules.

mod admin;
#[doc(hidden)]
pub mod any_service;
mod door;
mod edge;
mod inbox;
mod ledger;
#[doc(hidden)]
pub mod measured;
mod waiting;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{self, OptionFuture};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tonic::codec::CompressionEncoding::Gzip;
use tonic::service::Routes;
use tonic_health::pb::health_server::HealthServer;

use self::admin::AdminRpc;
use self::door::{HttpDoor, Methods, Translated};
use self::edge::auth::CallOrigin;
use self::edge::health::HealthState;
use self::edge::layer::{Edge, EdgeOptions};
use self::edge::methods::methods;
use self::edge::services::Services;
use self::edge::waits::HttpWaits;
use self::ledger::LedgerRpc;
use crate::accounts::{AccountLimits, Accounts, RoomForClaims};
use crate::identity::{Authenticator, Guard};
use crate::ledger::Ledger;
use crate::listener::{self, AcceptOptions, ConnectionPermits, Protocols};
use crate::proto;
use crate::proto::admin_service_server::AdminServiceServer;
use crate::proto::ledger_service_server::LedgerServiceServer;
use crate::traces::Traces;

pub use self::door::Hosts;
pub use crate::accounts::PrincipalLimits;
pub(crate) use crate::accounts::{CALL_OVERHEAD_MAX, network};
pub use crate::listener::ConnectionLimits;
pub(crate) use crate::listener::{Addresses, FromAddress};
pub use crate::wire::fields::Limits;
pub(crate) use crate::wire::policy::{message as policy_message, stated as stated_policy};

/// How the server behaves at its edge.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// The limits of fields and batches.
    pub limits: Limits,
    /// The maximum number of open connections.
    pub connections_max: usize,
    /// The maximum number of connections of one address, and their lifetime.
    pub connections: ConnectionLimits,
    /// The limits of each principal.
    pub principals: PrincipalLimits,
    /// The bytes that the requests in progress of one connection may take.
    pub connection_bytes_max: usize,
    /// The bytes that the requests in progress of all connections may take; their answers may take half as
    /// many.
    pub server_bytes_max: usize,
    /// How long a message of a request or an answer may make no progress.
    pub stall_max: Duration,
    /// The deadline of a call that states none, and the longest of any call.
    pub deadline_max: Duration,
    /// A call that takes at least this long is logged as slow.
    pub slow_call: Duration,
    /// How long the server goes on serving after it reports that it will stop.
    pub drain_wait: Duration,
    /// How long the calls in progress may take after that.
    pub drain_max: Duration,
    /// How long a call may wait for another verdict.
    pub max_wait: Duration,
    /// Whether reflection is offered.
    pub reflection: bool,
}

impl ServeOptions {
    fn edge(&self) -> EdgeOptions {
        EdgeOptions {
            deadline_max: self.deadline_max,
            bytes_max: self.limits.batch_bytes,
            slow_call: self.slow_call,
            bare: false,
        }
    }

    /// The limit that refuses a batch of claims before it is decoded. A batch beyond every limit is refused
    /// for its size.
    fn room_for_claims(&self, ledger: &Ledger) -> RoomForClaims {
        let (ledger, most) = (ledger.clone(), self.limits.batch_items);
        Box::new(move |claims| if claims <= most { ledger.room_for_claims(claims) } else { Ok(()) })
    }

    /// The bounds of the memory of calls.
    fn account_limits(&self) -> AccountLimits {
        AccountLimits {
            connection_bytes_max: self.connection_bytes_max,
            server_bytes_max: self.server_bytes_max,
            message_bytes_max: self.limits.batch_bytes,
            principals: self.principals,
            stall_max: self.stall_max,
        }
    }
}

/// Where a server listens.
#[derive(Debug)]
pub struct Listeners {
    /// For consumers; also for operators, where `admin` is not set.
    pub public: TcpListener,
    /// For operators.
    pub admin: Option<TcpListener>,
    /// The HTTP door of `public`.
    pub http: Option<TcpListener>,
    /// That of `admin`.
    pub admin_http: Option<TcpListener>,
    /// The host names by which the HTTP doors may be called where callers are anonymous.
    pub hosts: Hosts,
}

/// Which services of the ledger a listener has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offered {
    Both,
    Ledger,
    Admin,
}

impl Offered {
    fn services(self) -> Vec<&'static str> {
        self.ledger().into_iter().chain(self.admin()).collect()
    }

    fn ledger(self) -> Option<&'static str> {
        (self != Offered::Admin).then_some(LEDGER_SERVICE)
    }

    fn admin(self) -> Option<&'static str> {
        (self != Offered::Ledger).then_some(ADMIN_SERVICE)
    }
}

const LEDGER_SERVICE: &str = "idempotency.ledger.v1.LedgerService";
const ADMIN_SERVICE: &str = "idempotency.ledger.v1.AdminService";
/// Operators are few, and must be able to connect while consumers use all other connections.
const ADMIN_CONNECTIONS_MAX: usize = 256;

/// How often it is looked for counts that were not returned before they are reported, and how long between two looks.
const LOOKS: usize = 100;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The largest request of the services other than the ledger's own: a name.
const NAME_BYTES_MAX: usize = 8 * 1_024;

/// Serves until `stop` resolves, and then drains: reports `NOT_SERVING`, waits, ends the streams, and
/// finishes the accepted calls. Returns whether that was done in time. `guard` authenticates callers, and
/// `traces` decides which calls are recorded.
///
/// # Errors
/// Those of the transport.
pub async fn serve(
    listeners: Listeners,
    ledger: Ledger,
    guard: Guard,
    options: ServeOptions,
    traces: Traces,
    stop: impl Future<Output = ()> + Send,
) -> Result<bool, BoxError> {
    let health = HealthState::new(&[LEDGER_SERVICE, ADMIN_SERVICE]);
    let _follow = AbortOnDropHandle::new(tokio::spawn(follow(health.clone(), ledger.clone())));
    let closing = CancellationToken::new();
    let accounts =
        Accounts::new(options.account_limits(), ledger.metrics().clone(), options.room_for_claims(&ledger));
    ledger.metrics().upkeep().held_bytes_by(accounts.request_bytes(), accounts.answer_bytes());
    let _rules = AbortOnDropHandle::new(accounts.enforce());
    let edge = options.edge();
    let calls = Arc::new(ledger.metrics().calls(methods()?)?);
    let waits = HttpWaits::new(options.connections_max, options.connections.per_address_max);
    let accept = |permits: &ConnectionPermits, protocols| AcceptOptions {
        protocols,
        permits: permits.clone(),
        limits: options.connections,
        call_max: options.deadline_max,
        accounts: accounts.clone(),
    };
    let listening = |listener, permits: &ConnectionPermits, offered| {
        let others = others(&ledger, &health, &options, offered)?;
        let (called, doors, calls) = (ledger.clone(), guard.clone(), Arc::clone(&calls));
        let (traces, waits) = (traces.clone(), Arc::clone(&waits));
        // The state that a connection's calls update at every poll belongs to the connection: no other core needs
        // it.
        let service_of = move |peer, account, leaving| {
            let first = offered.ledger().map(|_| ledger_service(called.clone(), &options));
            let services = Services::new(first, others.clone());
            let origin = CallOrigin::new(Authenticator::new(doors.clone(), peer), account, &waits, leaving);
            Edge::new(services, edge, &calls, origin, traces.clone())
        };
        let accept = accept(permits, Protocols::Grpc);
        let (metrics, closing) = (ledger.metrics().clone(), closing.clone());
        let run = listener::run(listener, accept, guard.clone(), service_of, metrics, closing);
        Ok::<_, BoxError>(run)
    };
    let hosts = listeners.hosts;
    let by_http = |listener, permits: &ConnectionPermits, offered: Offered| {
        let others = others(&ledger, &health, &options, offered)?;
        let methods = Methods::of(proto::pool()?, &offered.services());
        let (called, doors, calls, hosts) =
            (ledger.clone(), guard.clone(), Arc::clone(&calls), hosts.clone());
        let (traces, waits) = (traces.clone(), Arc::clone(&waits));
        let service_of = move |peer, account: Arc<_>, leaving| {
            let first = offered.ledger().map(|_| ledger_service(called.clone(), &options));
            let services = Translated::new(Services::new(first, others.clone()));
            let authenticator = Authenticator::new(doors.clone(), peer);
            let origin = CallOrigin::new(authenticator, Arc::clone(&account), &waits, leaving);
            let edge =
                Edge::new(services, EdgeOptions { bare: true, ..edge }, &calls, origin, traces.clone());
            HttpDoor::new(edge, account, doors.clone(), methods.clone(), hosts.clone())
        };
        let accept = accept(permits, Protocols::Http);
        let (metrics, closing) = (ledger.metrics().clone(), closing.clone());
        let run = listener::run(listener, accept, guard.clone(), service_of, metrics, closing);
        Ok::<_, BoxError>(run)
    };
    let offered = if listeners.admin.is_some() { Offered::Ledger } else { Offered::Both };
    // The HTTP connections take permits from the same pool: there are no further file descriptors.
    let permits = ConnectionPermits::new(options.connections_max, options.connections);
    let admin_permits = ConnectionPermits::new(ADMIN_CONNECTIONS_MAX, options.connections);
    let public = listening(listeners.public, &permits, offered)?;
    let http = listeners.http.map(|listener| by_http(listener, &permits, offered)).transpose()?;
    let admin =
        listeners.admin.map(|listener| listening(listener, &admin_permits, Offered::Admin)).transpose()?;
    let admin_http = listeners.admin_http.map(|listener| by_http(listener, &admin_permits, Offered::Admin));
    let (http, admin) = (OptionFuture::from(http), OptionFuture::from(admin));
    let admin_http = OptionFuture::from(admin_http.transpose()?);
    let server = tokio::spawn(future::join4(public, http, admin, admin_http));
    tokio::pin!(server);
    tokio::select! {
        () = stop => {}
        ended = &mut server => {
            ended?;
            return Err("the server ended by itself".into());
        }
    }
    tracing::info!(wait = ?options.drain_wait, "draining: not serving any more");
    health.drain();
    sleep(options.drain_wait).await;
    health.end();
    ledger.drain();
    closing.cancel();
    let drain = async {
        let ended = server.as_mut().await;
        ledger.stop().await;
        ended
    };
    let Ok(ended) = timeout(options.drain_max, drain).await else {
        tracing::warn!(within = ?options.drain_max, "calls were still under way when the time was over");
        return Ok(false);
    };
    ended?;
    drained(&accounts, &ledger, [&permits, &admin_permits], &waits).await;
    Ok(true)
}

/// Logs the end of the drain, and what is still counted although the last client has gone: tests fail by it. The task of a call
/// whose connection has ended may still be ending, so that counts have some time to be returned.
async fn drained(accounts: &Accounts, ledger: &Ledger, permits: [&ConnectionPermits; 2], waits: &HttpWaits) {
    tracing::info!("drained");
    let still_counted = || {
        let mut left = accounts.still_counted();
        left.extend(ledger.still_counted());
        for permits in permits {
            left.extend(permits.still_counted());
        }
        left.extend(waits.still_counted());
        left
    };
    for _ in 0..LOOKS {
        if still_counted().is_empty() {
            return;
        }
        sleep(BETWEEN_LOOKS).await;
    }
    let left = still_counted();
    tracing::error!(%left, "counted although all clients are gone, a bug of this server: please report it");
    debug_assert!(left.is_empty(), "counted although all clients are gone: {left}");
}

/// Reports the result of the store's probe to the health service.
async fn follow(health: HealthState, ledger: Ledger) {
    let mut healthy = ledger.health();
    loop {
        let now = *healthy.borrow_and_update();
        health.set_serving(now);
        if healthy.changed().await.is_err() {
            return;
        }
    }
}

fn ledger_service(ledger: Ledger, options: &ServeOptions) -> LedgerServiceServer<LedgerRpc> {
    let (limits, max_wait) = (options.limits, options.max_wait);
    LedgerServiceServer::new(LedgerRpc { ledger, limits, max_wait })
        .max_decoding_message_size(limits.batch_bytes)
        .accept_compressed(Gzip)
        .send_compressed(Gzip)
}

/// All services except the ledger's own.
fn others(
    ledger: &Ledger,
    health: &HealthState,
    options: &ServeOptions,
    offered: Offered,
) -> Result<Routes, tonic_reflection::server::Error> {
    let bytes_max = options.limits.batch_bytes;
    // Its answers are never compressed: health checks that clients of gRPC's core make by themselves
    // advertise gzip, but cannot read it. No server would then be healthy.
    let health_service =
        HealthServer::new(health.clone()).max_decoding_message_size(NAME_BYTES_MAX).accept_compressed(Gzip);
    let mut routes = Routes::new(health_service);
    if offered.admin().is_some() {
        let operators = ledger.operators().clone();
        let admin_service = AdminServiceServer::new(AdminRpc { operators, limits: options.limits })
            .max_decoding_message_size(bytes_max)
            .accept_compressed(Gzip)
            .send_compressed(Gzip);
        routes = routes.add_service(admin_service);
    }
    if options.reflection {
        routes = with_reflection(routes, offered)?;
    }
    Ok(routes.prepare())
}

/// Reflection, both versions: it lists the services of this listener.
fn with_reflection(routes: Routes, offered: Offered) -> Result<Routes, tonic_reflection::server::Error> {
    let descriptors = || {
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            // The details of errors, so that command line tools can show them.
            .register_encoded_file_descriptor_set(tonic_types::pb::FILE_DESCRIPTOR_SET);
        let others = ["grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"];
        let alpha = "grpc.reflection.v1alpha.ServerReflection";
        let names = offered.ledger().into_iter().chain(offered.admin()).chain(others).chain([alpha]);
        names.fold(builder, tonic_reflection::server::Builder::with_service_name)
    };
    let reflection = descriptors()
        .build_v1()?
        .max_decoding_message_size(NAME_BYTES_MAX)
        .accept_compressed(Gzip)
        .send_compressed(Gzip);
    let reflection_alpha = descriptors()
        .build_v1alpha()?
        .max_decoding_message_size(NAME_BYTES_MAX)
        .accept_compressed(Gzip)
        .send_compressed(Gzip);
    Ok(routes.add_service(reflection).add_service(reflection_alpha))
}
