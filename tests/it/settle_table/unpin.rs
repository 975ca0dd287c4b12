//! A Release that unpins the fingerprint, over the flags of an entry and what comes after it: docs/contract.md, section 5.

use bytes::Bytes;
use idempotency_ledger::domain::{
    Action, Change, Changed, Claim, Claimant, ClosedBy, Command, Context, Entry, Policy, Reply, Resolution,
    Settle, Span, State, StoreTime, Verdict, decide, operate,
};
use uuid::Uuid;

use super::{Case, GRACE, LEASE, Op, TOKEN, Time, Token, Was, entry, key, policy};
use crate::harness::server::START;

const CASE: Case = Case {
    was: Was::Open,
    op: Op::Release,
    token: Token::Latest,
    time: Time::Running,
    effect_started: false,
    last_attempt: false,
};

fn context(policy: &Policy, now: StoreTime) -> Context<'_> {
    Context {
        policy,
        now,
        token_offset: 0,
        position: 1,
        clock_behind: false,
        clock_before_release: false,
        clock_ahead: false,
    }
}

/// An open claim without a flag, whose fingerprint is pinned.
fn open() -> Entry {
    let fingerprint = Bytes::from_static(b"invalid");
    Entry { effect_unknown: false, fingerprint, ..entry(&CASE, 1, START).unwrap() }
}

fn step(before: &Entry, command: &Command, now: StoreTime) -> (Reply, Entry) {
    let policy = policy(&CASE);
    let decision = decide(&key(&CASE, 1), Some(before), command, &context(&policy, now));
    (decision.answer.unwrap(), decision.write.unwrap_or_else(|| before.clone()))
}

fn release(before: &Entry, unpin: bool) -> (bool, bool, Entry) {
    let command = Command::Settle(before.token, Settle::Release { delay: Span::ZERO, unpin });
    let (reply, after) = step(before, &command, START);
    let Reply::Released { replayed, unpinned, .. } = reply else { panic!("{reply:?}") };
    (replayed, unpinned, after)
}

fn claim(before: &Entry, print: &'static [u8], now: StoreTime) -> (Verdict, Entry) {
    let claimant =
        Claimant { claim_id: Uuid::from_u128(8), principal: "anonymous".into(), owner: "w".into() };
    let claim = Claim {
        claimant,
        lease: None,
        fingerprint: Bytes::from_static(print),
        occurred_at: None,
        traceparent: String::new(),
        handed_out: false,
    };
    let (reply, after) = step(before, &Command::Claim(claim), now);
    let Reply::Verdict(verdict) = reply else { panic!("{reply:?}") };
    (verdict, after)
}

#[test]
fn a_fingerprint_is_unpinned_only_where_nothing_is_left_of_the_request() {
    for case in 0..16 {
        let is = |bit: u32| case & (1 << bit) != 0;
        let (unpin, prior, unknown, progress) = (is(0), is(1), is(2), is(3));
        let before = Entry {
            prior_effect_started: prior,
            effect_unknown: unknown,
            checkpoint: if progress { Bytes::from_static(b"half") } else { Bytes::new() },
            ..open()
        };
        let want = unpin && !prior && !unknown && !progress;
        let (replayed, unpinned, after) = release(&before, unpin);
        assert_eq!((replayed, unpinned, after.unpinned), (false, want, want), "{case:04b}");
        assert_eq!(after.fingerprint, before.fingerprint, "it is marked, not deleted");
        // A repeat that asks for more, or for less, changes nothing.
        for unpin in [false, true] {
            assert_eq!(release(&after, unpin), (true, want, after.clone()), "{case:04b}");
        }
        let (verdict, next) = claim(&after, b"corrected", START);
        let granted = matches!(verdict, Verdict::Acquired { .. });
        assert_eq!(granted, want, "{case:04b}: {verdict:?}");
        if granted {
            assert_eq!((&next.fingerprint[..], next.unpinned), (&b"corrected"[..], false));
        }
    }
}

#[test]
fn the_next_grant_replaces_the_fingerprint_also_by_none() {
    let (.., after) = release(&open(), true);
    for print in [&b"invalid"[..], b"corrected", b""] {
        let (_, next) = claim(&after, print, START);
        assert_eq!((&next.fingerprint[..], next.unpinned, next.state), (print, false, State::InProgress));
    }
    // It is that of the grant from then on: the request before is another one.
    let (_, held) = claim(&after, b"corrected", START);
    let (verdict, _) = claim(&held, b"invalid", START + LEASE + GRACE);
    assert!(matches!(verdict, Verdict::FingerprintMismatch { .. }), "{verdict:?}");
}

#[test]
fn complete_ends_the_marking_so_that_no_other_request_gets_its_result() {
    let (.., after) = release(&open(), true);
    let complete = Settle::Complete { result: Bytes::from_static(b"of the invalid one"), left_out: false };
    let (_, done) = step(&after, &Command::Settle(TOKEN, complete), START);
    assert_eq!((done.closed_by, done.unpinned), (ClosedBy::Complete, false));
    let (verdict, _) = claim(&done, b"corrected", START);
    assert!(matches!(verdict, Verdict::FingerprintMismatch { .. }), "{verdict:?}");
    assert!(matches!(claim(&done, b"invalid", START).0, Verdict::Completed { .. }));
}

#[test]
fn an_operators_change_drops_a_marked_fingerprint_and_keeps_another() {
    let policy = policy(&CASE);
    let actions = [
        Action::Redrive { drop_fingerprint: false, admit: false },
        Action::Resolve(Resolution::Completed { result: Bytes::new() }),
        Action::Resolve(Resolution::FailedTerminal { error: "evidence".into() }),
        Action::Resolve(Resolution::Received),
    ];
    for action in actions {
        for unpin in [false, true] {
            let (.., after) = release(&open(), unpin);
            let change = Change { expected_version: after.version, action: action.clone(), force: true };
            let changed = operate(&key(&CASE, 1), Some(&after), &change, &context(&policy, START)).unwrap();
            let Changed::Entry(changed) = changed else { panic!("{changed:?}") };
            let kept: &[u8] = if unpin { b"" } else { b"invalid" };
            assert_eq!((&changed.fingerprint[..], changed.unpinned), (kept, false), "{action:?}");
        }
    }
}
