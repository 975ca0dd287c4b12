//! `try`: a first claim.

use idempotency_ledger::domain::Policy;

use super::ask;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(a_first_claim_is_made, a_first_claim_that_is_refused_says_why);

const SHOWN: &str = "\
Claim     -> acquired     PROCESS       the first delivery
Claim     -> in_progress  RETRY_LATER   the same message again, meanwhile
Complete  -> OK           ACK           its effect is done
Claim     -> completed    ACK           delivered again; its result: paid
";

async fn a_first_claim_is_made(kind: Kind) {
    let server = TestServer::start(kind).await;
    for consumer in ["quickstart", "my own"] {
        let ran = ask(&server, &["try", "--consumer", consumer]).await.is(0, SHOWN);
        assert!(ran.err.contains(" entries list --consumer "), "{ran:?}");
        let listed = ask(&server, &["entries", "list", "--consumer", consumer, "--json"]).await.json();
        assert_eq!(listed.len(), 1, "{listed:?}");
        assert_eq!(listed[0]["state"], "ENTRY_STATE_COMPLETED");
    }
    let answers = ask(&server, &["try", "--json"]).await.json();
    let advices: Vec<_> = answers.iter().map(|answer| answer["advice"].as_str().unwrap()).collect();
    assert_eq!(advices, ["ADVICE_PROCESS", "ADVICE_RETRY_LATER", "ADVICE_ACK", "ADVICE_ACK"]);
    assert_eq!(answers[3]["completed"]["result"], "cGFpZA==");
    server.stop().await;
}

async fn a_first_claim_that_is_refused_says_why(kind: Kind) {
    let setup = Setup::default().with("held", Policy { disabled: true, ..Policy::default() }).with(
        "strict",
        Policy { fingerprint: idempotency_ledger::domain::FingerprintMode::Require, ..Policy::default() },
    );
    let server = TestServer::start_with(kind, setup).await;
    for (consumer, says) in
        [("held", "CONSUMER_DISABLED: "), ("strict", "fingerprint: is empty"), ("", "consumer: ")]
    {
        let ran = ask(&server, &["try", "--consumer", consumer]).await;
        assert!(ran.code != 0 && ran.err.contains(says) && ran.out.is_empty(), "{consumer}: {ran:?}");
    }
    server.stop().await;
}
