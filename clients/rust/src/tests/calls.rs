use std::time::Duration;

use tokio::time::Instant;

use super::world::{Reply, Script, completed, lost, refused};
use crate::{
    calls::{CALL_TIMEOUT, Failure, Method, message, repeated},
    outcome::Advice,
    proto as pb,
};

const BUDGET: Duration = Duration::from_secs(20);

async fn complete(script: &Script) -> Result<pb::CompleteResponse, Failure> {
    let request = pb::CompleteRequest { token: 7, result: "r".into(), ..pb::CompleteRequest::default() };
    repeated(script, Method::Complete, &request, BUDGET, CALL_TIMEOUT).await.map(|(answer, _)| answer)
}

#[tokio::test(start_paused = true)]
async fn lost_answers_are_repeated_with_identical_bytes_and_growing_pauses() {
    let script = Script::of([lost(), lost(), lost(), lost(), lost(), lost(), completed()]);
    complete(&script).await.unwrap();
    let calls = script.calls();
    assert!(calls.iter().all(|(_, call)| call.request == calls[0].1.request && call.timeout == CALL_TIMEOUT));
    let pauses: Vec<f64> = calls.windows(2).map(|pair| (pair[1].0 - pair[0].0).as_secs_f64()).collect();
    for (pause, most) in pauses.iter().zip([0.05, 0.1, 0.2, 0.4, 0.8, 1.0]) {
        assert!((most / 2.0..most + 0.002).contains(pause), "{pauses:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_outcomes_of_the_ledger_are_repeated() {
    for reason in ["OUTCOME_UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED"] {
        let script = Script::of([refused(reason, "RETRY_LATER"), completed()]);
        complete(&script).await.unwrap();
        assert_eq!(script.calls().len(), 2, "{reason}");
    }
}

#[tokio::test(start_paused = true)]
async fn unreadable_answer_is_repeated() {
    let script = Script::of([Reply::Answer(vec![0xFF].into()), completed()]);
    complete(&script).await.unwrap();
    assert_eq!(script.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn refusal_is_not_repeated() {
    let script = Script::of([refused("CLAIM_CLOSED", "ACK")]);
    let failure = complete(&script).await.unwrap_err();
    assert_eq!((failure.name().as_str(), failure.advised()), ("CLAIM_CLOSED", Advice::Ack));
    assert_eq!(script.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn budget_bounds_repeats_and_the_last_try() {
    let never = || Reply::After(Duration::from_secs(60), Box::new(completed()));
    let script = Script::of((0..10).map(|_| never()));
    let began = Instant::now();
    let failure = complete(&script).await.unwrap_err();
    assert_eq!(failure.name(), "NO_ANSWER (DEADLINE_EXCEEDED)");
    assert!(began.elapsed() <= BUDGET + Duration::from_millis(50), "{:?}", began.elapsed());
    assert!((4..=5).contains(&script.calls().len()), "{} tries", script.calls().len());
}

#[tokio::test(start_paused = true)]
async fn named_wait_is_kept_within_the_budget_and_handed_on_beyond_it() {
    let later = |millis| {
        let reason = Some("OVERLOADED".to_owned());
        Reply::Refuse(Failure {
            reason,
            retry_after: Some(Duration::from_millis(millis)),
            ..Failure::default()
        })
    };
    let script = Script::of([later(700), completed()]);
    complete(&script).await.unwrap();
    let calls = script.calls();
    assert!(calls[1].0 - calls[0].0 >= Duration::from_millis(700));
    let failure = complete(&Script::of([later(30_000)])).await.unwrap_err();
    assert_eq!(failure.advised(), Advice::RetryLater { after: Duration::from_secs(30) });
}

#[test]
fn duration_of_a_message_is_cut_to_whole_microseconds() {
    for (nanos, sent) in [(1_999, 1_000), (999_999_999, 999_999_000), (0, 0)] {
        let sent_as = message(Duration::new(3, nanos));
        assert_eq!((sent_as.seconds, sent_as.nanos), (3, sent));
    }
}
