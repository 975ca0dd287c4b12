//! Answers that are not read.

use super::*;

#[test]
fn an_answer_counts_until_its_client_has_taken_it() {
    let accounts = accounts(LIMITS);
    let client = Client::of(&accounts, 1);
    for bytes in [1, 16_384, 16_385, 100_000] {
        let mut answer = answer(client.call("a", "Claim").expect("it passes"), bytes);
        assert_eq!(accounts.answer_bytes()(), 0, "nothing is made yet");
        let (mut left, mut pieces) = (bytes, 0);
        while left > 0 {
            let piece = piece(&mut answer);
            assert!(piece.len() <= 16_384 && piece.iter().all(|byte| *byte == 7));
            let (length, part) = (piece.len(), piece.slice(..1));
            drop(piece);
            left -= length;
            pieces += 1;
            assert_eq!(accounts.answer_bytes()(), bytes, "a part keeps the whole");
            drop(part);
            let held = if left > 0 { bytes } else { 0 };
            assert_eq!(
                accounts.answer_bytes()(),
                held,
                "they are one piece of memory until the last is taken"
            );
        }
        assert_eq!(pieces, bytes.div_ceil(16_384));
        let mut unfinished = self::answer(client.call("a", "Claim").expect("it passes"), bytes);
        drop(piece(&mut unfinished));
        drop(unfinished);
        assert_eq!(accounts.answer_bytes()(), 0, "what is dropped does not count");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_taken_resets_its_stream_and_many_close_the_connection() {
    for (stalled, proxy, closed) in
        [(1, false, false), (16, false, false), (17, false, true), (17, true, false)]
    {
        let accounts = accounts(LIMITS);
        let client = Client::of(&accounts, 1);
        client.connection.set_proxy(proxy);
        let tasks = CallTasks::of(&client.connection);
        let mut answers = Vec::new();
        for _ in 0..stalled {
            let mut answer = answer(client.call("a", "Claim").expect("it passes"), 20_000);
            let (piece, (dropped, is_dropped)) = (piece(&mut answer), tokio::sync::oneshot::channel::<()>());
            hyper::rt::Executor::execute(&tasks, async move {
                let _held = (answer, piece, dropped);
                std::future::pending::<()>().await;
            });
            answers.push(is_dropped);
        }
        after(&accounts, stall());
        tokio::task::yield_now().await;
        assert_eq!(accounts.answer_bytes()(), stalled * 20_000, "in time");
        after(&accounts, 1);
        for answer in answers {
            answer.await.expect_err("it is dropped");
        }
        assert_eq!((accounts.answer_bytes()(), accounts.request_bytes()()), (0, 0), "{stalled}");
        assert!(!client.closed.is_cancelled(), "{stalled}: its errors are sent first");
        let _more = client.call("a", "Claim").expect("it passes");
        after(&accounts, 1);
        assert_eq!(client.closed.is_cancelled(), closed, "{stalled} {proxy}");
    }
}

/// HTTP/2 has the last piece, and the task of the call has ended: the stream cannot be reset.
#[test]
fn a_last_piece_that_is_not_taken_closes_its_connection() {
    for proxy in [false, true] {
        let accounts = accounts(LIMITS);
        let client = Client::of(&accounts, 1);
        client.connection.set_proxy(proxy);
        let mut answer = answer(client.call("a", "Claim").expect("it passes"), 100);
        let last = piece(&mut answer);
        drop(answer);
        after(&accounts, stall());
        assert!(!client.closed.is_cancelled(), "in time");
        after(&accounts, 1);
        assert_eq!(client.closed.is_cancelled(), !proxy);
        drop(last);
        assert_eq!(accounts.answer_bytes()(), 0);
    }
}

/// Too many answers: the streams of the owner with most are reset, even if another owner made the last answer.
#[tokio::test]
async fn the_heaviest_go_first() {
    let accounts = accounts(LIMITS);
    // The principal, its connection, how many bytes it has, and how many ticks they have waited.
    for (what, rows, reset) in [
        ("within all bounds", &[("a", 1, SHARE, 9), ("b", 2, SHARE, 9)][..], &[][..]),
        ("beyond a share", &[("a", 1, SHARE + 1, 9), ("b", 2, SHARE, 9)], &[0]),
        ("beyond a connection", &[(ANONYMOUS, 1, SHARE, 9), (ANONYMOUS, 1, SHARE + 1, 9)], &[1]),
        (
            "all together",
            &[
                ("a", 1, SHARE, 9),
                ("b", 2, SHARE - 1, 9),
                ("c", 3, SHARE - 1, 9),
                ("d", 4, SHARE - 1, 9),
                ("e", 5, 9, 0),
            ],
            &[0],
        ),
        (
            "an answer that is being read stays",
            &[
                ("a", 1, SHARE, 0),
                ("b", 2, SHARE - 9, 9),
                ("c", 3, SHARE, 0),
                ("d", 4, SHARE, 0),
                ("e", 5, 10, 0),
            ],
            &[1],
        ),
    ] {
        let mut held = Vec::new();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_key(|place| std::cmp::Reverse(rows[*place].3));
        let clients: Vec<Client> =
            rows.iter().map(|row| row.1).map(|address| Client::of(&accounts, address)).collect();
        let of = |address: u8| rows.iter().position(|row| row.1 == address).expect("a connection");
        let mut ticked = 9;
        for place in order {
            let (principal, address, bytes, idle) = rows[place];
            accounts.0.ticks.fetch_add(ticked - idle, Relaxed);
            ticked = idle;
            let call = clients[of(address)].call(principal, "Claim").expect("it passes");
            call.answers(bytes);
            held.push((place, call, bytes));
        }
        accounts.0.sweep();
        let mut ended: Vec<usize> =
            held.iter().filter(|(_, call, _)| call.state().was_reset()).map(|(place, ..)| *place).collect();
        ended.sort_unstable();
        assert_eq!(ended, reset, "{what}");
        for (_, call, bytes) in held {
            call.answered(bytes);
        }
    }
}

#[test]
fn claims_wait_while_all_answers_are_too_many_and_settlements_do_not() {
    let accounts = accounts(LIMITS);
    let (hog, other) = (Client::of(&accounts, 1), Client::of(&accounts, 2));
    let held = hog.call("a", "Claim").expect("it passes");
    let asks = |client: &Client, rpc| client.call("b", rpc).map(drop).map_err(|refused| refused.reason);
    let (max, refused) = (LIMITS.answers_max(), Err(Reason::Overloaded));
    // Unread bytes of answers; whether their own connection may claim, and another one.
    for (bytes, own, others) in
        [(max, Ok(()), Ok(())), (max + 1, refused, Ok(())), (2 * max + 1, refused, refused)]
    {
        held.answers(bytes);
        assert_eq!((asks(&hog, "Claim"), asks(&other, "Claim")), (own, others), "{bytes}");
        assert_eq!((asks(&hog, "Complete"), asks(&other, "Complete")), (Ok(()), Ok(())), "{bytes}");
        held.answered(bytes);
    }
}

#[tokio::test]
async fn trailers_of_an_error_count_until_the_socket_takes_them() {
    for (status, counts) in [(tonic::Status::internal("x".repeat(100)), true), (tonic::Status::ok(""), false)]
    {
        let accounts = accounts(LIMITS);
        let client = Client::of(&accounts, 1);
        let mut trailers = http::HeaderMap::new();
        status.add_header(&mut trailers).expect("headers");
        let body = Whole::new(Bytes::from_static(b"part")).with_trailers(async { Some(Ok(trailers)) });
        let body = tonic::body::Body::new(body.map_err(|never| match never {}));
        let mut answer = AnswerBody::of(body, client.call("a", "ImportEntries").expect("it passes"));
        while answer.frame().await.is_some() {}
        assert_eq!(client.connection.header_bytes() > 300, counts, "{status:?}");
        assert_eq!(accounts.answer_bytes()(), client.connection.header_bytes());
    }
}

/// A stream that was reset just now does not count against the streams that go on.
#[test]
fn bytes_of_reset_streams_end_no_other_stream() {
    let accounts = accounts(LIMITS);
    let client = Client::of(&accounts, 1);
    let [large, small] = [(); 2].map(|()| client.call("a", "Claim").expect("it passes"));
    large.answers(SHARE + 1);
    after(&accounts, 9);
    small.answers(10);
    after(&accounts, 9);
    assert_eq!((large.state().was_reset(), small.state().was_reset()), (true, false));
    assert_eq!(client.connection.sweep_state.stalls.load(Relaxed), 1, "one stream was reset, once");
    large.answered(SHARE + 1);
    small.answered(10);
}

/// Where all clients together hold too much, a client within its share loses streams, and not its connection.
#[tokio::test]
async fn streams_that_end_because_all_hold_too_much_do_not_close_their_connection() {
    const BYTES: usize = 8 * 1_024;
    const FULL: usize = SHARE / BYTES;
    let limits = AccountLimits { connection_bytes_max: usize::MAX, ..LIMITS };
    // How many answers the client does not read, the unread bytes of each other client, how many streams of the client are
    // reset, and whether its connection is closed.
    for (what, unread, others, reset, closed) in [
        ("beyond its share", FULL + 9, &[][..], 17, true),
        ("all together", FULL, &[SHARE - 1, SHARE - 1, SHARE - 1, 9], 33, false),
    ] {
        let accounts = accounts(limits);
        let client = Client::of(&accounts, 1);
        let tasks = CallTasks::of(&client.connection);
        for _ in 0..unread {
            let mut answer = answer(client.call("a", "Claim").expect("it passes"), BYTES);
            let piece = piece(&mut answer);
            hyper::rt::Executor::execute(&tasks, async move {
                let _held = (answer, piece);
                std::future::pending::<()>().await;
            });
        }
        let mut held = Vec::new();
        for (address, bytes) in (2..).zip(others) {
            let other = Client::of(&accounts, address);
            let call = other.call(&format!("other {address}"), "Claim").expect("it passes");
            call.answers(*bytes);
            held.push((call, *bytes));
        }
        after(&accounts, 3);
        let calls = client.connection.all_calls();
        assert_eq!(calls.iter().filter(|(_, call)| call.was_reset()).count(), reset, "{what}");
        assert!(held.iter().all(|(call, _)| !call.state().was_reset()), "{what}: the client holds most");
        drop(calls);
        tokio::task::yield_now().await;
        after(&accounts, 1);
        assert_eq!(client.closed.is_cancelled(), closed, "{what}");
        for (call, bytes) in held {
            call.answered(bytes);
        }
    }
}
