//! TLS and tokens: against a small server with an authority of its own, since the ledger has no TLS yet.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio_util::sync::CancellationToken;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tonic::{Request, Status};
use tonic_health::pb::health_server::Health;

use super::{Ran, alone};
use crate::harness::pki::Pki;

/// A server that knows no AdminService, and keeps the tokens that it is shown.
struct Tls {
    address: std::net::SocketAddr,
    tokens: Arc<Mutex<Vec<String>>>,
    end: CancellationToken,
}

impl Tls {
    async fn start(config: ServerTlsConfig) -> Tls {
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
        let server = Server::builder().tls_config(config).unwrap().layer(service).add_service(health());
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        tokio::spawn(server.serve_with_incoming_shutdown(incoming, ended.cancelled_owned()));
        Tls { address, tokens, end }
    }

    async fn ask(&self, flags: &[&str]) -> Ran {
        let endpoint = format!("https://localhost:{}", self.address.port());
        let mut arguments =
            vec!["policy".to_owned(), "get".into(), "c".into(), "--endpoint".into(), endpoint];
        arguments.extend(flags.iter().map(ToString::to_string));
        let run = move || alone(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        tokio::task::spawn_blocking(run).await.unwrap()
    }
}

fn health() -> tonic_health::pb::health_server::HealthServer<impl Health> {
    let (_reporter, service) = tonic_health::server::health_reporter();
    service
}

fn write(path: &str, text: &str) {
    fs::write(Path::new(path), text).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_known_by_its_authority() {
    let pki = Pki::new();
    let (cert, key) = pki.signed("localhost");
    let server = Tls::start(ServerTlsConfig::new().identity(Identity::from_pem(cert, key))).await;
    let ca = pki.path("ca.pem");
    // It was reached: what it answers is its own.
    server.ask(&["--tls-ca", &ca, "--token", "t1"]).await.says(1, &["error: NotFound: seen"]);
    write(&pki.path("token"), "t2\n");
    server.ask(&["--tls-ca", &ca, "--token-file", &pki.path("token")]).await.says(1, &["seen"]);
    server.ask(&["--tls-ca", &ca]).await.says(1, &["seen"]);
    assert_eq!(*server.tokens.lock().unwrap(), ["Bearer t1", "Bearer t2", ""]);
    // Not signed by whom the system trusts.
    server.ask(&[]).await.says(5, &["UnknownIssuer", "--tls-ca"]);
    let other = Pki::new();
    server.ask(&["--tls-ca", &other.path("ca.pem")]).await.says(5, &["certificate", "--tls-ca"]);
    server.ask(&["--tls-ca", &ca, "--tls-domain", "elsewhere"]).await.says(5, &["--tls-domain"]);
    assert_eq!(server.tokens.lock().unwrap().len(), 3, "nobody else was told the token");
    server.end.cancel();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_may_ask_who_calls() {
    let pki = Pki::new();
    let (cert, key) = pki.signed("ledger.internal");
    let (mine, mine_key) = pki.signed("operator");
    write(&pki.path("mine.pem"), &mine);
    write(&pki.path("mine.key"), &mine_key);
    let config = ServerTlsConfig::new()
        .identity(Identity::from_pem(cert, key))
        .client_ca_root(Certificate::from_pem(pki.issuer.pem()));
    let server = Tls::start(config).await;
    let ca = pki.path("ca.pem");
    let known = ["--tls-ca", &ca, "--tls-domain", "ledger.internal"];
    let (mine, mine_key) = (pki.path("mine.pem"), pki.path("mine.key"));
    let named = [&known[..], &["--tls-cert", &mine, "--tls-key", &mine_key]].concat();
    server.ask(&named).await.says(1, &["seen"]);
    server.ask(&known).await.says(5, &["error: "]);
    write(&mine_key, "no key");
    server.ask(&named).await.says(2, &["the TLS options cannot be used"]);
    server.end.cancel();
}
