//! What finds room in the queue, and what is served first.

use bytes::Bytes;

use super::*;
use crate::domain::{Claim, Claimant, Command, FailureKind, Key, Settle, Span};
use crate::ledger::claims::answers::AnswerTo;
use crate::ledger::claims::request::Request;
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
    let queue = Queue::new(100, 1 << 20, 100);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut workers: Vec<_> = (0..3).map(|_| Box::pin(queue.pull(100))).collect();
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
        workers[called] = Box::pin(queue.pull(100));
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
        let Taken::Chains(chains, batch) = queue.take(200) else { panic!("nothing waits") };
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

/// How many commands of `quiet`, and how many of `bulk`, the next batch has; none: it does not leave yet.
fn next(queue: &Queue) -> Option<(usize, usize, u64)> {
    let Taken::Chains(chains, batch) = queue.take(1_000) else { return None };
    let of = |who: &str| chains.iter().filter(|chain| chain.key.consumer() == who).map(Chain::len).sum();
    Some((of("quiet"), of("bulk"), batch))
}

/// A claim beside the backlog of another consumer is in the next batch that leaves, which the store carries out in time.
#[test]
fn a_claim_waits_for_one_batch_of_a_backlog() {
    let queue = Queue::new(8_192, 1 << 30, 1_000);
    assert!(claims(&queue, "bulk", 2_000));
    // Alone it has the largest batches.
    let Some((0, 1_000, first)) = next(&queue) else { panic!("a batch of one consumer") };
    // Batches of few commands, and of many: 50 us for each.
    for _ in 0..5 {
        queue.carried_out(1, Duration::from_micros(1_050));
        queue.carried_out(1_000, Duration::from_millis(51));
    }
    for _ in 0..5 {
        assert!(claims(&queue, "quiet", 1));
        assert!(matches!(next(&queue), Some((1, 99, _))), "5 ms of commands, those of both");
    }
    queue.waiting().away.back(first);
    assert!(matches!(next(&queue), Some((0, 100, _))), "as long as both are active");
}

/// Its few commands wait for the batch that is at the store.
#[test]
fn a_consumer_that_is_alone_waits_until_a_batch_is_worth_it() {
    let queue = Queue::new(8_192, 1 << 30, 1_000);
    assert!(claims(&queue, "bulk", 1_000));
    assert!(matches!(next(&queue), Some((0, 1_000, _))));
    assert!(claims(&queue, "bulk", 1));
    assert!(next(&queue).is_none());
    assert!(claims(&queue, "bulk", WORTH - 1));
    assert!(matches!(next(&queue), Some((0, WORTH, _))));
}

/// Before claims are known they are refused only where all of them, of whichever consumers, would be.
#[test]
fn claims_are_refused_unknown_only_where_no_consumer_finds_room() {
    for (commands_max, bytes_max) in [(1_600, 1 << 20), (1_600, 20_000), (100, 1 << 20)] {
        let full = |taken: usize| {
            let queue = Queue::new(commands_max, bytes_max, 1_000);
            (0..taken).all(|_| claims(&queue, "bulk", 1)).then_some(queue)
        };
        let mut refused = 0;
        for taken in (0..commands_max).step_by(7) {
            let Some(queue) = full(taken) else { break };
            for commands in [1, 2, 16, 17, 100, 600, 1_000] {
                let unknown = queue.room_for_claims(commands);
                let known = claims(&full(taken).unwrap(), "new", commands);
                if let Err(rejection) = &unknown {
                    assert!(!known, "{taken} wait, {commands} come");
                    assert_eq!(rejection.reason, Reason::Overloaded);
                    let wait = rejection.retry_after.unwrap().micros();
                    assert!((250_000..=1_000_000).contains(&wait), "{wait} us");
                    refused += 1;
                }
                // Bytes of claims that are not known do not count.
                assert!(unknown.is_err() || known || bytes_max < 1 << 20, "{taken} wait, {commands} come");
            }
        }
        assert!(refused > 10, "{commands_max} {bytes_max}: {refused}");
    }
    let closed = Queue::new(16, 1, 16);
    closed.close();
    assert!(closed.room_for_claims(1_000).is_ok(), "DRAINING is the answer to claims that are known");
}
