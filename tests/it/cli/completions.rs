//! The completions of shells: the names of consumers come from the server.

use std::os::unix::fs::symlink;
use std::process::Command;

use super::{BINARY, NO_CONFIG, alone, ask};
use crate::harness::details::claim;
use crate::harness::server::{Kind, TestServer};

/// What bash offers for a line, by the script that we print, with a server at this address.
fn offered(line: &[&str], endpoint: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    symlink(BINARY, folder.path().join("idempotency-ledger")).unwrap();
    let script = alone(&["completions", "bash"]).says(0, &[]).out;
    let (word, last) = (line.last().unwrap_or(&""), line.len() - 1);
    let before = line.get(last - 1).unwrap_or(&"");
    let words: Vec<String> = line.iter().map(|word| format!("'{word}'")).collect();
    let text = format!(
        "{script}\nCOMP_WORDS=({}); COMP_CWORD={last}\n_idempotency__ledger_consumers idempotency-ledger '{word}' '{before}'\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        words.join(" ")
    );
    let file = folder.path().join("offered.bash");
    std::fs::write(&file, text).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut bash = Command::new("bash");
    bash.arg("--norc").arg(&file).env("PATH", path).env("XDG_CONFIG_HOME", NO_CONFIG);
    let said = bash.env("IDEMPOTENCY_LEDGER_ENDPOINT", endpoint).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    let offered = String::from_utf8(said.stdout).unwrap();
    offered.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bash_completes_names_of_consumers_from_the_server() {
    let server = TestServer::start(Kind::Sqlite).await;
    for consumer in ["payments", "payouts", "pay roll"] {
        server.client.clone().claim(claim(consumer, "1")).await.unwrap();
    }
    ask(&server, &["policy", "set", "mail", "--lease", "1m", "--reason", "r"]).await.says(0, &[]);
    let endpoint = server.address().to_string();
    let checked = move || {
        let offers = |line: &[&str]| offered(&[&["idempotency-ledger"], line].concat(), &endpoint);
        assert_eq!(offers(&["entries", "list", "--consumer", "pay"]), ["pay\\ roll", "payments", "payouts"]);
        assert_eq!(offers(&["entries", "get", "paym"]), ["payments"]);
        assert_eq!(offers(&["entries", "next", "paym"]), ["payments"]);
        assert_eq!(offers(&["policy", "get", ""]), ["mail", "pay\\ roll", "payments", "payouts"]);
        assert_eq!(offers(&["--timeout", "5s", "replay", "list", "ma"]), ["mail"]);
        assert!(offers(&["policy", "get", "absent"]).is_empty());
        // All else is completed as before.
        assert_eq!(offers(&["entries", "list", "--state", "P"]), ["PARKED"]);
        assert_eq!(offers(&["policy", "hi"]), ["history"]);
        assert_eq!(offers(&["entries", "redrive", "--drop"]), ["--drop-fingerprint"]);
        // The server of the line is the one that is asked; one that is not there offers nothing.
        let elsewhere = ["--endpoint", "127.0.0.1:1", "policy", "get", "m"];
        assert!(offers(&elsewhere).is_empty());
    };
    tokio::task::spawn_blocking(checked).await.unwrap();
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_for_completion_are_lines_and_never_control_a_terminal() {
    let server = TestServer::start(Kind::Sqlite).await;
    for consumer in ["a", "b\u{202e}c", "\u{e4}"] {
        server.client.clone().claim(claim(consumer, "1")).await.unwrap();
    }
    ask(&server, &["complete-consumers"]).await.is(0, "a\n\u{e4}\n");
    ask(&server, &["complete-consumers", "b"]).await.is(0, "");
    let hidden = alone(&["--help"]).says(0, &["completions"]);
    assert!(!hidden.out.contains("complete-consumers"), "{hidden:?}");
    server.stop().await;
}

#[test]
fn scripts_of_other_shells_ask_for_names() {
    let zsh = alone(&["completions", "zsh"]).says(0, &[]).out;
    let function = zsh.find("_idempotency_ledger_consumers() {").unwrap();
    assert!(function < zsh.rfind("funcstack[1]").unwrap(), "it is defined before it is called");
    assert!(zsh.contains(":CONSUMER:_idempotency_ledger_consumers") && !zsh.contains(":CONSUMER:_default"));
    alone(&["completions", "fish"]).says(0, &["-l consumer -x -a", "complete-consumers"]);
}
