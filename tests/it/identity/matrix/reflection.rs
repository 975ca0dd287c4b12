//! Reflection × credentials: where callers are authenticated it needs a valid credential, and no right; where they are
//! anonymous it is open.

use idempotency_ledger::identity::Guard;
use tonic::Code;
use tonic::transport::Channel;

use super::credentials::{people, trust};
use super::presented::{Presented, bearer, forwarded, web_tokens};
use super::requests::{Asked, request};
use super::rpcs::{Way, reflection};
use super::wire::call;
use crate::harness::raw;
use crate::harness::server::{Kind, Setup, TestServer};
use crate::identity::web_tokens::Signer;

async fn each_is_known_or_refused(channel: &Channel, all: &[Presented], anonymous: bool) {
    let methods = reflection();
    assert_eq!(methods.len(), 2, "v1 and v1alpha");
    let mut wrong = Vec::new();
    for one in all {
        for method in &methods {
            let message = request(method, &Asked::new("c", "there", Way::Usual));
            let answer = call(channel, method, &one.headers, message).await;
            let expected = if anonymous || one.known.is_some() { Code::Ok } else { Code::Unauthenticated };
            let listed = usize::from(expected == Code::Ok);
            if answer.code() != expected || answer.messages.len() != listed {
                wrong.push(format!("{} with {}: {:?}", method.service, one.what, answer.code()));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cells: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_needs_a_valid_credential_and_no_right() {
    let (people, ours, theirs) = (people(), Signer::new("k1"), Signer::new("k1"));
    let direct = [bearer(&people), web_tokens(&ours, &theirs)].concat();
    for (proxies, all) in [("10.0.0.0/8", direct), ("127.0.0.0/8", forwarded(&people))] {
        let setup = Setup { guard: Guard::new(trust(&people, &ours, &[proxies])), ..Setup::default() };
        let server = TestServer::start_with(Kind::Sqlite, setup).await;
        let channel = raw::channel(&server).await;
        each_is_known_or_refused(&channel, &all, false).await;
        drop(channel);
        server.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_is_open_where_callers_are_anonymous() {
    let server = TestServer::start(Kind::Sqlite).await;
    let channel = raw::channel(&server).await;
    each_is_known_or_refused(&channel, &bearer(&people()), true).await;
    drop(channel);
    server.stop().await;
}
