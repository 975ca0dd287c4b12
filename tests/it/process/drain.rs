//! Signals while a server serves: the first one drains it, the second one ends it.

use std::io::Read as _;
use std::process::{Command, Stdio};

use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::early::AT_ONCE;
use super::log::{END_MAX, ends};
use super::{BINARY, Server, sqlite};
use crate::harness::details::claim;
use crate::harness::signals::signal;

/// An open stream of a health check keeps a connection from closing, so a server that drains ends the stream itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_the_health_is_told_of_the_drain_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["--drain-wait", "0s", "--drain-max", "600s"];
    let mut server =
        Server::with(Command::new(BINARY), &sqlite(folder.path()), &settings, Stdio::null()).await;
    let mut health = HealthClient::new(server.channel().await.unwrap());
    let mut watched = Vec::new();
    for service in ["", "a.service.that.is.not.there"] {
        let request = HealthCheckRequest { service: service.into() };
        watched.push(health.watch(request).await.unwrap().into_inner());
    }
    let asked = Command::new(BINARY)
        .args(["health", "--address", &server.address, "--service", "a.service.that.is.not.there"])
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert_eq!(asked.status.code(), Some(1), "{text}");
    assert!(text.contains("unknown service") && !text.contains("TLS"), "the server has answered: {text}");
    let unknown = watched[1].message().await.unwrap().unwrap();
    assert_eq!(unknown.status(), ServingStatus::ServiceUnknown);
    assert_eq!(watched[0].message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    signal("TERM", &[server.child.id()]);
    assert_eq!(watched[0].message().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    for mut stream in watched {
        assert_eq!(stream.message().await.unwrap(), None, "the stream has an end, and not an error");
    }
    drop(health);
    assert_eq!(ends(&mut server.child, END_MAX).await.code(), Some(0));
}

/// The open spans are sent when the server ends; nothing waits for a collector that is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn traces_that_cannot_be_sent_are_logged_and_stop_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(BINARY);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    let settings = ["--insecure-anonymous", "true"];
    let mut server = Server::with(command, &sqlite(folder.path()), &settings, Stdio::piped()).await;
    server.client().await.claim(claim("c", "1")).await.unwrap();
    signal("TERM", &[server.child.id()]);
    assert_eq!(ends(&mut server.child, END_MAX).await.code(), Some(0));
    let mut log = String::new();
    server.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert!(log.contains("BatchSpanProcessor.ExportError"), "{log}");
    assert!(log.contains("callers are not authenticated"), "the open server is warned of: {log}");
}

/// Also where traces wait for a collector that does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_signal_ends_a_drain() {
    for collector in [None, Some("http://127.0.0.1:1")] {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(BINARY);
        if let Some(collector) = collector {
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", collector);
        }
        let settings = ["--drain-wait", "300s"];
        let mut server = Server::with(command, &sqlite(folder.path()), &settings, Stdio::piped()).await;
        signal("TERM", &[server.child.id()]);
        server.becomes(ServingStatus::NotServing).await;
        signal("TERM", &[server.child.id()]);
        assert_eq!(ends(&mut server.child, AT_ONCE).await.code(), Some(1), "{collector:?}");
        let mut log = String::new();
        server.child.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        assert!(log.contains("ended immediately by a second signal"), "{collector:?}: {log}");
    }
}
