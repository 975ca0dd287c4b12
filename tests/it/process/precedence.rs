//! Every setting, by file, by variable, by flag and by all of them: the catalogue is what `serve --check-config` prints.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use super::BINARY;
use crate::harness::pki::Pki;

/// Three values of a setting, none of them its default where it has so many: for the file, the variable and the flag.
type Sample = (&'static str, [&'static str; 3]);

/// Settings that may be set together. `FOLDER` stands for a folder that exists.
const TOGETHER: [Sample; 61] = [
    ("listen", ["10.0.0.1:1", "10.0.0.2:2", "10.0.0.3:3"]),
    ("admin_listen", ["10.0.0.1:4", "10.0.0.2:5", "10.0.0.3:6"]),
    ("http_listen", ["10.0.0.1:7", "10.0.0.2:8", "10.0.0.3:9"]),
    ("admin_http_listen", ["10.0.0.1:10", "10.0.0.2:11", "10.0.0.3:12"]),
    ("http_hosts", ["a.example", "b.example", "c.example"]),
    ("listen_tls_cert", ["FOLDER/cert1", "FOLDER/cert2", "FOLDER/cert3"]),
    ("listen_tls_key", ["FOLDER/key1", "FOLDER/key2", "FOLDER/key3"]),
    ("listen_tls_client_ca", ["FOLDER/ca1", "FOLDER/ca2", "FOLDER/ca3"]),
    ("listen_tls_client_crl", ["FOLDER/crl1", "FOLDER/crl2", "FOLDER/crl3"]),
    ("tokens_file", ["FOLDER/tokens1", "FOLDER/tokens2", "FOLDER/tokens3"]),
    ("rights_file", ["FOLDER/rights1", "FOLDER/rights2", "FOLDER/rights3"]),
    ("trusted_proxies", ["10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"]),
    ("jwks_refresh", ["1m", "2m", "3m"]),
    ("jwks_keep", ["2d", "3d", "4d"]),
    ("observe_listen", ["127.0.0.1:13", "127.0.0.1:14", "127.0.0.1:15"]),
    (
        "database_url",
        ["postgres://localhost/file", "postgres://localhost/variable", "postgres://localhost/flag"],
    ),
    ("database_user_file", ["FOLDER/user1", "FOLDER/user2", "FOLDER/user3"]),
    ("database_password_file", ["FOLDER/password1", "FOLDER/password2", "FOLDER/password3"]),
    ("schema", ["of_file", "of_variable", "of_flag"]),
    ("sessions", ["4", "5", "6"]),
    ("max_connection_lifetime", ["1h", "2h", "3h"]),
    ("threads", ["2", "3", "4"]),
    ("lock_wait", ["100ms", "200ms", "300ms"]),
    ("prepared_statements", ["false", "true", "false"]),
    ("transaction_pooling", ["true", "false", "true"]),
    ("startup_wait", ["1s", "2s", "3s"]),
    ("queue_max", ["9001", "9002", "9003"]),
    ("queue_bytes_max", ["70000001", "70000002", "70000003"]),
    ("batch_max", ["101", "102", "103"]),
    ("inbox_sessions", ["2", "3", "4"]),
    ("inbox_bytes_max", ["20000001", "20000002", "20000003"]),
    ("purge_batch", ["101", "102", "103"]),
    ("purge_every", ["11s", "12s", "13s"]),
    ("count_every", ["2m", "3m", "4m"]),
    ("audit_retention", ["400d", "500d", "600d"]),
    ("log_error_texts", ["true", "false", "true"]),
    ("require_registration", ["true", "false", "true"]),
    ("require_redelivery_window", ["true", "false", "true"]),
    ("consumer_bytes_max", ["101", "102", "103"]),
    ("source_bytes_max", ["101", "102", "103"]),
    ("id_bytes_max", ["101", "102", "103"]),
    ("owner_bytes_max", ["101", "102", "103"]),
    ("fingerprint_bytes_max", ["41", "42", "43"]),
    ("error_bytes_max", ["1001", "1002", "1003"]),
    ("result_bytes_max", ["10001", "10002", "10003"]),
    ("checkpoint_bytes_max", ["10001", "10002", "10003"]),
    ("batch_items_max", ["501", "502", "503"]),
    ("batch_bytes_max", ["3600001", "3600002", "3600003"]),
    ("connections_per_address_max", ["101", "102", "103"]),
    ("connection_idle_max", ["1m", "2m", "3m"]),
    ("connection_age_max", ["1h", "2h", "3h"]),
    ("connection_age_grace", ["2h", "3h", "4h"]),
    ("principal_calls_max", ["101", "102", "103"]),
    ("principal_calls_per_second", ["101", "102", "103"]),
    ("principal_bytes_max", ["50000001", "50000002", "50000003"]),
    ("connections_max", ["1001", "1002", "1003"]),
    ("connection_bytes_max", ["17000001", "17000002", "17000003"]),
    ("server_bytes_max", ["300000001", "300000002", "300000003"]),
    ("stall_max", ["11s", "12s", "13s"]),
    ("deadline_max", ["31s", "32s", "33s"]),
    ("max_wait", ["5s", "6s", "7s"]),
];
const TOGETHER_TOO: [Sample; 4] = [
    ("slow_call", ["2s", "3s", "4s"]),
    ("drain_wait", ["1s", "2s", "3s"]),
    ("drain_max", ["20s", "21s", "22s"]),
    ("reflection", ["false", "true", "false"]),
];
/// Settings that exclude one of the others.
const ALONE: [Sample; 2] = [
    ("insecure_anonymous", ["true", "false", "true"]),
    ("database_url_file", ["FOLDER/url1", "FOLDER/url2", "FOLDER/url3"]),
];

const FILE: usize = 0;
const VARIABLE: usize = 1;
const FLAG: usize = 2;

/// The value and the source of each setting, as printed.
fn in_force(folder: &Path, samples: &[Sample], by: &[usize]) -> BTreeMap<String, (String, String)> {
    let text = |value: &str| value.replace("FOLDER", &folder.to_string_lossy());
    let variable = |name: &str| format!("IDEMPOTENCY_LEDGER_{}", name.to_uppercase());
    let config = folder.join("ledger.toml");
    let mut command = Command::new(BINARY);
    command.env_clear().args(["serve", "--check-config", "--config"]).arg(&config);
    let mut lines = String::new();
    for (name, values) in samples {
        if by.contains(&FILE) {
            let value = text(values[FILE]);
            let plain = value.parse::<i64>().is_ok() || value.parse::<bool>().is_ok();
            lines += &if plain { format!("{name} = {value}\n") } else { format!("{name} = {value:?}\n") };
        }
        if by.contains(&VARIABLE) {
            command.env(variable(name), text(values[VARIABLE]));
        }
        if by.contains(&FLAG) {
            command.arg(format!("--{}={}", name.replace('_', "-"), text(values[FLAG])));
        }
    }
    std::fs::write(&config, lines).unwrap();
    let output = command.output().unwrap();
    assert!(output.status.success(), "{by:?}: {}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let settings = printed.lines().take_while(|line| !line.starts_with('['));
    let parsed = settings.filter_map(|line| {
        let (setting, source) = line.rsplit_once("  # ")?;
        // A URL with a password is described, and not shown.
        let (name, value) =
            setting.split_once(" = ").or_else(|| setting.strip_prefix("# ")?.split_once(": "))?;
        Some((name.to_owned(), (value.trim_matches('"').to_owned(), source.to_owned())))
    });
    parsed.collect()
}

#[test]
fn each_setting_is_taken_from_flag_variable_and_file_in_this_order() {
    let folder = tempfile::tempdir().unwrap();
    let pki = Pki::new();
    let (certificate, key) = pki.signed("localhost");
    let files = [
        ("cert", certificate.as_str()),
        ("key", &key),
        ("ca", &pki.issuer.pem()),
        ("crl", &pki.revoked(&[])),
        ("tokens", "[tokens]\n"),
        ("rights", "[[rights]]\nprincipal = \"token:a\"\nconsumers = [\"*\"]\nmay = [\"claim\"]\n"),
        ("user", "ledger"),
        ("password", "secret"),
        ("url", "postgres://localhost/x"),
    ];
    for (kind, content) in files {
        for number in 1..=3 {
            std::fs::write(folder.path().join(format!("{kind}{number}")), content).unwrap();
        }
    }
    let together: Vec<Sample> = TOGETHER.into_iter().chain(TOGETHER_TOO).collect();
    let groups: Vec<Vec<Sample>> = [together].into_iter().chain(ALONE.map(|one| vec![one])).collect();
    let known: BTreeSet<String> = groups.iter().flatten().map(|(name, _)| (*name).to_owned()).collect();
    let printed: BTreeSet<String> = in_force(folder.path(), &[], &[]).into_keys().collect();
    assert_eq!(known, printed, "each setting has a sample here");
    let orders: [&[usize]; 7] = [
        &[FILE],
        &[VARIABLE],
        &[FLAG],
        &[FILE, VARIABLE],
        &[FILE, FLAG],
        &[VARIABLE, FLAG],
        &[FILE, VARIABLE, FLAG],
    ];
    for samples in &groups {
        for by in orders {
            let shown = in_force(folder.path(), samples, by);
            let wins = by[by.len() - 1];
            for (name, values) in samples {
                let (value, source) = &shown[*name];
                let expected = values[wins].replace("FOLDER", &folder.path().to_string_lossy());
                let expected = match expected.strip_prefix("postgres://localhost/") {
                    Some(database) => {
                        format!("Postgres database {database} on localhost:5432 (sslmode=prefer)")
                    }
                    None => expected,
                };
                let from = match wins {
                    FILE => "ledger.toml, line ".to_owned(),
                    VARIABLE => format!("IDEMPOTENCY_LEDGER_{}", name.to_uppercase()),
                    _ => format!("--{}", name.replace('_', "-")),
                };
                assert!(
                    *value == expected && source.contains(&from),
                    "{name} by {by:?}: {value} of {source}, not {expected} of {from}"
                );
            }
        }
    }
}
