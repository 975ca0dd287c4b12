//! Principals by the hundred, each of which calls more than it may.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use idempotency_ledger::identity::NewToken;
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tokio::task::JoinSet;
use tonic::transport::Endpoint;

use super::{Healthy, SMALL, beside};
use crate::edge::Edge;
use crate::harness::details::{claim, refusal};
use crate::identity::by;
use crate::proof::run::Run;

/// The names of the healthy client: it has the limits of all others, and calls a hundred times a second.
const HEALTHY: u64 = 5;
/// The most names that a file of tokens may have, the healthy client's left out.
const NAMES_MAX: u64 = 10_000 - HEALTHY;
const CALLS: usize = 60;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn principals_are_limited_one_by_one() {
    let run = Run::new("floods", SMALL);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let all: Vec<NewToken> = (0..HEALTHY + run.size.min(NAMES_MAX))
        .map(|number| NewToken::make(&format!("p{number}")).unwrap())
        .collect();
    let mut tokens = "[tokens]\n".to_owned();
    for (number, token) in all.iter().enumerate() {
        writeln!(tokens, "p{number} = [{:?}]", token.hash).unwrap();
    }
    std::fs::write(path("tokens.toml"), tokens).unwrap();
    let rights = "[[rights]]\nprincipal = \"token:*\"\nconsumers = [\"*\"]\nmay = [\"claim\", \"settle\"]\n";
    std::fs::write(path("rights.toml"), rights).unwrap();
    let (tokens, rights) = (path("tokens.toml"), path("rights.toml"));
    // A second brings each of them 40, of which claims may take 25 at once.
    let settings = ["--tokens-file", &tokens, "--rights-file", &rights, "--principal-calls-per-second", "40"];
    let edge = Edge::start(&settings).await;
    let (tokens, all) = all.split_at(HEALTHY as usize);
    let tokens = tokens.iter().map(|token| token.token.clone()).collect();
    let healthy = Healthy { tokens, ..Healthy::of(&edge) };
    let flood = async {
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        // All over a few connections, as from a proxy: the principal changes from call to call.
        let mut channels = Vec::new();
        for _ in 0..4 {
            let way = Endpoint::from_shared(format!("http://{}", edge.server.address)).unwrap();
            channels.push(way.connect().await.unwrap());
        }
        for part in all.chunks(5) {
            let mut calls = JoinSet::new();
            for (number, token) in part.iter().enumerate() {
                let client = LedgerServiceClient::new(channels[number % 4].clone());
                for call in 0..CALLS {
                    let request = by(&token.token, claim("flood", &format!("{} {call}", token.hash)));
                    let mut client = client.clone();
                    calls.spawn(async move { client.claim(request).await });
                }
            }
            for answer in calls.join_all().await {
                let reason = answer.err().map_or("answered".to_owned(), |status| refusal(&status).reason);
                *told.entry(reason).or_default() += 1;
            }
        }
        told
    };
    let (told, beside) = beside(&run, &edge, &healthy, flood).await;
    let principals = all.len();
    assert_eq!(told.values().sum::<usize>(), principals * CALLS);
    let answered = told.get("answered").copied().unwrap_or_default();
    assert!(answered >= principals * 25, "each has its own: {told:?}");
    assert!(told.keys().all(|reason| reason == "answered" || reason == "QUOTA_EXCEEDED"), "{told:?}");
    assert!(answered <= principals * 45, "each is limited: {told:?}");
    let lines = edge.log().matches("a limit of the principal is reached").count() as u64;
    assert!(lines <= beside.lasted.as_secs() + 2, "one line a second: {lines} in {:?}", beside.lasted);
    beside.told(&run, &format!("{principals} principals with {CALLS} claims each: {told:?}"), run.size / 50);
}
