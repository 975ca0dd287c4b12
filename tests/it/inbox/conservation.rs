//! Conservation: every stored message ends, and is never handed to two live claims, whatever becomes of workers, calls and servers.

use std::collections::HashMap;
use std::sync::Arc;

use idempotency_ledger::domain::{Policy, Span};
use idempotency_ledger::proto::{self, FailureKind};

use super::{inbox, message, next};
use crate::harness::details::key;
use crate::harness::on_both_stores;
use crate::harness::random::Random;
use crate::harness::server::{Kind, Served, Setup, TestServer};

on_both_stores!(every_stored_message_ends_and_has_one_live_claim,);

/// Messages of the small size.
const MESSAGES: usize = 300;

/// What the test knows of a message.
#[derive(Default)]
struct Known {
    /// The token of its live claim.
    live: Option<i64>,
    highest: i64,
    effects: usize,
    ended: bool,
}

/// Workers of two servers take messages in handouts of random sizes. Each message is completed, failed, released, or its worker
/// dies with it; some calls are repeated, as after a lost answer. The clock stands still between the rounds, so that no lease ends
/// unseen.
async fn every_stored_message_ends_and_has_one_live_claim(kind: Kind) {
    let policy = Policy { max_attempts: 0, ..inbox() };
    let setup = || Setup { inbox_sessions: 2, ..Setup::default() }.with("c", policy.clone());
    let server = TestServer::start_with(kind, setup()).await;
    let other = Served::start(Arc::clone(&server.at.store), setup()).await;
    let mut random = Random::new(51);
    let mut known: HashMap<String, Known> = HashMap::new();
    for part in 0..MESSAGES / 50 {
        let ids: Vec<String> = (0..50).map(|at| format!("{part}-{at}")).collect();
        // A fifth is stored twice, through either server.
        let requests: Vec<_> = ids.iter().chain(&ids[..10]).map(|id| message(id)).collect();
        let mut client = if part % 2 == 0 { server.client.clone() } else { other.client.clone() };
        let answer = client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap().into_inner();
        assert!(answer.responses.iter().all(|one| one.advice() == proto::Advice::Ack));
        known.extend(ids.into_iter().map(|id| (id, Known::default())));
    }
    let (mut rounds, mut repeats, mut deaths) = (0, 0, 0);
    while known.values().any(|one| !one.ended) {
        rounds += 1;
        assert!(rounds < 500, "{} messages do not end", known.values().filter(|one| !one.ended).count());
        for worker in 0..4 {
            let mut client = if worker % 2 == 0 { server.client.clone() } else { other.client.clone() };
            let asked = next(1 + i32::try_from(random.below(40)).unwrap());
            let answer = client.claim_next(asked.clone()).await.unwrap().into_inner();
            let mut handed = super::ids(&answer);
            for (id, token) in &handed {
                let one = known.get_mut(id).expect("a message that was stored");
                assert_eq!(one.live, None, "{id} is handed to two live claims");
                assert!(!one.ended && *token > one.highest, "{id}");
                (one.live, one.highest) = (Some(*token), *token);
            }
            if !handed.is_empty() && random.below(4) == 0 {
                // Its answer was lost: the other server is asked again.
                let mut client = if worker % 2 == 0 { other.client.clone() } else { server.client.clone() };
                let again = super::ids(&client.claim_next(asked).await.unwrap().into_inner());
                assert_eq!(again, handed, "a repeat is answered its own handout");
                repeats += 1;
            }
            if random.below(5) == 0 {
                deaths += handed.len();
                handed.clear();
            }
            for (id, token) in handed {
                let one = known.get_mut(&id).unwrap();
                match random.below(10) {
                    0 => {
                        let kind = FailureKind::Retryable.into();
                        let request =
                            proto::FailRequest { key: key("c", &id), token, kind, ..Default::default() };
                        client.fail(request).await.unwrap();
                        one.live = None;
                    }
                    1 => {
                        let request =
                            proto::ReleaseRequest { key: key("c", &id), token, ..Default::default() };
                        client.release(request).await.unwrap();
                        one.live = None;
                    }
                    // The worker dies with this message.
                    2 => deaths += 1,
                    _ => {
                        one.effects += 1;
                        let request =
                            proto::CompleteRequest { key: key("c", &id), token, ..Default::default() };
                        client.complete(request).await.unwrap();
                        (one.live, one.ended) = (None, true);
                    }
                }
            }
        }
        // Leases, backoffs and the returns of the cursors are over.
        server.advance(Span::from_secs(400)).await;
        known.values_mut().for_each(|one| one.live = None);
    }
    assert!(known.values().all(|one| one.effects == 1), "each message has had one effect");
    assert!(repeats > 5 && deaths > 20, "{repeats} repeats, {deaths} deaths");
    println!("{} messages, {rounds} rounds, {repeats} repeats, {deaths} deaths of workers", known.len());
    other.stop().await;
    server.stop().await;
}
