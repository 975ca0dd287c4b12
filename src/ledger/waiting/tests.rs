//! Waiting calls, and their room.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::poll;
use tokio::time::Instant;

use super::room::Waiter;
use super::*;
use crate::domain::{
    Answer, Claim, Claimant, Command, Context, Finding, Key, Policy, Reason, Rejection, Reply, Sight, Span,
    StoreTime, Submission, decide,
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

#[tokio::test]
async fn a_call_whose_wait_ends_when_it_is_called_does_not_keep_the_others_waiting() {
    let (room, _changes) = room();
    let metrics = Metrics::new().unwrap();
    let submission = Submission {
        key: key(),
        command: Command::Lookup,
        event_type: String::new(),
        trace_id: None,
        wait: Span::from_secs(1),
        corrected: Vec::new(),
    };
    let noted = Noted::default();
    let waits = |wait: Duration| {
        let now = Instant::now();
        let absent = Ok(Reply::Found(Box::new(Finding { state: None, attempt: 0, verdict: None })));
        let ends = WaitEnds { at: now + wait, deadline: now + 60 * SECOND };
        answered_later(&room, &metrics, &submission, absent, ends, (&noted, &Anyone))
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
