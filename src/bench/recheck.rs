//! The safety check after the load: some of its messages are delivered again, and new ones are claimed by
//! several calls concurrently. None may be granted twice.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::answers::verdict;
use super::keys::{Message, MessageState};
use super::link::LedgerClient;
use super::shared::Shared;
use super::virtual_client::Left;
use crate::proto::{self, claim_response::Verdict};

const BATCH: usize = 500;
/// The number of messages that several calls claim concurrently.
const RACES: usize = 100;
const RACES_AT_ONCE: usize = 20;
const CLAIMS_OF_A_RACE: usize = 4;

/// The result of the check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Checked {
    /// Messages of the load that were delivered again, and not granted.
    pub(super) again: u64,
    /// New messages of which one of several concurrent claims was granted.
    pub(super) raced: u64,
    /// Messages without a result: their lease was over, or a call was refused.
    pub(super) unknown: u64,
    /// Entries that the ledger did not have before.
    pub(super) created: u64,
}

/// Checks, on these connections, the messages that the load has left, and new ones.
pub(super) async fn check(shared: &Arc<Shared>, ledgers: &[LedgerClient], left: &[Left]) -> Checked {
    let mut checked = Checked::default();
    let Some(first) = ledgers.first() else { return checked };
    for part in left.chunks(BATCH) {
        deliver(shared, first.clone(), part, &mut checked).await;
    }
    for _ in 0..RACES / RACES_AT_ONCE {
        race(shared, ledgers, &mut checked).await;
    }
    checked
}

async fn deliver(shared: &Shared, mut ledger: LedgerClient, left: &[Left], checked: &mut Checked) {
    let requests = left.iter().map(|one| shared.names.claim(&one.key)).collect();
    let answer = ledger.batch_claim(proto::BatchClaimRequest { requests }).await;
    let Ok(answer) = answer else {
        checked.unknown += u64::try_from(left.len()).unwrap_or(0);
        return;
    };
    for (one, answer) in left.iter().zip(answer.into_inner().responses) {
        let fault = |what: &str| shared.grants.fault(&shared.names, &one.key, what);
        match (one.completed, answer.verdict) {
            (true, Some(Verdict::Completed(_))) | (false, Some(Verdict::InProgress(_))) => {
                checked.again += 1;
            }
            (_, Some(Verdict::Rejected(_)) | None) | (false, Some(Verdict::Parked(_))) => {
                checked.unknown += 1;
            }
            // The lease was over, as it also was if the message is parked.
            (false, Some(Verdict::Acquired(grant))) if grant.effect_unknown => checked.unknown += 1,
            (true, Some(Verdict::Acquired(grant))) => {
                fault(&format!("granted (token {}) after it was completed", grant.token));
            }
            (false, Some(Verdict::Acquired(grant))) => {
                fault(&format!("granted twice: a second claim got the token {}", grant.token));
            }
            (true, Some(other)) => {
                fault(&format!("answered `{}` after it was completed", verdict(&other)));
            }
            (false, Some(other)) => {
                fault(&format!("answered `{}` while it was held", verdict(&other)));
            }
        }
    }
}

/// Claims each of a few new messages several times concurrently, on different connections.
async fn race(shared: &Arc<Shared>, ledgers: &[LedgerClient], checked: &mut Checked) {
    let keys: Vec<Message> = (0..RACES_AT_ONCE).map(|_| shared.names.key(MessageState::Fresh)).collect();
    let mut claims = JoinSet::new();
    for turn in 0..CLAIMS_OF_A_RACE {
        for (place, key) in keys.iter().enumerate() {
            let mut ledger = ledgers[(turn + place) % ledgers.len()].clone();
            let request = shared.names.claim(key);
            claims.spawn(async move { (place, ledger.claim(request).await) });
        }
    }
    let mut answers: Vec<Vec<Option<Verdict>>> = vec![Vec::new(); keys.len()];
    while let Some(Ok((place, answer))) = claims.join_next().await {
        answers[place].push(answer.ok().and_then(|answer| answer.into_inner().verdict));
    }
    for (key, answers) in keys.iter().zip(&answers) {
        judge(shared, key, answers, checked);
    }
}

fn judge(shared: &Shared, key: &Message, answers: &[Option<Verdict>], checked: &mut Checked) {
    let is_grant = |answer: &&Option<Verdict>| matches!(answer, Some(Verdict::Acquired(_)));
    let granted = answers.iter().filter(is_grant).count();
    let is_other = |answer: &&Verdict| !matches!(answer, Verdict::Acquired(_) | Verdict::InProgress(_));
    let other = answers.iter().flatten().find(is_other);
    checked.created += u64::from(granted > 0);
    let all_known = answers.iter().filter(|answer| answer.is_some()).count() == CLAIMS_OF_A_RACE;
    let fault = |what: &str| shared.grants.fault(&shared.names, key, what);
    match (granted, other) {
        (2.., _) => {
            fault(&format!("granted twice: {granted} of {CLAIMS_OF_A_RACE} claims at the same time"));
        }
        (_, Some(other)) => fault(&format!("a new message was answered `{}`", verdict(other))),
        (0, None) if all_known => fault("granted to none of several claims at the same time"),
        (0, None) => checked.unknown += 1,
        (_, None) => checked.raced += 1,
    }
}
