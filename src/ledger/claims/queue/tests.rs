//! What the queue accepts, and what it serves first.

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
        handed_out: false,
    })
}

/// The queue does not look at answers: no caller waits for this one.
fn key_queue(id: usize, command: Command, since: Instant) -> KeyQueue {
    let request = Request::new(command, AnswerTo::no_caller(), CallSpan::default());
    KeyQueue::new(Key::new("c", "s", &id.to_string()), request, since)
}

/// Pushes this number of claims of a consumer; whether they were accepted.
fn claims(queue: &Queue, consumer: &str, commands: usize) -> bool {
    claims_at(queue, consumer, commands, Instant::now())
}

fn claims_at(queue: &Queue, consumer: &str, commands: usize, now: Instant) -> bool {
    let key_queues = (0..commands).map(|id| {
        let request = Request::new(claim(), AnswerTo::no_caller(), CallSpan::default());
        KeyQueue::new(Key::new(consumer, "s", &id.to_string()), request, now)
    });
    queue.push_all(key_queues.collect()).is_ok()
}

#[test]
fn commands_that_end_a_claim_are_served_before_claims() {
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
        assert!(queue.push(key_queue(number, command, Instant::now())).is_ok());
    }
    let mut served = Vec::new();
    while let Some(key_queue) = queue.try_pull(1).pop() {
        served.push(key_queue.key.id().to_owned());
    }
    assert_eq!(served, ["4", "5", "3", "2", "1", "0"], "Complete and Fail, Renew, Release, Claim, Lookup");
}

#[test]
fn full_queue_refuses_lookups_before_claims() {
    let queue = Queue::new(160, 1 << 20, 200);
    let pushed = |number: usize, command| queue.push(key_queue(number, command, Instant::now())).is_ok();
    assert!((0..80).all(|number| pushed(number, Command::Lookup)), "Lookups may take half of it");
    let refused = queue.push(key_queue(80, Command::Lookup, Instant::now())).unwrap_err();
    assert_eq!(refused.reason, Reason::Overloaded);
    assert!((250_000..1_000_000).contains(&refused.retry_after.unwrap().micros()), "{refused:?}");
    assert!((81..101).all(|number| pushed(number, claim())), "there is room for claims");
    assert!(!pushed(101, Command::Lookup) && !pushed(102, claim()));
    // Into an empty queue a batch of Lookups may be as large as a batch of claims.
    let empty = Queue::new(160, 1 << 20, 200);
    let batch = |many| (0..many).map(|number| key_queue(number, Command::Lookup, Instant::now())).collect();
    assert!(empty.push_all(batch(101)).is_err());
    assert!(empty.push_all(batch(100)).is_ok());
    assert!(empty.push_all(batch(1)).is_err());
}

/// One call with commands of several lanes may take the share of its most urgent command.
#[test]
fn mixed_batch_is_accepted_up_to_the_share_of_its_most_urgent_command() {
    let complete = || Command::Settle(1, Settle::Complete { result: Bytes::new(), left_out: false });
    let release = || Command::Settle(1, Settle::Release { delay: Span::ZERO, unpin: false });
    let renew = || {
        let (lease, effect_started, checkpoint, checkpoint_dropped) = (None, false, None, false);
        Command::Settle(1, Settle::Renew { lease, effect_started, checkpoint, checkpoint_dropped })
    };
    // Of 160: Complete takes all, Renew seven eighths, Release six, claims five.
    for (what, commands, share) in [
        ("Complete and Renew", [complete(), renew()], 160),
        ("Renew and Complete", [renew(), complete()], 160),
        ("Release and Complete", [release(), complete()], 160),
        ("Release and Renew", [release(), renew()], 140),
        ("Renew and Release", [renew(), release()], 140),
        ("Release alone", [release(), release()], 120),
    ] {
        for (taken, is_accepted) in [(share - 2, true), (share - 1, false)] {
            let queue = Queue::new(160, 1 << 20, 200);
            let now = Instant::now();
            assert!((0..taken).all(|number| queue.push(key_queue(number, complete(), now)).is_ok()));
            let batch = commands.iter().cloned().enumerate();
            let batch = batch.map(|(number, command)| key_queue(1_000 + number, command, now));
            assert_eq!(queue.push_all(batch.collect()).is_ok(), is_accepted, "{what} after {taken} commands");
        }
    }
}

/// How long a Lookup waited is not a measure of how long claims wait.
#[test]
fn lookups_do_not_change_the_retry_after_of_claims() {
    let queue = Queue::new(160, 1 << 20, 200);
    let before = Instant::now().checked_sub(Duration::from_millis(400)).unwrap();
    assert!(queue.push(key_queue(0, Command::Lookup, Instant::now())).is_ok());
    assert!(queue.push(key_queue(1, claim(), before)).is_ok());
    assert_eq!(queue.try_pull(200).len(), 2);
    assert!((0..100).all(|number| queue.push(key_queue(number, claim(), Instant::now())).is_ok()));
    let refused = queue.push(key_queue(100, claim(), Instant::now())).unwrap_err();
    assert!(refused.retry_after.unwrap().micros() >= 400_000, "{refused:?}");
}

/// The data of its last batch is still in the caches of its processor and of its backend.
#[test]
fn the_worker_that_worked_last_is_notified() {
    let queue = Queue::new(100, 1 << 20, 100);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut workers: Vec<_> = (0..3).map(|_| Box::pin(queue.pull(100))).collect();
    for worker in &mut workers {
        assert!(worker.as_mut().poll(&mut context).is_pending());
    }
    // Also after it was notified before.
    let last = workers.len() - 1;
    for id in 0..3 {
        assert!(queue.push(key_queue(id, claim(), Instant::now())).is_ok());
        let mut taken = Vec::new();
        for (number, worker) in workers.iter_mut().enumerate() {
            if let std::task::Poll::Ready(Some((_, batch))) = worker.as_mut().poll(&mut context) {
                batch.returned();
                taken.push(number);
            }
        }
        assert_eq!(taken, [last], "command {id}");
        workers[last] = Box::pin(queue.pull(100));
        assert!(workers[last].as_mut().poll(&mut context).is_pending());
    }
}

#[test]
fn retry_after_of_a_full_queue_is_the_time_in_which_it_is_served() {
    let queue = Queue::new(160, 1 << 20, 200);
    let renew = || {
        Command::Settle(
            1,
            Settle::Renew { lease: None, effect_started: false, checkpoint: None, checkpoint_dropped: false },
        )
    };
    let millis =
        |key_queue| queue.push(key_queue).err().map(|refused| refused.retry_after.unwrap().micros() / 1_000);
    // How long the last batch had waited, and the shortest retry-after of the next claims.
    for (waited, least) in [(0, 250), (400, 400), (0, 250)] {
        let now = Instant::now();
        let since = now.checked_sub(Duration::from_millis(waited)).unwrap();
        // Claims take five eighths of 160.
        assert!((0..100).all(|number| queue.push(key_queue(number, claim(), since)).is_ok()));
        let Taken::Batch(key_queues, batch) = queue.take(200, now) else { panic!("nothing waits") };
        assert_eq!(key_queues.len(), 100);
        queue.waiting().in_flight.returned(batch);
        let claims: Vec<i64> =
            (0..180).filter_map(|number| millis(key_queue(number, claim(), now))).collect();
        let fits = |millis: &i64| (least..2 * least + 100).contains(millis);
        assert!(claims.len() == 80 && claims.iter().all(fits), "after {waited} ms: {claims:?} ms");
        // Renewals may take seven eighths, and for them there is room as soon as a batch is sent.
        let renews: Vec<i64> =
            (0..120).filter_map(|number| millis(key_queue(number, renew(), now))).collect();
        let fits = |millis: &i64| (250..500).contains(millis);
        assert!(renews.len() == 80 && renews.iter().all(fits), "after {waited} ms: {renews:?} ms");
        drop(queue.try_pull(200));
    }
}

#[test]
fn claims_of_a_small_backlog_are_accepted_where_others_filled_the_queue() {
    let queue = Queue::new(1_024, 1_000_000, 100);
    // How many claims each consumer pushes, and whether they are accepted: 640 for all, 64 more for small backlogs.
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

/// Number of commands of `quiet` and of `bulk` in the next batch; `None` if it is not sent yet.
fn next(queue: &Queue, now: Instant) -> Option<(usize, usize, u64)> {
    let Taken::Batch(key_queues, batch) = queue.take(1_000, now) else { return None };
    let of = |who: &str| {
        key_queues.iter().filter(|key_queue| key_queue.key.consumer() == who).map(KeyQueue::len).sum()
    };
    Some((of("quiet"), of("bulk"), batch))
}

/// A claim next to the backlog of another consumer is in the next batch, which the store carries out in time.
#[test]
fn a_claim_waits_for_one_batch_of_a_backlog() {
    let (queue, now) = (Queue::new(8_192, 1 << 30, 1_000), Instant::now());
    assert!(claims_at(&queue, "bulk", 2_000, now));
    // A single active consumer has the largest batches.
    let Some((0, 1_000, first)) = next(&queue, now) else { panic!("a batch of one consumer") };
    // Small batches and large ones: 50 us for each command.
    for _ in 0..5 {
        queue.completed(1, Duration::from_micros(1_050));
        queue.completed(1_000, Duration::from_millis(51));
    }
    for _ in 0..5 {
        assert!(claims_at(&queue, "quiet", 1, now));
        assert!(matches!(next(&queue, now), Some((1, 99, _))), "5 ms of commands, those of both");
    }
    queue.waiting().in_flight.returned(first);
    assert!(matches!(next(&queue, now), Some((0, 100, _))), "as long as both are active");
}

/// A few commands wait for the batch in flight.
#[test]
fn a_single_consumer_waits_until_a_concurrent_batch_is_worth_it() {
    let (queue, now) = (Queue::new(8_192, 1 << 30, 1_000), Instant::now());
    assert!(claims_at(&queue, "bulk", 1_000, now));
    assert!(matches!(next(&queue, now), Some((0, 1_000, _))));
    assert!(claims_at(&queue, "bulk", 1, now));
    assert!(next(&queue, now).is_none());
    assert!(claims_at(&queue, "bulk", MIN_CONCURRENT_BATCH - 1, now));
    assert!(matches!(next(&queue, now), Some((0, MIN_CONCURRENT_BATCH, _))));
}

/// Claims are refused before they are decoded only where they would be refused whatever their consumers are.
#[test]
fn claims_are_refused_before_decoding_only_where_all_would_be() {
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
                // Bytes of claims that are not decoded do not count.
                assert!(unknown.is_err() || known || bytes_max < 1 << 20, "{taken} wait, {commands} come");
            }
        }
        assert!(refused > 10, "{commands_max} {bytes_max}: {refused}");
    }
    let closed = Queue::new(16, 1, 16);
    closed.close();
    assert!(closed.room_for_claims(1_000).is_ok(), "DRAINING is the answer to decoded claims");
}

/// Each command of a per-key queue is answered: a command that is dropped without an answer counts as unknown.
#[test]
fn queue_that_accepts_nothing_refuses_each_command() {
    type Ends = fn(&Queue);
    let ends: [(Ends, Reason); 2] =
        [(Queue::close, Reason::Draining), (Queue::outdated, Reason::StoreUnavailable)];
    for (end, reason) in ends {
        let queue = Queue::new(16, 1 << 20, 16);
        end(&queue);
        assert_eq!(queue.push(key_queue(0, claim(), Instant::now())).unwrap_err().reason, reason);
        let mut answered = Vec::new();
        let mut request = |command| {
            let (answer, arrives) = tokio::sync::oneshot::channel();
            answered.push(arrives);
            Request::new(command, AnswerTo::Call(answer), CallSpan::default())
        };
        let mut both = KeyQueue::new(Key::new("c", "s", "1"), request(claim()), Instant::now());
        both.push(request(Command::Lookup));
        queue.push_or_refuse(both);
        for mut arrives in answered {
            assert_eq!(arrives.try_recv().expect("an answer").unwrap_err().reason, reason);
        }
    }
}
