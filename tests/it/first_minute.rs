//! The first minute with the program: a configuration is checked before anything is opened, hints can be pasted, and
//! a terminal that goes away does not take the server with it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::harness::details::{acquired, claim};
use crate::harness::postgres::free_port;
use crate::harness::signals::signal;
use crate::process::{BINARY, Server, sqlite};

/// A command, with nothing of this process's environment that speaks to it.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("IDEMPOTENCY_LEDGER_") {
            command.env_remove(name);
        }
    }
    command.args(arguments).stdin(Stdio::null());
    command
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

fn write(folder: &Path, text: &str) -> String {
    let file = folder.join("ledger.toml");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

const WRONG: &str = "\
queue_max = 3
lock_wait = 'soon'
queue_maxx = 1
drain_max = '11m'
[policy]
lease = '500ms'
leese = '1s'
backoff.max = 7
[consumers.pay]
retention = '1d'
max_redelivery_window = '14d'
on_expiry = 'EXPLODE'
";

/// What `WRONG`, a flag and a variable are told for: how each line starts, and how it ends.
const TOLD: [(&str, &str); 12] = [
    ("batch_max: `many` is not a whole number; must be 1 to 1000", "(IDEMPOTENCY_LEDGER_BATCH_MAX)"),
    ("purge_batch: is 1001, must be 1 to 1000", "(--purge-batch)"),
    ("listen: `nowhere` is not an address and port like 127.0.0.1:50051", "(--listen)"),
    ("queue_max: is 3, must be 16 to 1000000", "ledger.toml, line 1)"),
    ("lock_wait: `soon` is not a duration like 500ms", "ledger.toml, line 2)"),
    ("queue_maxx: unknown field `queue_maxx`", "ledger.toml, line 3)"),
    ("drain_max: is 660s, must be 0ns to 600s", "ledger.toml, line 4)"),
    ("policy.lease: is 500ms, must be 1s to 15m", "ledger.toml, line 6)"),
    ("policy.leese: unknown field `leese`", "ledger.toml, line 7)"),
    ("policy.backoff.max: ", "ledger.toml, line 8)"),
    ("consumers.\"pay\".retention: is 1d, shorter than max_redelivery_window (14d)", "ledger.toml, line 10)"),
    ("consumers.\"pay\".on_expiry: \"EXPLODE\" is none of RECLAIM", "ledger.toml, line 12)"),
];

#[test]
fn all_that_is_wrong_is_told_at_once_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), WRONG);
    for check in [&["--check-config"][..], &[]] {
        let mut command = command(&["serve", "--config", &file, "--listen", "nowhere"]);
        command.args(["--purge-batch", "1001"]).args(check);
        let output = command.env("IDEMPOTENCY_LEDGER_BATCH_MAX", "many").output().unwrap();
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert_eq!(out, "", "nothing is in force");
        for (start, end) in TOLD {
            let found = err.lines().any(|line| {
                line.strip_prefix("error: ").is_some_and(|it| it.starts_with(start)) && line.ends_with(end)
            });
            assert!(found, "must tell {start:?} … {end:?}:\n{err}");
        }
        // One line more: a queue of 3 holds no batch.
        assert_eq!(err.lines().count(), TOLD.len() + 1, "{err}");
    }
}

/// Each problem is told for the place where the bad value stands, though the same setting is given elsewhere too.
#[test]
fn a_bad_value_is_told_where_it_stands() {
    let folder = tempfile::tempdir().unwrap();
    for (text, flag, ends) in [
        ("\nbatch_max = 'many'\n", "5", &["ledger.toml, line 2)"][..]),
        ("\nbatch_max = 5\n", "many", &["(--batch-max)"]),
        ("\nbatch_max = 0\n", "1001", &["(--batch-max)"]),
        ("\nbatch_max = 'many'\n", "1001", &["(--batch-max)", "ledger.toml, line 2)"]),
        // A flag stands above the file: a number out of bounds there is never in force.
        ("\nbatch_max = 0\n", "5", &[]),
    ] {
        let file = write(folder.path(), text);
        let arguments = ["serve", "--check-config", "--config", &file, "--batch-max", flag];
        let (_, err) = texts(&command(&arguments).output().unwrap());
        let told: Vec<&str> = err.lines().collect();
        assert_eq!(told.len(), ends.len(), "{text} {flag}: {err}");
        for (line, end) in told.iter().zip(ends) {
            assert!(line.starts_with("error: batch_max: ") && line.ends_with(end), "{text} {flag}: {err}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_parsed_is_told_with_its_lines() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), "queue_max = 100\nlease = = 3\n[policy\n");
    let output = command(&["serve", "--check-config", "--config", &file]).output().unwrap();
    let (_, err) = texts(&output);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("ledger.toml, line 2)") && err.contains("ledger.toml, line 3)"), "{err}");
    let gone = command(&["migrate", "--config", "/no/such.toml"]).output().unwrap();
    let (_, err) = texts(&gone);
    assert!(err.contains("/no/such.toml") && err.trim_end().ends_with("(--config)"), "{err}");
}

#[test]
fn a_check_prints_what_would_be_in_force_and_opens_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(
        folder.path(),
        "queue_max = 4096\n[policy]\nlease = '1m'\n[consumers.'the shop']\nretention = '30d'\nbackoff.jitter = 0\n",
    );
    // Neither is looked at: the port is taken, the database answers nobody.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let url = "postgres://ledger:correct-horse@127.0.0.1:1/ledger?password=battery-staple";
    let arguments = ["serve", "--check-config", "--config", &file, "--listen", &listen];
    let run = |more: &[&str]| {
        let output = command(&arguments).args(more).env("IDEMPOTENCY_LEDGER_DATABASE_URL", url).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        texts(&output)
    };
    let (out, err) = run(&[]);
    assert_eq!(err, "");
    for line in [
        format!("listen = \"{listen}\"  # --listen"),
        format!("queue_max = 4096  # {file}, line 1"),
        "drain_max = \"15s\"  # default".into(),
        "# database_url: Postgres database ledger on 127.0.0.1:1 (sslmode=prefer)  # \
         IDEMPOTENCY_LEDGER_DATABASE_URL"
            .into(),
        "[consumers.\"the shop\"]".into(),
        "retention = \"30d\"".into(),
        "backoff.jitter = 0".into(),
    ] {
        assert!(out.lines().any(|one| one == line), "must print {line:?}:\n{out}");
    }
    assert_eq!(out.matches("lease = \"1m\"").count(), 2, "the shop's lease is the default policy's:\n{out}");
    let (json, err) = run(&["--log-format", "json"]);
    assert_eq!(err, "");
    let told: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(told["settings"]["queue_max"]["value"], 4096);
    assert_eq!(told["settings"]["drain_max"]["from"], "default");
    assert_eq!(told["consumers"]["the shop"]["failed_retention"], "30d");
    for text in [&out, &json] {
        assert!(!text.contains("correct-horse") && !text.contains("battery-staple"), "{text}");
    }
    // What it prints is a file that means the same.
    let again = write(folder.path(), &out);
    let (same, _) = texts(&command(&["serve", "--check-config", "--config", &again]).output().unwrap());
    let policies = |text: &str| text.split_once("\n[policy]").unwrap().1.to_owned();
    assert_eq!(policies(&same), policies(&out));
    // Of SQLite no file is created.
    let url = sqlite(folder.path());
    let checked = command(&["serve", "--check-config", "--database-url", &url]).output().unwrap();
    assert!(checked.status.success(), "{checked:?}");
    assert!(!folder.path().join("ledger.db").exists());
}

/// Every setting that there is a flag for is checked, and told.
#[test]
fn every_setting_is_told() {
    let output = command(&["serve", "--check-config"]).output().unwrap();
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{err}");
    let help = String::from_utf8(command(&["serve", "--help"]).output().unwrap().stdout).unwrap();
    let flags = help.lines().filter_map(|line| line.trim().strip_prefix("--")?.split(' ').next());
    let mut count = 0;
    for flag in flags.filter(|flag| {
        !["accept-loss", "ephemeral", "config", "check-config", "log", "log-format"].contains(flag)
    }) {
        let name = flag.replace('-', "_");
        assert!(
            out.lines().any(|line| line.starts_with(&format!("{name} = "))),
            "{name} is not told:\n{out}"
        );
        count += 1;
    }
    assert!(count > 25, "{help}");
}

#[test]
fn a_start_that_fails_tells_so_in_json() {
    let wrong = ["serve", "--log-format", "json", "--queue-max", "3", "--log", "=="];
    let late = ["serve", "--log-format", "json", "--database-url", "postgres://127.0.0.1:1/x"];
    for (arguments, code, words) in [
        (&wrong[..], 2, &["queue_max: is 3", "log: "][..]),
        (&[&late[..], &["--startup-wait", "0s"]].concat(), 1, &["127.0.0.1:1"]),
    ] {
        let output = command(arguments).output().unwrap();
        let (out, err) = texts(&output);
        assert_eq!((output.status.code(), out.as_str()), (Some(code), ""), "{err}");
        for line in err.lines() {
            let parsed: Result<serde_json::Value, _> = serde_json::from_str(line);
            assert!(parsed.is_ok(), "{line}");
        }
        for word in words {
            assert!(err.contains(word), "must tell {word:?}: {err}");
        }
    }
}

/// As after `cargo run` in one terminal, and in another folder in a second one.
#[test]
fn the_hint_of_the_banner_can_be_pasted() {
    let folder = tempfile::tempdir().unwrap();
    let spaced = folder.path().join("a folder");
    std::fs::create_dir(&spaced).unwrap();
    std::fs::copy(BINARY, spaced.join("it")).unwrap();
    let mut command = Command::new("./it");
    command.current_dir(&spaced).args(["serve", "--listen", "127.0.0.1:0", "--drain-wait", "0s"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let hint = lines.find_map(|line| line.unwrap().split_once("next, try: ").map(|it| it.1.to_owned()));
    let hint = hint.unwrap();
    let until = Instant::now() + Duration::from_secs(30);
    let ran = loop {
        let ran = Command::new("sh").args(["-c", &hint]).current_dir("/").output().unwrap();
        // It may be asked before its first look at the store.
        if ran.stdout != b"NOT_SERVING\n" || Instant::now() > until {
            break ran;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let killed = child.kill();
    let _ended = child.wait();
    assert_eq!(texts(&ran).0, "SERVING\n", "{ran:?}");
    killed.unwrap();
}

/// A terminal that is closed takes its streams with it, and sends SIGHUP.
#[tokio::test]
async fn a_closed_terminal_does_not_end_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", free_port());
    let mut command = command(&["serve", "--listen", &address, "--drain-wait", "0s"]);
    command.args(["--log", "trace", "--database-url", &sqlite(folder.path())]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Standard output is closed before the banner, standard error after the first lines.
    drop(child.stdout.take());
    let mut head = [0; 16];
    child.stderr.take().unwrap().read_exact(&mut head).unwrap();
    let mut server = Server { child, address };
    let until = Instant::now() + Duration::from_secs(30);
    while server.channel().await.is_none() {
        assert!(server.child.try_wait().unwrap().is_none(), "the server ended");
        assert!(Instant::now() < until, "the server does not serve");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let sent = async |server: &Server, name: &str| {
        signal(name, &[server.child.id()]);
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    for id in ["1", "2"] {
        acquired(&server.client().await.claim(claim("c", id)).await.unwrap().into_inner());
        sent(&server, "HUP").await;
    }
    acquired(&server.client().await.claim(claim("c", "3")).await.unwrap().into_inner());
    sent(&server, "TERM").await;
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(status) = server.child.try_wait().unwrap() {
            assert!(status.success(), "{status:?}");
            break;
        }
        assert!(Instant::now() < until, "SIGTERM does not end the server");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
