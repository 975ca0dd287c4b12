//! TLS to Postgres: whom a server trusts, and by which certificate it is known.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::PgConnection;
use tonic_health::pb::health_check_response::ServingStatus;

use super::{cluster, end_sessions, mount};
use crate::harness::details::{acquired, claim};
use crate::harness::pki::Pki;
use crate::harness::postgres::Cluster;
use crate::process::{BINARY, Server};

/// A Postgres that takes only TLS from others than the superuser, with a certificate for `localhost`; it knows the
/// users of an authority of its own.
async fn secured(server: &Pki, users: &Pki, rule: &str) -> Cluster {
    let cluster = cluster("app", "first").await;
    let (certificate, key) = server.signed("localhost");
    cluster.write("server.crt", &certificate);
    cluster.write("server.key", &key);
    cluster.write("users.crt", &users.issuer.pem());
    cluster.execute("postgres", "ALTER SYSTEM SET ssl_ca_file = 'users.crt'").await;
    cluster.execute("postgres", "ALTER SYSTEM SET ssl = on").await;
    cluster.admit(&format!("hostssl all app all {rule}")).await;
    cluster
}

/// What a server says that cannot start with this URL; one that does is ended.
fn refused(url: &str) -> String {
    let settings = ["serve", "--listen", "127.0.0.1:0", "--observe-listen", "off", "--startup-wait", "0s"];
    let mut command = Command::new(BINARY);
    command.args(settings).args(["--database-url", url]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    let code = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status.code(),
            None if Instant::now() > until => child.kill().unwrap(),
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    let text = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(code, Some(1), "{text}");
    text
}

/// How many sessions for claims and heartbeats are encrypted, and how many there are; whose certificates they are known by.
async fn encrypted(connection: &mut PgConnection) -> (i64, i64, Vec<String>) {
    sqlx::query_as(
        "SELECT count(*) FILTER (WHERE s.ssl), count(*), coalesce(array_agg(DISTINCT s.client_serial::text)
            FILTER (WHERE s.client_serial IS NOT NULL), '{}')
         FROM pg_stat_activity a JOIN pg_stat_ssl s USING (pid)
         WHERE a.application_name IN ('idempotency-ledger claims', 'idempotency-ledger heartbeat')",
    )
    .fetch_one(connection)
    .await
    .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_verified_by_its_authority_and_its_name() {
    let (pki, others) = (Pki::new(), Pki::new());
    let cluster = secured(&pki, &others, "scram-sha-256").await;
    let (mine, other) = (pki.path("ca.pem"), others.path("ca.pem"));
    let url = |host: &str, options: &str| {
        format!("postgres://app:first@{host}:{}/postgres?sslmode={options}", cluster.port)
    };
    for (url, says) in [
        (url("localhost", &format!("verify-full&sslrootcert={other}")), "UnknownIssuer"),
        (url("localhost", "verify-full"), "name its authority by sslrootcert"),
        (url("localhost", "verify-full&sslrootcert=/gone.pem"), "sslrootcert: /gone.pem: No such file"),
        (url("localhost", &format!("verify-ca&sslrootcert={other}")), "UnknownIssuer"),
        (url("127.0.0.1", &format!("verify-full&sslrootcert={mine}")), "not valid for name \"127.0.0.1\""),
        (url("localhost", "disable"), "no pg_hba.conf entry"),
    ] {
        let text = refused(&url);
        assert!(
            text.contains("database_url: Postgres database postgres on ") && text.contains(says),
            "{text}"
        );
        assert!(!text.contains("first"), "{text}");
    }
    for url in [
        url("localhost", &format!("verify-full&sslrootcert={mine}")),
        url("127.0.0.1", &format!("verify-ca&sslrootcert={mine}")),
    ] {
        let server = Server::start(&url).await;
        let mut client = server.client().await;
        client.claim(claim("c", "1")).await.unwrap();
        let (encrypted, all, _) = encrypted(&mut cluster.connect("postgres").await).await;
        assert!(all >= 1 && encrypted == all, "{encrypted} of {all}");
    }
}

/// The certificate and its key are files that are read for each connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_certificate_is_read_anew_when_it_is_rotated() {
    let (pki, users) = (Pki::new(), Pki::new());
    let cluster = secured(&pki, &users, "cert").await;
    let folder = tempfile::tempdir().unwrap();
    let rotate = |(certificate, key): (String, String)| {
        (mount(folder.path(), "crt", &certificate), mount(folder.path(), "key", &key))
    };
    let options = |certificate: &str, key: &str| {
        format!(
            "postgres://app@localhost:{}/postgres?sslmode=verify-full&sslrootcert={}&sslcert={certificate}&sslkey={key}",
            cluster.port,
            pki.path("ca.pem")
        )
    };
    let (certificate, key) = rotate(users.of_user("somebody"));
    let url = options(&certificate, &key);
    let text = refused(&url);
    assert!(text.contains("certificate authentication failed for user \"app\""), "{text}");
    rotate(Pki::new().of_user("app"));
    let text = refused(&url);
    assert!(text.contains("alert"), "{text}");
    rotate(users.of_user("app"));
    let server = Server::start(&url).await;
    let mut client = server.client().await;
    acquired(&client.claim(claim("c", "1")).await.unwrap().into_inner());
    let mut connection = cluster.connect("postgres").await;
    let (_, _, first) = encrypted(&mut connection).await;
    rotate(users.of_user("app"));
    end_sessions(&cluster).await;
    server.becomes(ServingStatus::Serving).await;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let (encrypted, all, serials) = encrypted(&mut connection).await;
        if all >= 1 && encrypted == all && serials.len() == 1 && serials != first {
            break;
        }
        assert!(Instant::now() < until, "{encrypted} of {all} by {serials:?}, not {first:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    acquired(&client.claim(claim("c", "2")).await.unwrap().into_inner());
}
