//! Credentials × RPCs: who is known by each credential, whichever RPC is called; and health, which asks for none.

use futures_util::StreamExt as _;
use idempotency_ledger::identity::{Guard, NewToken, Proxies, Trust};
use tonic::Code;
use tonic::transport::Channel;

use super::presented::{Presented, bearer, forwarded, web_tokens};
use super::requests::{Asked, items, request};
use super::rpcs::{Method, Way, health, ours};
use super::wire::{Answer, Calls, call};
use crate::harness::details::{acquired, claim};
use crate::harness::raw;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::web_tokens::{self, Signer, now};
use crate::identity::{People, by};

/// A consumer with an entry that is there, and one that is not.
const CONSUMER: &str = "c";

/// Principals without a right: each of their calls is refused with their name, as soon as they are known.
pub(super) fn people() -> People {
    let mut people =
        People::new(&[("one", &[]), ("two", &[]), ("chief", &[("*", "claim settle read admin")])]);
    for (name, expires) in
        [("ends", now() + 600), ("ending", now() - 30), ("ended", now() - 90), ("long-ended", 1)]
    {
        let token = NewToken::until(name, Some(expires)).unwrap();
        people.tokens_file += &format!("{}\n", token.line);
        people.tokens.push((name.to_owned(), token));
    }
    people
}

pub(super) fn trust(people: &People, keys: &Signer, proxies: &[&str]) -> Trust {
    Trust {
        issuers: web_tokens::trust(&keys.keys()).issuers,
        proxies: Proxies::read(proxies.iter().copied()).unwrap().into(),
        ..people.trust()
    }
}

/// A server with an entry of the consumer.
pub(super) async fn server(people: &People, trust: Trust) -> (TestServer, Channel) {
    let setup = Setup { guard: Guard::new(trust), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let claimed = server.client.claim(by(people.token("chief"), claim(CONSUMER, "there"))).await.unwrap();
    acquired(&claimed.into_inner());
    let channel = raw::channel(&server).await;
    (server, channel)
}

/// The faults of the answers that one credential gets, to a call for a key that exists and for one that does not.
fn wrong(one: &Presented, method: &Method, answers: &[Answer; 2]) -> Option<String> {
    let named = format!("{} with {}", method.name, one.what);
    for answer in answers {
        let (reason, text) = items(method, answer).swap_remove(0);
        let as_expected = match &one.known {
            Some(principal) => {
                reason == "CONSUMER_NOT_ALLOWED"
                    && text.starts_with(&format!("{principal} has not the right "))
            }
            None => reason == "UNAUTHENTICATED" && answer.code() == Code::Unauthenticated,
        };
        if !as_expected {
            return Some(format!("{named}: {reason} {text}, not {:?}", one.known));
        }
        for (_, value) in one.headers.iter().filter(|(_, value)| value.len() > 30) {
            let secret = String::from_utf8_lossy(&value[7..30]).into_owned();
            if one.known.is_none() && answer.seen().contains(&secret) {
                return Some(format!("{named}: the answer has a part of the credential: {text}"));
            }
        }
    }
    let [there, absent] = answers;
    (there.seen() != absent.seen()).then(|| format!("{named}: it tells whether the entry is there"))
}

/// Presents each credential to each RPC of the ledger, and to health.
pub(super) async fn each_is_known_or_refused(channel: &Channel, all: &[Presented]) {
    each_is_known_or_refused_at(channel, all, &ours(), &health()).await;
}

/// The same, where the server offers these methods.
pub(super) async fn each_is_known_or_refused_at(
    channel: &(impl Calls + Sync),
    all: &[Presented],
    ours: &[Method],
    health: &[Method],
) {
    let cells = all.iter().flat_map(|one| ours.iter().map(move |method| (one, method)));
    let judged = futures_util::stream::iter(cells).map(|(one, method)| async move {
        let ask = |id| {
            let message = request(method, &Asked::new(CONSUMER, id, Way::Usual));
            call(channel, method, &one.headers, message)
        };
        let answers = <[Answer; 2]>::from(tokio::join!(ask("there"), ask("absent")));
        wrong(one, method, &answers)
    });
    let mut wrong: Vec<String> =
        judged.buffer_unordered(32).filter_map(|said| async { said }).collect().await;
    for one in all {
        for method in health {
            let message = request(method, &Asked::new(CONSUMER, "there", Way::Usual));
            let answer = call(channel, method, &one.headers, message).await;
            if answer.code() != Code::Ok || answer.messages.len() != 1 {
                wrong.push(format!("health: {} with {}: {answer:?}", method.name, one.what));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_token_is_known_or_refused_at_each_rpc() {
    let (people, ours, theirs) = (people(), Signer::new("k1"), Signer::new("k1"));
    // A proxy is trusted, and it is not this machine.
    let (server, channel) = server(&people, trust(&people, &ours, &["10.0.0.0/8"])).await;
    let all = [bearer(&people), web_tokens(&ours, &theirs)].concat();
    assert!(all.len() > 90, "{}", all.len());
    each_is_known_or_refused(&channel, &all).await;
    drop(channel);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_forwarded_name_is_known_or_refused_at_each_rpc() {
    let (people, ours) = (people(), Signer::new("k1"));
    let (server, channel) = server_behind_a_proxy(&people, &ours).await;
    each_is_known_or_refused(&channel, &forwarded(&people)).await;
    drop(channel);
    server.stop().await;
}

/// The entry is made by a holder of a token, whom the proxy passes on.
async fn server_behind_a_proxy(people: &People, keys: &Signer) -> (TestServer, Channel) {
    server(people, trust(people, keys, &["127.0.0.0/8"])).await
}

/// Where no source of identity is configured, no RPC is refused for what is presented, or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_source_of_identity_each_rpc_takes_any_credential() {
    let people = people();
    let server = TestServer::start(Kind::Sqlite).await;
    let channel = raw::channel(&server).await;
    for one in bearer(&people)
        .into_iter()
        .filter(|one| one.what.contains("header") || one.what.contains("forwarded"))
    {
        for method in ours().iter().chain(&health()) {
            let message = request(method, &Asked::new(CONSUMER, "absent", Way::Usual));
            let answer = call(&channel, method, &one.headers, message).await;
            let code = answer.code();
            let refused =
                [Code::Unauthenticated, Code::PermissionDenied, Code::Unimplemented].contains(&code);
            assert!(!refused, "{} with {}: {answer:?}", method.name, one.what);
        }
    }
    drop(channel);
    server.stop().await;
}

/// A method that does not exist is refused like one that does: a stranger does not learn which methods the server has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_method_that_is_not_there_asks_for_a_credential_too() {
    let (people, keys) = (people(), Signer::new("k1"));
    let (server, channel) = server(&people, trust(&people, &keys, &[])).await;
    for service in ["idempotency.ledger.v1.LedgerService", "idempotency.ledger.v1.AdminService"] {
        let (service, name) = (service.to_owned(), "Nothing".to_owned());
        let method = Method { service, name, reads: false, streams: false };
        for (headers, code) in [
            (Vec::new(), Code::Unauthenticated),
            (vec![("authorization", b"Bearer x".to_vec())], Code::Unauthenticated),
            (
                vec![("authorization", format!("Bearer {}", people.token("one")).into_bytes())],
                Code::Unimplemented,
            ),
        ] {
            assert_eq!(call(&channel, &method, &headers, Vec::new()).await.code(), code, "{}", method.path());
        }
    }
    drop(channel);
    server.stop().await;
}
