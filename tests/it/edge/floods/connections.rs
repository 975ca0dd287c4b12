//! Connections that do nothing, and such as begin slowly.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};

use super::{Healthy, SMALL, beside, ended, from_elsewhere};
use crate::edge::{Edge, PREFACE, SETTINGS};
use crate::harness::pki::Pki;
use crate::harness::postgres::free_port;
use crate::process::{BINARY, Server, sqlite};
use crate::proof::run::Run;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_of_one_address_leave_room_for_others() {
    let run = Run::new("floods", SMALL);
    let (all, half) = (run.size, run.size / 2);
    let (places, of_one) = ((half + 50).to_string(), half.to_string());
    let settings = ["--connections-max", &places, "--connections-per-address-max", &of_one];
    let edge = Edge::start(&settings).await;
    let healthy = Healthy::of(&edge);
    let flood = async {
        let (mut served, mut closed) = (Vec::new(), 0);
        for _ in 0..all {
            let mut stream = from_elsewhere(&edge).await;
            let _closed_early = stream.write_all(&[PREFACE, SETTINGS].concat()).await;
            let mut first = [0];
            match tokio::time::timeout(Duration::from_secs(10), stream.peek(&mut first))
                .await
                .expect("told at once")
            {
                Ok(1) => served.push(stream),
                Ok(_) | Err(_) => closed += 1,
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        (served.len() as u64, closed)
    };
    let ((served, closed), beside) = beside(&run, &edge, &healthy, flood).await;
    assert_eq!((served, closed), (half, all - half));
    assert!(edge.log().contains("connections_per_address_max is reached"), "{}", edge.log());
    assert!(edge.log().matches("connections_per_address_max is reached").count() < 30, "one line a second");
    // 64 KiB for each that is idle.
    beside.told(
        &run,
        &format!("{served} idle connections of one address, {closed} closed at once"),
        half / 16,
    );
}

/// A server that speaks TLS, and a way to it.
async fn secured(settings: &[&str]) -> (Edge, Endpoint) {
    let (pki, folder) = (Pki::new(), tempfile::tempdir().unwrap());
    let (certificate, key) = pki.signed("localhost");
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::write(path("cert.pem"), certificate).unwrap();
    std::fs::write(path("key.pem"), key).unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let log = std::fs::File::create(path("log")).unwrap();
    let mut command = Command::new(BINARY);
    command.args(["serve", "--listen", &address, "--database-url", &sqlite(folder.path())]);
    command.args(["--listen-tls-cert", &path("cert.pem"), "--listen-tls-key", &path("key.pem")]);
    let child = command.args(settings).stdout(Stdio::null()).stderr(Stdio::from(log)).spawn().unwrap();
    let edge = Edge { server: Server { child, address: address.clone() }, folder };
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pki.issuer.pem()));
    let way = Endpoint::from_shared(format!("https://{address}")).unwrap();
    let way = way.tls_config(tls.domain_name("localhost")).unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        match way.connect().await {
            Ok(_) => return (edge, way),
            Err(error) => {
                assert!(Instant::now() < until, "the server does not serve: {error}: {}", edge.log())
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The head of a ClientHello of 512 bytes, which never becomes whole.
async fn slowly(mut stream: TcpStream) -> Duration {
    let began = Instant::now();
    let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7];
    for byte in hello {
        if stream.write_all(&[byte]).await.is_err() {
            break;
        }
        if ended(&mut stream, Duration::from_millis(700)).await {
            break;
        }
    }
    began.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_handshakes_end() {
    let run = Run::new("floods", SMALL);
    let (edge, way) =
        secured(&["--connections-max", "20000", "--connections-per-address-max", "20000"]).await;
    let healthy = Healthy { way, tokens: Vec::new() };
    let flood = async {
        let mut slow = JoinSet::new();
        for _ in 0..run.size {
            slow.spawn(slowly(from_elsewhere(&edge).await));
        }
        slow.join_all().await
    };
    let (took, beside) = beside(&run, &edge, &healthy, flood).await;
    let longest = took.iter().max().unwrap();
    assert!(took.iter().all(|took| *took > Duration::from_secs(3)), "some had not their time");
    assert!(*longest < Duration::from_secs(12), "{longest:?}");
    let what =
        format!("{} handshakes of TLS byte by byte, the last one ended after {longest:.1?}", took.len());
    beside.told(&run, &what, run.size / 16);
}
