//! The bounds of what clients hold, and what the sweep ends. Without a clock: the tests count ticks.

mod answers;
mod headers;
mod walk;

use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body::{Body as _, Frame};
use http_body_util::{BodyExt as _, Full as Whole};
use tokio_util::sync::CancellationToken;

use super::for_tests::{LIMITS, accounts};
use super::limits::CALL_BYTES;
use super::progress::ticks;
use super::*;
use crate::domain::{Reason, Rejection};
use crate::identity::{ANONYMOUS, Grants, Identity, Rpc};

const MIB: usize = 1 << 20;
/// Bytes of answers that a principal may leave unread.
const SHARE: usize = MIB / 2;

struct Client {
    connection: Arc<ConnectionAccount>,
    closed: CancellationToken,
}

impl Client {
    fn of(accounts: &Accounts, address: u8) -> Client {
        let closed = CancellationToken::new();
        let address = IpAddr::from([192, 0, 2, address]);
        Client { connection: ConnectionAccount::new(accounts, address, closed.clone()), closed }
    }

    /// A call. A principal without a name is a client without a credential; `?` asks for health once.
    fn call(&self, principal: &str, rpc: &str) -> Result<Arc<CallAccount>, Rejection> {
        let open = OpenCall::begin(&self.connection);
        let identity = Arc::new(Identity { principal: principal.into(), grants: Grants::EVERYTHING });
        let who = match principal {
            "" => CallOwner::Stranger,
            "?" => CallOwner::Probe,
            _ => CallOwner::Known(&identity),
        };
        CallAccount::admit(&self.connection, open, &who, Rpc::of(rpc), 0)
    }
}

/// Takes bytes in steps with one call: how many are granted, and the reason of the refusal.
fn room(client: &Client, principal: &str, rpc: &str) -> (usize, Reason, Option<Arc<CallAccount>>) {
    const STEP: usize = 1_024;
    let call = match client.call(principal, rpc) {
        Ok(call) => call,
        Err(refused) => return (0, refused.reason, None),
    };
    loop {
        if let Err(refused) = call.take_message(STEP) {
            return (call.state().request_bytes(), refused.reason, Some(call));
        }
    }
}

/// A call on a separate connection: the principal, the RPC, how many bytes are granted, and why no more are.
type Row = (&'static str, &'static str, usize, Reason);

#[test]
fn each_owner_has_its_share_and_settlements_a_reserve() {
    use Reason::{Overloaded, QuotaExceeded};
    let limits = AccountLimits { connection_bytes_max: usize::MAX, ..LIMITS };
    let tables: [(&str, usize, &[Row]); 5] = [
        (
            "a share, and its reserve",
            0,
            &[
                ("a", "Claim", MIB / 8 * 5, QuotaExceeded),
                ("a", "GetEntry", 0, QuotaExceeded),
                ("a", "Complete", MIB / 8 * 3, QuotaExceeded),
                ("b", "Claim", MIB / 8 * 5, QuotaExceeded),
            ],
        ),
        (
            "each leaves as much as it holds, and claims the server's reserve",
            0,
            &[
                ("a", "Claim", MIB / 8 * 5, QuotaExceeded),
                ("b", "BatchClaim", MIB / 8 * 5, QuotaExceeded),
                ("c", "Claim", MIB / 8 * 5, Overloaded),
                ("d", "Claim", MIB / 16 * 5, Overloaded),
                ("e", "Claim", MIB / 32 * 5, Overloaded),
                ("e", "BatchSettle", MIB / 64 * 53, Overloaded),
                ("f", "Complete", MIB / 128 * 53, Overloaded),
            ],
        ),
        (
            "anonymous has the whole, less the reserve",
            0,
            &[
                (ANONYMOUS, "Claim", MIB / 2 * 5, Overloaded),
                (ANONYMOUS, "Complete", MIB / 2 * 3, Overloaded),
            ],
        ),
        (
            "a configured limit",
            80_000,
            &[
                ("a", "Claim", 50_000, QuotaExceeded),
                ("a", "Fail", 30_000, QuotaExceeded),
                (ANONYMOUS, "Claim", 50_000, QuotaExceeded),
            ],
        ),
        (
            "without a credential",
            0,
            &[
                ("", "", MIB / 32 * 5, Overloaded),
                ("", "", MIB / 64 * 5, Overloaded),
                ("", "", MIB / 128 * 5, Overloaded),
                ("?", "", MIB / 256 * 29, Overloaded),
                (ANONYMOUS, "Claim", MIB / 2 * 5, Overloaded),
            ],
        ),
    ];
    for (what, bytes_max, rows) in tables {
        let principals = PrincipalLimits { bytes_max, ..PrincipalLimits::default() };
        let accounts = accounts(AccountLimits { principals, ..limits });
        let mut held = Vec::new();
        for (number, (principal, rpc, expected, reason)) in (1..).zip(rows) {
            let client = Client::of(&accounts, number);
            let (taken, refused, call) = room(&client, principal, rpc);
            assert!(taken.abs_diff(*expected) <= 1_024, "{what}: {principal} {rpc}: {taken} of {expected}");
            assert_eq!(refused, *reason, "{what}: {principal} {rpc}");
            held.push((client, call));
        }
        drop(held);
        assert_eq!(accounts.request_bytes()(), 0, "{what}: all goes back");
        assert_eq!(accounts.0.strangers.bytes(), 0, "{what}");
    }
}

#[test]
fn reflection_is_charged_to_the_address_of_anonymous_callers() {
    for (principal, is_stranger) in [(ANONYMOUS, true), ("token:a", false)] {
        let identity = Arc::new(Identity { principal: principal.into(), grants: Grants::EVERYTHING });
        assert_eq!(
            matches!(CallOwner::asks_for_no_data(&identity), CallOwner::Stranger),
            is_stranger,
            "{principal}"
        );
    }
}

#[test]
fn calls_are_limited_until_the_last_byte_of_their_answers_is_taken() {
    let principals = PrincipalLimits { calls_max: 8, ..PrincipalLimits::default() };
    let accounts = accounts(AccountLimits { principals, ..LIMITS });
    let client = Client::of(&accounts, 1);
    let passed = |principal: &str, rpc: &str| -> Vec<Arc<CallAccount>> {
        std::iter::from_fn(|| client.call(principal, rpc).ok()).take(100).collect()
    };
    let claims = passed("a", "Claim");
    assert_eq!((claims.len(), passed("a", "GetEntry").len()), (5, 0));
    let settlements = passed("a", "Complete");
    assert_eq!((settlements.len(), passed("b", "Claim").len()), (3, 5));
    drop(settlements);
    let mut claims = claims.into_iter();
    let mut answer = answer(claims.next().expect("five"), 20_000);
    let (first, second) = (piece(&mut answer), piece(&mut answer));
    drop((answer, first));
    assert_eq!(passed("a", "GetEntry").len(), 0, "a piece of an answer is not taken yet");
    drop(second);
    assert_eq!(passed("a", "GetEntry").len(), 1);
}

/// A call that looks again takes back what it held before, or nothing: else each refused look would keep a place.
#[test]
fn waiting_call_that_finds_no_space_goes_on_resting() {
    let principals = PrincipalLimits { calls_max: 8, ..PrincipalLimits::default() };
    let accounts = accounts(AccountLimits { principals, connection_bytes_max: usize::MAX, ..LIMITS });
    let client = Client::of(&accounts, 1);
    let waits = client.call("a", "Claim").expect("it passes");
    waits.rest();
    assert_eq!(accounts.request_bytes()(), 0, "it returns what it holds");
    let (taken, _, full) = room(&client, "a", "Claim");
    for _ in 0..20 {
        assert_eq!(waits.resume().map_err(|refused| refused.reason), Err(Reason::QuotaExceeded));
    }
    assert_eq!(accounts.request_bytes()(), taken, "a look that is refused takes nothing");
    drop(full);
    let others: Vec<_> = std::iter::from_fn(|| client.call("a", "Claim").ok()).take(100).collect();
    assert_eq!(others.len(), 5, "nor does it keep a place");
    assert_eq!(waits.resume().map_err(|refused| refused.reason), Err(Reason::QuotaExceeded), "no place");
    drop(others);
    assert_eq!(waits.resume(), Ok(()));
    assert_eq!(accounts.request_bytes()(), CALL_BYTES);
    drop(waits);
    assert_eq!(accounts.request_bytes()(), 0);
}

#[test]
fn reader_of_an_ended_request_gets_its_reason() {
    use super::state::Unfinished;
    for (why, reason) in [
        (Unfinished::Stalled, Reason::DeadlineExceeded),
        (Unfinished::Full, Reason::Overloaded),
        (Unfinished::Reset, Reason::Cancelled),
    ] {
        let accounts = accounts(LIMITS);
        let call = Client::of(&accounts, 1).call("a", "ImportEntries").expect("it passes");
        assert_eq!(goes_on(&call), Ok(()));
        call.state().end_request(why);
        assert_eq!(goes_on(&call), Err(reason), "{why:?}");
    }
}

/// An answer to a client without a credential is charged to its address; where that may hold no more, it has no body.
#[test]
fn answer_to_a_stranger_without_space_is_empty() {
    let accounts = accounts(LIMITS);
    let client = Client::of(&accounts, 1);
    let answered = || {
        let body = Whole::new(Bytes::from_static(b"healthy"));
        let mut answer =
            AnswerBody::of_stranger(body, &client.connection, OpenCall::begin(&client.connection));
        let polled = std::pin::Pin::new(&mut answer).poll_frame(&mut Context::from_waker(Waker::noop()));
        matches!(polled, Poll::Ready(Some(Ok(_))))
    };
    assert!(answered());
    let (_, reason, full) = room(&client, "", "");
    assert_eq!((answered(), reason), (false, Reason::Overloaded));
    drop(full);
    assert!(answered());
}

/// One sweep after this many ticks.
fn after(accounts: &Accounts, passed: u32) {
    accounts.0.ticks.fetch_add(passed, Relaxed);
    accounts.0.sweep();
}

fn stall() -> u32 {
    ticks(LIMITS.stall_max)
}

/// Whether the reader of a call's request goes on.
fn goes_on(call: &CallAccount) -> Result<(), Reason> {
    call.goes_on(&Context::from_waker(Waker::noop())).map_err(|refused| refused.reason)
}

#[test]
fn a_request_that_does_not_arrive_is_refused() {
    let accounts = accounts(LIMITS);
    let client = Client::of(&accounts, 1);
    let [slow, resting] = [(); 2].map(|()| client.call("a", "Claim").expect("it passes"));
    slow.state().receiving.begin(slow.now());
    slow.state().receiving.wait(slow.now());
    resting.state().receiving.begin(resting.now());
    after(&accounts, stall());
    assert_eq!(goes_on(&slow), Ok(()));
    after(&accounts, 1);
    assert_eq!((goes_on(&slow), goes_on(&resting)), (Err(Reason::DeadlineExceeded), Ok(())));
    assert!(!client.closed.is_cancelled(), "one slow request closes no connection");
}

#[test]
fn stalls_of_an_earlier_minute_close_no_connection() {
    let minute = ticks(std::time::Duration::from_mins(1));
    for (stalled, pause, closed) in
        [(4, 0, false), (5, 0, true), (5, minute, false), (16, minute, false), (17, minute, true)]
    {
        let accounts = accounts(LIMITS);
        let client = Client::of(&accounts, 1);
        let _open = client.call("a", "Claim").expect("it passes");
        for _ in 0..4 {
            let slow: Vec<_> = (0..stalled).map(|_| client.call("a", "Claim").expect("it passes")).collect();
            for call in &slow {
                call.state().receiving.begin(call.now());
                call.state().receiving.wait(call.now());
            }
            after(&accounts, stall() + 1);
            assert!(slow.iter().all(|call| goes_on(call) == Err(Reason::DeadlineExceeded)));
            drop(slow);
            after(&accounts, pause + 1);
        }
        assert_eq!(client.closed.is_cancelled(), closed, "4 times {stalled}, {pause} ticks apart");
    }
}

#[test]
fn a_socket_that_takes_nothing_closes_its_connection() {
    for (unsent, moves, closed) in [(0, false, false), (1, true, false), (1, false, true)] {
        let accounts = accounts(LIMITS);
        let client = Client::of(&accounts, 1);
        client.connection.set_proxy(true);
        client.connection.set_unsent(unsent);
        after(&accounts, stall());
        assert!(!client.closed.is_cancelled(), "in time");
        client.connection.moved(1_000_000);
        client.connection.sent(if moves { 1_000_000 } else { 1 });
        after(&accounts, 1);
        assert_eq!(
            client.closed.is_cancelled(),
            closed,
            "{unsent} {moves}: what it sends itself does not count"
        );
        // Bytes that the kernel took before do not earn time in which it takes nothing.
        after(&accounts, stall());
        after(&accounts, 1);
        assert_eq!(client.closed.is_cancelled(), unsent > 0, "{unsent} {moves}");
    }
}

#[test]
fn requests_that_have_not_arrived_are_refused_the_heaviest_first() {
    let limits = AccountLimits { connection_bytes_max: usize::MAX, ..LIMITS };
    let accounts = accounts(limits);
    let client = Client::of(&accounts, 1);
    let waiting = |principal: &str, bytes: usize| {
        let call = client.call(principal, "Claim").expect("it passes");
        call.state().receiving.begin(call.now());
        call.state().receiving.wait(call.now());
        call.take_message(bytes).expect("it fits");
        call
    };
    // The heaviest owner has only a settlement, which is refused only where no claim can be.
    let settles = client.call(ANONYMOUS, "Complete").expect("it passes");
    settles.state().receiving.wait(settles.now());
    settles.take_message(MIB / 8 * 11).expect("it fits");
    let claims = [("a", 600_000), ("b", 603_000), ("c", 601_000), ("d", 602_000)];
    let claims = claims.map(|(principal, bytes)| waiting(principal, bytes));
    let here = client.call("e", "Claim").expect("it passes");
    here.take_message(MIB / 8 * 5 - CALL_BYTES).expect_err("it does not fit any more");
    after(&accounts, 3);
    let gone = claims.each_ref().map(|call| goes_on(call));
    assert_eq!(gone, [Ok(()), Err(Reason::Overloaded), Ok(()), Ok(())], "the heaviest claim makes room");
    assert_eq!((goes_on(&settles), goes_on(&here)), (Ok(()), Ok(())), "settlements are refused last");
}

/// When settlements use their whole share, one that has not fully arrived is refused, to free bytes for another one.
#[test]
fn settlements_that_have_not_arrived_are_refused_for_other_settlements() {
    let accounts = accounts(AccountLimits { connection_bytes_max: usize::MAX, ..LIMITS });
    let client = Client::of(&accounts, 1);
    let waiting = [(MIB / 8 * 20, 1), (MIB / 8 * 7, 2)].map(|(bytes, number)| {
        let call = client.call(ANONYMOUS, "BatchSettle").expect("it passes");
        call.state().receiving.begin(call.now());
        call.state().receiving.wait(call.now());
        call.take_message(bytes).unwrap_or_else(|_| unreachable!("{number} fits"));
        call
    });
    let arrived = client.call("b", "Complete").expect("it passes");
    arrived.take_message(MIB / 8).expect_err("settlements have all that they may have");
    after(&accounts, 3);
    assert_eq!(waiting.each_ref().map(|call| goes_on(call)), [Err(Reason::Overloaded), Ok(())]);
    assert_eq!(goes_on(&arrived), Ok(()));
}

fn answer(call: Arc<CallAccount>, bytes: usize) -> AnswerBody {
    AnswerBody::of(
        tonic::body::Body::new(Whole::new(Bytes::from(vec![7; bytes])).map_err(|never| match never {})),
        call,
    )
}

fn piece(answer: &mut AnswerBody) -> Bytes {
    let polled = std::pin::Pin::new(answer).poll_frame(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(Some(Ok(frame))) = polled else { unreachable!("it waits for nothing") };
    Frame::into_data(frame).expect("data")
}
