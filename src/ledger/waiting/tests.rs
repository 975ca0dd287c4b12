//! Waiting calls, and their room.

use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures_util::poll;
use tokio::time::Instant;

use super::room::Waiter;
use super::*;
use crate::common::still_counted::StillCounted;
use crate::domain::{
    Answer, Claim, Claimant, Command, Context, Finding, Key, Namespace, Policy, Reason, Rejection, Reply,
    Sight, Span, StoreTime, Submission, decide,
};
use crate::ledger::changes::Changes;
use crate::metrics::Metrics;

const SECOND: Duration = Duration::from_secs(1);

fn key() -> Key {
    Key::new("c", "s", "1")
}

fn room() -> (Arc<Room>, Arc<Changes>) {
    let changes = Arc::<Changes>::default();
    (Room::new(Bounds::default(), &changes), changes)
}

struct Anyone;

impl WaitingCaller for Anyone {
    type Permit = ();

    fn principal(&self) -> Option<&str> {
        None
    }

    fn place(&self) -> Option<()> {
        Some(())
    }

    fn rests(&self) {}

    fn judged(&self) -> Result<(), Rejection> {
        Ok(())
    }

    fn looks(&self) -> Result<(), Rejection> {
        Ok(())
    }
}

/// Records whether each look is together with others.
#[derive(Default)]
struct Noted(Mutex<Vec<bool>>);

impl Looks for Noted {
    async fn look(&self, together: Option<Arc<Together>>) -> Answer {
        self.0.lock().expect("no look has panicked").push(together.is_some());
        Err(Rejection::new(Reason::EntryUnreadable, "an answer that is not awaited"))
    }
}

fn lookup() -> Submission {
    Submission {
        key: key(),
        command: Command::Lookup,
        event_type: String::new(),
        trace_id: None,
        wait: Span::from_secs(1),
        corrected: Vec::new(),
    }
}

/// The answer to a Lookup that waits: the key is absent.
fn absent() -> Reply {
    Reply::Found(Box::new(Finding { state: None, attempt: 0, verdict: None }))
}

/// Each look fails: the first one with the first of these reasons, and so on; those after the last one with the last.
struct Fails(Mutex<Vec<Reason>>);

impl Fails {
    fn new(reasons: &[Reason]) -> Fails {
        Fails(Mutex::new(reasons.iter().rev().copied().collect()))
    }
}

impl Looks for Fails {
    async fn look(&self, _together: Option<Arc<Together>>) -> Answer {
        let mut left = self.0.lock().expect("no look has panicked");
        let reason = if left.len() > 1 { left.pop() } else { left.last().copied() };
        Err(Rejection::new(reason.expect("a reason"), "it fails"))
    }
}

#[tokio::test]
async fn unknown_outcome_is_answered_at_drain_deadline_and_end_of_wait() {
    for end in ["drain", "deadline", "end of the wait"] {
        let (room, _changes) = room();
        let (metrics, submission, began) = (Metrics::new().unwrap(), lookup(), Instant::now());
        let at = began + if end == "end of the wait" { 2 * SECOND } else { 60 * SECOND };
        let deadline = began + if end == "deadline" { 2 * SECOND } else { 120 * SECOND };
        let (ends, fails) = (WaitEnds { at, deadline }, Fails::new(&[Reason::OutcomeUnknown]));
        let first = Ok(absent());
        let mut call = Box::pin(answered_later(&room, &metrics, &submission, first, ends, (&fails, &Anyone)));
        assert!(poll!(&mut call).is_pending());
        room.polled(key().hash(), &Sight::Settled);
        assert!(poll!(&mut call).is_pending(), "{end}: the look failed, the call goes on waiting");
        if end == "drain" {
            room.drain();
        } else {
            tokio::time::sleep_until(began + 2 * SECOND - Duration::from_millis(50)).await;
            room.polled(key().hash(), &Sight::Settled);
        }
        let refused = call.await.unwrap_err();
        assert_eq!(refused.reason, Reason::OutcomeUnknown, "{end}");
    }
}

/// No repeat helps against the second error, and the first look may have been granted the claim.
#[tokio::test]
async fn final_error_after_an_unknown_outcome_ends_the_wait_as_unknown() {
    let (room, _changes) = room();
    let (metrics, submission, now) = (Metrics::new().unwrap(), lookup(), Instant::now());
    let ends = WaitEnds { at: now + 60 * SECOND, deadline: now + 120 * SECOND };
    let fails = Fails::new(&[Reason::OutcomeUnknown, Reason::ConsumerDisabled]);
    let first = Ok(absent());
    let mut call = Box::pin(answered_later(&room, &metrics, &submission, first, ends, (&fails, &Anyone)));
    assert!(poll!(&mut call).is_pending());
    room.polled(key().hash(), &Sight::Settled);
    assert!(poll!(&mut call).is_pending());
    room.polled(key().hash(), &Sight::Settled);
    let Poll::Ready(Err(refused)) = poll!(&mut call) else { panic!("it is answered immediately") };
    assert_eq!(refused.reason, Reason::OutcomeUnknown);
}

#[tokio::test]
async fn a_call_whose_wait_ends_when_it_is_called_does_not_keep_the_others_waiting() {
    let (room, _changes) = room();
    let metrics = Metrics::new().unwrap();
    let submission = lookup();
    let noted = Noted::default();
    let waits = |wait: Duration| {
        let now = Instant::now();
        let ends = WaitEnds { at: now + wait, deadline: now + 60 * SECOND };
        answered_later(&room, &metrics, &submission, Ok(absent()), ends, (&noted, &Anyone))
    };
    // Older than a last look may be to stand, and longer than a busy machine needs to begin both waits.
    let over = SECOND;
    let (mut first, mut second) = (Box::pin(waits(over)), Box::pin(waits(60 * SECOND)));
    assert!(poll!(&mut first).is_pending() && poll!(&mut second).is_pending());
    // Its wait is over, and it is called before it notices that.
    tokio::time::sleep(over + Duration::from_millis(20)).await;
    room.polled(key().hash(), &Sight::Settled);
    let answers = (first.await, second.await);
    assert!(answers.0.is_err() && answers.1.is_err());
    assert_eq!(
        *noted.0.lock().unwrap(),
        [true, true],
        "both are in the batch that is sent when all have joined"
    );
}

#[tokio::test]
async fn a_mark_on_an_entry_does_not_move_the_instant_at_which_its_key_is_due() {
    let (room, changes) = room();
    let granted = StoreTime(1_000_000_000);
    let policy = Policy { lease: Span::from_secs(60), reclaim_grace: Span::ZERO, ..Policy::default() };
    let [holder, other] = [1, 2].map(|number| Claimant {
        claim_id: uuid::Uuid::from_u128(number),
        principal: String::new(),
        owner: String::new(),
    });
    let claim = Claim {
        claimant: holder,
        lease: None,
        fingerprint: Bytes::new(),
        occurred_at: None,
        traceparent: String::new(),
        handed_out: false,
    };
    let context = Context {
        policy: &policy,
        now: granted,
        token_offset: 0,
        position: 1,
        clock_behind: false,
        clock_before_release: false,
        clock_ahead: false,
    };
    let held = decide(&key(), None, &Command::Claim(claim), &context).write.unwrap();
    let until = Instant::now() + 60 * SECOND;
    let waiter = Waiter { key: &key(), claimant: Some(&other), principal: None, until };
    let (_seat, mut called) = room.enter(&waiter).unwrap();
    // The entry was last changed at the grant. The mark is written when one second of the lease is left.
    changes.written(&held, granted + Span::from_secs(59));
    room.let_due_look(Instant::now() + SECOND / 2);
    assert!(called.try_recv().is_err(), "the lease is not over");
    room.let_due_look(Instant::now() + 2 * SECOND);
    assert!(called.try_recv().is_ok(), "the lease is over");
}

/// Places are counted by consumer: those of its replay runs with the others.
#[tokio::test]
async fn leaving_call_returns_its_counts_also_in_replay_run() {
    for run in ["", "rebuild"] {
        let (room, _changes) = room();
        let key = Key::of(Namespace::new("c", run), "s".to_owned(), "1".to_owned());
        let waiter =
            Waiter { key: &key, claimant: None, principal: Some("p"), until: Instant::now() + 60 * SECOND };
        let (seat, _called) = room.enter(&waiter).unwrap();
        let counted = || {
            let mut left = StillCounted::default();
            room.still_counted(&mut left);
            left
        };
        assert!(!counted().is_empty());
        room.leave(&key, Some("p"), seat);
        assert!(counted().is_empty(), "{run:?}: {}", counted());
    }
}
