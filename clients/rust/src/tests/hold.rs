use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::Duration,
};

use tokio::time::{Instant, sleep};

use super::world::{Reply, Script, acquired, completed, grant, lost, refused, renewed};
use crate::{
    ClaimError, Key, Steer,
    calls::{Method, message},
    proto as pb,
};

const LEASE: u64 = 30;

fn key() -> Key {
    Key::of("shop", "1")
}

/// When each Renew was sent, after the Claim, in seconds.
fn renewals(script: &Script) -> Vec<u64> {
    let calls = script.calls();
    let renewals = calls.iter().filter(|(_, call)| call.method == Method::Renew);
    renewals.map(|(at, _)| (*at - calls[0].0).as_secs()).collect()
}

#[tokio::test(start_paused = true)]
async fn leases_are_renewed_at_a_third_of_what_is_left_until_the_settlement() {
    let script = Script::of([grant(acquired()), renewed(LEASE), renewed(15), renewed(15), completed()]);
    let outcome = script.ledger().process(key(), async |claim| {
        sleep(Duration::from_secs(26)).await;
        claim.check()?;
        Ok(())
    });
    outcome.await.unwrap();
    sleep(Duration::from_secs(100)).await;
    assert_eq!(renewals(&script), [10, 20, 25]);
    let renewal = script.calls().into_iter().find(|(_, call)| call.method == Method::Renew).unwrap().1;
    let sent: pb::RenewRequest = prost::Message::decode(renewal.request).unwrap();
    assert_eq!((sent.token, sent.effect_started, sent.checkpoint), (7, false, None));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_renewed_once_the_lease_reaches_the_end_of_the_hold() {
    let last = pb::Acquired { hold: Some(message(Duration::from_secs(LEASE))), ..acquired() };
    let script = Script::of([grant(last)]);
    let outcome = script.ledger().process(key(), async |_| std::future::pending::<Result<(), Steer>>().await);
    let began = Instant::now();
    assert_eq!(outcome.await.unwrap().reason.as_deref(), Some("LEASE_OVER"));
    assert_eq!(began.elapsed().as_secs(), LEASE);
    assert_eq!(script.methods(), [Method::Claim]);
}

#[tokio::test(start_paused = true)]
async fn lost_claim_drops_the_handler_with_the_reason() {
    for reason in ["LEASE_LOST", "CLAIM_CLOSED", "ENTRY_NOT_FOUND", "TOKEN_FROM_FUTURE"] {
        let script = Script::of([grant(acquired()), refused(reason, "RETRY_LATER")]);
        let outcome =
            script.ledger().process(key(), async |_| std::future::pending::<Result<(), Steer>>().await);
        let outcome = outcome.await.unwrap();
        assert_eq!(outcome.reason.as_deref(), Some(reason));
        assert!(outcome.effect_unknown);
        assert_eq!(script.methods(), [Method::Claim, Method::Renew]);
    }
}

#[tokio::test(start_paused = true)]
async fn shielded_part_ends_and_is_settled_after_the_loss() {
    let script =
        Script::of([grant(acquired()), refused("LEASE_LOST", "RETRY_LATER"), refused("LEASE_LOST", "ACK")]);
    let outcome = script.ledger().process(key(), async |claim| {
        claim.shield(sleep(Duration::from_secs(15))).await;
        assert_eq!(claim.check(), Err(ClaimError::Lost { reason: "LEASE_LOST".to_owned() }));
        Ok("paid")
    });
    assert_eq!(outcome.await.unwrap().advice, crate::Advice::Ack);
    assert_eq!(script.methods(), [Method::Claim, Method::Renew, Method::Complete]);
}

#[tokio::test(start_paused = true)]
async fn error_of_a_handler_whose_claim_is_lost_settles_nothing() {
    let script = Script::of([grant(acquired()), refused("LEASE_LOST", "RETRY_LATER")]);
    let outcome = script.ledger().process(key(), async |claim| {
        claim.cancelled().await;
        Ok("x".parse::<u8>()?.to_string())
    });
    assert_eq!(outcome.await.unwrap().reason.as_deref(), Some("LEASE_LOST"));
    assert_eq!(script.methods(), [Method::Claim, Method::Renew]);
}

#[tokio::test(start_paused = true)]
async fn other_refusals_leave_the_lease_that_is_left() {
    let limit = || refused("LEASE_LIMIT_REACHED", "RETRY_LATER");
    let script = Script::of([grant(acquired()), limit(), limit(), renewed(LEASE), completed()]);
    let outcome = script.ledger().process(key(), async |_| {
        sleep(Duration::from_secs(25)).await;
        Ok(())
    });
    assert_eq!(outcome.await.unwrap().advice, crate::Advice::Ack);
    // After a third of what was left each time: of 20 s, then of 13.3 s.
    assert_eq!(renewals(&script), [10, 16, 21]);
}

#[tokio::test(start_paused = true)]
async fn lease_without_an_answer_is_over_by_this_clock() {
    let script = Script::of([grant(acquired())].into_iter().chain((0..100).map(|_| lost())));
    let began = Instant::now();
    let outcome = script.ledger().process(key(), async |_| std::future::pending::<Result<(), Steer>>().await);
    assert_eq!(outcome.await.unwrap().reason.as_deref(), Some("LEASE_OVER"));
    assert_eq!(began.elapsed().as_secs(), LEASE);
}

#[tokio::test(start_paused = true)]
async fn process_that_stood_still_asks_once_more() {
    for (then, kept) in [(renewed(LEASE), true), (refused("LEASE_LOST", "RETRY_LATER"), false)] {
        let script = Script::of([grant(acquired()), then, completed()]);
        let lost = Arc::new(AtomicBool::new(false));
        let noted = Arc::clone(&lost);
        let outcome = script.ledger().process(key(), async move |claim| {
            tokio::task::yield_now().await;
            // All timers are late together, as after a SIGSTOP.
            tokio::time::advance(Duration::from_secs(40)).await;
            tokio::select! {
                biased;
                _ = claim.cancelled() => noted.store(true, SeqCst),
                () = sleep(Duration::from_secs(1)) => {}
            }
            claim.check()?;
            Ok(())
        });
        let outcome = outcome.await.unwrap();
        assert_eq!((outcome.advice == crate::Advice::Ack, lost.load(SeqCst)), (kept, !kept));
    }
}

#[tokio::test(start_paused = true)]
async fn completed_claim_is_not_lost_by_its_own_end() {
    // A Renew is sent while the Complete is under way, and the ledger has closed the claim already.
    let script = Script::of([
        grant(acquired()),
        Reply::After(Duration::from_secs(4), Box::new(completed())),
        refused("CLAIM_CLOSED", "ACK"),
    ]);
    let outcome = script.ledger().process(key(), async |claim| {
        sleep(Duration::from_secs(8)).await;
        claim.complete("r").await;
        Ok(claim.lost().unwrap_or_default())
    });
    assert_eq!(outcome.await.unwrap().result.as_deref(), Some(&b"r"[..]));
    assert_eq!(script.methods(), [Method::Claim, Method::Complete, Method::Renew]);
}

#[tokio::test(start_paused = true)]
async fn checkpoints_are_stored_by_a_renewal_or_dropped() {
    let dropped = super::world::answer(&pb::RenewResponse {
        lease: Some(message(Duration::from_secs(LEASE))),
        checkpoint_dropped: true,
        ..pb::RenewResponse::default()
    });
    let too_large = refused("TOO_LARGE", "RETRY_LATER");
    let found = pb::Acquired { checkpoint: "half".into(), ..acquired() };
    let script = Script::of([grant(found), renewed(LEASE), dropped, too_large, completed()]);
    let outcome = script.ledger().process(key(), async |claim| {
        assert_eq!(&claim.checkpoint()[..], b"half");
        claim.save("more").await?;
        assert_eq!(claim.save("large").await, Err(ClaimError::CheckpointDropped));
        assert_eq!(claim.save("larger").await, Err(ClaimError::CheckpointDropped));
        Ok(())
    });
    assert_eq!(outcome.await.unwrap().advice, crate::Advice::Ack);
}
