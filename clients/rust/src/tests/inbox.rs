//! The inbox: what is refused before it is sent, what a worker asks for, and what becomes of a handout.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use tokio::time::Instant;

use super::world::{Reply, Script, acquired, answer, completed, released, renewed};
use crate::{
    Advice, Error, Key, Message, Steer,
    calls::{Failure, Method, message},
    hold::Hold,
    inbox::StoredMessage,
    inflight::Inflight,
    proto as pb,
    queue::{Item, WorkQueue},
    telemetry::Parent,
};

fn stored(advice: pb::Advice, verdict: Option<pb::store_response::Verdict>) -> Reply {
    answer(&pb::StoreResponse { advice: advice as i32, retry_after: None, verdict })
}

#[tokio::test]
async fn message_beyond_a_bound_is_dead_lettered_and_not_sent() {
    let large = "x".repeat(257);
    let header = |name: &str, size| vec![(name.to_owned(), Bytes::from(vec![0; size]))];
    for (field, message) in [
        ("message.payload", Message::of(vec![0; 256 * 1024 + 1])),
        ("message.topic", Message { topic: large.clone(), ..Message::default() }),
        ("message.message_key", Message { message_key: vec![0; 513].into(), ..Message::default() }),
        ("message.event_version", Message { event_version: large.clone(), ..Message::default() }),
        ("message.content_type", Message { content_type: large, ..Message::default() }),
        ("message.headers.name", Message { headers: header("", 0), ..Message::default() }),
        ("message.headers", Message { headers: header("h", 16 * 1024), ..Message::default() }),
    ] {
        let script = Script::of([]);
        let outcome = script.ledger().store(Key::of("shop", "1"), message).await.unwrap();
        assert_eq!(outcome.advice, Advice::DeadLetter);
        assert!(outcome.error.unwrap().to_string().contains(field), "{field}: {}", outcome.detail);
    }
    let run = Key::of("shop", "1").in_replay_run("run").unwrap();
    let refused = Script::of([]).ledger().store(run, Message::default()).await;
    assert!(matches!(refused, Err(Error::InvalidField(_))));
}

#[tokio::test(start_paused = true)]
async fn verdict_of_store_becomes_an_outcome() {
    use pb::store_response::Verdict;
    for (reply, reason, acknowledged, replayed) in [
        (stored(pb::Advice::Ack, Some(Verdict::Stored(pb::Stored::default()))), None, true, false),
        (
            stored(pb::Advice::Ack, Some(Verdict::AlreadyStored(pb::AlreadyStored::default()))),
            Some("already_stored"),
            true,
            true,
        ),
        // Rule 8: what this version does not know.
        (stored(pb::Advice::Ack, None), Some("UNKNOWN_VERDICT"), false, false),
        (
            stored(pb::Advice::Unspecified, Some(Verdict::Stored(pb::Stored::default()))),
            Some("stored"),
            false,
            false,
        ),
        (super::world::refused("INBOX_OFF", "RETRY_LATER"), Some("INBOX_OFF"), false, false),
    ] {
        let outcome =
            Script::of([reply]).ledger().store(Key::of("shop", "1"), Message::of("p")).await.unwrap();
        assert_eq!(outcome.reason.as_deref(), reason);
        assert_eq!((outcome.advice == Advice::Ack, outcome.replayed), (acknowledged, replayed));
    }
}

fn handed(ids: &[&str]) -> Reply {
    handed_for(30, ids)
}

/// A handout with leases of this many seconds.
fn handed_for(lease: u64, ids: &[&str]) -> Reply {
    let acquired = || pb::Acquired { lease: Some(message(Duration::from_secs(lease))), ..acquired() };
    let each = |id: &&str| pb::Handed {
        key: Some(pb::EntryKey { source: "shop".into(), id: (*id).into(), ..pb::EntryKey::default() }),
        acquired: Some(acquired()),
        message: Some(pb::Message { payload: Bytes::from_static(b"p"), ..pb::Message::default() }),
        stored_at: None,
    };
    answer(&pb::ClaimNextResponse { messages: ids.iter().map(each).collect(), retry_after: None })
}

/// Each of three messages is renewed by its own handler: none waits for the renewals of the others.
#[tokio::test(start_paused = true)]
async fn handout_after_a_wait_beyond_its_lease_is_renewed_concurrently() {
    let after = |seconds, reply| Reply::After(Duration::from_secs(seconds), Box::new(reply));
    let late = after(3, handed_for(2, &["1", "2", "3"]));
    // From its renewal and from its handler.
    let renewals = (0..6).map(|_| after(1, renewed(30)));
    let script = Script::of([late].into_iter().chain(renewals).chain((0..3).map(|_| completed())));
    let ledger = script.ledger();
    let (began, stop) = (Instant::now(), tokio_util::sync::CancellationToken::new());
    let (handlers, stopping) = (Arc::new(std::sync::Mutex::new(Vec::new())), stop.clone());
    let times = Arc::clone(&handlers);
    let worker = ledger.worker(move |_claim, _message| {
        let mut times = times.lock().unwrap();
        times.push(began.elapsed());
        if times.len() == 3 {
            stop.cancel();
        }
        async { Ok(()) }
    });
    assert!(worker.concurrency(3).run(async move { stopping.cancelled().await }).await.unwrap());
    assert!(handlers.lock().unwrap().iter().all(|after| *after <= Duration::from_secs(4)), "{handlers:?}");
}

#[tokio::test(start_paused = true)]
async fn worker_runs_what_it_is_handed_and_releases_what_waits() {
    let script = Script::of([handed(&["1", "2"]), released(), completed()]);
    let ledger = script.ledger();
    let (begun, first) = tokio::sync::oneshot::channel();
    let begun = std::sync::Mutex::new(Some(begun));
    let worker = ledger.worker(move |_claim, message: StoredMessage| {
        begun.lock().unwrap().take().unwrap().send(message.key.id().to_owned()).unwrap();
        async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(())
        }
    });
    let stop = async move { assert_eq!(first.await.unwrap(), "1") };
    assert!(worker.run(stop).await.unwrap());
    assert_eq!(script.methods(), [Method::ClaimNext, Method::Release, Method::Complete]);
    assert!(ledger.close(Duration::ZERO).await);
    let closed = ledger.worker(async |_, _| Ok(())).run(std::future::pending()).await;
    assert_eq!(closed, Err(Error::Closed));
}

/// A handler that ends by the loss of its claim alone, and panics then; or one that ends.
struct Bursting(bool);

impl Future for Bursting {
    type Output = Result<(), Steer>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        if self.0 { Poll::Pending } else { Poll::Ready(Ok(())) }
    }
}

impl Drop for Bursting {
    fn drop(&mut self) {
        assert!(!self.0, "while it is dropped");
    }
}

#[tokio::test(start_paused = true)]
async fn handler_that_panics_while_it_is_dropped_frees_its_slot() {
    let lost = super::world::refused("LEASE_LOST", "RETRY_LATER");
    let idle =
        pb::ClaimNextResponse { retry_after: Some(message(Duration::from_secs(60))), messages: Vec::new() };
    let script = Script::of([handed(&["1"]), lost, handed(&["2"]), completed(), answer(&idle)]);
    let (begun, mut both) = tokio::sync::mpsc::unbounded_channel();
    let worker = script.ledger().worker(move |_claim, message: StoredMessage| {
        begun.send(()).unwrap();
        Bursting(message.key.id() == "1")
    });
    let stop = async move {
        both.recv().await.unwrap();
        both.recv().await.unwrap();
    };
    let work = worker.run(stop);
    assert_eq!(tokio::time::timeout(Duration::from_secs(60), work).await.unwrap(), Ok(true));
}

#[tokio::test(start_paused = true)]
async fn stop_that_panics_ends_the_work_also_with_the_longest_grace() {
    let idle =
        pb::ClaimNextResponse { retry_after: Some(message(Duration::from_secs(60))), messages: Vec::new() };
    let ledger = Script::of([answer(&idle)]).ledger();
    let worker = ledger.worker(async |_, _| Ok(())).grace(Duration::MAX);
    let work = worker.run(async { panic!("instead of a stop") });
    assert_eq!(tokio::time::timeout(Duration::from_secs(30), work).await.unwrap(), Ok(true));
}

#[test]
fn only_an_unknown_outcome_is_asked_for_again() {
    assert!(Failure::local("INTERNAL", "").unknown());
    let closed = Failure { reason: Some("CLAIM_CLOSED".into()), ..Failure::default() };
    assert!(!closed.unknown());
}

fn items(attempt: i32, ids: &[&str]) -> Vec<Item> {
    let inflight = Arc::new(Inflight::default());
    let item = |id: &&str| {
        let granted = pb::Acquired { attempt, effect_unknown: attempt > 1, ..acquired() };
        let transport = Script::of([]) as Arc<dyn crate::calls::Transport>;
        Item {
            hold: Arc::new(Hold::new(transport, pb::ClaimRequest::default(), granted, Instant::now())),
            message: StoredMessage {
                key: Key::of("shop", *id),
                message: Message::default(),
                stored_at: None,
            },
            parent: Parent::current(),
            held: (None, inflight.join()),
        }
    };
    ids.iter().map(item).collect()
}

#[tokio::test]
async fn room_is_sized_by_lease_and_handler_time() {
    for (took, most) in [(0, 4), (1, 40), (5_000, 12), (15_000, 4), (60_000, 4)] {
        let mut queue = WorkQueue::new(4, Duration::from_secs(30));
        if took > 0 {
            queue.add(items(1, &["1"]));
            let item = queue.next().unwrap();
            queue.ended(&item.message.key, Duration::from_millis(took));
        }
        assert_eq!(queue.room(), most, "handlers took {took} ms");
    }
    assert_eq!(WorkQueue::new(4, Duration::from_secs(4)).wait(), Duration::from_secs(1));
    assert_eq!(message(Duration::from_secs(1)).seconds, 1);
}

#[tokio::test]
async fn suspect_whose_claim_is_lost_holds_up_no_other() {
    let mut queue = WorkQueue::new(4, Duration::from_secs(30));
    queue.add(items(1, &["1"]));
    assert!(queue.next().is_some());
    queue.add(items(3, &["2"]));
    assert!(queue.next().is_none() && queue.room() == 0);
    queue.suspect().unwrap().loss.send_modify(|loss| loss.reason = Some("LEASE_LOST".into()));
    assert_eq!(queue.room(), 2);
    queue.add(items(1, &["3"]));
    assert_eq!(queue.next().unwrap().message.key, Key::of("shop", "2"));
    assert_eq!(queue.next().unwrap().message.key, Key::of("shop", "3"));
}

#[tokio::test]
async fn next_runs_no_message_twice_and_a_suspect_alone() {
    let mut queue = WorkQueue::new(3, Duration::from_secs(30));
    let (one, two, three) = (Key::of("shop", "1"), Key::of("shop", "2"), Key::of("shop", "3"));
    queue.add(items(1, &["1", "1", "2"]));
    assert_eq!(queue.next().unwrap().message.key, one);
    assert_eq!(queue.next().unwrap().message.key, two);
    assert!(queue.next().is_none());
    queue.ended(&one, Duration::ZERO);
    queue.add(items(3, &["3"]));
    assert_eq!(queue.next().unwrap().message.key, one);
    assert!(queue.next().is_none() && queue.room() == 0);
    queue.ended(&two, Duration::ZERO);
    queue.ended(&one, Duration::ZERO);
    assert_eq!(queue.next().unwrap().message.key, three);
    queue.add(items(1, &["4", "5"]));
    assert!(queue.next().is_none() && queue.room() == 0);
    queue.ended(&three, Duration::ZERO);
    assert!(queue.next().is_some() && !queue.idle());
    assert_eq!(queue.drain().len(), 1);
}
