//! Rows that the database itself refuses, at every place of a batch: the neighbours succeed, within
//! 2·log₂n + 1 statements, and the refused one is as it was.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use idempotency_ledger::proto::settlement::Action;
use idempotency_ledger::proto::settlement_result::Outcome;
use idempotency_ledger::proto::{self, claim_response::Verdict};

use super::run::Run;
use crate::harness::details::{acquired, claim, key};
use crate::harness::faulty::{FaultyStore, Plan};
use crate::harness::on_all_stores;
use crate::harness::server::{Kind, Setup, TestServer, TestStore};

on_all_stores!(neighbours_of_a_refused_row_succeed);

const POISON: &str = "poison";

/// What a batch does, and so which statement meets the refused row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Batch {
    /// The guessed insert.
    Claim,
    /// The guessed update.
    Complete,
    /// What is loaded, decided and written back.
    Fail,
}

/// The database refuses to write a row with this owner, error or result.
async fn refuse_poison(at: &TestStore) {
    let condition = "NEW.owner = 'poison' OR NEW.last_error = 'poison' OR NEW.result = ";
    if at.database.is_some() {
        at.execute(
            "CREATE FUNCTION ledger.refuse() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = '23514'; END $$",
        )
        .await;
        at.execute(&format!(
            "CREATE TRIGGER refuse BEFORE INSERT OR UPDATE ON @entries FOR EACH ROW
             WHEN ({condition} '\\x706f69736f6e'::bytea) EXECUTE FUNCTION ledger.refuse()"
        ))
        .await;
    } else {
        for event in ["INSERT", "UPDATE"] {
            at.execute(&format!(
                "CREATE TRIGGER refuse_{event} BEFORE {event} ON @entries
                 WHEN {condition} x'706f69736f6e' BEGIN SELECT RAISE(ABORT, 'refused'); END"
            ))
            .await;
        }
    }
}

async fn neighbours_of_a_refused_row_succeed(kind: Kind) {
    let mut at = TestStore::new(kind).await;
    refuse_poison(&at).await;
    let plan = Arc::new(Plan::default());
    at.store = Arc::new(FaultyStore { inner: at.store, plan: Arc::clone(&plan) });
    let mut server = TestServer::on(at, Setup::default()).await;
    let run = Run::new("poison", 0);
    let mut cases = 0;
    for batch in [Batch::Claim, Batch::Complete, Batch::Fail] {
        for size in [1, 2, 3, 5, 16, 64, 100] {
            let step = if size > 16 { 7 } else { 1 };
            for place in (0..size).step_by(step) {
                one(&mut server, &plan, batch, size, &[place]).await;
                cases += 1;
            }
            if size > 2 {
                one(&mut server, &plan, batch, size, &[0, size - 1]).await;
                one(&mut server, &plan, batch, size, &(0..size).collect::<Vec<_>>()).await;
                cases += 2;
            }
        }
    }
    run.summary(format!("{kind:?}, {cases} batches"));
    server.stop().await;
}

async fn one(server: &mut TestServer, plan: &Plan, batch: Batch, size: usize, places: &[usize]) {
    let case = format!("{batch:?}-{size}-{places:?}");
    let bad = |number: usize| places.contains(&number);
    let id = |number: usize| format!("{case}-{number}");
    let owner = |number| if batch == Batch::Claim && bad(number) { POISON } else { "worker" };
    let claims = (0..size)
        .map(|number| proto::ClaimRequest { owner: owner(number).into(), ..claim("c", &id(number)) })
        .collect();
    let before = plan.writes.load(Ordering::SeqCst);
    let request = proto::BatchClaimRequest { requests: claims };
    let claimed = server.client.batch_claim(request).await.unwrap().into_inner().responses;
    let mut statements = plan.writes.load(Ordering::SeqCst) - before;
    if batch == Batch::Claim {
        for (number, answer) in claimed.iter().enumerate() {
            match &answer.verdict {
                Some(Verdict::Rejected(rejected)) if bad(number) => {
                    assert_eq!(rejected.reason(), proto::ErrorReason::Internal, "{case}");
                    assert!(!rejected.message.contains("refused by"), "{case}");
                    acquired(&server.client.claim(claim("c", &id(number))).await.unwrap().into_inner());
                }
                other => {
                    assert!(!bad(number) && matches!(other, Some(Verdict::Acquired(_))), "{case}: {other:?}")
                }
            }
        }
    } else {
        let before = plan.writes.load(Ordering::SeqCst);
        let settlement = |number: usize, word: &str| {
            let (key, token) = (key("c", &id(number)), acquired(&claimed[number]).token);
            let word = if bad(number) { word } else { "fine" };
            let action = if batch == Batch::Complete {
                let result = Bytes::copy_from_slice(word.as_bytes());
                Action::Complete(proto::CompleteRequest {
                    key,
                    token,
                    result,
                    result_left_out: false,
                    event_type: String::new(),
                })
            } else {
                Action::Fail(proto::FailRequest { key, token, error: word.into(), ..Default::default() })
            };
            proto::Settlement { action: Some(action) }
        };
        let settlements = (0..size).map(|number| settlement(number, POISON)).collect();
        let request = proto::BatchSettleRequest { settlements };
        let results = server.client.batch_settle(request).await.unwrap().into_inner().results;
        statements = plan.writes.load(Ordering::SeqCst) - before;
        for (number, result) in results.iter().enumerate() {
            match &result.outcome {
                Some(Outcome::Rejected(rejected)) if bad(number) => {
                    assert_eq!(rejected.reason(), proto::ErrorReason::Internal, "{case}");
                    // It is as it was: its holder may still settle it.
                    let settlements = vec![settlement(number, "mended")];
                    let request = proto::BatchSettleRequest { settlements };
                    let again = server.client.batch_settle(request).await.unwrap().into_inner();
                    assert!(!matches!(again.results[0].outcome, Some(Outcome::Rejected(_))), "{case}");
                }
                other => {
                    let fine = matches!(other, Some(Outcome::Complete(_) | Outcome::Fail(_)));
                    assert!(fine && !bad(number), "{case}: {other:?}");
                }
            }
        }
    }
    let halvings = (size as u64).next_power_of_two().ilog2() as usize;
    let most = places.len() * 2 * halvings + 1;
    assert!(statements <= most, "{case}: {statements} statements, at most {most}");
}
