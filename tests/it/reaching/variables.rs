//! Variables of the environment: empty ones are named, misspelt ones are warned of, those of libpq that ask for safety are
//! refused.

use std::process::Command;

use crate::process::BINARY;

/// What `serve --check-config` says with this variable, and its exit code.
fn said(variable: &str, value: &str) -> (String, Option<i32>) {
    let mut command = Command::new(BINARY);
    // Variables of the tests themselves are not settings: the program would warn of each.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("IDEMPOTENCY_LEDGER_TEST_") {
            command.env_remove(name);
        }
    }
    let output = command
        .args(["serve", "--check-config", "--database-url", "postgres://127.0.0.1/x"])
        .env(variable, value)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    (text.into_owned(), output.status.code())
}

#[test]
fn a_variable_that_is_wrong_is_named() {
    for (variable, value, code, says) in [
        ("IDEMPOTENCY_LEDGER_CONFIG", "", 2, &["config: is empty", "IDEMPOTENCY_LEDGER_CONFIG"][..]),
        ("IDEMPOTENCY_LEDGER_LISTEN", "", 2, &["IDEMPOTENCY_LEDGER_LISTEN"]),
        ("IDEMPOTENCY_LEDGER_LOG_FORMAT", "", 2, &["IDEMPOTENCY_LEDGER_LOG_FORMAT"]),
        ("IDEMPOTENCY_LEDGER_LOG", "", 2, &["log: is empty"]),
        (
            "IDEMPOTENCY_LEDGER_LISTN",
            "x",
            0,
            &["WARN", "IDEMPOTENCY_LEDGER_LISTN", "\"IDEMPOTENCY_LEDGER_LISTEN\""],
        ),
        ("IDEMPOTENCY_LEDGER_DATABASEURL", "zq7mark", 0, &["WARN", "\"IDEMPOTENCY_LEDGER_DATABASE_URL\""]),
        ("PGCHANNELBINDING", "require", 2, &["PGCHANNELBINDING asks for"]),
        ("PGSSLNEGOTIATION", "direct", 2, &["PGSSLNEGOTIATION asks for"]),
        ("PGSSLNEGOTIATION", "postgres", 0, &[]),
        ("PGSSLCERTMODE", "disable", 0, &[]),
        ("PGPORT", "18470x", 2, &["PGPORT: must be a number from 1 to 65535"]),
        ("PGPORT", "18470,18470", 2, &["PGPORT: names 2 ports for 1 servers"]),
        ("PGPORT", "", 0, &[]),
        ("PGHOSTADDR", "192.0.2.7", 2, &["PGHOSTADDR names an address, and the URL a host"]),
        ("PGSSLMODE", "sometimes", 2, &["PGSSLMODE: must be one of"]),
        ("PGSSLROOTCERT", "", 2, &["PGSSLROOTCERT is empty"]),
        ("PGSSLROOTCERT", "system", 2, &["write sslrootcert=system into the URL"]),
        ("IDEMPOTENCY_LEDGER_ENDPOINT", "http://x", 0, &[]),
    ] {
        let (text, ended) = said(variable, value);
        assert_eq!(ended, Some(code), "{variable}={value}: {text}");
        for word in says {
            assert!(text.contains(word), "{variable}={value} must say {word:?}: {text}");
        }
        assert!(!text.contains("zq7mark"), "a value is shown: {text}");
        assert!(!says.is_empty() || !text.contains("WARN"), "{variable}={value}: {text}");
    }
}
