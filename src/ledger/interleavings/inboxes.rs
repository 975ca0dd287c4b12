//! The scenarios of the inbox over a healthy store: messages are stored and handed out, next to plain claims of the same keys.
//! In the end each message that was acknowledged is completed, or can be handed out.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::poll_immediate;
use shuttle::future::{spawn, yield_now};
use shuttle::rand::{Rng as _, thread_rng};

use super::answers::{assert_calm, token};
use super::disk::{Manners, WELL};
use super::explore;
use super::inbox_calls::{CallConnection, NumberedStore, token_of};
use super::runtime::{time_stands_still, wander};
use super::scenarios::caller;
use super::world::{CONSUMERS, World, briefly, key, key_of};
use crate::domain::{Key, NextAnswer, Reason, Rejection, Stored};

/// A wait without end.
pub(super) const LONG: Duration = Duration::from_secs(1_000_000_000);

pub(super) fn reason_of<T>(answer: &Result<T, Rejection>) -> Option<Reason> {
    answer.as_ref().err().map(|rejection| rejection.reason)
}

/// Checks that no Store was refused.
fn assert_stored(answers: &[Stored]) {
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

/// One of the consumers.
fn consumer() -> &'static str {
    CONSUMERS[usize::from(thread_rng().gen_ratio(1, 3))]
}

/// Stores messages under some keys, together; several times.
pub(super) async fn producer(world: World, ids: &[&str], rounds: usize) -> Vec<Stored> {
    let mut all = Vec::new();
    for _ in 0..rounds {
        let count = thread_rng().gen_range(1..=3);
        let stores: Vec<NumberedStore> = (0..count)
            .map(|_| world.message(&key_of(consumer(), ids[thread_rng().gen_range(0..ids.len())])))
            .collect();
        all.extend(world.store(&stores).await);
        wander(3).await;
    }
    all
}

/// Settles what it is handed out, or forgets it.
pub(super) async fn process(world: &World, answer: NextAnswer) {
    wander(3).await;
    for handed in answer.messages {
        if thread_rng().gen_ratio(3, 4) {
            world.submit(&[world.settle(&handed.key, token_of(&handed))]).await;
        }
    }
}

/// Asks for messages, with and without a wait, and settles most of them; several times.
pub(super) async fn worker(world: World) {
    for _ in 0..3 {
        let wait = Duration::from_secs(thread_rng().gen_range(0..=1));
        let call = world.next_call(thread_rng().gen_range(1..=3), wait);
        if let Ok(answer) = world.next_of(consumer(), &call).await {
            process(&world, answer).await;
        }
    }
}

/// A call that two servers carry out at the same time: they do not hand out more than one of them would.
async fn doubled(one: World, other: World) {
    let mut call = one.next_call(1, Duration::ZERO);
    call.is_doubled = true;
    let (first, again) = (one.clone(), call.clone());
    let first = spawn(async move { first.next(&again).await });
    let other = other.next(&call).await;
    if let (Ok(first), Ok(other)) = (first.await.unwrap(), other)
        && !first.messages.is_empty()
        && !other.messages.is_empty()
    {
        one.tally.count("one handout for two servers");
    }
}

#[test]
fn every_stored_message_is_handed_out_until_it_is_completed() {
    let must = [
        "stored",
        "stored while it is held",
        "already stored",
        "stored after its completion",
        "Store: BacklogFull",
        "handed out",
        "several handed out",
        "nothing to hand out",
        "conflicts of a Store",
        "conflicts of an optimistic insert",
        "races lost",
        "one handout for two servers",
        "rows locked by another look",
        "leases ended",
        "acquired",
        "erased",
    ];
    explore("every_stored_message_is_handed_out_until_it_is_completed", &must, async |tally| {
        let inbox = thread_rng().gen_range(1..=2);
        let manners = Manners { sessions: 2, inbox, expiry_one_in: 16, ..WELL };
        let world = World::new(Arc::clone(&tally), manners, 64, thread_rng().gen_range(1..=4));
        let another = thread_rng().gen_bool(0.5).then(|| world.another());
        let other = another.as_ref().unwrap_or(&world);
        let ids = &["a", "b", "c"];
        let producers = [&world, other].map(|world| spawn(producer(world.clone(), ids, 2)));
        let workers = [&world, other].map(|world| spawn(worker(world.clone())));
        let caller = spawn(caller(world.clone(), ids));
        if let Some(another) = &another {
            doubled(world.clone(), another.clone()).await;
            doubled(world.clone(), another.clone()).await;
        }
        for _ in 0..2 {
            wander(12).await;
            world.erase();
        }
        for producer in producers {
            let refused = producer.await.unwrap().into_iter().filter_map(Result::err);
            refused.for_each(|rejection| assert_eq!(rejection.reason, Reason::BacklogFull));
        }
        for worker in workers {
            worker.await.unwrap();
        }
        assert_calm(&caller.await.unwrap());
        world.deliver_all().await;
        if let Some(another) = another {
            another.finish().await;
            another.counts_nothing();
        }
        world.finish().await;
        world.counts_nothing();
    });
}

/// The key has an entry without a message afterwards.
async fn claim_and_fail(world: &World, key: &Key) {
    let granted = world.submit(&[world.claim(key)]).await;
    world.submit(&[world.fail(key, token(&granted[0]).unwrap())]).await;
}

/// A waiting call whose caller goes away after this number of polls, or as soon as it has begun as many looks after the first one:
/// the last one has taken a wake-up then.
async fn go_away(world: World, polls: usize, looks_max: usize) {
    let (connection, call) = (CallConnection::default(), world.next_call(1, LONG));
    let mut answer = pin!(world.next_through(&connection, CONSUMERS[0], &call));
    for _ in 0..polls {
        if poll_immediate(answer.as_mut()).await.is_some() {
            return;
        }
        if connection.looks.load(Ordering::Relaxed) >= looks_max {
            break;
        }
        yield_now().await;
    }
    world.tally.count("gone");
}

/// A waiting call that stays until it is handed out a message.
async fn stay(world: World, answered: Arc<AtomicUsize>) {
    let answer = world.next(&world.next_call(1, LONG)).await.unwrap();
    assert_eq!(answer.messages.len(), 1, "not woken by a Store");
    answered.fetch_add(1, Ordering::Relaxed);
}

/// Nothing but a Store wakes a waiting call here. While a message is due and a call waits, one of the calls looks, whichever of
/// them go away, and when. In half of the schedules the first call that waits goes away with the first wake-up.
#[test]
fn a_waiting_call_is_woken_by_a_store() {
    /// Steps within which a look is carried out.
    const PATIENCE: usize = 5_000;
    let must = ["handed out", "stored", "waits", "gone", "handed out to a call that had gone"];
    explore("a_waiting_call_is_woken_by_a_store", &must, async |tally| {
        time_stands_still(true);
        let manners = Manners { sessions: 1, inbox: thread_rng().gen_range(1..=2), ..WELL };
        let world = World::new(Arc::clone(&tally), manners, 64, 1);
        let answered = Arc::new(AtomicUsize::new(0));
        let mut calls = Vec::new();
        let stays = if thread_rng().gen_bool(0.5) {
            calls.push(spawn(go_away(world.clone(), usize::MAX, 1)));
            world.counts("1 waiting calls").await;
            calls.push(spawn(stay(world.clone(), Arc::clone(&answered))));
            world.counts("2 waiting calls").await;
            1
        } else {
            for _ in 0..thread_rng().gen_range(0..=3) {
                let (polls, looks_max) = (thread_rng().gen_range(1..64), thread_rng().gen_range(1..=2));
                calls.push(spawn(go_away(world.clone(), polls, looks_max)));
            }
            let stays = thread_rng().gen_range(1..=2);
            calls.extend((0..stays).map(|_| spawn(stay(world.clone(), Arc::clone(&answered)))));
            stays
        };
        let (mut stored, mut patience) = (0, 0);
        while answered.load(Ordering::Relaxed) < stays {
            wander(8).await;
            if stored < stays || !world.is_due() {
                if world.still_counts("waiting calls") {
                    tally.count("waits");
                }
                if stored >= stays {
                    tally.count("handed out to a call that had gone");
                }
                let key = key(stored);
                if thread_rng().gen_bool(0.5) {
                    claim_and_fail(&world, &key).await;
                }
                assert_stored(&world.store(&[world.message(&key)]).await);
                (stored, patience) = (stored + 1, 0);
            }
            patience += 1;
            assert!(patience < PATIENCE, "a message is due, and no call that waits looks for it");
        }
        for call in calls {
            call.await.unwrap();
        }
        time_stands_still(false);
        world.finish().await;
        world.counts_nothing();
    });
}

/// The only session carries out what waits for it: Stores and looks take turns.
#[test]
fn stores_and_looks_take_turns() {
    let must = ["stored", "nothing to hand out", "a Store in its turn"];
    explore("stores_and_looks_take_turns", &must, async |tally| {
        let world = World::new(Arc::clone(&tally), Manners { sessions: 1, inbox: 1, ..WELL }, 64, 1);
        let slow = key("slow");
        world.disk.hold(&slow);
        let store = |id: &str| {
            let (world, stores) = (world.clone(), [world.message(&key(id))]);
            spawn(async move { world.store(&stores).await })
        };
        let first = store("slow");
        world.disk.busy(1).await;
        let looks: Vec<_> = (0..4)
            .map(|number| {
                let world = world.clone();
                spawn(async move {
                    let call = world.next_call(1, Duration::ZERO);
                    drop(world.next_of(&format!("consumer {number}"), &call).await);
                })
            })
            .collect();
        let second = store("second");
        // All of them wait for the session.
        world.counts("4 looks").await;
        world.counts("1 Stores").await;
        let looked = world.disk.inner().messages.looks;
        world.disk.let_go();
        assert_stored(&first.await.unwrap());
        assert_stored(&second.await.unwrap());
        for look in looks {
            look.await.unwrap();
        }
        let before = world.disk.inner().messages.looks_before(&key("second"));
        assert!(before <= Some(looked + 1), "a Store waited for {before:?} looks");
        tally.count("a Store in its turn");
        world.finish().await;
        world.counts_nothing();
    });
}

/// What was accepted before the ledger stops is carried out and answered; waiting calls are let go when it drains; what comes
/// later is refused.
#[test]
fn a_stop_answers_all_calls_of_the_inbox() {
    let must = ["stored after the drain", "let go", "handed out", "Store: Draining", "ClaimNext: Draining"];
    explore("a_stop_answers_all_calls_of_the_inbox", &must, async |tally| {
        time_stands_still(true);
        let manners = Manners { sessions: 1, inbox: thread_rng().gen_range(1..=2), ..WELL };
        let world = World::new(Arc::clone(&tally), manners, 64, 1);
        let draining = Arc::new(AtomicBool::new(false));
        let stores = (0..2).map(|number| {
            let (world, draining) = (world.clone(), Arc::clone(&draining));
            spawn(async move {
                loop {
                    wander(6).await;
                    let began = draining.load(Ordering::Relaxed);
                    let answers = world.store(&[world.message(&key(number)), world.message(&key("a"))]).await;
                    if reason_of(&answers[0]) == Some(Reason::Draining) {
                        return;
                    }
                    assert_stored(&answers);
                    if began {
                        world.tally.count("stored after the drain");
                    }
                }
            })
        });
        let nexts = (0..3).map(|_| {
            let (world, draining) = (world.clone(), Arc::clone(&draining));
            spawn(async move {
                loop {
                    let answer = world.next(&world.next_call(1, LONG)).await;
                    match answer {
                        Err(rejection) => return assert_eq!(rejection.reason, Reason::Draining),
                        Ok(answer) if answer.messages.is_empty() => {
                            assert!(draining.load(Ordering::Relaxed), "let go without a reason");
                            world.tally.count("let go");
                        }
                        Ok(_) => {}
                    }
                }
            })
        });
        let calls: Vec<_> = stores.chain(nexts).collect();
        wander(24).await;
        draining.store(true, Ordering::Relaxed);
        world.ledger.drain();
        wander(8).await;
        world.finish().await;
        let late = briefly(world.store(&[world.message(&key("late"))]), 0).await;
        assert_eq!(late.map(|answers| reason_of(&answers[0])), Some(Some(Reason::Draining)), "a late Store");
        let call = world.next_call(1, LONG);
        let late = world.next(&call).await;
        assert_eq!(reason_of(&late), Some(Reason::Draining), "a late ClaimNext");
        for call in calls {
            call.await.unwrap();
        }
        time_stands_still(false);
        world.counts_nothing();
    });
}
