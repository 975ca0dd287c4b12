//! The index of open claims, and the marks that say how far it goes: what is shown is the same before and after.

use idempotency_ledger::domain::{Span, State};
use idempotency_ledger::proto::{self, EntryState};

use super::{Made, ask, filter, ids, make, mark};
use crate::harness::details::{claim, key};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    the_marks_change_nothing_that_is_shown,
    every_consumer_has_its_turn_to_be_marked,
    one_consumer_alone_is_marked_to_its_end,
    a_clock_that_was_set_back_hides_nothing,
    claims_on_both_sides_of_the_mark_are_bounded,
);

/// What is beyond the mark is found by another way than what is before it.
async fn the_marks_change_nothing_that_is_shown(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let mut expected = Vec::new();
    for number in 0..30 {
        let id = format!("m{number:02}");
        let made = if number % 5 == 0 { Made::Done } else { Made::Held };
        let token = make(&mut server, "c", &id, made).await;
        if made == Made::Held {
            expected.push(id.clone());
        }
        if number % 7 == 0 && made == Made::Held {
            // Renewed: in the index before its time.
            let renew = proto::RenewRequest { key: key("c", &id), token, ..Default::default() };
            server.client.renew(renew).await.unwrap();
        }
        server.advance(Span::from_secs(7)).await;
    }
    for step in 0..4 {
        let held = filter(&[EntryState::InProgress]);
        assert_eq!(ids(&mut server, ask(held.clone(), false, 4)).await, expected, "{step}");
        let mut back = ids(&mut server, ask(held, true, 4)).await;
        back.reverse();
        assert_eq!(back, expected, "{step}");
        let request = proto::SummarizeEntriesRequest { consumer: "c".into(), ..Default::default() };
        let summary = server.admin.summarize_entries(request).await.unwrap().into_inner();
        let counts: Vec<(i32, i64)> =
            summary.consumers[0].states.iter().map(|state| (state.state, state.count)).collect();
        assert_eq!(counts, [(2, 24), (4, 6)], "{step}");
        if step < 2 {
            server.at.session().await.upkeep().index_open_claims(5).await.unwrap();
        } else {
            mark(&server).await;
            server.advance(Span::from_secs(61)).await;
        }
    }
    // Completed ones leave it, marked or not.
    let tokens = expected.clone();
    for id in &tokens {
        let asked = proto::GetEntryRequest { key: key("c", id), ..Default::default() };
        let entry = server.admin.get_entry(asked).await.unwrap().into_inner().entry.unwrap();
        let resolve = proto::ResolveEntryRequest {
            key: key("c", id),
            request_id: format!("resolve {id}"),
            expected_version: entry.version,
            reason: "done".into(),
            force: true,
            state: EntryState::Completed.into(),
            ..Default::default()
        };
        server.admin.resolve_entry(resolve).await.unwrap();
    }
    assert!(ids(&mut server, ask(filter(&[EntryState::InProgress]), false, 4)).await.is_empty());
    server.stop().await;
}

/// Some always have new claims; the others are not forgotten for them.
async fn every_consumer_has_its_turn_to_be_marked(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let names: Vec<String> = (0..230).map(|number| format!("c{number:03}")).collect();
    let claims = |round: i32| {
        let one = |name: &String| claim(name, &round.to_string());
        proto::BatchClaimRequest { requests: names.iter().map(one).collect() }
    };
    let mut session = server.at.session().await;
    for round in 0..4 {
        server.client.batch_claim(claims(round)).await.unwrap();
        server.advance(Span::from_secs(61)).await;
        session.upkeep().index_open_claims(1_000).await.unwrap();
    }
    let Some(database) = &server.at.database else { return drop(server.stop().await) };
    let statement = "SELECT count(*) FROM ledger.consumers n WHERE n.marked_at = 0
                     AND EXISTS (SELECT 1 FROM ledger.entries e WHERE e.consumer = n.no)";
    let mut connection = crate::harness::postgres::shared().connect(database).await;
    let unmarked: i64 = sqlx::query_scalar(statement).fetch_one(&mut connection).await.unwrap();
    assert_eq!(unmarked, 0, "of 230 consumers");
    sqlx::Connection::close(connection).await.unwrap();
    server.stop().await;
}

/// Whoever marks goes on at once while a go may have left something behind, as after each that came to its limit.
async fn one_consumer_alone_is_marked_to_its_end(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    for number in 0..25 {
        make(&mut server, "c", &number.to_string(), Made::Held).await;
        server.advance(Span::from_secs(1)).await;
    }
    server.advance(Span::from_secs(60)).await;
    let mut session = server.at.session().await;
    let mut goes = 0;
    while session.upkeep().index_open_claims(10).await.unwrap() >= 10 {
        goes += 1;
        assert!(goes < 100, "it ends");
    }
    if kind == Kind::Postgres {
        let left = server.at.number("SELECT count(*) FROM @entries WHERE attention IS NULL").await;
        assert_eq!(left, 0, "after {goes} goes");
    }
    server.stop().await;
}

async fn a_clock_that_was_set_back_hides_nothing(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    make(&mut server, "c", "before", Made::Held).await;
    server.advance(Span::from_secs(120)).await;
    mark(&server).await;
    // An hour back; what operators do then is to raise token_offset.
    server.advance(Span::from_secs(-3_600)).await;
    let meta = if kind == Kind::Postgres { "ledger.meta" } else { "meta" };
    server.at.execute(&format!("UPDATE {meta} SET token_offset = 7200000000")).await;
    mark(&server).await;
    make(&mut server, "c", "after", Made::Held).await;
    for seconds in [0, 61, 61] {
        server.advance(Span::from_secs(seconds)).await;
        let mut held = ids(&mut server, ask(filter(&[EntryState::InProgress]), false, 4)).await;
        held.sort();
        assert_eq!(held, ["after", "before"], "{seconds}");
        mark(&server).await;
    }
    server.stop().await;
}

/// Postgres counts the claims before the mark and those beyond it separately, each up to the bound.
async fn claims_on_both_sides_of_the_mark_are_bounded(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    // The number of claims before the mark, and beyond it.
    let sides = [("c", 3, 1), ("d", 1, 3)];
    for (consumer, before, _) in sides {
        for number in 0..before {
            make(&mut server, consumer, &format!("before {number}"), Made::Held).await;
        }
    }
    server.advance(Span::from_secs(90)).await;
    mark(&server).await;
    for (consumer, _, beyond) in sides {
        for number in 0..beyond {
            make(&mut server, consumer, &format!("beyond {number}"), Made::Held).await;
        }
    }
    if kind == Kind::Postgres {
        let beyond = server.at.number("SELECT count(*) FROM @entries WHERE attention IS NULL").await;
        assert_eq!(beyond, 4, "of both consumers");
    }
    let mut session = server.at.session().await;
    for (consumer, _, _) in sides {
        for (most, at_least) in [(5, false), (4, false), (2, true), (1, true)] {
            let summary = session.operators().summary(&[(consumer.to_owned(), None)], most).await.unwrap();
            let [held] = summary.counts.as_slice() else { panic!("{summary:?}") };
            let found = (held.state, held.at_least);
            assert_eq!(found, (State::InProgress, at_least), "{consumer} has four, up to {most} are counted");
        }
    }
    drop(session);
    server.stop().await;
}
