//! A server of small pages: it passes each call on, and lowers the `page_size` of a paged one. A list of a few rows then has as
//! many pages as one of a thousand.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::{BufMut as _, Bytes, BytesMut};
use futures_util::future::BoxFuture;
use http_body_util::{BodyExt as _, Full};
use prost::Message as _;
use prost_reflect::Value;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::transport::{Channel, Server};
use tower::{Service, ServiceExt as _};

use crate::harness::dynamic::Rpc;
use crate::harness::raw::channel;
use crate::harness::server::TestServer;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The length of a message's head in gRPC: whether it is compressed, and its length.
const HEAD: usize = 5;

/// See the module. It ends when it is dropped.
pub(crate) struct SmallPages {
    pub(crate) address: SocketAddr,
    calls: Arc<Mutex<BTreeMap<String, usize>>>,
    end: CancellationToken,
}

impl SmallPages {
    /// Before this server, with pages of at most this many rows.
    pub(crate) async fn before(server: &TestServer, size: i32) -> SmallPages {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (calls, end) = (Arc::default(), CancellationToken::new());
        let passing = Passing { to: channel(server).await, size, calls: Arc::clone(&calls) };
        let (_reporter, never_called) = tonic_health::server::health_reporter();
        let server = Server::builder()
            .layer(tower::layer::layer_fn(move |_| passing.clone()))
            .add_service(never_called);
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        tokio::spawn(server.serve_with_incoming_shutdown(incoming, end.clone().cancelled_owned()));
        SmallPages { address, calls, end }
    }

    /// How many pages of this RPC were asked for since the last time.
    pub(crate) fn take_calls(&self, rpc: &str) -> usize {
        self.calls.lock().unwrap().remove(rpc).unwrap_or_default()
    }
}

impl Drop for SmallPages {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

#[derive(Clone)]
struct Passing {
    to: Channel,
    size: i32,
    calls: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Passing {
    async fn pass(mut self, request: http::Request<Body>) -> Result<http::Response<Body>, BoxError> {
        let (head, body) = request.into_parts();
        let mut bytes = body.collect().await?.to_bytes();
        let name = head.uri.path().rsplit('/').next().unwrap_or_default();
        if let Some(rpc) = Rpc::with_field(&["page_token"]).into_iter().find(|rpc| rpc.name() == name) {
            *self.calls.lock().unwrap().entry(name.to_owned()).or_default() += 1;
            bytes = self.smaller(&rpc, &bytes);
        }
        let body = Body::new(Full::new(bytes).map_err(|never| match never {}));
        Ok(self.to.ready().await?.call(http::Request::from_parts(head, body)).await?)
    }

    /// The same request for a page of at most this many rows.
    fn smaller(&self, rpc: &Rpc, bytes: &[u8]) -> Bytes {
        let mut asked = rpc.decode(&bytes[HEAD..]);
        let size = asked.get_field_by_name("page_size").and_then(|size| size.as_i32()).unwrap_or_default();
        let size = if size == 0 { self.size } else { size.min(self.size) };
        asked.set_field_by_name("page_size", Value::I32(size));
        let message = asked.encode_to_vec();
        let mut whole = BytesMut::with_capacity(HEAD + message.len());
        whole.put_u8(0);
        whole.put_u32(u32::try_from(message.len()).unwrap());
        whole.put_slice(&message);
        whole.freeze()
    }
}

impl Service<http::Request<Body>> for Passing {
    type Response = http::Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<http::Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(self.clone().pass(request))
    }
}
