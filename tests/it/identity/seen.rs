//! What a server tells of its credentials: by its metrics, and to who asks for its health.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use idempotency_ledger::identity::NewToken;
use idempotency_ledger::proto::BatchClaimRequest;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use rcgen::date_time_ymd;
use tokio::time::sleep;

use super::reload::Mounted;
use super::tls::way;
use super::web_tokens::now;
use super::{People, by};
use crate::harness::details::claim;
use crate::observe::series;
use crate::process::{BINARY, Server, sqlite};

const SETTINGS: [&str; 6] = [
    "listen_tls_cert",
    "listen_tls_client_ca",
    "listen_tls_client_crl",
    "listen_tls_key",
    "rights_file",
    "tokens_file",
];
const ENDS: &str = "idempotency_ledger_tls_certificate_expiry_timestamp_seconds";
const LIST_ENDS: &str = "idempotency_ledger_tls_revocation_list_expiry_timestamp_seconds";
const TOKEN_ENDS: &str = "idempotency_ledger_token_expiry_timestamp_seconds";
const WITHIN: Duration = Duration::from_secs(10);

/// Of each setting that has one, the value of a metric.
fn by_setting(series: &BTreeMap<String, f64>, name: &str) -> Vec<(String, f64)> {
    let start = format!("idempotency_ledger_credential_files_{name}{{setting=\"");
    let one =
        |(series, value): (&String, &f64)| Some((series.strip_prefix(&start)?.replace("\"}", ""), *value));
    series.iter().filter_map(one).collect()
}

/// Waits until these settings' files are told to fail, and no others; the reloads, and when the certificate ends.
async fn failing(mounted: &Mounted, which: &[&str], ends: i32) -> Vec<(String, f64)> {
    let expected = as_failing(which);
    let until = Instant::now() + WITHIN;
    loop {
        let now = series(&mounted.observed).await;
        let failing = by_setting(&now, "failing");
        if failing == expected && now.get(ENDS) == Some(&f64::from(ends)) {
            return by_setting(&now, "reloads_total");
        }
        assert!(Instant::now() < until, "{failing:?}, not {expected:?}; {:?}", now.get(ENDS));
        sleep(Duration::from_millis(20)).await;
    }
}

fn as_failing(which: &[&str]) -> Vec<(String, f64)> {
    SETTINGS.iter().map(|one| ((*one).to_owned(), f64::from(u8::from(which.contains(one))))).collect()
}

/// Waits until these settings' files are told to fail, and no others.
async fn wait_for_failing(mounted: &Mounted, which: &[&str], within: Duration) {
    let (expected, until) = (as_failing(which), Instant::now() + within);
    loop {
        let failing = by_setting(&series(&mounted.observed).await, "failing");
        if failing == expected {
            return;
        }
        assert!(Instant::now() < until, "{failing:?}, not {expected:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

fn counts(of: &[(&str, u8)]) -> Vec<(String, f64)> {
    let count = |one: &str| of.iter().find(|(name, _)| *name == one).map_or(0, |(_, count)| *count);
    SETTINGS.iter().map(|one| ((*one).to_owned(), f64::from(count(one)))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metrics_tell_which_files_fail_and_when_the_certificate_ends() {
    let people = People::new(&[("one", &[("c", "claim")])]);
    let mut mounted = Mounted::start(&people).await;
    let ends_in = |year| {
        let issued =
            mounted.pki.issued(&["localhost"], 1, |params| params.not_after = date_time_ymd(year, 1, 1));
        (issued, i32::try_from(date_time_ymd(year, 1, 1).unix_timestamp()).unwrap())
    };
    let ((first, first_key), first_end) = ends_in(2031);
    let ((next, next_key), next_end) = ends_in(2032);
    let ((last, last_key), last_end) = ends_in(2033);
    mounted.swap(&[("cert.pem", &first), ("key.pem", &first_key)]);
    let reloads = failing(&mounted, &[], first_end).await;
    assert_eq!(reloads, counts(&[("listen_tls_cert", 1), ("listen_tls_key", 1)]));
    // What is broken is told by its setting, and is not in force: neither is what belongs to it.
    mounted.swap(&[("tokens.toml", "[tokens")]);
    failing(&mounted, &["tokens_file"], first_end).await;
    mounted.swap(&[("key.pem", "no key"), ("cert.pem", &next)]);
    failing(&mounted, &["tokens_file", "listen_tls_key"], first_end).await;
    fs::remove_file(mounted.path("now/rights.toml")).unwrap();
    let reloads = failing(&mounted, &["tokens_file", "listen_tls_key", "rights_file"], first_end).await;
    assert_eq!(reloads, counts(&[("listen_tls_cert", 1), ("listen_tls_key", 1)]));
    assert_eq!(series(&mounted.observed).await.get(TOKEN_ENDS), None);
    // One is as it was, and the others are new: of the tokens one has ended, and one ends tomorrow.
    fs::write(mounted.path("now/rights.toml"), &people.rights_file).unwrap();
    let [ended, tomorrow] = [("gone", 1_000), ("near", now() + 86_400)]
        .map(|(name, end)| NewToken::until(name, Some(end)).unwrap());
    // Only the first 20 of them have a line each.
    let later = |number| NewToken::until(&format!("later-{number}"), Some(now() + 2 * 86_400)).unwrap().line;
    let later: Vec<String> = (0..21).map(later).collect();
    let tokens = format!("[tokens]\n{}\n{}\n{}\n", ended.line, tomorrow.line, later.join("\n"));
    mounted.swap(&[("key.pem", &next_key), ("tokens.toml", &tokens)]);
    let reloads = failing(&mounted, &[], next_end).await;
    assert_eq!(series(&mounted.observed).await.get(TOKEN_ENDS), Some(&1_000.0));
    let log = mounted.log();
    for said in ["a token of token:gone ended at 1970-01-01T00:16:40Z", "a token of token:near ends at 20"] {
        assert_eq!(log.matches(said).count(), 1, "{said}: {log}");
    }
    assert_eq!(log.matches("a token of token:later-").count(), 18, "{log}");
    assert!(log.contains("more tokens have ended") && log.contains("more=3"), "{log}");
    assert_eq!(reloads, counts(&[("listen_tls_cert", 2), ("listen_tls_key", 2), ("tokens_file", 1)]));
    // Of two that belong together, one alone is new; and one thing more, by which one sees that it was read.
    let revoked = mounted.pki.revoked(&[7]);
    let endless = people.tokens_file.as_str();
    let last = [
        ("crl.pem", revoked.as_str()),
        ("cert.pem", &last),
        ("key.pem", &last_key),
        ("tokens.toml", endless),
    ];
    mounted.swap(&last);
    failing(&mounted, &[], last_end).await;
    let expected =
        [("listen_tls_cert", 3), ("listen_tls_key", 3), ("tokens_file", 2), ("listen_tls_client_crl", 1)];
    let until = Instant::now() + WITHIN;
    let list_end = f64::from(i32::try_from(date_time_ymd(2035, 1, 1).unix_timestamp()).unwrap());
    loop {
        let shown = series(&mounted.observed).await;
        let ends = (shown.get(LIST_ENDS), shown.get(TOKEN_ENDS));
        if by_setting(&shown, "reloads_total") == counts(&expected) && ends == (Some(&list_end), None) {
            break;
        }
        assert!(Instant::now() < until, "{shown:?}");
        sleep(Duration::from_millis(20)).await;
    }
    // At the start, and with each key that came into force.
    let warned = format!(
        "every user of this machine may read this private key: chmod 600 {}",
        mounted.path("key.pem")
    );
    assert_eq!(mounted.log().matches(&warned).count(), 4, "{}", mounted.log());
}

/// One tenant has named all the consumers that clients can name in the metrics.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_that_rights_name_exactly_have_series_after_a_flood_of_names() {
    let mut people = People::new(&[
        ("tenant", &[("tenant-*", "claim")]),
        ("shop", &[("payments", "claim"), ("orders-*", "claim")]),
    ]);
    let mut mounted = Mounted::start(&people).await;
    let channel = way(&mounted.pki, mounted.port, None).connect().await.unwrap();
    let mut client = LedgerServiceClient::new(channel);
    let requests = (0..150).map(|number| claim(&format!("tenant-{number}"), "1")).collect();
    let flood = BatchClaimRequest { requests };
    client.batch_claim(by(people.token("tenant"), flood)).await.unwrap();
    let observed = mounted.observed.clone();
    let has = async |consumer: &str| {
        let start = format!("idempotency_ledger_claims_total{{consumer=\"{consumer}\",");
        series(&observed).await.iter().any(|(name, value)| name.starts_with(&start) && *value > 0.0)
    };
    for (consumer, named) in [("payments", true), ("orders-1", false), ("other", true)] {
        if consumer != "other" {
            client.claim(by(people.token("shop"), claim(consumer, "1"))).await.unwrap();
        }
        assert_eq!(has(consumer).await, named, "{consumer}");
    }
    // A line that names it comes into force.
    people.rights_file = people.rights_file.replace("orders-*", "orders-1");
    mounted.swap(&[("rights.toml", &people.rights_file)]);
    let until = Instant::now() + WITHIN;
    while !has("orders-1").await {
        assert!(Instant::now() < until, "it has no series");
        client.claim(by(people.token("shop"), claim("orders-1", "1"))).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_credentials_tells_of_none() {
    let folder = tempfile::tempdir().unwrap();
    let observed = format!("127.0.0.1:{}", crate::harness::postgres::free_port());
    let settings = ["--observe-listen", &observed];
    let server =
        Server::with(Command::new(BINARY), &sqlite(folder.path()), &settings, std::process::Stdio::null())
            .await;
    let told = series(&observed).await;
    let of_credentials = |name: &&String| name.contains("credential_files") || name.contains("certificate");
    assert_eq!(told.keys().find(of_credentials), None);
    // The operators' authority is of another server: who asks this one is not led astray by it.
    let asked = Command::new(BINARY)
        .args(["health", "--address", &server.address])
        .env("IDEMPOTENCY_LEDGER_TLS_CA", "/no/such/file")
        .output()
        .unwrap();
    assert_eq!(said(&asked), (true, "SERVING\n".to_owned()));
}

fn said(output: &Output) -> (bool, String) {
    let text = if output.status.success() { &output.stdout } else { &output.stderr };
    (output.status.success(), String::from_utf8_lossy(text).into_owned())
}

/// The command that a server tells at its start works as it stands, but for the file that nobody else knows.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_asked_over_tls_as_the_server_tells() {
    let mounted = Mounted::start(&People::new(&[])).await;
    let out = fs::read_to_string(mounted.path("out")).unwrap();
    let hint = out.lines().find_map(|line| line.trim().strip_prefix("next, try: ")).unwrap().to_owned();
    assert!(mounted.log().contains(&hint), "{hint}: {}", mounted.log());
    assert!(hint.contains(&format!("health --address https://127.0.0.1:{} --", mounted.port)), "{hint}");
    let pasted = |command: &str| said(&Command::new("sh").args(["-c", command]).output().unwrap());
    let with_ca = hint.replace("CA_FILE", &mounted.path("ca.pem"));
    assert_ne!(with_ca, hint);
    // It listens before its store has answered.
    let until = Instant::now() + Duration::from_secs(30);
    while pasted(&with_ca).1 == format!("error: https://127.0.0.1:{}: not serving\n", mounted.port) {
        assert!(Instant::now() < until, "the server does not serve");
    }
    assert_eq!(pasted(&with_ca), (true, "SERVING\n".to_owned()), "{with_ca}");
    let without_ca = hint.replace(" --tls-ca CA_FILE", "");
    let (address, ca) = (format!("127.0.0.1:{}", mounted.port), mounted.path("ca.pem"));
    let way = |more: &str| format!("{BINARY} health --address {more}");
    for (command, says) in [
        (hint.clone(), "--tls-ca: CA_FILE: "),
        (without_ca, "name the authority of the server's certificate with --tls-ca"),
        (way(&format!("https://{address} --tls-ca {ca}")), "or its name with --tls-domain"),
        (way(&format!("https://{address} --tls-ca {ca} --tls-domain other")), "with --tls-domain"),
        (way(&format!("http://{address} --tls-ca {ca}")), "need https://"),
        (way(&format!("http://{address} --tls-domain localhost")), "need https://"),
        (way(&format!("ftp://{address}")), "is none of HOST:PORT"),
        (way(&address), "https:// is for a server that speaks TLS"),
    ] {
        let (done, text) = pasted(&command);
        assert!(!done && text.contains(says), "{command} must say {says:?}: {text}");
    }
    // As with the operators' commands: a flag of TLS says enough.
    let short = way(&format!("{address} --tls-ca {ca} --tls-domain localhost --service accepting"));
    assert_eq!(pasted(&short), (true, "SERVING\n".to_owned()), "{short}");
}

/// Whoever opens the file waits, as at a disk that does not answer: a lease of the kernel's on it, which it takes away
/// after 45 s.
const HELD: &str = "
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
held = os.open(sys.argv[1], os.O_RDWR)
while True:
    try:
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        break
    except BlockingIOError:
        time.sleep(0.001)
sys.stdin.read()
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_does_not_answer_is_told_and_calls_go_on() {
    let people = People::new(&[("one", &[("c", "claim")])]);
    let mounted = Mounted::start(&people).await;
    let mut holder = Command::new("python3")
        .args(["-c", HELD, &mounted.path("tokens.toml")])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let told = |which: &'static [&'static str]| wait_for_failing(&mounted, which, Duration::from_secs(30));
    // No file is looked at.
    told(&SETTINGS).await;
    assert!(mounted.log().contains("its disk does not answer"), "{}", mounted.log());
    let channel = way(&mounted.pki, mounted.port, None).connect().await.unwrap();
    let answer = LedgerServiceClient::new(channel).claim(by(people.token("one"), claim("c", "1"))).await;
    assert!(answer.is_ok(), "{answer:?}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    told(&[]).await;
}
