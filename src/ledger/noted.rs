//! Counts and logs fields that were refused, dropped or cut: before the command is queued, and a dropped result when it is
//! answered.

use super::Ledger;
use crate::domain::{Answer, Malformed, Reply, Submission};

/// The field whose removal the answer reports.
const RESULT: &str = "result";

impl Ledger {
    /// Counts a message that was completed without its result.
    pub(super) fn note_dropped(&self, answer: &Answer) {
        if let Ok(Reply::Completed { replayed: false, result_dropped: true, .. }) = answer {
            self.inner.metrics.corrected(RESULT);
        }
    }

    /// Counts and logs a claim or settlement that was refused for its fields. `by_name`: its caller has a right on the consumer.
    pub(crate) fn note_malformed(&self, malformed: &Malformed, by_name: bool) {
        let consumer = if by_name { malformed.consumer.as_str() } else { "" };
        let has_policy = || self.inner.policies.registered(consumer);
        self.inner.metrics.malformed(consumer, malformed, &has_policy);
        self.inner.answer_log.malformed(consumer, &malformed.rejection.violations);
    }

    /// Counts and logs fields of a settlement, or the label of a claim, that exceed their bounds without a refusal.
    pub(crate) fn note_corrected(&self, submission: &Submission) {
        // Whether a result is dropped depends on the policy, too: the answer counts it.
        for corrected in submission.corrected.iter().filter(|one| one.field != RESULT) {
            self.inner.metrics.corrected(&corrected.field);
        }
        if !submission.corrected.is_empty() {
            self.inner.answer_log.corrected(submission.key.consumer(), &submission.corrected);
        }
    }
}
