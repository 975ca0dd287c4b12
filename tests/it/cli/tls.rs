//! TLS and tokens: against a small server with an authority of its own, since the ledger has no TLS yet.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use super::alone;
use super::recorder::Recorder;
use crate::harness::pki::Pki;
use crate::process::{BINARY, Server};

fn write(path: &str, text: &str) {
    fs::write(Path::new(path), text).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_known_by_its_authority() {
    let pki = Pki::new();
    let (cert, key) = pki.signed("localhost");
    let server = Recorder::start(Some(ServerTlsConfig::new().identity(Identity::from_pem(cert, key)))).await;
    let ca = pki.path("ca.pem");
    // It was reached: what it answers is its own.
    server.ask(&["--tls-ca", &ca, "--token", "t1"]).await.says(1, &["error: NotFound: seen"]);
    write(&pki.path("token"), "t2\n");
    server.ask(&["--tls-ca", &ca, "--token-file", &pki.path("token")]).await.says(1, &["seen"]);
    server.ask(&["--tls-ca", &ca]).await.says(1, &["seen"]);
    assert_eq!(server.tokens(), ["Bearer t1", "Bearer t2", ""]);
    // Not signed by whom the system trusts.
    server.ask(&[]).await.says(5, &["UnknownIssuer", "--tls-ca"]);
    let other = Pki::new();
    server.ask(&["--tls-ca", &other.path("ca.pem")]).await.says(5, &["certificate", "--tls-ca"]);
    server.ask(&["--tls-ca", &ca, "--tls-domain", "elsewhere"]).await.says(5, &["--tls-domain"]);
    assert_eq!(server.tokens().len(), 3, "nobody else was told the token");
    // The load of `bench` has connections of its own kind.
    server.bench(&[]).await.says(5, &["UnknownIssuer", "--tls-ca"]);
    server.bench(&["--tls-ca", &other.path("ca.pem")]).await.says(5, &["certificate", "--tls-ca"]);
    server.bench(&["--tls-ca", &ca, "--tls-domain", "elsewhere"]).await.says(5, &["--tls-domain"]);
    assert_eq!(server.tokens().len(), 3, "nobody else was told the token");
    server.bench(&["--tls-ca", &ca, "--token-file", &pki.path("token")]).await.says(5, &["NotFound"]);
    let tokens = server.tokens().split_off(3);
    assert!(!tokens.is_empty() && tokens.iter().all(|token| token == "Bearer t2"), "{tokens:?}");
    server.stop();
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
    let server = Recorder::start(Some(config)).await;
    let ca = pki.path("ca.pem");
    let known = ["--tls-ca", &ca, "--tls-domain", "ledger.internal"];
    let (mine, mine_key) = (pki.path("mine.pem"), pki.path("mine.key"));
    let named = [&known[..], &["--tls-cert", &mine, "--tls-key", &mine_key]].concat();
    server.ask(&named).await.says(1, &["seen"]);
    server.ask(&known).await.says(5, &["error: "]);
    server.bench(&named).await.says(5, &["NotFound"]);
    server.bench(&known).await.says(5, &["error: "]);
    write(&mine_key, "no key");
    server.ask(&named).await.says(2, &["the TLS options cannot be used"]);
    server.stop();
}

/// http:// where the server has TLS, and the reverse: the other scheme is named, and the server's log says it too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mismatch_of_tls_names_the_other_scheme() {
    let pki = Pki::new();
    let (cert, key) = pki.signed("localhost");
    let with = Recorder::start(Some(ServerTlsConfig::new().identity(Identity::from_pem(cert, key)))).await;
    let log = pki.path("log");
    let (file, database) = (fs::File::create(&log).unwrap(), format!("sqlite://{}", pki.path("ledger.db")));
    let without =
        Server::with(Command::new(BINARY), &database, &["--observe-listen", "off"], Stdio::from(file)).await;
    for (endpoint, says) in [
        (format!("http://localhost:{}", with.port()), "https:// instead of http://"),
        (format!("https://{}", without.address), "http:// instead of https://"),
    ] {
        // A client that still writes when the server has closed sees a broken pipe at times, and not the alert.
        let ask = move || {
            let mut asked = (0..20).map(|_| alone(&["policy", "get", "c", "--endpoint", &endpoint]));
            asked.find(|ran| !ran.err.contains("broken pipe")).expect("the alert is read once")
        };
        tokio::task::spawn_blocking(ask).await.unwrap().says(5, &["next: ", says]);
    }
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("a client begins TLS on a listener without it"), "{logged}");
    with.stop();
}
