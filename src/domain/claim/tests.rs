use uuid::Uuid;

use super::*;
use crate::{Claimant, Doubt, ReplayMode, RunMode, Standing};

/// A claim without a demand, of a message that was made at this instant.
pub(crate) fn claim(occurred_at: Option<StoreTime>) -> Claim {
    Claim {
        claimant: Claimant { claim_id: Uuid::nil(), principal: String::new(), owner: String::new() },
        lease: None,
        fingerprint: Bytes::new(),
        occurred_at,
        traceparent: String::new(),
        handed_out: false,
    }
}

fn in_run(end: StoreTime) -> Policy {
    Policy {
        run: Standing::Known { mode: RunMode::Rebuild, end },
        replay: ReplayMode::Rebuild,
        ..Policy::default()
    }
}

#[test]
fn claim_is_inserted_optimistically_only_when_surely_inside_the_window() {
    let now = StoreTime(1_780_000_000_000_000);
    let week = Policy::default().retention;
    let hour = Span::from_secs(3_600);
    for (made, clock, guessed) in [
        (None, None, true),
        (None, Some(now), true),
        (Some(now), Some(now), true),
        (Some(now), None, false),
        (Some(now - week), Some(now), false),
        (Some(now - week + hour), Some(now), false),
        (Some(now - week + hour + hour), Some(now), true),
    ] {
        let claim = claim(made);
        assert_eq!(guessable(&claim, &Policy::default(), clock), guessed, "{made:?} {clock:?}");
        let disabled = Policy { disabled: true, ..Policy::default() };
        let unreadable = Policy { doubt: Doubt::Unreadable, ..Policy::default() };
        assert!(!guessable(&claim, &unreadable, clock));
        let required = Policy { fingerprint: FingerprintMode::Require, ..Policy::default() };
        let floor = Policy { window_floor: now, ..Policy::default() };
        let held = Policy { held_by: Some("".into()), ..Policy::default() };
        assert!(!guessable(&claim, &held, clock));
        assert!(!guessable(&claim, &disabled, clock) && !guessable(&claim, &required, clock));
        assert!(!guessable(&claim, &floor, clock) || made.is_none());
    }
}

#[test]
fn claim_of_a_run_is_inserted_optimistically_until_an_hour_before_its_end() {
    let now = StoreTime(1_780_000_000_000_000);
    let (hour, instant) = (Span::from_secs(3_600), Span(1));
    // The last instant at which a run grants is one before its end.
    for (end, clock, guessed) in [
        (now + hour + instant, Some(now), false),
        (now + hour + instant + instant, Some(now), true),
        (now + hour + hour, Some(now), true),
        (now + hour + hour, None, false),
        (now - hour, Some(now), false),
    ] {
        assert_eq!(guessable(&claim(None), &in_run(end), clock), guessed, "{end:?} {clock:?}");
    }
}

#[test]
fn insert_is_valid_until_the_window_or_the_run_ends() {
    let (made, end) = (StoreTime(1_780_000_000_000_000), StoreTime(1_790_000_000_000_000));
    let live = Policy::default();
    let instant = Span(1);
    for (occurred_at, policy, until) in [
        (None, &live, StoreTime::MAX),
        (Some(made), &live, made + live.retention - instant),
        (None, &in_run(end), end - instant),
        // A message of a run has the age that its run allows.
        (Some(made), &in_run(end), end - instant),
    ] {
        assert_eq!(inside_until(&claim(occurred_at), policy), until, "{occurred_at:?} {:?}", policy.run);
    }
}
