//! TLS of the HTTP door, as curl speaks it: the same certificates count, by either HTTP.

use std::path::Path;
use std::process::Command;

use idempotency_ledger::identity::{Rights, Trust};

use super::People;
use super::tls::{Secured, tls};
use crate::harness::pki::Pki;

/// The version of HTTP, the status, and the advice or the reason.
async fn claimed(
    folder: &Path,
    port: u16,
    http: &str,
    certificate: Option<&str>,
    id: &str,
) -> (String, String, String) {
    let url = format!("https://localhost:{port}/idempotency.ledger.v1.LedgerService/Claim");
    let message = format!(r#"{{"key": {{"consumer": "c", "source": "s", "id": "{id}"}}}}"#);
    let mut curl = Command::new("curl");
    curl.current_dir(folder).args([
        "-sS",
        http,
        "--cacert",
        "ca.pem",
        "--resolve",
        &format!("localhost:{port}:127.0.0.1"),
    ]);
    curl.args(["-H", "content-type: application/json", "-d", &message, "-o", "answer"]);
    curl.args([
        "-w",
        "%{http_version} %{http_code} %header{idempotency-ledger-advice}%header{idempotency-ledger-reason}",
        &url,
    ]);
    if let Some(name) = certificate {
        curl.args(["--cert", &format!("{name}.pem"), "--key", &format!("{name}.key")]);
    }
    // The server works on this runtime, too.
    let output = tokio::task::spawn_blocking(move || curl.output().unwrap()).await.unwrap();
    assert!(output.status.success(), "{http} {certificate:?}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let mut words = text.split(' ').map(str::to_owned);
    let mut next = || words.next().unwrap_or_default();
    (next(), next(), next())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_http_is_known_by_its_certificate() {
    let pki = Pki::new();
    let people = People::new(&[("one", &[])]);
    let rights = "[[rights]]\nprincipal = \"dns:pay.shop\"\nconsumers = [\"c\"]\nmay = [\"claim\"]\n";
    let trust =
        Trust { tls: Some(tls(&pki, None)), rights: Rights::read(rights).unwrap().into(), ..people.trust() };
    let server = Secured::start(trust).await;
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write("ca.pem", &pki.issuer.pem());
    for (name, host, serial) in [("pay", "pay.shop", 1), ("mail", "mail.shop", 2)] {
        let (certificate, key) = pki.issued(&[host], serial, |_| {});
        write(&format!("{name}.pem"), &certificate);
        write(&format!("{name}.key"), &key);
    }
    for (http, version) in [("--http1.1", "1.1"), ("--http2", "2")] {
        for (certificate, status, said) in [
            (Some("pay"), "200", "PROCESS"),
            (Some("mail"), "403", "RETRY_LATERCONSUMER_NOT_ALLOWED"),
            (None, "401", "RETRY_LATERUNAUTHENTICATED"),
        ] {
            let answer = claimed(folder.path(), server.http_port(), http, certificate, version).await;
            let expected = (version.to_owned(), status.to_owned(), said.to_owned());
            assert_eq!(answer, expected, "{http} {certificate:?}");
        }
    }
    server.stop().await;
}
