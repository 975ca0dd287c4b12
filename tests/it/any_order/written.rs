//! The lists that people write, long and in any order. The catalogue is `docs/configuration.md`: the settings that are lists or
//! name a file with one, and the sections of the configuration file that are written once for each name.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use idempotency_ledger::identity::jwt::{Issuer, Keys};
use idempotency_ledger::identity::{
    Authenticator, Guard, NewToken, Peer, Proxies, Right, Rights, Tokens, Trust, Whose,
};
use idempotency_ledger::rpc::Hosts;
use idempotency_ledger::server::config::{Config, Settings};
use idempotency_ledger::store::{PostgresSource, Purpose, Store as _};
use serde_json::{Value, json};

use super::orders::each_counts_in_any_order;
use crate::docs::read;
use crate::door::client::{Http1, request};
use crate::harness::postgres::{self, free_port};
use crate::harness::server::{Kind, Setup, TestServer, postgres_store_of};
use crate::identity::web_tokens::{ISSUER, Signer};

/// The principal of a call with these headers from this address; empty if it is refused.
fn principal(trust: &Trust, address: &str, headers: &[(&'static str, String)]) -> String {
    let address: IpAddr = address.parse().unwrap();
    let caller = Authenticator::new(Guard::new(trust.clone()), Peer::at(address));
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, HeaderValue::from_str(value).unwrap());
    }
    caller.caller(&map).map(|identity| identity.principal.to_string()).unwrap_or_default()
}

fn bearer(token: &str) -> [(&'static str, String); 1] {
    [("authorization", format!("Bearer {token}"))]
}

/// Each list with its name in the catalogue.
const LISTS: [(&str, fn()); 8] = [
    ("rights_file", rights_file),
    ("rights_file", consumers_of_one_line),
    ("tokens_file", tokens_file),
    ("trusted_proxies", trusted_proxies),
    ("[issuers.NAME]", issuers),
    ("[issuers.NAME]", keys_of_an_issuer),
    ("[issuers.NAME]", audiences_of_an_issuer),
    ("[consumers.NAME]", settings_file),
];
/// Lists that need a server have their own tests, here and in `certificates`.
const SERVED: [&str; 5] =
    ["http_hosts", "database_url", "listen_tls_cert", "listen_tls_client_ca", "listen_tls_client_crl"];

#[test]
fn written_lists_mean_the_same_in_any_order() {
    for (_, list) in LISTS {
        list();
    }
}

/// A setting is a list if its items are separated by commas, or if its file has an item for each of several holders, or several
/// certificates or revocation lists.
#[test]
fn every_list_of_the_configuration_has_a_row() {
    let page = read("docs/configuration.md");
    let settings =
        page.split_once("<!-- printed: settings -->").unwrap().1.split_once("<!-- end -->").unwrap().0;
    let mut known: BTreeSet<String> = settings
        .lines()
        .filter(|line| {
            let certificates = line.contains("as PEM") && !line.contains("private key");
            line.contains("separated by commas") || line.contains("s_file` |") || certificates
        })
        .map(|line| line.split('`').nth(1).unwrap().to_owned())
        .collect();
    let whole = page.split_once("\n## A whole file\n").unwrap().1;
    known.extend(["consumers", "issuers"].map(|section| format!("[{section}.NAME]")));
    assert!(whole.contains("[consumers.\"payments\"]") && page.contains("[issuers.NAME]"));
    // The URL of a database names its servers in a list; `docs/postgres.md` describes it.
    known.insert("database_url".into());
    let rows = LISTS.iter().map(|(name, _)| *name).chain(SERVED).map(str::to_owned);
    assert_eq!(rows.collect::<BTreeSet<_>>(), known);
}

fn rights_file() {
    const LINES: usize = 84;
    let lines: Vec<String> = (0..LINES)
        .map(|number| {
            // Four principals, each with many lines; and some lines of all whose names begin alike.
            let principal =
                if number % 10 == 9 { "token:*".to_owned() } else { format!("token:p{}", number % 4) };
            let consumer = if number % 7 == 6 { format!("c{number}-*") } else { format!("c{number}") };
            let right = Right::ALL[number % 3 + number % 2];
            format!(
                "[[rights]]\nprincipal = {principal:?}\nconsumers = [{consumer:?}]\nmay = [\"{right}\"]\n"
            )
        })
        .collect();
    each_counts_in_any_order("the file of rights", &lines, |lines| {
        let rights = Rights::read(&lines.concat()).unwrap();
        let mut allowed = Vec::new();
        for principal in ["token:p0", "token:p1", "token:p2", "token:p3", "dns:p0"] {
            let grants = rights.of(principal);
            for number in 0..LINES {
                let (exact, below) = (format!("c{number}"), format!("c{number}-x"));
                for right in Right::ALL {
                    allowed.extend([&exact, &below].map(|name| {
                        let whose = Whose::Consumer(name);
                        assert_eq!(
                            grants.allow(right, whose),
                            rights.line_for(principal, right, whose).is_some(),
                            "{principal} {right} {name}"
                        );
                        grants.allow(right, whose)
                    }));
                }
            }
        }
        let named: BTreeSet<String> = rights.named_consumers().map(str::to_owned).collect();
        (allowed, named)
    });
}

fn consumers_of_one_line() {
    let names: Vec<String> = (0..200)
        .map(|number| if number % 5 == 4 { format!("p{number}-*") } else { format!("c{}", number * 7 % 200) })
        .collect();
    let asked: Vec<String> = names.iter().map(|name| name.replace('*', "x")).collect();
    each_counts_in_any_order("the consumers of a line", &names, |names| {
        let text = format!(
            "[[rights]]\nprincipal = \"token:a\"\nconsumers = {names:?}\nmay = [\"settle\", \"claim\"]\n"
        );
        let grants = Rights::read(&text).unwrap().of("token:a");
        asked.iter().map(|name| grants.allow(Right::Claim, Whose::Consumer(name))).collect::<Vec<_>>()
    });
}

fn tokens_file() {
    let tokens: Vec<(String, NewToken)> = (0..120)
        .map(|number| {
            // The two tokens of one name are one line.
            let name = format!("holder-{}", number * 7 % 120);
            let token = NewToken::make(&name).unwrap();
            (name, token)
        })
        .collect();
    let second = NewToken::make("holder-0").unwrap();
    let lines: Vec<String> = tokens
        .iter()
        .map(|(name, token)| match name.as_str() {
            "holder-0" => format!("{name} = [{:?}, {:?}]\n", second.hash, token.hash),
            _ => token.line.clone() + "\n",
        })
        .collect();
    each_counts_in_any_order("the file of tokens", &lines, |lines| {
        let file = Tokens::read(&format!("[tokens]\n{}", lines.concat())).unwrap();
        let trust = Trust { tokens: Some(Arc::new(file)), ..Trust::default() };
        let all = tokens.iter().map(|(_, token)| token).chain([&second]);
        all.map(|token| principal(&trust, "192.0.2.1", &bearer(&token.token))).collect::<Vec<_>>()
    });
}

fn trusted_proxies() {
    let entries: Vec<String> = (0..200)
        .map(|number| match number % 3 {
            0 => format!("10.{}.0.0/16", number * 7 % 200),
            1 => format!("192.0.2.{}", number * 7 % 200),
            _ => format!("2001:db8:{:x}::/48", number * 7 % 200),
        })
        .collect();
    let peers: Vec<String> =
        entries.iter().map(|entry| entry.replace(".0.0/16", ".3.4").replace("::/48", "::9")).collect();
    let forwarded = [("x-forwarded-client-cert", "URI=spiffe://shop/checkout".to_owned())];
    each_counts_in_any_order("the trusted proxies", &entries, |entries| {
        let proxies = Proxies::read(entries.iter().map(String::as_str)).unwrap();
        let trust = Trust { proxies: Arc::new(proxies), ..Trust::default() };
        peers.iter().map(|peer| principal(&trust, peer, &forwarded)).collect::<Vec<_>>()
    });
}

/// The tokens of 16 issuers, as many as there may be: each verified by the keys of its issuer. All keys have the same id.
fn issuers() {
    let signers: Vec<(String, Signer)> =
        (0..16).map(|number| (format!("i{}", number * 7 % 16), Signer::new("k1"))).collect();
    let url = |name: &str| format!("https://{name}.example");
    let tokens: Vec<String> =
        signers.iter().map(|(name, signer)| signer.token(&json!({ "iss": url(name) }))).collect();
    let all: Vec<Issuer> = signers
        .iter()
        .map(|(name, signer)| Issuer::new(name, &url(name), &["ledger".into()], signer.keys()).unwrap())
        .collect();
    each_counts_in_any_order("the issuers", &all, |all| {
        let trust = Trust { issuers: all.to_vec().into(), ..Trust::default() };
        tokens.iter().map(|token| principal(&trust, "192.0.2.1", &bearer(token))).collect::<Vec<_>>()
    });
}

/// The keys of one issuer, as many as there may be.
fn keys_of_an_issuer() {
    const KIDS: [&str; 16] =
        ["7", "c", "1", "z", "10", "a", "B", "9", "m", "2", "x", "A", "b", "5", "0", "k"];
    let signers = KIDS.map(Signer::new);
    let keys: Vec<Value> = signers.iter().map(Signer::jwk).collect();
    let tokens = signers.each_ref().map(|signer| signer.token(&json!({})));
    each_counts_in_any_order("the keys of an issuer", &keys, |keys| {
        let keys = Keys::of_jwks(json!({ "keys": keys }).to_string().as_bytes()).unwrap();
        let issuer = Issuer::new("corp", ISSUER, &["ledger".into()], Arc::new(keys)).unwrap();
        let trust = Trust { issuers: Arc::new([issuer]), ..Trust::default() };
        tokens.each_ref().map(|token| principal(&trust, "192.0.2.1", &bearer(token)))
    });
}

fn audiences_of_an_issuer() {
    let signer = Signer::new("k1");
    let audiences: Vec<String> = (0..8).map(|number| format!("a{}", number * 3 % 8)).collect();
    let tokens: Vec<String> =
        audiences.iter().map(|audience| signer.token(&json!({ "aud": ["x", audience] }))).collect();
    each_counts_in_any_order("the audiences of an issuer", &audiences, |audiences| {
        let issuer = Issuer::new("corp", ISSUER, audiences, signer.keys()).unwrap();
        let trust = Trust { issuers: Arc::new([issuer]), ..Trust::default() };
        tokens.iter().map(|token| principal(&trust, "192.0.2.1", &bearer(token))).collect::<Vec<_>>()
    });
}

/// Lines and sections of the configuration file. Those of the top level are before the sections, as TOML requires.
fn settings_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.toml");
    let top = [
        "queue_max = 4096",
        "batch_max = 500",
        "connections_max = 500",
        "connections_per_address_max = 50",
        "principal_calls_max = 7",
        "principal_calls_per_second = 70",
        "deadline_max = \"20s\"",
        "max_wait = \"5s\"",
        "slow_call = \"2s\"",
        "drain_wait = \"1s\"",
        "drain_max = \"9s\"",
        "purge_every = \"20s\"",
        "purge_batch = 50",
        "count_every = \"2m\"",
        "audit_retention = \"30d\"",
        "owner_bytes_max = 64",
        "result_bytes_max = 1024",
        "batch_items_max = 100",
    ];
    let consumers =
        (0..60).map(|number| format!("[consumers.\"c{}\"]\nmax_attempts = {}", number * 7 % 60, number + 1));
    let issuers = (0..16).map(|number| {
        let name = format!("i{}", number * 7 % 16);
        format!(
            "[issuers.{name}]\nissuer = \"https://{name}.example\"\naudiences = [\"ledger\"]\njwks_file = \"/{name}.json\""
        )
    });
    let items: Vec<String> =
        top.iter().map(|line| (*line).to_owned()).chain(consumers).chain(issuers).collect();
    each_counts_in_any_order("the configuration file", &items, |items| {
        let (sections, lines): (Vec<&String>, Vec<&String>) =
            items.iter().partition(|item| item.starts_with('['));
        let text: Vec<&str> = lines.into_iter().chain(sections).map(String::as_str).collect();
        // Rights are needed where callers are authenticated.
        std::fs::write(folder.path().join("rights.toml"), "").unwrap();
        let rights = format!("rights_file = \"{}\"\n", folder.path().join("rights.toml").display());
        std::fs::write(&file, rights + &text.join("\n")).unwrap();
        let flags = Settings::default();
        let (_, in_force) =
            Config::check(flags, Default::default(), Some(&file)).unwrap_or_else(|problems| {
                panic!("{:?}", problems.into_iter().map(|problem| problem.text).collect::<Vec<_>>())
            });
        let shown = in_force.json();
        // Where a value is from has its line, which is another one in each order.
        let settings: BTreeMap<String, Value> = shown["settings"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(name, one)| (name.clone(), one["value"].clone()))
            .collect();
        (settings, shown["policy"].clone(), shown["consumers"].clone())
    });
}

/// The host names of the HTTP door: each is served, wherever it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_hosts_are_served_in_any_order() {
    let mut names: Vec<String> = (0..100).map(|number| format!("h{}.example", number * 7 % 100)).collect();
    for _ in 0..2 {
        let setup = Setup { hosts: Hosts::of(names.clone()), ..Setup::default() };
        let server = TestServer::start_with(Kind::Sqlite, setup).await;
        let mut http = Http1::to(server.http_address()).await;
        for name in names.iter().map(String::as_str).chain(["h100.example"]) {
            let path = "/idempotency.ledger.v1.LedgerService/Lookup";
            let answered = http.ask(&request(path, &[("host", name)], b"{}")).await;
            let expected = if name == "h100.example" { 421 } else { 400 };
            assert_eq!(answered.status, expected, "{name}");
            if answered.status == 421 {
                break;
            }
        }
        server.stop().await;
        names.reverse();
    }
}

/// The URL of a database names up to five servers: the one that runs is found, wherever it stands.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn database_is_found_wherever_its_server_stands_in_the_list() {
    const SERVERS: usize = 5;
    let (cluster, database) = (postgres::shared(), postgres::database().await);
    let down: Vec<u16> = (1..SERVERS).map(|_| free_port()).collect();
    for place in 0..SERVERS {
        let mut ports = down.clone();
        ports.insert(place, cluster.port);
        let hosts: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
        let (names, ports): (Vec<&str>, Vec<String>) =
            ports.iter().map(|port| ("127.0.0.1", port.to_string())).unzip();
        for url in [
            format!("postgres://postgres@{}/{database}", hosts.join(",")),
            format!("postgres://postgres@/{database}?host={}&port={}", names.join(","), ports.join(",")),
        ] {
            let store = postgres_store_of(PostgresSource::of_url(&url), None);
            let opened = store.open(Purpose::Reads).await;
            assert!(opened.is_ok(), "{url}: {:?}", opened.err());
        }
    }
}
