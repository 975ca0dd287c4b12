//! Batches of commands: each command is answered, in the same order.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use super::claims::answers::{AnswerTo, BatchAnswers};
use super::refusals::lost;
use super::{Ledger, Unanswered, runtime};
use crate::common::yielding::{map_in_chunks, yield_after_chunk};
use crate::domain::{Answer, KeyHash, Rejection, Submission};
use crate::ledger::claims::request::{KeyQueue, Request};
use crate::metrics;
use crate::traces::CallSpan;

impl Ledger {
    /// Carries out the commands of the call that has this span, and answers each in the same order. Commands for the
    /// same key are carried out one after the other.
    ///
    /// # Errors
    /// The queue is full or closed; then no command was carried out.
    pub(crate) async fn submit_all(
        &self,
        mut submissions: Vec<Submission>,
        span: CallSpan,
    ) -> Result<Vec<Answer>, Rejection> {
        let mut before = metrics::Before::default();
        let each = |submission| self.unanswered(&mut before, submission);
        let asked: Vec<Unanswered> = map_in_chunks(submissions.iter_mut(), each).await;
        let answers = self.all_carried_out(submissions, &span).await;
        match &answers {
            Ok(answers) => {
                let clock = OnceLock::new();
                for (done, (asked, answer)) in asked.into_iter().zip(answers).enumerate() {
                    yield_after_chunk(done).await;
                    self.note(asked, answer, &clock);
                }
            }
            Err(rejection) => {
                let rejected = Err(rejection.clone());
                for asked in asked {
                    self.note(asked, &rejected, &OnceLock::new());
                }
            }
        }
        answers
    }

    async fn all_carried_out(
        &self,
        submissions: Vec<Submission>,
        span: &CallSpan,
    ) -> Result<Vec<Answer>, Rejection> {
        let mut key_queues: Vec<KeyQueue> = Vec::with_capacity(submissions.len());
        let mut chain_of: HashMap<KeyHash, usize> = HashMap::with_capacity(submissions.len());
        let (answers, arrive) = BatchAnswers::of(submissions.len());
        let (policies, now) = (OnceLock::new(), runtime::Instant::now());
        for (place, submission) in submissions.into_iter().enumerate() {
            yield_after_chunk(place).await;
            if let Err(rejection) = self.admit(&submission, &policies) {
                answers.put(place, Err(rejection));
                continue;
            }
            let Submission { key, command, .. } = submission;
            let to = AnswerTo::Item { answers: Arc::clone(&answers), place };
            let request = Request::new(command, to, span.clone());
            let key_queue = *chain_of.entry(key.hash()).or_insert(key_queues.len());
            match key_queues.get_mut(key_queue) {
                Some(key_queue) if *key_queue.key() == key => key_queue.push(request),
                Some(_) | None => key_queues.push(KeyQueue::new(key, request, now)),
            }
        }
        drop(answers);
        self.inner.queue.push_all(key_queues)?;
        let answers = arrive.await.map_err(|_| lost())?;
        Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(lost()))).collect())
    }
}
