//! What finds room in the queue, and what is served first.

use bytes::Bytes;

use super::*;
use crate::domain::{Claim, Claimant, Command, FailureKind, Key, Settle, Span};
use crate::ledger::claims::answers::AnswerTo;
use crate::ledger::claims::chain::Request;
use crate::ledger::runtime::Instant;
use crate::traces::CallSpan;

fn claim() -> Command {
    let claimant = Claimant { claim_id: uuid::Uuid::nil(), principal: String::new(), owner: String::new() };
    Command::Claim(Claim {
        claimant,
        lease: None,
        fingerprint: Bytes::new(),
        occurred_at: None,
        traceparent: String::new(),
    })
}

/// Nobody waits for its answer, of which the queue knows nothing.
fn chain(id: usize, command: Command, since: Instant) -> Chain {
    let request = Request::new(command, AnswerTo::nobody(), CallSpan::default());
    Chain::new(Key::new("c", "s", &id.to_string()), request, since)
}

/// Whether so many claims of a consumer find room.
fn claims(queue: &Queue, consumer: &str, commands: usize) -> bool {
    let chains = (0..commands).map(|id| {
        let request = Request::new(claim(), AnswerTo::nobody(), CallSpan::default());
        Chain::new(Key::new(consumer, "s", &id.to_string()), request, Instant::now())
    });
    queue.push_all(chains.collect()).is_ok()
}

#[test]
fn what_ends_something_is_served_before_what_begins_it() {
    let queue = Queue::new(100, 1 << 20, 100);
    let settles = [
        Settle::Release { delay: Span::ZERO, unpin: false },
        Settle::Renew { lease: None, effect_started: false, checkpoint: None, checkpoint_dropped: false },
        Settle::Complete { result: Bytes::new(), left_out: false },
        Settle::Fail { kind: FailureKind::Retryable, error: String::new(), retry_after: None },
    ];
    let commands =
        [Command::Lookup, claim()].into_iter().chain(settles.map(|settle| Command::Settle(1, settle)));
    for (number, command) in commands.enumerate() {
        assert!(queue.push(chain(number, command, Instant::now())).is_ok());
    }
    let mut served = Vec::new();
    while let Some(chain) = queue.try_pull(1).pop() {
        served.push(chain.key.id().to_owned());
    }
    assert_eq!(served, ["4", "5", "3", "2", "1", "0"], "Complete and Fail, Renew, Release, Claim, Lookup");
}

#[test]
fn full_queue_refuses_lookups_before_claims() {
    let queue = Queue::new(160, 1 << 20, 200);
    let pushed = |number: usize, command| queue.push(chain(number, command, Instant::now())).is_ok();
    assert!((0..80).all(|number| pushed(number, Command::Lookup)), "they may take half of it");
    let refused = queue.push(chain(80, Command::Lookup, Instant::now())).unwrap_err();
    assert_eq!(refused.reason, Reason::Overloaded);
    assert!((250_000..1_000_000).contains(&refused.retry_after.unwrap().micros()), "{refused:?}");
    assert!((81..101).all(|number| pushed(number, claim())), "there is room for claims");
    assert!(!pushed(101, Command::Lookup) && !pushed(102, claim()));
    // Of an empty queue a batch of look-ups may take as much as a batch of claims.
    let empty = Queue::new(160, 1 << 20, 200);
    let batch = |many| (0..many).map(|number| chain(number, Command::Lookup, Instant::now())).collect();
    assert!(empty.push_all(batch(101)).is_err());
    assert!(empty.push_all(batch(100)).is_ok());
    assert!(empty.push_all(batch(1)).is_err());
}

/// What a look-up has waited says nothing of how long claims wait.
#[test]
fn lookups_do_not_change_when_refused_claims_come_again() {
    let queue = Queue::new(160, 1 << 20, 200);
    let before = Instant::now().checked_sub(Duration::from_millis(400)).unwrap();
    assert!(queue.push(chain(0, Command::Lookup, Instant::now())).is_ok());
    assert!(queue.push(chain(1, claim(), before)).is_ok());
    assert_eq!(queue.try_pull(200).len(), 2);
    assert!((0..100).all(|number| queue.push(chain(number, claim(), Instant::now())).is_ok()));
    let refused = queue.push(chain(100, claim(), Instant::now())).unwrap_err();
    assert!(refused.retry_after.unwrap().micros() >= 400_000, "{refused:?}");
}

/// What a session did last is still in its processor's cache, and in that of its backend.
#[test]
fn the_worker_that_was_at_work_last_is_called() {
    let (queue, crew) = (Queue::new(100, 1 << 20, 100), Crew::default());
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut workers: Vec<_> = (0..3).map(|_| Box::pin(queue.pull(100, &crew))).collect();
    for worker in &mut workers {
        assert!(worker.as_mut().poll(&mut context).is_pending());
    }
    // Also after it was called before.
    let called = workers.len() - 1;
    for id in 0..3 {
        assert!(queue.push(chain(id, claim(), Instant::now())).is_ok());
        let mut taken = Vec::new();
        for (number, worker) in workers.iter_mut().enumerate() {
            if let std::task::Poll::Ready(Some((_, batch))) = worker.as_mut().poll(&mut context) {
                batch.back();
                taken.push(number);
            }
        }
        assert_eq!(taken, [called], "command {id}");
        workers[called] = Box::pin(queue.pull(100, &crew));
        assert!(workers[called].as_mut().poll(&mut context).is_pending());
    }
}

#[test]
fn whoever_is_refused_comes_again_once_the_queue_has_gone_by() {
    let queue = Queue::new(160, 1 << 20, 200);
    let renew = || {
        Command::Settle(
            1,
            Settle::Renew { lease: None, effect_started: false, checkpoint: None, checkpoint_dropped: false },
        )
    };
    let told = |chain| queue.push(chain).err().map(|refused| refused.retry_after.unwrap().micros() / 1_000);
    // How long the last batch had waited, and after which time at the least the next claims come again.
    for (waited, least) in [(0, 250), (400, 400), (0, 250)] {
        let now = Instant::now();
        let since = now.checked_sub(Duration::from_millis(waited)).unwrap();
        // Claims take five eighths of 160.
        assert!((0..100).all(|number| queue.push(chain(number, claim(), since)).is_ok()));
        let Taken::Chains(chains, batch, _) = queue.take(200, 1) else { panic!("nothing waits") };
        assert_eq!(chains.len(), 100);
        queue.waiting().away.back(batch);
        let claims: Vec<i64> = (0..180).filter_map(|number| told(chain(number, claim(), now))).collect();
        let fits = |told: &i64| (least..2 * least + 100).contains(told);
        assert!(claims.len() == 80 && claims.iter().all(fits), "after {waited} ms: {claims:?} ms");
        // Renewals take seven, and for them there is room as soon as a batch leaves.
        let renews: Vec<i64> = (0..120).filter_map(|number| told(chain(number, renew(), now))).collect();
        let fits = |told: &i64| (250..500).contains(told);
        assert!(renews.len() == 80 && renews.iter().all(fits), "after {waited} ms: {renews:?} ms");
        drop(queue.try_pull(200));
    }
}

#[test]
fn who_has_few_claims_finds_room_where_others_have_filled_the_queue() {
    let queue = Queue::new(1_024, 1_000_000, 100);
    // Who pushes how many, and whether there is room: 640 are for all claims, and 64 more for those who have few.
    for (consumer, commands, room) in [
        ("flood", 640, true),
        ("flood", 1, false),
        ("a", 17, false),
        ("a", 16, true),
        ("a", 1, false),
        ("b", 10, true),
        ("b", 7, false),
        ("b", 6, true),
        ("c", 16, true),
        ("d", 16, true),
        ("e", 1, false),
    ] {
        assert_eq!(claims(&queue, consumer, commands), room, "{consumer}, {commands}");
    }
}

/// Who is served by a batch: how many commands of `quiet`, and how many of `flood`; none: there is no batch yet.
type Served = Option<(usize, usize)>;

fn served(chains: &[Chain]) -> (usize, usize) {
    let of = |who: &str| chains.iter().filter(|chain| chain.key.consumer() == who).map(Chain::len).sum();
    (of("quiet"), of("flood"))
}

/// A queue that one consumer floods.
fn flooded() -> Queue {
    let queue = Queue::new(8_192, 1 << 30, 1_000);
    assert!(claims(&queue, "flood", 1_000));
    queue
}

fn take(queue: &Queue, workers: usize) -> Served {
    match queue.take(1_000, workers) {
        Taken::Chains(chains, ..) => Some(served(&chains)),
        Taken::Later(_) | Taken::Ended => None,
    }
}

/// What three workers take beside a flood, one after the other.
fn beside_a_flood() -> Vec<(&'static str, Served)> {
    let (queue, crew) = (flooded(), Crew::default());
    let workers = [crew.at_work(), crew.at_work(), crew.at_work()];
    let mut told = Vec::new();
    claims(&queue, "quiet", 17);
    told.push(("17 are more than a few", take(&queue, workers.len())));
    claims(&queue, "quiet", 16);
    told.push(("those who have few go alone", take(&queue, workers.len())));
    claims(&queue, "quiet", 3);
    told.push(("also beside others of them", take(&queue, workers.len())));
    told.push(("then all", take(&queue, workers.len())));
    told.push(("one worker is kept", take(&queue, workers.len())));
    (2..4).for_each(|batch| queue.waiting().away.back(batch));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut kept = Box::pin(queue.pull(1_000, &crew));
    let mut poll = || match kept.as_mut().poll(&mut context) {
        std::task::Poll::Ready(pulled) => pulled.map(|(chains, _)| served(&chains)),
        std::task::Poll::Pending => None,
    };
    told.push(("it waits for them", poll()));
    claims(&queue, "flood", 1);
    queue.ready.notify_one();
    told.push(("a flood does not get it", poll()));
    claims(&queue, "quiet", 16);
    told.push(("they get it at once", poll()));
    told
}

#[tokio::test]
async fn those_who_have_few_wait_for_no_batch_of_a_flood() {
    let kept =
        [Some((17, 111)), Some((16, 0)), Some((3, 0)), Some((0, 128)), None, None, None, Some((16, 0))];
    for _ in 0..100 {
        let began = Instant::now();
        let told = beside_a_flood();
        // No worker is kept for longer.
        if began.elapsed() < Duration::from_millis(100) {
            for ((what, served), expected) in told.into_iter().zip(kept) {
                assert_eq!(served, expected, "{what}");
            }
            return;
        }
    }
    panic!("a hundred times it took longer than a worker is kept");
}

/// Its few commands wait for the batch that is at the store, as ever.
#[test]
fn a_consumer_that_is_alone_floods_nobody() {
    let queue = flooded();
    assert_eq!(take(&queue, 3), Some((0, 1_000)));
    claims(&queue, "flood", 1);
    assert_eq!(take(&queue, 3), None);
}

/// A consumer that floods has few completions, which go with its claims.
#[test]
fn whoever_floods_has_few_nowhere() {
    let queue = flooded();
    let completes = |consumer: &str, id: usize| {
        let complete = Command::Settle(1, Settle::Complete { result: Bytes::new(), left_out: false });
        let request = Request::new(complete, AnswerTo::nobody(), CallSpan::default());
        Chain::new(Key::new(consumer, "s", &format!("c-{id}")), request, Instant::now())
    };
    assert!(queue.push_all((0..4).map(|id| completes("flood", id)).collect()).is_ok());
    assert!(queue.push_all((0..4).map(|id| completes("quiet", id)).collect()).is_ok());
    assert_eq!([take(&queue, 3), take(&queue, 3)], [Some((4, 0)), Some((0, 128))]);
    let (by_lane, _) = queue.depth();
    assert_eq!(by_lane, [0, 0, 0, 876, 0]);
}

#[test]
fn those_who_have_few_keep_a_flood_waiting_for_no_more_than_a_batch() {
    let queue = flooded();
    for expected in [(1, 0), (1, 127), (1, 0), (1, 127)] {
        claims(&queue, "quiet", 1);
        let Taken::Chains(chains, batch, _) = queue.take(1_000, 3) else { panic!("nothing waits") };
        assert_eq!(served(&chains), expected);
        queue.waiting().away.back(batch);
    }
}

#[test]
fn of_those_who_have_few_completions_come_first() {
    let queue = flooded();
    let complete = Command::Settle(1, Settle::Complete { result: Bytes::new(), left_out: false });
    for (id, command) in [claim(), complete].into_iter().enumerate() {
        assert!(queue.push(chain(id, command, Instant::now())).is_ok());
    }
    let Taken::Chains(chains, ..) = queue.take(2, 3) else { panic!("nothing waits") };
    let ids: Vec<_> = chains.iter().map(|chain| (chain.key.consumer(), chain.key.id())).collect();
    assert_eq!(ids, [("c", "1"), ("c", "0")]);
}

#[test]
fn of_two_workers_none_is_kept() {
    let queue = flooded();
    claims(&queue, "quiet", 1);
    assert_eq!(take(&queue, 2), Some((1, 127)));
}
