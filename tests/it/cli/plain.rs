//! What needs no server: help, completions, servers that are not there.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use idempotency_ledger::domain::KEY_FORMAT;
use idempotency_ledger::store::{LEVEL, SCHEMA};

use super::{alone, command};

#[test]
fn a_server_that_is_not_there_is_named() {
    let list = ["entries", "list", "--consumer", "c", "--endpoint"];
    alone(&[&list[..], &["127.0.0.1:1"]].concat()).says(
        5,
        &["error: http://127.0.0.1:1/: ", "onnection refused", "next: is the server running?", "--endpoint"],
    );
    for (endpoint, says) in [
        ("ftp://127.0.0.1:1", "is none of http://HOST:PORT"),
        ("http://", "--endpoint: "),
        ("a b", "--endpoint: "),
    ] {
        alone(&[&list[..], &[endpoint]].concat()).says(2, &[says]);
    }
}

#[test]
fn options_that_do_not_fit_are_refused() {
    let list = ["entries", "list", "--consumer", "c"];
    for (flags, says) in [
        (&["--tls-ca", "/no/such.pem", "--endpoint", "https://127.0.0.1:1"][..], "--tls-ca: /no/such.pem: "),
        (&["--tls-domain", "x", "--endpoint", "http://127.0.0.1:1"], "--tls-… needs https://"),
        (&["--tls-cert", "/no/such.pem", "--endpoint", "127.0.0.1:1"], "--tls-cert and --tls-key"),
        (&["--token", "a", "--token-file", "b"], "--token and --token-file"),
        (&["--token", "a\nb"], "the token has a character"),
        (&["--timeout", "soon"], "soon"),
        (&["--color", "pink"], "pink"),
        (&["--state", "LOST"], "LOST"),
    ] {
        let ran = alone(&[&list[..], flags].concat()).says(2, &[says]);
        assert!(!ran.err.contains("b\n"), "{ran:?}");
    }
}

#[test]
fn shared_options_stand_before_or_after_the_command() {
    let server = "127.0.0.1:1";
    for arguments in [
        &["--endpoint", server, "entries", "list", "--consumer", "c"][..],
        &["entries", "--endpoint", server, "list", "--consumer", "c"],
        &["entries", "list", "--consumer", "c", "--endpoint", server],
        &["--json", "--endpoint=127.0.0.1:1", "--timeout", "5s", "policy", "list"],
        &["--wide", "audit", "list", "--endpoint", server],
        &["--color", "never", "--endpoint", server, "retention", "--json", "status"],
        &["--plaintext-token", "--endpoint", server, "policy", "list"],
        &["--contexts-file", "/no/such", "--endpoint", server, "policy", "list"],
    ] {
        alone(arguments).says(5, &["error: http://127.0.0.1:1/: "]);
    }
    for (arguments, says) in [
        // The server's commands have none of these, and the operators' commands have none of the server's.
        (&["--json", "serve"][..], "'--json'"),
        (&["serve", "--json"], "'--json'"),
        (&["--timeout", "5s", "migrate"], "'--timeout'"),
        (&["--log", "debug", "entries", "list", "--consumer", "c"], "'--log'"),
        (&["entries", "list", "--consumer", "c", "--log", "debug"], "'--log'"),
        (&["policy", "list", "--log-format", "json"], "'--log-format'"),
        (&["health", "--log", "debug"], "'--log'"),
        // The commands about contexts speak to no server.
        (&["--endpoint", server, "context", "list"], "'--endpoint'"),
        (&["context", "list", "--token", "t"], "'--token'"),
        (&["context", "set", "c", "--endpoint", "a:1", "--token", "t"], "'--token'"),
    ] {
        alone(arguments).says(2, &[says, "unexpected argument"]);
    }
    for command in ["serve", "migrate"] {
        let help = alone(&[command, "--help"]).says(0, &["--log-format <LOG_FORMAT>", "--log <FILTER>"]);
        assert!(!help.out.contains("--json"), "{help:?}");
    }
}

#[test]
fn completions_know_the_commands() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let made = alone(&["completions", shell]).says(0, &["redrive", "idempotency-ledger", "history"]);
        assert_eq!(made.err, "");
    }
    alone(&["completions", "cobol"]).says(2, &["cobol"]);
}

#[test]
fn version_prints_what_the_program_works_with() {
    let told: serde_json::Value =
        serde_json::from_str(&alone(&["version", "--json"]).says(0, &[]).out).unwrap();
    let expected = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "commit": "unknown", // no build of tests asks for it
        "schema": SCHEMA,
        "level": LEVEL,
        "keyFormat": KEY_FORMAT,
    });
    assert_eq!(told, expected);
    alone(&["version"]).says(0, &[env!("CARGO_PKG_VERSION"), "schema"]);
}

#[test]
fn manual_has_a_page_for_each_command() {
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("share/man1");
    alone(&["manual", pages.to_str().unwrap()]).says(0, &[]);
    for (name, has) in [
        ("idempotency-ledger", "SUBCOMMANDS"),
        ("idempotency-ledger-serve", "database\\-url"),
        ("idempotency-ledger-entries-list", "consumer"),
        ("idempotency-ledger-tokens-raise-offset", "expected\\-offset"),
    ] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(has), "{name}: {page}");
    }
    let file = pages.join("idempotency-ledger.1");
    alone(&["manual", file.to_str().unwrap()]).says(1, &[file.to_str().unwrap()]);
}

/// What bash offers for a line, by the script that we print.
fn offered(line: &[&str]) -> Vec<String> {
    let script = alone(&["completions", "bash"]).says(0, &[]).out;
    let words = line.join(" ");
    let (word, last) = (line.last().unwrap_or(&""), line.len() - 1);
    let before = line.get(last - 1).unwrap_or(&"");
    let text = format!(
        "{script}\nCOMP_WORDS=({}); COMP_CWORD={last}; COMP_LINE='{words}'; COMP_POINT={}\n\
         function=$(complete -p idempotency-ledger | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n\
         $function idempotency-ledger '{word}' '{before}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        line.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        words.len()
    );
    // As a word of a command line it would be too long.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("offered.bash");
    std::fs::write(&file, text).unwrap();
    let said = std::process::Command::new("bash").arg("--norc").arg(&file).output().unwrap();
    assert!(said.status.success(), "{said:?}");
    String::from_utf8(said.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_each_word() {
    let first = offered(&["idempotency-ledger", "ent"]);
    assert_eq!(first, ["entries"]);
    let commands = offered(&["idempotency-ledger", "entries", ""]);
    for command in ["list", "get", "summary", "redrive", "park", "resolve", "delete", "import"] {
        assert!(commands.iter().any(|one| one == command), "{commands:?}");
    }
    assert_eq!(offered(&["idempotency-ledger", "policy", "hi"]), ["history"]);
    assert_eq!(offered(&["idempotency-ledger", "context", "us"]), ["use"]);
    assert_eq!(offered(&["idempotency-ledger", "entries", "list", "--state", "P"]), ["PARKED"]);
    assert_eq!(offered(&["idempotency-ledger", "entries", "redrive", "--drop"]), ["--drop-fingerprint"]);
    assert_eq!(offered(&["idempotency-ledger", "audit", "list", "--color", "al"]), ["always"]);
}

#[test]
fn help_tells_the_exit_codes_and_the_variables() {
    for group in ["entries", "policy", "audit", "retention"] {
        let help = alone(&[group, "--help"])
            .says(0, &["Exit codes:", "  6  partly done", "  7  policy apply --dry-run"]);
        for flag in [
            "endpoint",
            "context",
            "tls-ca",
            "tls-cert",
            "tls-key",
            "tls-domain",
            "token",
            "token-file",
            "plaintext-token",
            "timeout",
            "json",
            "color",
        ] {
            assert!(help.out.contains(&format!("--{flag}")), "{flag}");
            let variable = format!("IDEMPOTENCY_LEDGER_{}", flag.replace('-', "_").to_uppercase());
            assert!(help.out.contains(&variable), "{variable}");
        }
        assert!(help.out.contains("--contexts-file <FILE>"), "{help:?}");
        assert!(help.out.contains("IDEMPOTENCY_LEDGER_CONTEXTS"), "{help:?}");
        alone(&[group]).says(2, &["Usage:"]);
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let mut child =
        command(&["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    let mut out = BufReader::with_capacity(16, child.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
}
