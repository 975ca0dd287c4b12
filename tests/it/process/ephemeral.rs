//! `serve --ephemeral`: a ledger in memory, on ports that the system chose.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{CompleteRequest, claim_response::Verdict};
use tonic::transport::Endpoint;

use super::{BINARY, fails};
use crate::harness::details::{acquired, claim, key};

/// A server that is killed when the test ends, and what it said first.
struct Ephemeral {
    child: Child,
    said: serde_json::Value,
}

impl Ephemeral {
    async fn start(folder: &std::path::Path) -> Ephemeral {
        let mut command = Command::new(BINARY);
        let zero = "127.0.0.1:0";
        command.args(["serve", "--ephemeral", "--listen", zero, "--admin-listen", zero]);
        command.args(["--http-listen", zero, "--admin-http-listen", zero, "--observe-listen", zero]);
        command.args(["--drain-wait", "0s"]).current_dir(folder);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let out = child.stdout.take().unwrap();
        let first = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            BufReader::new(out).read_line(&mut line).unwrap();
            line
        });
        let said = serde_json::from_str(&first.await.unwrap()).unwrap();
        Ephemeral { child, said }
    }

    fn address(&self, setting: &str) -> String {
        let address = self.said[setting].as_str().unwrap_or_else(|| panic!("{setting}: {}", self.said));
        assert!(!address.ends_with(":0"), "{}", self.said);
        address.to_owned()
    }

    async fn client(&self) -> LedgerServiceClient<tonic::transport::Channel> {
        let endpoint = Endpoint::from_shared(format!("http://{}", self.address("listen"))).unwrap();
        LedgerServiceClient::new(endpoint.connect().await.unwrap())
    }
}

impl Drop for Ephemeral {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

#[tokio::test]
async fn an_ephemeral_server_serves_where_it_says_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (Ephemeral::start(folder.path()).await, Ephemeral::start(folder.path()).await);
    for server in [&one, &other] {
        let mut client = server.client().await;
        for id in 0..50 {
            let id = id.to_string();
            let granted = client.claim(claim("c", &id)).await.unwrap().into_inner();
            let token = acquired(&granted).token;
            let request = CompleteRequest {
                key: key("c", &id),
                token,
                result: "done".into(),
                ..CompleteRequest::default()
            };
            client.complete(request).await.unwrap();
            let again = client.claim(claim("c", &id)).await.unwrap().into_inner();
            assert!(matches!(again.verdict, Some(Verdict::Completed(_))), "{again:?}");
        }
        let endpoint = server.address("admin_listen");
        let listed = Command::new(BINARY)
            .args(["entries", "list", "--consumer", "c", "--limit", "0", "--json", "--endpoint", &endpoint])
            .output()
            .unwrap();
        assert_eq!(listed.stdout.split(|byte| *byte == b'\n').count(), 51, "{listed:?}");
        for setting in ["http_listen", "admin_http_listen", "observe_listen"] {
            let address = server.address(setting);
            assert!(tokio::net::TcpStream::connect(address).await.is_ok(), "{setting}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "no file is left");
}

#[test]
fn an_ephemeral_server_with_a_database_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("url");
    std::fs::write(&file, super::sqlite(folder.path())).unwrap();
    let url = super::sqlite(folder.path());
    for database in [["--database-url", &url], ["--database-url-file", file.to_str().unwrap()]] {
        let arguments = [&["serve", "--ephemeral", "--listen", "127.0.0.1:0"], &database[..]].concat();
        fails(&arguments, &["--ephemeral", "database_url", "leave one of them out"]);
    }
    // What is lost with the process cannot be found lost.
    fails(&["serve", "--ephemeral", "--accept-loss"], &["--ephemeral", "--accept-loss"]);
}

#[test]
fn a_check_of_an_ephemeral_server_shows_no_file() {
    let output = Command::new(BINARY).args(["serve", "--ephemeral", "--check-config"]).output().unwrap();
    let shown = String::from_utf8(output.stdout).unwrap();
    let line = shown.lines().find(|line| line.contains("database_url:")).unwrap();
    assert_eq!(line, "# database_url: none  # --ephemeral, the memory of the process");
}
