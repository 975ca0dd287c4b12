//! The scenarios over a healthy store. Each scenario ends with `finish`: the ledger stops, and
//! what the store shows is checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shuttle::future::{spawn, yield_now};
use shuttle::rand::{Rng as _, thread_rng};

use super::answers::{assert_calm, reason, token, word};
use super::calls::NumberedCall;
use super::disk::{Manners, WELL};
use super::explore;
use super::runtime::wander;
use super::world::{World, key};
use crate::domain::{Answer, Key, Reason};

/// Submits as a separate task.
pub(super) async fn submit(world: World, calls: Vec<NumberedCall>) -> Vec<Answer> {
    world.submit(&calls).await
}

/// Claims some keys, together, and settles what it was granted, together; twice.
pub(super) async fn caller(world: World, ids: &[&str]) -> Vec<Answer> {
    let mut all = Vec::new();
    for _ in 0..2 {
        let count = thread_rng().gen_range(1..=3);
        let claims: Vec<NumberedCall> =
            (0..count).map(|_| world.claim(&key(ids[thread_rng().gen_range(0..ids.len())]))).collect();
        let answers = world.submit(&claims).await;
        wander(3).await;
        let granted = claims.iter().zip(&answers);
        let settlements: Vec<NumberedCall> =
            granted.filter_map(|(claim, answer)| Some(world.settle(&claim.key, token(answer)?))).collect();
        all.extend(answers);
        if !settlements.is_empty() {
            all.extend(world.submit(&settlements).await);
        }
    }
    all
}

/// Commands for one key in one call are carried out one after the other, whatever else happens.
async fn key_queue(world: World) {
    let key = key("key_queue");
    let granted = world.submit(&[world.claim(&key)]).await;
    let token = token(&granted[0]).unwrap();
    let (renew, complete) = (|| world.renew(&key, token), || world.complete(&key, token));
    let answers = world.submit(&[renew(), renew(), complete(), complete(), world.claim(&key)]).await;
    let seen: Vec<&str> = answers.iter().map(|answer| answer.as_ref().map_or("refused", word)).collect();
    assert_eq!(seen, ["Renew done", "Renew done", "Complete done", "Complete replayed", "completed"]);
}

#[test]
fn every_call_is_answered_once_with_what_was_committed() {
    let must = [
        "acquired",
        "completed",
        "in progress",
        "races lost",
        "conflicts of an optimistic insert",
        "unknown conflicts",
        "calls written together",
        "statements with several rows",
        "statements at the same time",
        "leases ended",
        "LeaseLost",
    ];
    explore("every_call_is_answered_once_with_what_was_committed", &must, async |tally| {
        let manners = Manners { expiry_one_in: 16, ..WELL };
        let world = World::new(Arc::clone(&tally), manners, 64, thread_rng().gen_range(1..=4));
        let callers: Vec<_> = (0..4).map(|_| spawn(caller(world.clone(), &["a", "b"]))).collect();
        let key_queue = spawn(key_queue(world.clone()));
        for caller in callers {
            assert_calm(&caller.await.unwrap());
        }
        key_queue.await.unwrap();
        world.finish().await;
    });
}

/// While one worker waits for the store, others serve all calls that can be served.
#[test]
fn a_slow_statement_delays_no_other_call() {
    let must = ["acquired", "statements at the same time", "served before the slow one"];
    explore("a_slow_statement_delays_no_other_call", &must, async |tally| {
        let world = World::new(Arc::clone(&tally), WELL, 64, 1);
        let slow = key("slow");
        world.disk.hold(&slow);
        let calls: Vec<NumberedCall> = [&slow, &key("a"), &key("b")].map(|key| world.claim(key)).into();
        let together = spawn(submit(world.clone(), calls.clone()));
        while !calls[1..].iter().all(|call| world.disk.inner().applied.contains(&call.number)) {
            yield_now().await;
        }
        tally.count("served before the slow one");
        world.disk.let_go();
        assert!(together.await.unwrap().iter().all(|answer| token(answer).is_some()));
        world.finish().await;
    });
}

/// A consumer with a claim and its completion, next to the backlog of others.
async fn quiet(world: World, consumer: String) -> Vec<Answer> {
    let key = Key::new(&consumer, "shop", "quiet");
    let mut answers = world.submit(&[world.claim(&key)]).await;
    wander(3).await;
    let token = token(&answers[0]).unwrap();
    answers.extend(world.submit(&[world.complete(&key, token)]).await);
    answers
}

#[test]
fn every_call_is_answered_next_to_a_backlog() {
    let must = ["Complete done", "statements at the same time"];
    explore("every_call_is_answered_next_to_a_backlog", &must, async |tally| {
        let manners = Manners { sessions: thread_rng().gen_range(3..=4), ..WELL };
        let world = World::new(Arc::clone(&tally), manners, 64, thread_rng().gen_range(2..=4));
        let bulk = (0..3).map(|caller| {
            let calls = (0..5).map(|number| world.claim(&key(format!("{caller}-{number}")))).collect();
            spawn(submit(world.clone(), calls))
        });
        let quiet = (0..3).map(|number| spawn(quiet(world.clone(), format!("quiet-{number}"))));
        let callers: Vec<_> = bulk.chain(quiet).collect();
        for caller in callers {
            assert_calm(&caller.await.unwrap());
        }
        world.finish().await;
    });
}

/// What is cancelled while it waits in the queue is never sent; what was sent is carried out; the
/// others are answered.
#[test]
fn callers_may_go_away() {
    let must = [
        "gone while queued",
        "gone while sent",
        "answered in spite of it",
        "gone before the worker came back",
    ];
    explore("callers_may_go_away", &must, async |tally| {
        let world = World::new(Arc::clone(&tally), Manners { sessions: 1, ..WELL }, 64, 4);
        // The only worker waits for the store: what arrives now waits in the queue.
        let slow = key("slow");
        world.disk.hold(&slow);
        let first = spawn(submit(world.clone(), vec![world.claim(&slow)]));
        world.disk.busy(1).await;
        let queued: Vec<NumberedCall> = (0..4).map(|number| world.claim(&key(number))).collect();
        let mut brief = Vec::new();
        for call in &queued {
            let (world, call) = (world.clone(), call.clone());
            brief.push(spawn(async move { world.submit_briefly(&call, thread_rng().gen_range(0..4)).await }));
        }
        for one in brief {
            assert!(one.await.unwrap().is_none(), "an answer while the worker is at the store");
        }
        let stays = spawn(submit(world.clone(), vec![world.claim(&key("stays"))]));
        wander(2).await;
        world.disk.let_go();
        // From now on they may go away at any moment.
        let brief: Vec<_> = (4..8)
            .map(|number| {
                let world = world.clone();
                let call = world.claim(&key(number));
                spawn(async move {
                    let answer = world.submit_briefly(&call, thread_rng().gen_range(0..12)).await;
                    (call.number, answer)
                })
            })
            .collect();
        let mut gone = Vec::new();
        for one in brief {
            let (number, answer) = one.await.unwrap();
            match answer {
                Some(answer) => assert_calm(&[answer]),
                None => gone.push(number),
            }
        }
        for answers in [first.await.unwrap(), stays.await.unwrap()] {
            assert!(token(&answers[0]).is_some(), "{answers:?}");
            tally.count("answered in spite of it");
        }
        world.finish().await;
        let inner = world.disk.inner();
        for call in queued {
            assert!(!inner.sent.contains(&call.number), "sent, though its caller had gone: {call:?}");
            tally.count("gone before the worker came back");
        }
        for number in gone {
            let sent = inner.sent.contains(&number);
            assert_eq!(
                sent,
                inner.applied.contains(&number),
                "sent and not carried out, or the other way round"
            );
            tally.count(if sent { "gone while sent" } else { "gone while queued" });
        }
    });
}

/// Whatever was accepted before the ledger stops is carried out and answered; what comes later is
/// refused.
#[test]
fn a_stop_answers_whatever_was_accepted() {
    let must = ["answered after the stop began", "Draining", "one worker", "several workers"];
    explore("a_stop_answers_whatever_was_accepted", &must, async |tally| {
        let sessions = thread_rng().gen_range(1..=3);
        tally.count(if sessions == 1 { "one worker" } else { "several workers" });
        let manners = Manners { sessions, ..WELL };
        let world = World::new(Arc::clone(&tally), manners, 64, thread_rng().gen_range(1..=4));
        let stopping = Arc::new(AtomicBool::new(false));
        let callers: Vec<_> = (0..3)
            .map(|_| {
                let (world, stopping) = (world.clone(), Arc::clone(&stopping));
                spawn(async move {
                    loop {
                        wander(3).await;
                        let answers = world.submit(&[world.claim(&key("a")), world.claim(&key("b"))]).await;
                        if reason(&answers[0]) == Some(Reason::Draining) {
                            return;
                        }
                        assert_calm(&answers);
                        if stopping.load(Ordering::Relaxed) {
                            world.tally.count("answered after the stop began");
                        }
                    }
                })
            })
            .collect();
        wander(12).await;
        stopping.store(true, Ordering::Relaxed);
        world.finish().await;
        let late = world.submit_briefly(&world.claim(&key("late")), 0).await;
        assert_eq!(
            late.as_ref().and_then(reason),
            Some(Reason::Draining),
            "not refused immediately: {late:?}"
        );
        for caller in callers {
            caller.await.unwrap();
        }
    });
}
