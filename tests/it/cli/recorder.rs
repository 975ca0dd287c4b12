//! A small server that knows no AdminService, and keeps the tokens that it is shown: with TLS or without.

use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use tonic::transport::{Server, ServerTlsConfig};
use tonic::{Request, Status};
use tonic_health::pb::health_server::Health;

use super::{Ran, alone};

pub(super) struct Recorder {
    address: std::net::SocketAddr,
    scheme: &'static str,
    tokens: Arc<Mutex<Vec<String>>>,
    end: CancellationToken,
}

impl Recorder {
    pub(super) async fn start(config: Option<ServerTlsConfig>) -> Recorder {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (tokens, end) = (Arc::new(Mutex::new(Vec::new())), CancellationToken::new());
        let (seen, ended) = (Arc::clone(&tokens), end.clone());
        let service = tonic::service::InterceptorLayer::new(move |request: Request<()>| {
            let token =
                request.metadata().get("authorization").map(|value| value.to_str().unwrap().to_owned());
            seen.lock().unwrap().push(token.unwrap_or_default());
            Err::<Request<()>, Status>(Status::not_found("seen"))
        });
        let scheme = if config.is_some() { "https" } else { "http" };
        let server = match config {
            Some(config) => Server::builder().tls_config(config).unwrap(),
            None => Server::builder(),
        };
        let server = server.layer(service).add_service(health());
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        tokio::spawn(server.serve_with_incoming_shutdown(incoming, ended.cancelled_owned()));
        Recorder { address, scheme, tokens, end }
    }

    pub(super) fn port(&self) -> u16 {
        self.address.port()
    }

    pub(super) fn endpoint(&self) -> String {
        format!("{}://localhost:{}", self.scheme, self.port())
    }

    /// The tokens that it was shown, one a call; empty: none.
    pub(super) fn tokens(&self) -> Vec<String> {
        self.tokens.lock().unwrap().clone()
    }

    /// A call of it, by its address alone.
    pub(super) async fn ask(&self, flags: &[&str]) -> Ran {
        self.run(&["policy", "get", "c"], flags).await
    }

    /// A load of a few calls, of which none has an answer that counts.
    pub(super) async fn bench(&self, flags: &[&str]) -> Ran {
        self.run(&["bench", "--for", "100ms", "--warm-up", "0s", "--in-flight", "2"], flags).await
    }

    async fn run(&self, command: &[&str], flags: &[&str]) -> Ran {
        let endpoint = self.endpoint();
        let arguments = [command, &["--endpoint", &endpoint], flags].concat();
        let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
        let run = move || alone(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        tokio::task::spawn_blocking(run).await.unwrap()
    }

    pub(super) fn stop(self) {
        self.end.cancel();
    }
}

fn health() -> tonic_health::pb::health_server::HealthServer<impl Health> {
    let (_reporter, service) = tonic_health::server::health_reporter();
    service
}
