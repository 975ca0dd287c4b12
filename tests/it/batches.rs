//! Batches through the wire: in order, independent, as if sent one after the other.

use bytes::Bytes;
use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::{self, claim_response::Verdict};
use sqlx::Executor as _;
use tonic_types::StatusExt as _;

use crate::harness::details::{acquired, claim, completed, key, refusal};
use crate::harness::on_both_stores;
use crate::harness::postgres as pg;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(
    a_batch_answers_in_order,
    the_same_key_twice_is_answered_as_if_sent_one_after_the_other,
    a_repeated_claim_id_is_rejected_after_the_first,
    one_poison_item_does_not_fail_the_others,
    settlements_of_one_key_are_carried_out_in_order,
    a_full_queue_refuses_claims_before_completions,
    what_ends_something_outlives_what_begins_it,
    two_replicas_that_send_the_same_keys_in_other_orders_never_deadlock,
);

fn with_id(id: &str, number: u128) -> proto::ClaimRequest {
    let claim_id = uuid::Builder::from_random_bytes(number.to_be_bytes()).into_uuid();
    proto::ClaimRequest { claim_id: claim_id.to_string(), ..claim("c", id) }
}

async fn batch(server: &mut TestServer, requests: Vec<proto::ClaimRequest>) -> Vec<proto::ClaimResponse> {
    let answer = server.client.batch_claim(proto::BatchClaimRequest { requests }).await;
    answer.unwrap().into_inner().responses
}

fn complete(id: &str, token: i64) -> Action {
    Action::Complete(proto::CompleteRequest {
        key: key("c", id),
        token,
        result: Bytes::new(),
        result_left_out: false,
        event_type: String::new(),
    })
}

async fn settle(server: &mut TestServer, actions: Vec<Action>) -> Vec<Outcome> {
    let settlements = actions.into_iter().map(|action| proto::Settlement { action: Some(action) }).collect();
    let answer = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await;
    answer.unwrap().into_inner().results.into_iter().map(|result| result.outcome.unwrap()).collect()
}

async fn a_batch_answers_in_order(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let ids: Vec<String> = (0..1_000).map(|number| format!("m{number}")).collect();
    let answers = batch(&mut server, ids.iter().map(|id| claim("c", id)).collect()).await;
    let tokens: Vec<i64> = answers.iter().map(|answer| acquired(answer).token).collect();
    for (id, answer) in ids.iter().zip(&answers) {
        let expected = idempotency_ledger::domain::Key::new("c", "tests", id).idempotency_key().to_string();
        assert_eq!(acquired(answer).idempotency_key, expected);
    }
    let outcomes =
        settle(&mut server, ids.iter().zip(&tokens).map(|(id, token)| complete(id, *token)).collect()).await;
    assert!(
        outcomes
            .iter()
            .all(|outcome| matches!(outcome, Outcome::Complete(done) if !done.replayed && !done.late))
    );
    let again = batch(&mut server, ids.iter().map(|id| claim("c", id)).collect()).await;
    again.iter().for_each(|answer| drop(completed(answer)));
    server.stop().await;
}

async fn the_same_key_twice_is_answered_as_if_sent_one_after_the_other(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let answers =
        batch(&mut server, vec![with_id("a", 1), with_id("b", 2), with_id("a", 3), with_id("a", 4)]).await;
    acquired(&answers[0]);
    acquired(&answers[1]);
    for later in &answers[2..] {
        assert!(matches!(later.verdict, Some(Verdict::InProgress(_))), "{later:?}");
    }
    server.stop().await;
}

async fn a_repeated_claim_id_is_rejected_after_the_first(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    // The first counts also where it is refused itself, and a UUID is the same in capitals.
    let nameless = proto::ClaimRequest { key: None, ..with_id("", 3) };
    let mut capitals = with_id("d", 1);
    capitals.claim_id = capitals.claim_id.to_uppercase();
    let requests = vec![
        with_id("a", 1),
        with_id("a", 1),
        with_id("b", 1),
        with_id("c", 2),
        nameless,
        with_id("e", 3),
        capitals,
    ];
    let answers = batch(&mut server, requests).await;
    acquired(&answers[0]);
    acquired(&answers[3]);
    for index in [1, 2, 5, 6] {
        let later = &answers[index];
        let Some(Verdict::Rejected(rejected)) = &later.verdict else { panic!("{later:?}") };
        assert_eq!(rejected.reason(), proto::ErrorReason::InvalidField);
        assert_eq!(rejected.field_violations[0].field, format!("requests[{index}].claim_id"));
        assert_eq!(
            (later.advice(), rejected.advice()),
            (proto::Advice::RetryLater, proto::Advice::RetryLater)
        );
    }
    server.stop().await;
}

async fn one_poison_item_does_not_fail_the_others(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let mut requests: Vec<_> = (0..20).map(|number| claim("c", &format!("m{number}"))).collect();
    requests[7].key.as_mut().unwrap().id = "nul\0byte".into();
    requests[9].key = None;
    let answers = batch(&mut server, requests).await;
    for (index, answer) in answers.iter().enumerate() {
        match (index, &answer.verdict) {
            (7, Some(Verdict::Rejected(rejected))) => {
                assert_eq!(rejected.field_violations[0].field, "requests[7].key.id");
                assert_eq!(rejected.advice(), proto::Advice::DeadLetter);
            }
            (9, Some(Verdict::Rejected(rejected))) => {
                assert_eq!(rejected.field_violations[0].field, "requests[9].key");
            }
            _ => drop(acquired(answer)),
        }
    }
    server.stop().await;
}

async fn settlements_of_one_key_are_carried_out_in_order(kind: Kind) {
    let mut server = TestServer::start(kind).await;
    let held = acquired(&batch(&mut server, vec![claim("c", "1")]).await[0]);
    let renew = Action::Renew(proto::RenewRequest {
        key: key("c", "1"),
        token: held.token,
        effect_started: true,
        ..Default::default()
    });
    let release = Action::Release(proto::ReleaseRequest {
        key: key("c", "1"),
        token: held.token,
        delay: None,
        unpin_fingerprint: false,
        event_type: String::new(),
    });
    let outcomes =
        settle(&mut server, vec![renew, release, complete("1", held.token), complete("1", held.token)]).await;
    assert!(matches!(&outcomes[0], Outcome::Renew(_)));
    assert!(
        matches!(&outcomes[1], Outcome::Rejected(rejected) if rejected.reason() == proto::ErrorReason::EffectStarted)
    );
    assert!(matches!(&outcomes[2], Outcome::Complete(done) if !done.replayed));
    assert!(matches!(&outcomes[3], Outcome::Complete(done) if done.replayed));
    server.stop().await;
}

async fn a_full_queue_refuses_claims_before_completions(kind: Kind) {
    // Five eighths of 16 commands for claims: a batch of 11 cannot enter, one of 10 can.
    let setup = Setup { queue_max: 16, ..Setup::default() };
    let mut server = TestServer::start_with(kind, setup).await;
    let many = |count: usize| (0..count).map(|number| claim("c", &format!("m{number}"))).collect::<Vec<_>>();
    let refused =
        server.client.batch_claim(proto::BatchClaimRequest { requests: many(11) }).await.unwrap_err();
    let told = refusal(&refused);
    assert_eq!((told.code, told.reason.as_str()), (tonic::Code::ResourceExhausted, "OVERLOADED"));
    let wait = refused.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert!((250..500).contains(&wait.as_millis()), "{wait:?}");
    let pushback = refused.metadata().get("grpc-retry-pushback-ms").unwrap().to_str().unwrap();
    assert_eq!(pushback, wait.as_millis().to_string(), "a client that repeats by itself waits as long");
    let answers = batch(&mut server, many(10)).await;
    let mut actions: Vec<Action> = answers
        .iter()
        .enumerate()
        .map(|(number, answer)| complete(&format!("m{number}"), acquired(answer).token))
        .collect();
    actions.extend((10..16).map(|number| complete(&format!("m{number}"), 1)));
    let outcomes = settle(&mut server, actions).await;
    assert!(outcomes[..10].iter().all(|outcome| matches!(outcome, Outcome::Complete(_))));
    server.stop().await;
}

/// Invariant 13 of docs/contract.md, section 9: each kind has its share of the queue, Complete and Fail before
/// Renew before Release.
async fn what_ends_something_outlives_what_begins_it(kind: Kind) {
    let setup = Setup { queue_max: 16, ..Setup::default() };
    let mut server = TestServer::start_with(kind, setup).await;
    let of = |action: &str, number: usize| {
        let (key, token) = (key("c", &format!("m{number}")), 1);
        match action {
            "complete" => Action::Complete(proto::CompleteRequest { key, token, ..Default::default() }),
            "fail" => Action::Fail(proto::FailRequest { key, token, ..Default::default() }),
            "renew" => Action::Renew(proto::RenewRequest { key, token, ..Default::default() }),
            _ => Action::Release(proto::ReleaseRequest {
                key,
                token,
                delay: None,
                unpin_fingerprint: false,
                event_type: String::new(),
            }),
        }
    };
    for (action, share) in [("complete", 16), ("fail", 16), ("renew", 14), ("release", 12)] {
        for (count, enters) in [(share, true), (share + 1, false)] {
            let settlements =
                (0..count).map(|number| proto::Settlement { action: Some(of(action, number)) }).collect();
            let answer = server.client.batch_settle(proto::BatchSettleRequest { settlements }).await;
            let reason = answer.err().map(|status| refusal(&status).reason);
            let expected = (!enters).then(|| "OVERLOADED".to_owned());
            assert_eq!(reason, expected, "{count} of {action}");
        }
    }
    server.stop().await;
}

async fn two_replicas_that_send_the_same_keys_in_other_orders_never_deadlock(kind: Kind) {
    let server = TestServer::start(kind).await;
    for round in 0..20 {
        let mut ids: Vec<String> = (0..200).map(|number| format!("r{round}-{number}")).collect();
        let forwards: Vec<_> = ids.iter().map(|id| claim("c", id)).collect();
        ids.reverse();
        let backwards: Vec<_> = ids.iter().map(|id| claim("c", id)).collect();
        let (mut one, mut other) = (server.client.clone(), server.client.clone());
        let (one, other) = tokio::join!(
            one.batch_claim(proto::BatchClaimRequest { requests: forwards }),
            other.batch_claim(proto::BatchClaimRequest { requests: backwards }),
        );
        let all: Vec<_> =
            [one, other].into_iter().flat_map(|answer| answer.unwrap().into_inner().responses).collect();
        let won = all.iter().filter(|answer| matches!(answer.verdict, Some(Verdict::Acquired(_)))).count();
        let held = all.iter().filter(|answer| matches!(answer.verdict, Some(Verdict::InProgress(_)))).count();
        assert_eq!((won, held), (200, 200));
    }
    server.advance(Span::from_secs(1)).await;
    server.stop().await;
}

/// What is too much for one statement is done by two. Where halves take too long as well all of it is refused: by
/// then the store stands still.
#[tokio::test]
async fn a_statement_that_takes_too_long_is_halved_once() {
    // A statement may take two seconds: the first ones 2.4, and 1.2 in halves; the second ones 6, and 3.
    for (messages, seconds, done) in [(20, 0.12, true), (4, 1.5, false)] {
        let outcomes = settled_slowly(messages, seconds).await;
        assert_eq!(outcomes.len(), messages);
        for outcome in outcomes {
            match outcome {
                Outcome::Complete(_) if done => {}
                Outcome::Rejected(refused) if !done => {
                    assert_eq!(refused.reason(), proto::ErrorReason::StoreUnavailable, "{refused:?}");
                }
                other => panic!("{messages} messages: {other:?}"),
            }
        }
    }
}

/// The completions of so many messages, each of which takes the store so long.
async fn settled_slowly(messages: usize, seconds: f64) -> Vec<Outcome> {
    let mut server = TestServer::start(Kind::Postgres).await;
    let ids: Vec<String> = (0..messages).map(|number| format!("m{number}")).collect();
    let answers = batch(&mut server, ids.iter().map(|id| claim("c", id)).collect()).await;
    let tokens: Vec<i64> = answers.iter().map(|answer| acquired(answer).token).collect();
    let mut connection = pg::shared().connect(server.at.database.as_ref().unwrap()).await;
    let slow = format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_sleep({seconds}); RETURN new; END $$"
    );
    connection.execute(sqlx::AssertSqlSafe(slow)).await.unwrap();
    connection
        .execute("CREATE TRIGGER slow BEFORE UPDATE ON ledger.entries FOR EACH ROW EXECUTE FUNCTION slow()")
        .await
        .unwrap();
    let outcomes =
        settle(&mut server, ids.iter().zip(&tokens).map(|(id, token)| complete(id, *token)).collect()).await;
    server.stop().await;
    outcomes
}
