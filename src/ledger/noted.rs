//! What is counted and logged of a request's fields, before its command goes into the queue.

use super::Ledger;
use crate::domain::{Malformed, Submission};

impl Ledger {
    /// A claim or a settlement was refused for its fields. `by_name`: its caller has a right on the consumer.
    pub(crate) fn note_malformed(&self, malformed: &Malformed, by_name: bool) {
        let consumer = if by_name { malformed.consumer.as_str() } else { "" };
        let has_policy = || self.inner.policies.registered(consumer);
        self.inner.metrics.malformed(consumer, malformed, &has_policy);
        self.inner.answer_log.malformed(consumer, &malformed.rejection.violations);
    }

    /// Fields of a settlement, or the label of a claim, were beyond their bounds, and refuse nothing.
    pub(crate) fn note_corrected(&self, submission: &Submission) {
        for corrected in &submission.corrected {
            self.inner.metrics.corrected(&corrected.field);
        }
        if !submission.corrected.is_empty() {
            self.inner.answer_log.corrected(submission.key.consumer(), &submission.corrected);
        }
    }
}
