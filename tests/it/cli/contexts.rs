//! Contexts in use: the right server is called, is told what its context says, and nobody else is.

use std::fs;

use idempotency_ledger::proto::EntryState;
use tonic::transport::{Certificate, Identity, ServerTlsConfig};

use super::context_file::Home;
use super::recorder::Recorder;
use super::{BINARY, no_terminals, on_a_terminal, state, take};
use crate::harness::pki::Pki;
use crate::harness::server::{Kind, TestServer};

const GET: [&str; 3] = ["policy", "get", "c"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_of_the_context_is_called() {
    let (one, two) = (TestServer::start(Kind::Sqlite).await, TestServer::start(Kind::Sqlite).await);
    for server in [&one, &two] {
        take(server, "1").await;
    }
    let home = Home::new();
    for (name, server) in [("one", &one), ("two", &two)] {
        home.run(&["context", "set", name, "--endpoint", &server.address().to_string()]).says(0, &["added"]);
    }
    let park = ["entries", "park", "c", "tests", "1", "--reason", "r"];
    home.run(&[&park[..], &["--context", "two"]].concat()).says(0, &["is PARKED now"]);
    assert_eq!(state(&one, "1").await, EntryState::InProgress);
    assert_eq!(state(&two, "1").await, EntryState::Parked);
    home.run(&["context", "use", "one"]).says(0, &[]);
    home.run(&park).says(0, &["is PARKED now"]);
    assert_eq!(state(&one, "1").await, EntryState::Parked);
    take(&two, "only in two").await;
    let get = ["entries", "get", "c", "tests", "only in two"];
    home.run(&get).says(3, &["ENTRY_NOT_FOUND"]);
    // A command to paste goes to the same server, whichever context is the current one.
    let next = format!("next: {BINARY} --context two entries park c tests 'only in two' --reason WHY");
    home.run(&[&["--context", "two"], &get[..]].concat()).says(0, &["IN_PROGRESS", &next]);
    let file = home.file().display().to_string();
    let next = format!("{BINARY} --contexts-file {file} --context two entries list --consumer c");
    home.run(&["try", "--consumer", "c", "--contexts-file", &file, "--context", "two"]).says(0, &[&next]);
    home.run_with(&[("IDEMPOTENCY_LEDGER_CONTEXT", "two")], &get).says(0, &["IN_PROGRESS"]);
    // A flag comes before the variable.
    let both = [&get[..], &["--context", "one"]].concat();
    home.run_with(&[("IDEMPOTENCY_LEDGER_CONTEXT", "two")], &both).says(3, &["ENTRY_NOT_FOUND"]);
    let (at_two, named) = (two.address().to_string(), ["--context", "one"]);
    let by_variable = [("IDEMPOTENCY_LEDGER_ENDPOINT", at_two.as_str())];
    home.run(&[&get[..], &["--endpoint", &at_two]].concat()).says(0, &["IN_PROGRESS"]);
    home.run_with(&by_variable, &get).says(0, &["IN_PROGRESS"]);
    // Two servers are named.
    let says = ["--context and --endpoint", "both name a server", "unset"];
    home.run(&[&get[..], &named, &["--endpoint", &at_two]].concat()).says(2, &says);
    home.run_with(&by_variable, &[&get[..], &named].concat()).says(2, &says);
    home.run_with(&[("IDEMPOTENCY_LEDGER_CONTEXT", "one"), by_variable[0]], &get).says(2, &says);
    home.run(&[&get[..], &["--context", "three"]].concat())
        .says(2, &["--context: context \"three\" does not exist; there are: one, two"]);
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_goes_to_the_server_of_its_context_alone() {
    let pki = Pki::new();
    let (cert, key) = pki.signed("localhost");
    let (mine, mine_key) = pki.signed("operator");
    let config = ServerTlsConfig::new()
        .identity(Identity::from_pem(&cert, &key))
        .client_ca_root(Certificate::from_pem(pki.issuer.pem()));
    let (server, other) = (Recorder::start(Some(config.clone())).await, Recorder::start(Some(config)).await);
    let plain = Recorder::start(None).await;
    let home = Home::with_file(&format!(
        "current = \"prod\"\n[contexts.prod]\nendpoint = \"{}\"\ntls_ca = \"ca.pem\"\ntls_cert = \"mine.pem\"\n\
         tls_key = \"mine.key\"\ntoken_file = \"token\"\n",
        server.endpoint()
    ));
    home.put("ca.pem", &pki.issuer.pem());
    home.put("mine.pem", &mine);
    home.put("mine.key", &mine_key);
    home.put("token", "of-prod\n");
    // Relative paths begin at the file.
    home.run(&GET).says(1, &["error: NotFound: seen"]);
    home.run(&[&GET[..], &["--token", "mine"]].concat()).says(1, &["seen"]);
    let by_variable = [("IDEMPOTENCY_LEDGER_TOKEN", "exported")];
    home.run_with(&by_variable, &GET).says(1, &["seen"]);
    home.run_with(&by_variable, &[&GET[..], &["--context", "prod"]].concat()).says(1, &["seen"]);
    let said = ["Bearer of-prod", "Bearer mine", "Bearer exported", "Bearer exported"];
    assert_eq!(server.tokens(), said);
    // Another server, over TLS or not, is told nothing; it asks who calls, and nobody says so.
    let ca = pki.path("ca.pem");
    for asks in [&other, &server] {
        // Its own server is none of its context, once it is named by its address.
        let endpoint = asks.endpoint();
        let by_address = [&GET[..], &["--endpoint", &endpoint, "--tls-ca", &ca]].concat();
        home.run(&by_address).says(5, &["error: "]);
    }
    home.run(&[&GET[..], &["--endpoint", &plain.endpoint()]].concat()).says(1, &["seen"]);
    home.run_with(&[("IDEMPOTENCY_LEDGER_ENDPOINT", &plain.endpoint())], &GET).says(1, &["seen"]);
    // A certificate of one's own goes with a key of one's own.
    let half = [&GET[..], &["--tls-cert", &ca]].concat();
    home.run(&half).says(2, &["--tls-cert and --tls-key"]);
    assert_eq!((other.tokens(), plain.tokens()), (Vec::new(), vec![String::new(); 2]));
    assert_eq!(server.tokens().len(), said.len());
    // What is missing is told by its name in the context.
    fs::remove_file(home.file().with_file_name("token")).unwrap();
    home.run(&GET).says(2, &["context prod: token_file: /", "No such file"]);
    for recorder in [server, other, plain] {
        recorder.stop();
    }
}

/// Linux connects 0.0.0.0 to this machine, but nobody may rely on that: it counts as another one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_not_sent_in_the_clear() {
    let server = Recorder::start(None).await;
    let elsewhere = format!("http://0.0.0.0:{}", server.port());
    let home = Home::with_file(&format!(
        "[contexts.mesh]\nendpoint = \"{elsewhere}\"\ntoken_file = \"token\"\nplaintext_token = true\n\
         [contexts.bare]\nendpoint = \"{elsewhere}\"\ntoken_file = \"token\"\n\
         [contexts.near]\nendpoint = \"{}\"\ntoken_file = \"token\"\n",
        server.endpoint()
    ));
    home.put("token", "t");
    let says = ["0.0.0.0", "is another machine", "the token is not sent", "--plaintext-token"];
    let typed = [&GET[..], &["--endpoint", &elsewhere, "--token", "t"]].concat();
    home.run(&typed).says(2, &says);
    home.run(&[&GET[..], &["--context", "bare"]].concat()).says(2, &says);
    home.run(&[&GET[..], &["--context", "near", "--endpoint", &elsewhere]].concat()).says(2, &["both name"]);
    assert_eq!(server.tokens(), [""; 0], "it was not even called");
    home.run(&[&typed[..], &["--plaintext-token"]].concat()).says(1, &["seen"]);
    home.run_with(&[("IDEMPOTENCY_LEDGER_PLAINTEXT_TOKEN", "true")], &typed).says(1, &["seen"]);
    home.run(&[&GET[..], &["--context", "mesh"]].concat()).says(1, &["seen"]);
    home.run(&[&GET[..], &["--context", "near"]].concat()).says(1, &["seen"]);
    assert_eq!(server.tokens(), ["Bearer t"; 4]);
    home.run(&[&GET[..], &["--endpoint", &elsewhere]].concat()).says(1, &["seen"]);
    assert_eq!(
        server.tokens().last().map(String::as_str),
        Some(""),
        "without a token there is nothing to hide"
    );
    server.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_told_of_a_server_is_told_its_context() {
    let home = Home::with_file("current = \"gone\"\n[contexts.gone]\nendpoint = \"127.0.0.1:1\"\n");
    home.run(&GET).says(5, &["error: gone: http://127.0.0.1:1/: ", "--endpoint or --context"]);
    if no_terminals() {
        return;
    }
    let server = TestServer::start(Kind::Sqlite).await;
    take(&server, "1").await;
    let at = server.address();
    fs::write(home.file(), format!("[contexts.prod]\nendpoint = \"{at}\"\n")).unwrap();
    let line = format!(
        "{BINARY} --contexts-file {} --context prod entries redrive c tests 1 --force --reason r",
        home.file().display()
    );
    let asked = format!("at prod: http://{at}: Do it? [y/N] ");
    on_a_terminal(line.clone(), "n\n").await.says(2, &[&asked, "not confirmed; nothing was changed"]);
    assert_eq!(state(&server, "1").await, EntryState::InProgress);
    on_a_terminal(line, "y\n").await.says(0, &["c tests 1 is RECEIVED now"]);
    server.stop().await;
}

/// A load is not put on a server that nobody named for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bench_does_not_load_the_current_server() {
    let server = Recorder::start(None).await;
    let home = Home::with_file(&format!(
        "current = \"prod\"\n[contexts.prod]\nendpoint = \"{}\"\n",
        server.endpoint()
    ));
    let bench = ["bench", "--for", "100ms", "--warm-up", "0s", "--in-flight", "1", "--no-check"];
    home.run(&bench).says(0, &["a separate server"]);
    assert_eq!(server.tokens(), [""; 0], "it was called");
    let named = home.run(&[&bench[..], &["--context", "prod"]].concat());
    assert!(named.code != 0 && !server.tokens().is_empty(), "{named:?}");
    server.stop();
}
