//! The edge: gRPC. No SQL, no rules.

mod accept;
mod admin;
mod auth;
mod bulk;
mod convert;
mod edge;
mod entries;
mod errors;
mod fields;
mod fit;
mod health;
mod ledger;
mod operate;
mod policies;
pub mod proto;
mod retention;
mod summary;
mod token_offset;

use std::future::Future;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};
use tonic::codec::CompressionEncoding::Gzip;
use tonic::transport::Server;
use tonic_health::pb::health_server::HealthServer;

use self::admin::AdminRpc;
use self::edge::EdgeLayer;
use self::health::HealthState;
use self::ledger::LedgerRpc;
use self::proto::admin_service_server::AdminServiceServer;
use self::proto::ledger_service_server::LedgerServiceServer;
use crate::ledger::Ledger;

pub use fields::Limits;
pub(crate) use policies::message as policy_message;

/// How the server behaves at its edge.
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// The limits of fields and batches.
    pub limits: Limits,
    /// How many connections may be open at once.
    pub connections_max: usize,
    /// The deadline of a call that brings none, and the longest of any.
    pub deadline_max: Duration,
    /// How long the server goes on serving after it says that it will not.
    pub drain_wait: Duration,
    /// How long the calls under way may take after that.
    pub drain_max: Duration,
}

/// Streams that one connection may have open.
const STREAMS_MAX: u32 = 256;
const LOCAL_RESETS_MAX: usize = 1_024;
const HEADER_BYTES_MAX: u32 = 8 * 1_024;
/// HTTP/2 pings find connections whose other end has gone.
const KEEPALIVE_EVERY: Duration = Duration::from_mins(1);
const KEEPALIVE_WITHIN: Duration = Duration::from_secs(20);

/// Serves until `stop` resolves, and drains: says `NOT_SERVING`, waits, ends the streams, finishes
/// what was accepted. Says whether that was done within its time.
///
/// # Errors
/// Those of the transport.
pub async fn serve(
    listener: TcpListener,
    ledger: Ledger,
    options: ServeOptions,
    stop: impl Future<Output = ()> + Send,
) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
    let health =
        HealthState::new(&["idempotency.ledger.v1.LedgerService", "idempotency.ledger.v1.AdminService"]);
    let follow = tokio::spawn(follow(health.clone(), ledger.clone()));
    let (close, closing) = tokio::sync::oneshot::channel::<()>();
    let server = tokio::spawn(server(&ledger, &health, options)?.serve_with_incoming_shutdown(
        accept::connections(listener, options.connections_max),
        async move {
            let _closed = closing.await;
        },
    ));
    tokio::pin!(server);
    tokio::select! {
        () = stop => {}
        ended = &mut server => {
            ended??;
            return Err("the server ended by itself".into());
        }
    }
    tracing::info!(wait = ?options.drain_wait, "draining: not serving any more");
    follow.abort();
    // Only once it has ended can it not say SERVING again.
    let _ended = follow.await;
    health.drain();
    sleep(options.drain_wait).await;
    health.end();
    ledger.drain();
    let _gone = close.send(());
    let drain = async {
        let ended = server.as_mut().await;
        ledger.stop().await;
        ended
    };
    if let Ok(ended) = timeout(options.drain_max, drain).await {
        ended??;
        tracing::info!("drained");
        Ok(true)
    } else {
        tracing::warn!(within = ?options.drain_max, "calls were still under way when the time was over");
        Ok(false)
    }
}

/// Tells the health service what the store's probe finds.
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

type Routed =
    tonic::transport::server::Router<tower::layer::util::Stack<EdgeLayer, tower::layer::util::Identity>>;

fn server(
    ledger: &Ledger,
    health: &HealthState,
    options: ServeOptions,
) -> Result<Routed, tonic_reflection::server::Error> {
    let bytes_max = options.limits.batch_bytes;
    let descriptors = || {
        tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(proto::FILE_DESCRIPTOR_SET)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
    };
    let reflection = descriptors().build_v1()?.accept_compressed(Gzip).send_compressed(Gzip);
    let reflection_alpha = descriptors().build_v1alpha()?.accept_compressed(Gzip).send_compressed(Gzip);
    let ledger_service =
        LedgerServiceServer::new(LedgerRpc { ledger: ledger.clone(), limits: options.limits })
            .max_decoding_message_size(bytes_max)
            .accept_compressed(Gzip)
            .send_compressed(Gzip);
    let admin_service = AdminServiceServer::new(AdminRpc { ledger: ledger.clone(), limits: options.limits })
        .max_decoding_message_size(bytes_max)
        .accept_compressed(Gzip)
        .send_compressed(Gzip);
    let health_service = HealthServer::new(health.clone()).accept_compressed(Gzip).send_compressed(Gzip);
    Ok(Server::builder()
        .max_concurrent_streams(STREAMS_MAX)
        .http2_max_local_error_reset_streams(Some(LOCAL_RESETS_MAX))
        .http2_max_header_list_size(HEADER_BYTES_MAX)
        .http2_keepalive_interval(Some(KEEPALIVE_EVERY))
        .http2_keepalive_timeout(Some(KEEPALIVE_WITHIN))
        .layer(EdgeLayer { deadline_max: options.deadline_max, bytes_max })
        .add_service(ledger_service)
        .add_service(admin_service)
        .add_service(health_service)
        .add_service(reflection)
        .add_service(reflection_alpha))
}
