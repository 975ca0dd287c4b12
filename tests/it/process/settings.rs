//! What is wrong at a start is said with the name of its setting.

use std::process::Command;

use super::{BINARY, fails, run, sqlite};
use crate::identity::People;

#[test]
fn a_wrong_setting_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let fine = sqlite(folder.path());
    let rows: &[(&[&str], &[&str])] = &[
        (&["serve", "--database-url", "mysql://x"], &["database_url", "sqlite://", "postgres://"]),
        (&["serve", "--database-url", "sqlite://"], &["database_url", "path of a file"]),
        (
            &["serve", "--database-url", "sqlite:///no/such/folder/ledger.db"],
            &["database_url", "/no/such/folder"],
        ),
        (&["serve", "--database-url", "sqlite:///proc/ledger.db"], &["database_url", "writable"]),
        (&["serve", "--database-url", "postgres://127.0.0.1:1/x"], &["database_url", "127.0.0.1:1"]),
        (
            &["serve", "--database-url", "postgres://db.internal/x"],
            &[
                "database_url",
                "the server db.internal",
                "sslmode=verify-full&sslrootcert=",
                "sslmode=disable",
            ],
        ),
        (
            &["migrate", "--database-url", "postgres://db.internal/x"],
            &["database_url", "sslmode=verify-full"],
        ),
        (
            &["serve", "--check-config", "--database-url", "postgres://localhost,db.internal/x"],
            &["database_url", "the server db.internal", "sslmode=verify-full"],
        ),
        (&["serve", "--database-url", &fine, "--queue-max", "3"], &["queue_max", "16 to 1000000"]),
        (
            &["serve", "--database-url", &fine, "--queue-bytes-max", "5000000"],
            &["queue_bytes_max", "5872032", "batch_bytes_max"],
        ),
        (
            &["serve", "--database-url", &fine, "--queue-bytes-max", "5"],
            &["queue_bytes_max", "1048576 to 1099511627776"],
        ),
        (
            &["serve", "--database-url", &fine, "--connection-bytes-max", "3683327"],
            &["connection_bytes_max", "3683328", "batch_bytes_max"],
        ),
        (
            &["serve", "--database-url", &fine, "--server-bytes-max", "5000000"],
            &["server_bytes_max", "5893328", "batch_bytes_max"],
        ),
        (
            &["serve", "--database-url", &fine, "--principal-bytes-max", "5000000"],
            &["principal_bytes_max", "5893328", "batch_bytes_max", "or 0"],
        ),
        (&["serve", "--database-url", &fine, "--schema", "other"], &["schema", "SQLite", "leave it out"]),
        (
            &["serve", "--database-url", "postgres://127.0.0.1:1/x", "--accept-loss"],
            &["--accept-loss", "SQLite alone", "leave it out"],
        ),
        (
            &["backup", "--database-url", "postgres://127.0.0.1:1/x", "copy.db"],
            &["database_url", "its own tools"],
        ),
        (&["migrate"], &["database_url: is not given", "--database-url"]),
        (
            &["migrate", "--database-url", &fine, "--grant-to", "role"],
            &["database_url", "role", "has no roles"],
        ),
        (&["serve", "--database-url", &fine, "--stall-max", "100ms"], &["stall_max", "1s to 600s"]),
        (
            &["serve", "--database-url", &fine, "--server-bytes-max", "4000000"],
            &["server_bytes_max", "16777216", "connection_bytes_max"],
        ),
        (&["serve", "--database-url", &fine, "--deadline-max", "soon"], &["deadline-max", "30s"]),
        (&["serve", "--database-url", &fine, "--listen", "nowhere"], &["--listen"]),
        (&["serve", "--database-url", &fine, "--config", "/no/such.toml"], &["config", "/no/such.toml"]),
        (&["migrate", "--database-url", "sqlite:///no/such/folder/ledger.db"], &["database_url"]),
    ];
    for (arguments, says) in rows {
        fails(arguments, says);
    }
}

#[test]
fn a_wrong_policy_is_named_with_its_field_and_limit() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.toml");
    for (text, says) in [
        ("queue_maxx = 3", &["queue_maxx"][..]),
        ("[policy]\nleese = \"3s\"", &["leese"]),
        ("[policy]\nlease = \"soon\"", &["soon"]),
        ("[policy]\nlease = \"500ms\"", &["policy.lease", "1s"]),
        ("[policy]\nretention = \"3651d\"", &["policy.retention", "3650d"]),
        ("[consumers.\"team-a*\"]\nlease = \"3s\"", &["consumers.\"team-a*\"", "policy hold"]),
        ("[consumers.pay]\nmax_attempts = -1", &["consumers.\"pay\".max_attempts"]),
        ("[consumers.pay]\non_expiry = \"EXPLODE\"", &["EXPLODE"]),
        (
            "[consumers.pay]\nretention = \"1d\"\nmax_redelivery_window = \"14d\"",
            &["consumers.\"pay\".retention", "max_redelivery_window", "(accepted_risk)"],
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        fails(&["serve", "--database-url", &sqlite(folder.path()), "--config", file.to_str().unwrap()], says);
    }
}

#[test]
fn help_lists_every_setting_and_the_commands() {
    let help =
        String::from_utf8(Command::new(BINARY).args(["serve", "--help"]).output().unwrap().stdout).unwrap();
    for flag in [
        "listen",
        "database-url",
        "config",
        "queue-max",
        "queue-bytes-max",
        "connection-bytes-max",
        "server-bytes-max",
        "drain-wait",
        "batch-bytes-max",
        "log-format",
    ] {
        assert!(help.contains(&format!("--{flag}")), "{flag}");
        let variable = format!("IDEMPOTENCY_LEDGER_{}", flag.replace('-', "_").to_uppercase());
        assert!(help.contains(&variable), "{variable}");
    }
}

/// The driver honours a mode of the environment, unless the driver does not know its word.
#[test]
fn a_mode_of_the_environment_counts_as_written() {
    for (mode, code) in [("disable", 0), ("verify-full", 0), ("sometimes", 2), ("", 2)] {
        let output = Command::new(BINARY)
            .args(["serve", "--check-config", "--database-url", "postgres://db.internal/x"])
            .env("PGSSLMODE", mode)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{mode}: {output:?}");
    }
}

/// 0.0.0.0 is not an address of the loopback, and no server answers at its port 1: the connection is refused immediately.
#[test]
fn a_mode_that_verifies_nothing_is_warned_of_once_at_the_start() {
    for (command, place, warnings) in [
        ("serve", "0.0.0.0:1/x?sslmode=require", 1),
        ("migrate", "0.0.0.0:1/x?sslmode=disable", 1),
        ("serve", "0.0.0.0:1/x?sslmode=verify-full", 0),
        ("serve", "127.0.0.1:1/x?sslmode=disable", 0),
    ] {
        let output = run(&[command, "--database-url", &format!("postgres://{place}")]);
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            text.matches("the database is not verified").count(),
            warnings,
            "{command} {place}: {text}"
        );
    }
}

/// A server that others may reach, and whose secrets or calls they may take: it is warned of before the store is asked.
#[test]
fn a_server_that_is_open_to_others_is_warned_of_at_the_start() {
    const IN_THE_CLEAR: &str = "tokens come in without TLS";
    const OPEN: &str = "every client that reaches this server may do everything";
    let folder = tempfile::tempdir().unwrap();
    let people = People::new(&[("one", &[("*", "claim")])]);
    let [tokens, rights] = ["tokens.toml", "rights.toml"].map(|name| folder.path().join(name));
    std::fs::write(&tokens, &people.tokens_file).unwrap();
    std::fs::write(&rights, &people.rights_file).unwrap();
    let identity = ["--tokens-file", tokens.to_str().unwrap(), "--rights-file", rights.to_str().unwrap()];
    for (listen, flags, clear, open) in [
        ("0.0.0.0:0", &identity[..], 1, 0),
        ("127.0.0.1:0", &identity, 0, 0),
        ("0.0.0.0:0", &["--insecure-anonymous", "true"], 0, 1),
        ("127.0.0.1:0", &[], 0, 0),
    ] {
        let mut arguments = vec!["serve", "--database-url", "postgres://127.0.0.1:1/x", "--listen", listen];
        arguments.extend(["--http-listen", "off"]);
        arguments.extend(flags);
        let text = String::from_utf8_lossy(&run(&arguments).stderr).into_owned();
        let warned = [IN_THE_CLEAR, OPEN].map(|words| text.matches(words).count());
        assert_eq!(warned, [clear, open], "{listen} {flags:?}: {text}");
    }
}

/// Keys that are fetched without TLS could be those of another server.
#[test]
fn an_issuer_whose_keys_cannot_be_fetched_safely_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let [file, rights] = ["ledger.toml", "rights.toml"].map(|name| folder.path().join(name));
    std::fs::write(&rights, People::new(&[("one", &[("*", "claim")])]).rights_file).unwrap();
    let (config, rights) = (file.to_str().unwrap(), rights.to_str().unwrap());
    for (issuer, keys) in [
        ("https://corp", "jwks_url = 'http://corp/keys'"),
        ("https://corp", "jwks_url = 'https://user:secret@corp/keys'"),
        ("http://corp", ""),
        ("corp", ""),
    ] {
        let text = format!("[issuers.corp]\nissuer = '{issuer}'\naudiences = ['ledger']\n{keys}\n");
        std::fs::write(&file, text).unwrap();
        let url = sqlite(folder.path());
        let checked = ["serve", "--check-config", "--database-url", &url, "--config", config];
        let output = run(&[&checked[..], &["--rights-file", rights]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{issuer} {keys}: {text}");
        assert!(
            text.contains("issuers.corp: ") && text.to_ascii_lowercase().contains("https"),
            "{issuer} {keys}: {text}"
        );
        assert!(!text.contains("secret"), "{text}");
    }
}

/// `migrate` listens nowhere: an address that a server could not have without knowing its callers is no fault of it.
#[test]
fn an_address_that_others_reach_keeps_no_migration_from_its_work() {
    let addresses = [
        ["--listen", "0.0.0.0:50051"],
        ["--admin-listen", "0.0.0.0:50052"],
        ["--http-listen", "0.0.0.0:50053"],
        ["--admin-http-listen", "0.0.0.0:50054"],
    ];
    let at = |command| {
        [&[command, "--database-url", "postgres://127.0.0.1:1/none"], addresses.as_flattened()].concat()
    };
    let refused = [
        "error: listen: is 0.0.0.0:50051",
        "error: admin_listen: is 0.0.0.0:50052",
        "error: http_listen: is 0.0.0.0:50053",
        "error: admin_http_listen: is 0.0.0.0:50054",
        "callers are not authenticated",
    ];
    fails(&at("serve"), &refused);
    let output = run(&at("migrate"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!text.contains("_listen") && !text.contains("authenticated"), "{text}");
    assert!(text.contains("database_url: "), "{text}");
}
