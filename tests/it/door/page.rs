//! The commands of docs/without-grpc.md and docs/inbox.md, as they stand there except for the ports and the program's path.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::harness::postgres::free_port;
use crate::process::{BINARY, Server, sqlite};

/// A page, and a server that answers where its commands expect it.
struct Page {
    text: String,
    folder: TempDir,
    http: String,
    server: Server,
}

impl Page {
    async fn open(name: &str) -> Page {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs").join(name);
        let (text, folder) = (std::fs::read_to_string(path).unwrap(), tempfile::tempdir().unwrap());
        let http = format!("127.0.0.1:{}", free_port());
        let settings = ["--http-listen", http.as_str()];
        let server =
            Server::with(Command::new(BINARY), &sqlite(folder.path()), &settings, Stdio::null()).await;
        Page { text, folder, http, server }
    }

    /// The commands of the block that has this name, and what the page says that they print.
    fn block(&self, name: &str) -> (String, String) {
        let mark = format!("<!-- run: {name} -->\n```sh\n");
        let (_, rest) = self.text.split_once(&mark).unwrap_or_else(|| panic!("{name} is not there"));
        let (commands, rest) = rest.split_once("\n```").unwrap();
        let printed = rest.strip_prefix("\n\n```text\n").and_then(|text| text.split_once("\n```"));
        (commands.to_owned(), printed.map_or_else(String::new, |(text, _)| text.to_owned()))
    }

    /// What the commands print.
    fn run(&self, commands: &str) -> String {
        let commands = commands.replace("127.0.0.1:50080", &self.http);
        let mut shell = Command::new("bash");
        shell.args(["-euc", &commands]).current_dir(self.folder.path());
        shell.env("PATH", path_with(Path::new(BINARY).parent().unwrap()));
        shell.env("IDEMPOTENCY_LEDGER_ENDPOINT", format!("http://{}", self.server.address));
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{commands}: {output:?}");
        String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n")
    }

    fn step(&self, name: &str) -> String {
        self.run(&self.block(name).0)
    }
}

fn path_with(first: &Path) -> String {
    format!("{}:{}", first.display(), std::env::var("PATH").unwrap())
}

#[tokio::test]
async fn the_commands_of_the_page_do_what_it_says() {
    let page = Page::open("without-grpc.md").await;
    assert_eq!(page.step("claim"), "idempotency-ledger-advice: PROCESS\n");
    assert_eq!(page.step("complete"), "{\"advice\":\"ADVICE_ACK\"}");
    let again = page.step("again");
    assert!(
        again.contains("\"result\":\"cGFpZA==\"") && again.ends_with("idempotency-ledger-advice: ACK\n"),
        "{again}"
    );
    let waited = page.step("wait");
    assert!(waited.starts_with("{\"advice\":\"ADVICE_ACK\"}"), "{waited}");
    assert!(waited.contains("\"completed\"") && waited.contains("\"result\":\"cGFpZA==\""), "{waited}");
    let error: serde_json::Value = serde_json::from_str(&page.step("error")).unwrap();
    assert_eq!(error["code"], "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("unrecognized field name 'idd'"), "{error}");
}

#[tokio::test]
async fn the_commands_of_the_inbox_page_print_what_it_says() {
    let page = Page::open("inbox.md").await;
    let policy = page.block("policy");
    assert_eq!(page.run(&policy.0), format!("{}\n", policy.1));
    // One shell, since later blocks use the function and the variables of the first one.
    let blocks = ["store", "next", "complete"].map(|name| page.block(name));
    let script: String =
        blocks.iter().map(|(commands, _)| format!("{commands}\nprintf '%b' '\\036'\n")).collect();
    let printed: String = blocks.iter().map(|(_, printed)| format!("{printed}\u{1e}")).collect();
    assert_eq!(page.run(&script), printed);
    assert_eq!(page.step("look"), "{\"order\": 1}");
    let by_hand = page.step("by-hand");
    for word in
        ["stored: its entry is RECEIVED", "billing: 1 stored message is due", "order-2", "{\"order\": 2}"]
    {
        assert!(by_hand.contains(word), "must say {word:?}: {by_hand}");
    }
}
