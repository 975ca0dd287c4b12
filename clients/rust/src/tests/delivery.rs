use std::time::Duration;

use tokio::time::Instant;

use super::world::{
    Reply, Script, acquired, answer, completed, failed, grant, lost, refused, released, renewed, verdict,
};
use crate::{
    Advice, ClaimError, EffectResult, Error, Key, Meaning, OnExpiry, Outcome, Steer,
    calls::{Failure, Method, message},
    proto::{self as pb, claim_response::Verdict},
};

const LATER: Advice = Advice::RetryLater { after: Duration::from_secs(1) };

fn key() -> Key {
    Key::of("shop", "1")
}

async fn steered(script: &std::sync::Arc<Script>, steer: Steer) -> Outcome {
    script.ledger().process(key(), async |_| Err::<(), _>(steer)).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn fault_of_the_key_sends_nothing_and_is_a_dead_letter() {
    let script = Script::of([]);
    let outcome = script.ledger().process(Key::of("shop", "a\nb"), async |_| Ok(())).await.unwrap();
    assert_eq!((outcome.advice, outcome.reason.as_deref()), (Advice::DeadLetter, Some("INVALID_FIELD")));
    assert!(outcome.error.is_some() && outcome.detail.contains("key.id"));
    assert!(script.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn claims_have_a_new_id_each_and_the_fingerprint_of_the_body() {
    let script = Script::of([grant(acquired()), completed(), grant(acquired()), completed()]);
    let ledger = script.ledger_with(|builder| builder.lease(Duration::from_secs(9)));
    let claims: Vec<pb::ClaimRequest> = {
        for _ in 0..2 {
            ledger.process(key().body("raw"), async |_| Ok(())).await.unwrap();
        }
        let sent = script.calls().into_iter().filter(|(_, call)| call.method == Method::Claim);
        sent.map(|(_, call)| prost::Message::decode(call.request).unwrap()).collect()
    };
    assert_ne!(claims[0].claim_id, claims[1].claim_id);
    assert_eq!(claims[0].lease.map(|lease| lease.seconds), Some(9));
    let hex: String =
        claims[0].fingerprint.iter().fold(String::new(), |hex, byte| hex + &format!("{byte:02x}"));
    assert_eq!(hex, "d7439bee24773bcbfa2d0a97947ee36227b10d1022b1a55847e928965bb6bfde");
    assert_eq!(claims[0].fingerprint, claims[1].fingerprint);
    assert!(claims[0].owner.ends_with(&format!("/{}", std::process::id())), "{}", claims[0].owner);
}

#[tokio::test(start_paused = true)]
async fn returned_result_completes() {
    let script = Script::of([grant(acquired()), completed()]);
    let outcome =
        script.ledger().process(key(), async |claim| Ok(format!("r{}", claim.token()))).await.unwrap();
    assert_eq!((outcome.advice, outcome.result.as_deref()), (Advice::Ack, Some(&b"r7"[..])));
    let sent: pb::CompleteRequest = script.last();
    assert_eq!((sent.token, &sent.result[..], sent.result_left_out), (7, &b"r7"[..], false));
}

#[tokio::test(start_paused = true)]
async fn result_that_cannot_be_stored_is_left_out() {
    let script = Script::of([
        grant(acquired()),
        answer(&pb::CompleteResponse {
            advice: pb::Advice::Ack as i32,
            result_dropped: true,
            ..pb::CompleteResponse::default()
        }),
    ]);
    let outcome = script.ledger().process(key(), async |_| Ok(EffectResult::left_out())).await.unwrap();
    assert!(outcome.result_dropped && outcome.result.is_none());
    assert!(script.last::<pb::CompleteRequest>().result_left_out);
}

#[tokio::test(start_paused = true)]
async fn too_large_a_complete_is_repeated_once_without_its_result() {
    let too_large = || refused("TOO_LARGE", "RETRY_LATER");
    let script = Script::of([grant(acquired()), too_large(), too_large()]);
    let outcome = script.ledger().process(key(), async |_| Ok("r")).await.unwrap();
    assert_eq!((outcome.advice, outcome.reason.as_deref()), (LATER, Some("TOO_LARGE")));
    let sent: pb::CompleteRequest = script.last();
    assert!(sent.result.is_empty() && sent.result_left_out);
    assert_eq!(script.methods(), [Method::Claim, Method::Complete, Method::Complete]);
}

#[tokio::test(start_paused = true)]
async fn steering_errors_are_settled_by_their_kind() {
    let because = |text: &str| Some(text.to_owned());
    for (steer, kind, error, after) in [
        (Steer::retry(), pb::FailureKind::Retryable, "Retry", None),
        (Steer::retry_after(Duration::from_secs(5)), pb::FailureKind::Retryable, "Retry", Some(5)),
        (Steer::retry_after(Duration::MAX), pb::FailureKind::Retryable, "Retry", Some(30 * 86_400)),
        (Steer::terminal("no account"), pb::FailureKind::Terminal, "no account", None),
        (Steer::Park { reason: None }, pb::FailureKind::Park, "Park", None),
        (Steer::park("é".repeat(3000)), pb::FailureKind::Park, &"é".repeat(2000), None),
        (Steer::Retry { reason: because("busy"), after: None }, pb::FailureKind::Retryable, "busy", None),
    ] {
        let script = Script::of([grant(acquired()), failed(pb::Advice::DeadLetter)]);
        assert_eq!(steered(&script, steer).await.advice, Advice::DeadLetter);
        let sent: pb::FailRequest = script.last();
        assert_eq!((sent.kind, sent.error.as_str()), (kind as i32, error));
        assert_eq!(sent.retry_after.map(|after| after.seconds), after);
    }
}

#[tokio::test(start_paused = true)]
async fn doubt_settles_nothing() {
    let script = Script::of([grant(acquired())]);
    let outcome = steered(&script, Steer::doubtful()).await;
    assert_eq!((outcome.advice, outcome.reason.as_deref()), (LATER, Some("DOUBTFUL")));
    assert!(outcome.effect_unknown);
    assert_eq!(script.methods(), [Method::Claim]);
}

#[tokio::test(start_paused = true)]
async fn giving_back_releases_with_its_delay() {
    let script = Script::of([grant(acquired()), released()]);
    let steer = Steer::GiveBack { reason: None, after: Duration::from_secs(4), unpin_fingerprint: true };
    let outcome = steered(&script, steer).await;
    assert_eq!(outcome.advice, Advice::RetryLater { after: Duration::from_secs(4) });
    let sent: pb::ReleaseRequest = script.last();
    assert!(sent.unpin_fingerprint && sent.delay.is_some_and(|delay| delay.seconds == 4));
}

#[tokio::test(start_paused = true)]
async fn other_errors_and_panics_mean_what_was_chosen_and_send_a_name_alone() {
    for (meaning, kind) in
        [(Meaning::Park, pb::FailureKind::Park), (Meaning::Retry, pb::FailureKind::Retryable)]
    {
        let script = Script::of([
            grant(acquired()),
            failed(pb::Advice::RetryLater),
            grant(acquired()),
            failed(pb::Advice::RetryLater),
        ]);
        let ledger = script.ledger_with(|builder| builder.unexpected(meaning));
        let outcome =
            ledger.process(key(), async |_| Ok("card 4111".parse::<u8>()?.to_string())).await.unwrap();
        let sent: pb::FailRequest = script.last();
        assert_eq!((sent.kind, sent.error.as_str()), (kind as i32, "ParseIntError"));
        assert!(outcome.error.is_some());
        ledger.process(key(), async |_| -> Result<(), Steer> { panic!("card 4111") }).await.unwrap();
        let sent: pb::FailRequest = script.last();
        assert_eq!((sent.kind, sent.error.as_str()), (kind as i32, "panic"));
    }
    let boxed: Box<dyn std::error::Error + Send + Sync> = "card 4111".into();
    assert!(matches!(Steer::unexpected(boxed), Steer::Unexpected(error) if error.name() == "Box"));
    assert!(matches!(Steer::from(ClaimError::CheckpointDropped), Steer::Claim(_)));
}

#[tokio::test(start_paused = true)]
async fn grant_is_acquired_with_process_alone() {
    let done = || Some(Verdict::Completed(pb::Completed { result: "r".into(), ..pb::Completed::default() }));
    let (process, ack) = (pb::Advice::Process as i32, pb::Advice::Ack as i32);
    for reply in [
        verdict(process, done()),
        verdict(process, None),
        verdict(ack, None),
        verdict(99, done()),
        verdict(ack, Some(Verdict::Acquired(acquired()))),
        verdict(0, Some(Verdict::Acquired(acquired()))),
    ] {
        let script = Script::of([reply]);
        let outcome = script
            .ledger()
            .process(key(), async |_| -> Result<(), Steer> { panic!("it ran") })
            .await
            .unwrap();
        assert_eq!(outcome.advice, Advice::RetryLater { after: Duration::from_secs(3) }, "{outcome:?}");
        assert!(!outcome.replayed && outcome.result.is_none());
    }
    let outcome = Script::of([verdict(ack, done())]).ledger().process(key(), async |_| Ok(())).await.unwrap();
    assert!(outcome.advice == Advice::Ack && outcome.replayed && outcome.result.as_deref() == Some(b"r"));
}

#[tokio::test(start_paused = true)]
async fn missing_results_are_not_answers() {
    for missing in [
        pb::Completed { result_dropped: true, ..pb::Completed::default() },
        pb::Completed { result_expired: true, ..pb::Completed::default() },
        pb::Completed { result_omitted: true, ..pb::Completed::default() },
    ] {
        let reply = verdict(pb::Advice::Ack as i32, Some(Verdict::Completed(missing)));
        let outcome = Script::of([reply]).ledger().process(key(), async |_| Ok(())).await.unwrap();
        assert!(outcome.replayed && outcome.result.is_none(), "{outcome:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn announced_before_parks_unless_it_may_be_repeated() {
    let announced = || grant(pb::Acquired { prior_effect_started: true, ..acquired() });
    let script = Script::of([announced(), failed(pb::Advice::DeadLetter)]);
    let outcome =
        script.ledger().process(key(), async |_| -> Result<(), Steer> { panic!("it ran") }).await.unwrap();
    assert_eq!(
        (outcome.advice, outcome.reason.as_deref()),
        (Advice::DeadLetter, Some("PRIOR_EFFECT_STARTED"))
    );
    assert!(outcome.effect_unknown);
    let script = Script::of([announced(), completed()]);
    let ledger = script.ledger_with(|builder| builder.repeat_announced(true));
    assert_eq!(ledger.process(key(), async |_| Ok(())).await.unwrap().advice, Advice::Ack);
}

#[tokio::test(start_paused = true)]
async fn announcements_need_a_policy_that_parks_and_a_confirmation() {
    let script = Script::of([grant(acquired()), released()]);
    let announce = async |claim: crate::Claim| {
        claim.announce().await?;
        Ok("announced")
    };
    let outcome = script.ledger().process(key(), announce).await.unwrap();
    assert_eq!(outcome.reason.as_deref(), Some("NOT_PROTECTED"));
    assert_eq!(outcome.advice, Advice::RetryLater { after: Duration::from_secs(5) });
    let parking = || grant(pb::Acquired { on_expiry: pb::OnExpiry::ParkIfStarted as i32, ..acquired() });
    let script = Script::of([
        parking(),
        refused("CONSUMER_NOT_ALLOWED", "RETRY_LATER"),
        failed(pb::Advice::RetryLater),
    ]);
    let outcome = script.ledger().process(key(), announce).await.unwrap();
    assert_eq!(outcome.reason.as_deref(), Some("AnnouncementFailed"));
    assert_eq!(script.last::<pb::FailRequest>().kind, pb::FailureKind::Retryable as i32);
    let script = Script::of([parking(), renewed(30), completed()]);
    let outcome = script.ledger().process(key(), async |claim| {
        assert!(!claim.announced() && claim.on_expiry() == OnExpiry::ParkIfStarted);
        claim.announce().await?;
        Ok(claim.announced().to_string())
    });
    assert_eq!(outcome.await.unwrap().result.as_deref(), Some(&b"true"[..]));
}

#[tokio::test(start_paused = true)]
async fn complete_within_the_handler_is_the_only_settlement() {
    let script = Script::of([grant(acquired()), refused("INTERNAL", "RETRY_LATER")]);
    let outcome = script.ledger().process(key(), async |claim| {
        claim.complete("r").await;
        Err::<(), _>(Steer::retry())
    });
    assert_eq!(outcome.await.unwrap().reason.as_deref(), Some("INTERNAL"));
    assert_eq!(script.methods(), [Method::Claim, Method::Complete]);
}

#[tokio::test(start_paused = true)]
async fn closing_refuses_deliveries_and_gives_back_claims_that_arrive() {
    let script = Script::of([Reply::After(Duration::from_secs(2), Box::new(grant(acquired()))), released()]);
    let ledger = script.ledger();
    let waiting = tokio::spawn(ledger.process(key(), async |_| -> Result<(), Steer> { panic!("it ran") }));
    while script.calls().is_empty() {
        tokio::task::yield_now().await;
    }
    let began = Instant::now();
    assert!(!ledger.close(Duration::from_secs(1)).await);
    assert_eq!(began.elapsed().as_secs(), 1);
    assert!(ledger.close(Duration::from_secs(20)).await);
    assert_eq!(ledger.process(key(), async |_| Ok(())).await.unwrap_err(), Error::Closed);
    assert!(matches!(ledger.claim(key()).await, Err(Error::Closed)));
    assert_eq!(waiting.await.unwrap().unwrap().reason.as_deref(), Some("CLOSING"));
}

#[tokio::test(start_paused = true)]
async fn claim_that_has_waited_beyond_its_lease_is_renewed_first() {
    let late = |then: Reply| {
        let short = pb::Acquired { lease: Some(message(Duration::from_secs(1))), ..acquired() };
        Script::of([Reply::After(Duration::from_secs(2), Box::new(grant(short))), then, released()])
    };
    let script = late(renewed(30));
    let ledger = script.ledger();
    let outcome = ledger.process(key(), async |_| Err::<(), _>(Steer::give_back())).await.unwrap();
    assert_eq!(script.methods(), [Method::Claim, Method::Renew, Method::Release]);
    assert_eq!(outcome.reason.as_deref(), Some("GiveBack"));
    let script = late(refused("LEASE_LOST", "RETRY_LATER"));
    let outcome =
        script.ledger().process(key(), async |_| -> Result<(), Steer> { panic!("it ran") }).await.unwrap();
    assert_eq!(outcome.reason.as_deref(), Some("LEASE_OVER"));
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_shown_without_payloads() {
    let script = Script::of([grant(acquired()), completed()]);
    let outcome = script.ledger().process(key(), async |_| Ok("card 4111")).await.unwrap();
    assert!(!format!("{outcome:?} {:?}", EffectResult::from("card 4111")).contains("4111"));
}

#[tokio::test(start_paused = true)]
async fn unanswered_call_names_the_endpoint() {
    assert_eq!(Failure::local("UNAVAILABLE", "a hop").advised(), LATER);
    let script = Script::of((0..40).map(|_| lost()));
    let outcome = script.ledger().process(key(), async |_| Ok(())).await.unwrap();
    assert_eq!(outcome.reason.as_deref(), Some("NO_ANSWER (UNAVAILABLE)"));
    let named = "no answer from ledger.example:50051 (Connection::to, else LEDGER_ENDPOINT): a hop";
    assert_eq!(outcome.detail, named);
    let script = Script::of([refused("DRAINING", "RETRY_LATER")]);
    let outcome = script.ledger().process(key(), async |_| Ok(())).await.unwrap();
    assert_eq!(outcome.detail, "for people");
}

#[tokio::test(start_paused = true)]
async fn announcement_without_protection_is_logged_with_what_to_set() {
    let ledger = Script::of([grant(acquired()), released()]).ledger();
    let outcome = ledger.process(key(), async |claim| Ok(claim.announce().await?)).await.unwrap();
    assert_eq!(outcome.reason.as_deref(), Some("NOT_PROTECTED"));
    let error = ClaimError::NotProtected { on_expiry: OnExpiry::Reclaim }.to_string();
    assert!(error.ends_with("set on_expiry = PARK_IF_STARTED in the consumer's policy"), "{error}");
    let logged = ledger.inner.report.due(&format!("an error of its claim: {error}"));
    assert_eq!(logged, None, "it was not logged");
}
