//! A virtual client: one of the concurrent callers. It processes messages until the time is over.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tonic::Status;
use tonic_types::StatusExt as _;

use super::answers::{goes_on, is_wrong, of_another, results_dropped, verdict};
use super::counts::CallKind;
use super::keys::{Message, MessageState, below};
use super::link::LedgerClient;
use super::options::Plan;
use super::pacing::CallPacing;
use super::shared::Shared;
use super::workload::Workload;
use crate::cli::problem::{self, Problem};
use crate::common::random;
use crate::proto::{self, claim_response::Verdict, settlement::Action, settlement_result::Outcome};

/// How long it waits after a refusal that names no time.
const PAUSE: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A claim that this client holds.
#[derive(Clone, Copy, Debug)]
struct Grant {
    key: Message,
    token: i64,
}

/// The outcome of a message, for the check after the load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    pub(super) key: Message,
    /// It was completed; otherwise it is held.
    pub(super) completed: bool,
}

/// A virtual client: it makes one call at a time.
pub(super) struct VirtualClient {
    shared: Arc<Shared>,
    plan: Plan,
    ledger: LedgerClient,
    number: usize,
    result: Bytes,
    turn: u64,
    keys: Vec<Message>,
    grants: Vec<Grant>,
    /// The last few messages, at most `kept`.
    left: Vec<Left>,
    kept: usize,
    oldest: usize,
    pause: Option<Duration>,
}

impl VirtualClient {
    pub(super) fn new(
        shared: Arc<Shared>,
        plan: Plan,
        ledger: LedgerClient,
        number: usize,
        kept: usize,
    ) -> VirtualClient {
        let result = Bytes::from(vec![b'r'; usize::try_from(plan.result_bytes).unwrap_or(0)]);
        let turn = u64::try_from(number).unwrap_or(0);
        let (keys, grants, left) = (Vec::new(), Vec::new(), Vec::new());
        Self { shared, plan, ledger, number, result, turn, keys, grants, left, kept, oldest: 0, pause: None }
    }

    /// Makes what the load needs: to renew a claim, the client must hold it.
    pub(super) async fn prepare(&mut self) {
        if self.plan.workload != Workload::Renew {
            return;
        }
        // A server that refuses at first gets a few chances.
        for _ in 0..100 {
            self.pick();
            self.claim(Instant::now()).await;
            self.rest().await;
            if !self.grants.is_empty() || self.shared.stopped() {
                break;
            }
        }
        self.keep(false);
    }

    /// Processes messages until the end. Returns the last few of them, with their outcomes.
    pub(super) async fn run(mut self, pace: CallPacing, end: Instant) -> Vec<Left> {
        let mut next = pace.first().await;
        while !self.shared.stopped()
            && let Some(start) = next
        {
            self.round(start).await;
            self.rest().await;
            next = pace.next(end).await;
        }
        self.left
    }

    async fn round(&mut self, start: Instant) {
        if self.plan.workload == Workload::Renew {
            return self.settle(CallKind::Renew, start).await;
        }
        self.pick();
        self.claim(start).await;
        match self.plan.workload {
            Workload::Pair => self.settle(CallKind::Complete, Instant::now()).await,
            Workload::HotKeys { .. } => {
                for grant in &self.grants {
                    self.shared.grants.given_back(&grant.key);
                }
                self.settle(CallKind::Release, Instant::now()).await;
            }
            Workload::Claim | Workload::Duplicates { .. } | Workload::Renew => self.keep(false),
        }
    }

    /// Waits after a refusal: an immediate repeat would only be refused again.
    async fn rest(&mut self) {
        if let Some(pause) = self.pause.take() {
            tokio::time::sleep(pause.min(PAUSE_MAX)).await;
        }
    }

    /// Picks the messages of the next call.
    fn pick(&mut self) {
        self.keys.clear();
        let names = &self.shared.names;
        for _ in 0..self.plan.batch {
            self.turn += 1;
            let key = match self.plan.workload {
                Workload::Duplicates { percent } if is_turn(self.turn, percent) => {
                    one_of(&self.shared.prepared)
                }
                Workload::HotKeys { .. } => one_of(&self.shared.prepared),
                Workload::Claim | Workload::Pair | Workload::Renew | Workload::Duplicates { .. } => {
                    names.key(MessageState::Fresh)
                }
            };
            self.keys.push(key);
        }
    }

    async fn claim(&mut self, start: Instant) {
        self.grants.clear();
        let shared = Arc::clone(&self.shared);
        if let ([key], 1) = (&self.keys[..], self.plan.batch) {
            let key = *key;
            let answer = self.ledger.claim(shared.names.claim(&key)).await;
            let took = start.elapsed();
            match answer {
                Ok(answer) => {
                    let done = self.judge(&key, answer.into_inner());
                    self.answered(CallKind::Claim, took, done);
                }
                Err(status) => self.refused(CallKind::Claim, &status, took),
            }
            return;
        }
        let requests = self.keys.iter().map(|key| shared.names.claim(key)).collect();
        let answer = self.ledger.batch_claim(proto::BatchClaimRequest { requests }).await;
        let took = start.elapsed();
        match answer {
            Ok(answer) => {
                let keys = std::mem::take(&mut self.keys);
                let mut done = Done::default();
                for (key, answer) in keys.iter().zip(answer.into_inner().responses) {
                    done += self.judge(key, answer);
                }
                self.keys = keys;
                self.answered(CallKind::Claim, took, done);
            }
            Err(status) => self.refused(CallKind::Claim, &status, took),
        }
    }

    /// Checks whether the ledger may give this answer, and keeps the grant.
    fn judge(&mut self, key: &Message, answer: proto::ClaimResponse) -> Done {
        let shared = Arc::clone(&self.shared);
        let wrong = |what: &str| {
            shared.grants.fault(&shared.names, key, what);
            Done::default()
        };
        let counts = u64::from(self.plan.workload.counts_claims());
        match (answer.verdict, key.kind) {
            (Some(Verdict::Acquired(grant)), _) => {
                let is_first = shared.grants.granted(&shared.names, key, &grant);
                self.grants.push(Grant { key: *key, token: grant.token });
                Done { items: counts, created: u64::from(is_first) }
            }
            (Some(Verdict::Completed(_)), MessageState::Done)
            | (Some(Verdict::InProgress(_)), MessageState::Hot(_)) => Done { items: counts, created: 0 },
            (Some(Verdict::Rejected(rejected)), _) => {
                self.rejected(key, &rejected, CallKind::Claim);
                Done::default()
            }
            (Some(Verdict::Completed(_)), _) => {
                wrong("answered `completed`, although no client completed it")
            }
            (Some(Verdict::InProgress(_)), _) => wrong("answered `in_progress`, although no client holds it"),
            (Some(other), _) => wrong(&format!("answered otherwise than expected: {}", verdict(&other))),
            (None, _) => wrong("answered without a verdict that this client knows"),
        }
    }

    /// Settles or renews every granted claim.
    async fn settle(&mut self, call: CallKind, start: Instant) {
        let Some(first) = self.grants.first().copied() else { return };
        if self.plan.batch > 1 {
            return self.settle_many(call, start).await;
        }
        let (shared, token) = (Arc::clone(&self.shared), first.token);
        let key = Some(shared.names.message(&first.key));
        let answer = match call {
            CallKind::Renew => {
                let request = proto::RenewRequest { key, token, ..proto::RenewRequest::default() };
                self.ledger.renew(request).await.map(|_| false)
            }
            CallKind::Release => {
                let request = proto::ReleaseRequest { key, token, ..Default::default() };
                self.ledger.release(request).await.map(|_| false)
            }
            CallKind::Complete | CallKind::Claim => {
                let request =
                    proto::CompleteRequest { key, token, result: self.result.clone(), ..Default::default() };
                self.ledger.complete(request).await.map(|done| done.get_ref().result_dropped)
            }
        };
        let took = start.elapsed();
        match answer {
            Ok(true) => self.shared.stop(results_dropped(self.result.len())),
            Ok(false) => {
                self.answered(call, took, Done { items: self.counts(call), created: 0 });
                self.keep(call == CallKind::Complete);
            }
            Err(status) if is_wrong(call, &status) => {
                self.wrongly_settled(&first.key, &Problem::of(&status).text);
            }
            Err(status) => self.refused(call, &status, took),
        }
    }

    async fn settle_many(&mut self, call: CallKind, start: Instant) {
        let shared = Arc::clone(&self.shared);
        let settlements = self.grants.iter().map(|grant| {
            let (key, token) = (Some(shared.names.message(&grant.key)), grant.token);
            let action = match call {
                CallKind::Renew => Action::Renew(proto::RenewRequest { key, token, ..Default::default() }),
                CallKind::Release => {
                    Action::Release(proto::ReleaseRequest { key, token, ..Default::default() })
                }
                CallKind::Complete | CallKind::Claim => Action::Complete(proto::CompleteRequest {
                    key,
                    token,
                    result: self.result.clone(),
                    ..Default::default()
                }),
            };
            proto::Settlement { action: Some(action) }
        });
        let request = proto::BatchSettleRequest { settlements: settlements.collect() };
        let answer = self.ledger.batch_settle(request).await;
        let took = start.elapsed();
        let answer = match answer {
            Ok(answer) => answer.into_inner(),
            Err(status) => return self.refused(call, &status, took),
        };
        let grants = std::mem::take(&mut self.grants);
        let mut items = 0;
        for (grant, result) in grants.iter().zip(answer.results) {
            match result.outcome {
                Some(Outcome::Rejected(rejected)) => self.rejected(&grant.key, &rejected, call),
                Some(Outcome::Complete(done)) if done.result_dropped => {
                    self.shared.stop(results_dropped(self.result.len()));
                }
                _ => items += self.counts(call),
            }
        }
        self.answered(call, took, Done { items, created: 0 });
        if items == u64::try_from(grants.len()).unwrap_or(0) || call == CallKind::Renew {
            self.grants = grants;
            self.keep(call == CallKind::Complete);
        }
    }

    /// The number of items that one settlement counts as.
    fn counts(&self, call: CallKind) -> u64 {
        u64::from(match call {
            CallKind::Complete => self.plan.workload == Workload::Pair,
            CallKind::Renew => true,
            CallKind::Release | CallKind::Claim => false,
        })
    }

    fn wrongly_settled(&self, key: &Message, what: &str) {
        self.shared.grants.fault(&self.shared.names, key, &format!("its only holder was refused: {what}"));
    }

    fn answered(&self, call: CallKind, took: Duration, done: Done) {
        let mut tally = self.shared.tallies.shard(self.number);
        tally.answered(call, took);
        tally.items += done.items;
        tally.created += done.created;
    }

    /// Handles the refusal of one item of a batch.
    fn rejected(&mut self, key: &Message, rejected: &proto::Rejected, call: CallKind) {
        let reason = rejected.reason();
        if call != CallKind::Release && call != CallKind::Claim && of_another(reason) {
            return self.wrongly_settled(key, &problem::rejected(rejected));
        }
        if !goes_on(call, reason) {
            self.shared.stop(Problem::failed(problem::rejected(rejected)));
        }
        let wait = rejected.retry_after.and_then(|wait| Duration::try_from(wait).ok());
        self.pause = Some(wait.unwrap_or(PAUSE));
        let word = reason.as_str_name().trim_start_matches("ERROR_REASON_");
        self.shared.tallies.shard(self.number).refused(word, 1);
    }

    /// Handles a call that was refused as a whole, or whose outcome is unknown.
    fn refused(&mut self, call: CallKind, status: &Status, took: Duration) {
        let known = problem::reason(status);
        let reason = known.as_ref().map(|(_, reason)| *reason);
        // An error without details was made on the way: by the connection, or by a proxy.
        if reason.is_some_and(|reason| !goes_on(call, reason)) {
            self.shared.stop(Problem::of(status));
        }
        let wait = status.get_error_details().retry_info().and_then(|info| info.retry_delay);
        self.pause = Some(wait.unwrap_or(PAUSE));
        let word = known.map_or_else(|| format!("{:?}", status.code()), |(word, _)| word);
        let items = u64::from(self.plan.batch);
        let mut tally = self.shared.tallies.shard(self.number);
        tally.refused(&word, items);
        tally.refusals.saturating_record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Remembers the outcome of the last new messages.
    fn keep(&mut self, completed: bool) {
        for grant in &self.grants {
            if grant.key.kind != MessageState::Fresh || self.kept == 0 {
                continue;
            }
            let left = Left { key: grant.key, completed };
            if self.left.len() < self.kept {
                self.left.push(left);
            } else {
                self.left[self.oldest] = left;
                self.oldest = (self.oldest + 1) % self.kept;
            }
        }
    }
}

/// What an answer counts for.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    items: u64,
    created: u64,
}

impl std::ops::AddAssign for Done {
    fn add_assign(&mut self, more: Done) {
        self.items += more.items;
        self.created += more.created;
    }
}

/// Whether this turn is one of `percent` in a hundred, spread evenly.
fn is_turn(turn: u64, percent: u32) -> bool {
    let percent = u64::from(percent);
    turn * percent / 100 != (turn - 1) * percent / 100
}

/// A random one of the keys; there is at least one.
fn one_of(keys: &[Message]) -> Message {
    let bound = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    keys[usize::try_from(below(random::id(), bound)).unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::is_turn;

    #[test]
    fn percentage_of_turns_are_duplicates() {
        for percent in [0, 1, 33, 50, 90, 100] {
            for first in [1, 64, 1_000] {
                let turns = (first..first + 100).filter(|turn| is_turn(*turn, percent)).count();
                assert_eq!(turns, usize::try_from(percent).unwrap(), "{percent} % from {first} on");
            }
        }
        assert!((1..=10).filter(|turn| is_turn(*turn, 50)).count() == 5, "they are spread evenly");
    }
}
