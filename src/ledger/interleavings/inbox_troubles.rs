//! The scenarios of the inbox in which something is wrong: the store fails, a task dies, the server is outdated.

use std::sync::Arc;
use std::time::Duration;

use shuttle::future::spawn;
use shuttle::rand::{Rng as _, thread_rng};

use super::disk::{Inject, Manners, POISON};
use super::explore;
use super::inboxes::{LONG, process, producer, reason_of, worker};
use super::runtime::impatient;
use super::world::{World, briefly, key};
use crate::domain::Reason;

/// Repeats a call until its outcome is known, and sometimes after that.
async fn repeating_worker(world: World) {
    for _ in 0..2 {
        let call = world.next_call(thread_rng().gen_range(1..=2), Duration::from_secs(1));
        let mut answer = world.next(&call).await;
        for _ in 0..3 {
            let is_unknown = reason_of(&answer) == Some(Reason::OutcomeUnknown);
            if !is_unknown && thread_rng().gen_ratio(3, 4) {
                break;
            }
            answer = world.next(&call).await;
        }
        if let Ok(answer) = answer {
            process(&world, answer).await;
            drop(world.next(&call).await);
        }
    }
}

/// A store that fails: no message is acknowledged that is not kept, no applied change is reported as certainly not applied, a
/// repeated call is handed out the same messages, a poisoned row does not affect others, and a task that dies is replaced.
#[test]
fn a_failing_store_loses_no_message() {
    const FAULTS: &[Inject] = &[
        Inject::LostAnswer,
        Inject::LostRequest,
        Inject::Unavailable,
        Inject::Conflict,
        Inject::Locked,
        Inject::ClockBehind,
        Inject::Panic,
    ];
    let must = [
        "LostAnswer",
        "LostRequest",
        "Unavailable",
        "Conflict",
        "Locked",
        "ClockBehind",
        "Panic",
        "poison",
        "statements given up",
        "Store: OutcomeUnknown",
        "Store: StoreUnavailable",
        "Store: Overloaded",
        "Store: Internal",
        "ClaimNext: OutcomeUnknown",
        "ClaimNext: StoreUnavailable",
        "ClaimNext: ClaimClosed",
        "handed out again",
        "gone in between",
        "stored",
        "served after a death",
    ];
    explore("a_failing_store_loses_no_message", &must, async |tally| {
        let (sessions, inbox) = (1, thread_rng().gen_range(1..=2));
        let one_in = [3, 6, 12][thread_rng().gen_range(0..3)];
        let manners = Manners { sessions, inbox, one_in, faults: FAULTS, expiry_one_in: 32 };
        impatient(16);
        let world = World::new(Arc::clone(&tally), manners, 64, thread_rng().gen_range(1..=4));
        let ids = &["a", "b", "c", POISON];
        let producers: Vec<_> = (0..2).map(|_| spawn(producer(world.clone(), ids, 2))).collect();
        let workers: Vec<_> = (0..2).map(|_| spawn(repeating_worker(world.clone()))).collect();
        for _ in 0..2 {
            let call = world.next_call(1, LONG);
            if briefly(world.next(&call), thread_rng().gen_range(0..12)).await.is_none() {
                tally.count("gone in between");
            }
        }
        for producer in producers {
            drop(producer.await.unwrap());
        }
        for worker in workers {
            worker.await.unwrap();
        }
        impatient(0);
        world.disk.inner().manners.one_in = 0;
        served(&world).await;
        if !world.disk.inner().died.is_empty() {
            tally.count("served after a death");
        }
        world.deliver_all().await;
        world.finish().await;
        world.counts_nothing();
    });
}

/// The store is healthy: a message is stored and handed out soon. A task without a session refuses until it may open the next
/// one.
async fn served(world: &World) {
    let (mut is_stored, mut is_handed_out) = (false, false);
    for _ in 0..50 {
        let answers = world.store(&[world.message(&key("later"))]).await;
        is_stored |= answers[0].is_ok() || reason_of(&answers[0]) == Some(Reason::BacklogFull);
        let answer = world.next(&world.next_call(10, Duration::from_secs(1))).await;
        is_handed_out |= answer.is_ok_and(|answer| !answer.messages.is_empty());
        if is_stored && is_handed_out {
            return;
        }
    }
    panic!("the store is healthy, and no message is handed out");
}

/// Once this server is behind the schema fence each call of the inbox is answered, and refused from then on.
#[test]
fn an_outdated_server_answers_all_calls_of_the_inbox() {
    let must = ["Outdated", "stored", "Store: StoreUnavailable", "ClaimNext: StoreUnavailable"];
    explore("an_outdated_server_answers_all_calls_of_the_inbox", &must, async |tally| {
        let inbox = thread_rng().gen_range(1..=2);
        let manners =
            Manners { sessions: 1, inbox, one_in: 6, faults: &[Inject::Outdated], expiry_one_in: 0 };
        let world = World::new(Arc::clone(&tally), manners, 64, 1);
        let producers: Vec<_> = (0..2).map(|_| spawn(producer(world.clone(), &["a", "b"], 3))).collect();
        let workers: Vec<_> = (0..2).map(|_| spawn(worker(world.clone()))).collect();
        for producer in producers {
            drop(producer.await.unwrap());
        }
        for worker in workers {
            worker.await.unwrap();
        }
        world.disk.inner().manners.one_in = 1;
        while world.store(&[world.message(&key("a"))]).await[0].is_ok() {}
        world.ledger.outdated().await;
        let answers = world.store(&[world.message(&key("later"))]).await;
        assert_eq!(reason_of(&answers[0]), Some(Reason::StoreUnavailable));
        let answer = world.next(&world.next_call(1, LONG)).await;
        assert_eq!(reason_of(&answer), Some(Reason::StoreUnavailable));
        world.finish().await;
        world.counts_nothing();
    });
}
