//! The scenarios in which something is wrong: a worker dies, the queue is full, the store fails.

use std::sync::Arc;

use shuttle::future::spawn;
use shuttle::rand::{Rng as _, thread_rng};

use super::answers::{reason, token};
use super::disk::{Inject, Manners, POISON, WELL};
use super::explore;
use super::runtime::impatient;
use super::scenarios::{caller, submit};
use super::world::{Pushed, World, key};
use crate::domain::Reason;

/// When a worker dies its callers are answered, and another worker replaces it.
#[test]
fn a_worker_may_die() {
    let must = ["Panic", "OUTCOME_UNKNOWN", "acquired", "served after a death"];
    explore("a_worker_may_die", &must, async |tally| {
        let sessions = thread_rng().gen_range(1..=3);
        let manners = Manners { sessions, one_in: 6, faults: &[Inject::Panic], ..WELL };
        let world = World::new(Arc::clone(&tally), manners, 64, thread_rng().gen_range(1..=4));
        let callers: Vec<_> = (0..3).map(|_| spawn(caller(world.clone(), &["a", "b"]))).collect();
        for caller in callers {
            caller.await.unwrap();
        }
        world.disk.inner().manners.one_in = 0;
        served(&world).await;
        if !world.disk.inner().died.is_empty() {
            tally.count("served after a death");
        }
        world.finish().await;
    });
}

/// A full queue refuses immediately, claims first, and accepts all again once it is empty.
#[test]
fn a_full_queue_refuses_immediately() {
    const QUEUE_MAX: usize = 8;
    const CLAIMS_MAX: usize = QUEUE_MAX * 5 / 8;
    let must =
        ["claims refused", "completions refused", "completions that entered where claims were refused"];
    explore("a_full_queue_refuses_immediately", &must, async |tally| {
        let world = World::new(Arc::clone(&tally), Manners { sessions: 1, ..WELL }, QUEUE_MAX, 4);
        for round in 0..2 {
            // The only worker waits for the store: what arrives now waits in the queue.
            let slow = key(format_args!("slow {round}"));
            world.disk.hold(&slow);
            let first = spawn(submit(world.clone(), vec![world.claim(&slow)]));
            world.disk.busy(1).await;
            // A caller that goes away leaves its place in the queue, which is freed when its turn comes.
            let gone = thread_rng().gen_range(0..3);
            for _ in 0..gone {
                assert!(world.submit_briefly(&world.claim(&key("gone")), 0).await.is_none());
            }
            let claims = Pushed::start(&world, (0..6).map(|place| world.claim(&key(place))));
            let completions = (0..5).map(|place| world.complete(&key(format_args!("nothing {place}")), 1));
            let completions = Pushed::start(&world, completions);
            let (claimed, completed) = (claims.waiting().await, completions.waiting().await);
            let waiting = gone + claimed + completed;
            assert!(waiting <= QUEUE_MAX, "{waiting} wait");
            assert!(gone + claimed <= CLAIMS_MAX, "{gone} + {claimed} claims wait");
            if claimed < 6 {
                tally.count("claims refused");
                assert!(waiting >= CLAIMS_MAX, "a claim was refused, while only {waiting} wait");
                if completed > QUEUE_MAX - CLAIMS_MAX - 1 {
                    tally.count("completions that entered where claims were refused");
                }
            }
            if completed < 5 {
                tally.count("completions refused");
                assert_eq!(waiting, QUEUE_MAX, "a completion was refused, while only {waiting} wait");
            }
            world.disk.let_go();
            assert!(token(&first.await.unwrap()[0]).is_some());
            claims.answered().await;
            completions.answered().await;
        }
        world.finish().await;
    });
}

/// A store that fails: no applied change is reported as certainly not applied, a poisoned row does not affect others, and all
/// calls are served once the store is healthy.
#[test]
fn a_failing_store_is_reported_truthfully() {
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
        "Overloaded",
        "ClockBehind",
        "Panic",
        "poison",
        "sessions refused",
        "OUTCOME_UNKNOWN",
        "Internal",
        "StoreUnavailable",
        "acquired, replayed",
        "races lost",
        "gone in between",
        "statements given up",
        "stopped in trouble",
        "Draining",
    ];
    explore("a_failing_store_is_reported_truthfully", &must, async |tally| {
        let sessions = thread_rng().gen_range(1..=3);
        let one_in = [2, 4, 8][thread_rng().gen_range(0..3)];
        let manners = Manners { sessions, inbox: 0, one_in, faults: FAULTS, expiry_one_in: 32 };
        impatient(16);
        let world = World::new(Arc::clone(&tally), manners, 64, thread_rng().gen_range(1..=4));
        let callers: Vec<_> = (0..3).map(|_| spawn(caller(world.clone(), &["a", "b", POISON]))).collect();
        for _ in 0..2 {
            let steps = thread_rng().gen_range(0..12);
            if world.submit_briefly(&world.claim(&key("a")), steps).await.is_none() {
                tally.count("gone in between");
            }
        }
        // Half of the ledgers are stopped amid all this; the others see the store get well.
        let stopping = thread_rng().gen_bool(0.5);
        if stopping {
            world.finish().await;
            tally.count("stopped in trouble");
        }
        for caller in callers {
            caller.await.unwrap();
        }
        impatient(0);
        if !stopping {
            world.disk.inner().manners.one_in = 0;
            served(&world).await;
        }
        world.finish().await;
    });
}

/// The store is healthy: a claim is served soon. A worker without a session refuses until it may
/// open the next one.
async fn served(world: &World) {
    for _ in 0..50 {
        let answers = world.submit(&[world.claim(&key("later"))]).await;
        if token(&answers[0]).is_some() {
            return;
        }
        assert_eq!(reason(&answers[0]), Some(Reason::StoreUnavailable));
    }
    panic!("the store is healthy, and no claim is served");
}
