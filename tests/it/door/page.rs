//! The commands of docs/without-grpc.md, as they stand there but for the port.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::harness::postgres::free_port;
use crate::process::{BINARY, Server, sqlite};

/// The commands of the page that have this name.
fn commands(page: &str, name: &str) -> String {
    let mark = format!("<!-- run: {name} -->\n```sh\n");
    let (_, rest) = page.split_once(&mark).unwrap_or_else(|| panic!("{name} is not there"));
    rest.split("\n```").next().unwrap().to_owned()
}

/// What the commands print.
fn run(folder: &Path, commands: &str) -> String {
    let output = Command::new("bash").args(["-euc", commands]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{commands}: {output:?}");
    String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
}

#[tokio::test]
async fn the_commands_of_the_page_do_what_it_says() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/without-grpc.md")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let http = format!("127.0.0.1:{}", free_port());
    let settings = ["--http-listen", http.as_str()];
    let _server = Server::with(Command::new(BINARY), &sqlite(folder.path()), &settings, Stdio::null()).await;
    let step = |name| run(folder.path(), &commands(&page, name).replace("127.0.0.1:50080", &http));
    assert_eq!(step("claim"), "idempotency-ledger-advice: PROCESS\n");
    let completed = step("complete");
    assert_eq!(completed, "{\"advice\":\"ADVICE_ACK\"}");
    let again = step("again");
    assert!(
        again.contains("\"result\":\"cGFpZA==\"") && again.ends_with("idempotency-ledger-advice: ACK\n"),
        "{again}"
    );
    let waited = step("wait");
    assert!(waited.starts_with("{\"advice\":\"ADVICE_ACK\"}"), "{waited}");
    assert!(waited.contains("\"completed\"") && waited.contains("\"result\":\"cGFpZA==\""), "{waited}");
    let error: serde_json::Value = serde_json::from_str(&step("error")).unwrap();
    assert_eq!(error["code"], "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("unrecognized field name 'idd'"), "{error}");
}
