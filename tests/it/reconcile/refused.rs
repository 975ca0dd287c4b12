//! Refusals, of one row alone or of the whole request.

use idempotency_ledger::proto::{
    self, EffectEvidence, ReconcileEntriesRequest, ReconcileOutcome, ReconcileRow,
};

use super::{answered, events, request, row};
use crate::harness::details::{key, refusal};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(a_bad_row_is_refused_alone, a_malformed_request_is_refused_as_a_whole,);

async fn a_bad_row_is_refused_alone(kind: Kind) {
    let server = TestServer::start(kind).await;
    let in_run = key("c", "run").map(|key| proto::EntryKey { replay_run: "r".into(), ..key });
    let rows = vec![
        row("good", EffectEvidence::Guard),
        ReconcileRow { key: None, ..row("", EffectEvidence::Guard) },
        ReconcileRow { at: None, ..row("no instant", EffectEvidence::Guard) },
        row("no evidence", EffectEvidence::Unspecified),
        ReconcileRow { evidence: 77, ..row("unknown evidence", EffectEvidence::Guard) },
        ReconcileRow { result: vec![0; 16_385].into(), ..row("large", EffectEvidence::Guard) },
        ReconcileRow { fingerprint: vec![0; 65].into(), ..row("print", EffectEvidence::Guard) },
        ReconcileRow { result: vec![0].into(), ..row("unfinished", EffectEvidence::SpoolUnfinished) },
        ReconcileRow { key: in_run, ..row("", EffectEvidence::Guard) },
        row("good", EffectEvidence::Spool),
        row("good too", EffectEvidence::Guard),
    ];
    let results = answered(&server, request(rows)).await.unwrap();
    let fields: Vec<String> = results
        .iter()
        .map(|result| {
            let violations = result.rejected.iter().flat_map(|rejected| &rejected.field_violations);
            violations.map(|violation| violation.field.clone()).collect::<Vec<_>>().join(",")
        })
        .collect();
    let expected = [
        "",
        "rows[1].key",
        "rows[2].at",
        "rows[3].evidence",
        "rows[4].evidence",
        "rows[5].result",
        "rows[6].fingerprint",
        "rows[7].result",
        "rows[8].key.replay_run",
        "rows[9].key",
        "",
    ];
    assert_eq!(fields, expected);
    for (index, result) in results.iter().enumerate() {
        let outcome = if expected[index].is_empty() {
            ReconcileOutcome::Completed
        } else {
            ReconcileOutcome::Unspecified
        };
        assert_eq!(result.outcome(), outcome, "{index}");
    }
    assert_eq!(events(&server).await.len(), 2);
    server.stop().await;
}

async fn a_malformed_request_is_refused_as_a_whole(kind: Kind) {
    let server = TestServer::start(kind).await;
    let many = (0..1_001).map(|id| row(&id.to_string(), EffectEvidence::Guard)).collect();
    let nameless =
        ReconcileEntriesRequest { reason: String::new(), ..request(vec![row("1", EffectEvidence::Guard)]) };
    for (request, reason) in [(nameless, "INVALID_FIELD"), (request(many), "TOO_MANY_ITEMS")] {
        let refused = answered(&server, request).await.unwrap_err();
        assert_eq!(refusal(&refused).reason, reason);
    }
    assert_eq!(answered(&server, request(vec![])).await.unwrap(), []);
    assert!(events(&server).await.is_empty());
    server.stop().await;
}
