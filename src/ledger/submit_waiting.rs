//! Commands whose callers wait for another verdict.

use std::sync::{Arc, OnceLock};

use tokio::sync::oneshot;

use super::Ledger;
use super::answer_log;
use super::claims::answers::AnswerTo;
use super::refusals::lost;
use super::runtime::Instant;
use super::waiting::{Looks, Together, WaitEnds, WaitingCaller, answered_later};
use crate::domain::{Answer, Submission};
use crate::ledger::claims::request::{KeyQueue, Request};
use crate::metrics;
use crate::traces::CallSpan;

/// A command that is looked at several times. It is counted and logged once, by its last answer.
struct Looker<'a> {
    ledger: &'a Ledger,
    submission: &'a Submission,
    span: &'a CallSpan,
}

impl Looks for Looker<'_> {
    async fn look(&self, together: Option<Arc<Together>>) -> Answer {
        let inner = &self.ledger.inner;
        let Submission { key, command, .. } = self.submission;
        // The first look was counted by the quota.
        self.ledger.registered(key.consumer(), &OnceLock::new())?;
        let (caller, answer) = oneshot::channel();
        let request = Request::new(command.clone(), AnswerTo::Call(caller), self.span.clone());
        match together {
            Some(together) => together.join(key, request, &inner.queue),
            None => inner.queue.push(KeyQueue::new(key.clone(), request, Instant::now()).loads_first())?,
        }
        answer.await.unwrap_or_else(|_| Err(lost()))
    }
}

impl Ledger {
    /// Carries out the one command of the call that has this span, and lets its caller wait while its verdict is awaited.
    ///
    /// # Errors
    /// As [`Ledger::submit`], by the last look.
    pub(crate) async fn submit_waiting(
        &self,
        mut submission: Submission,
        span: CallSpan,
        ends: WaitEnds,
        caller: &impl WaitingCaller,
    ) -> Answer {
        span.about(&submission.key, &submission.event_type);
        let asked = self.unanswered(&mut metrics::Before::default(), &mut submission);
        let looker = Looker { ledger: self, submission: &submission, span: &span };
        let first = match self.pushed(submission.clone(), span.clone()) {
            Ok(answer) => answer.await.unwrap_or_else(|_| Err(lost())),
            Err(rejection) => Err(rejection),
        };
        let (room, metrics) = (&self.inner.room, &self.inner.metrics);
        let answer = answered_later(room, metrics, &submission, first, ends, (&looker, caller)).await;
        if span.is_recorded() {
            span.answered(asked.counted.word(&answer), answer_log::attempt(&answer));
            answer.as_ref().err().into_iter().for_each(|rejection| span.refused(rejection.reason));
        }
        self.note(asked, &answer, &OnceLock::new());
        answer
    }
}
