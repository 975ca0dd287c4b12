//! The messages that a workload claims repeatedly.

use super::keys::{Message, MessageState, Names};
use super::link::LedgerClient;
use super::workload::Workload;
use crate::cli::problem::{Problem, rejected};
use crate::cli::retry;
use crate::proto::{self, claim_response::Verdict, settlement::Action, settlement_result::Outcome};

/// The number of messages that are completed before a run with duplicates.
const DONE: usize = 2_000;
const BATCH: usize = 100;

/// The messages, in the state that the workload needs.
pub(super) async fn keys(
    workload: Workload,
    names: &Names,
    ledger: &mut LedgerClient,
) -> Result<Vec<Message>, Problem> {
    match workload {
        Workload::Claim | Workload::Pair | Workload::Renew => Ok(Vec::new()),
        Workload::HotKeys { keys } => {
            Ok((0..keys).map(|place| names.key(MessageState::Hot(place))).collect())
        }
        Workload::Duplicates { .. } => {
            let keys: Vec<Message> = (0..DONE).map(|_| names.key(MessageState::Done)).collect();
            for part in keys.chunks(BATCH) {
                complete(part, names, ledger).await?;
            }
            Ok(keys)
        }
    }
}

/// Claims new messages, and completes them.
async fn complete(keys: &[Message], names: &Names, ledger: &LedgerClient) -> Result<(), Problem> {
    let request = proto::BatchClaimRequest { requests: keys.iter().map(|key| names.claim(key)).collect() };
    let claimed = retry::until_known(|| {
        let (mut ledger, request) = (ledger.clone(), request.clone());
        async move { ledger.batch_claim(request).await }
    });
    let claimed = claimed.await.map_err(|status| Problem::of(&status))?.answer;
    let mut settlements = Vec::new();
    for (key, answer) in keys.iter().zip(claimed.responses) {
        let token = match answer.verdict {
            Some(Verdict::Acquired(grant)) => grant.token,
            Some(Verdict::Rejected(why)) => return Err(Problem::failed(rejected(&why))),
            Some(_) | None => return Err(Problem::failed("a new message was not granted")),
        };
        let request = proto::CompleteRequest { key: Some(names.message(key)), token, ..Default::default() };
        settlements.push(proto::Settlement { action: Some(Action::Complete(request)) });
    }
    let request = proto::BatchSettleRequest { settlements };
    let settled = retry::until_known(|| {
        let (mut ledger, request) = (ledger.clone(), request.clone());
        async move { ledger.batch_settle(request).await }
    });
    let settled = settled.await.map_err(|status| Problem::of(&status))?.answer;
    for result in settled.results {
        if let Some(Outcome::Rejected(why)) = result.outcome {
            return Err(Problem::failed(rejected(&why)));
        }
    }
    Ok(())
}
