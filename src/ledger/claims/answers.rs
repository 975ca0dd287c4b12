//! Where the answer of a command is sent. The answers of a call of many commands are sent together once the last one is
//! there: the caller can do nothing with a part of them, and would be woken for each.

use std::sync::{Arc, PoisonError};

use tokio::sync::oneshot;

use crate::domain::Answer;
use crate::ledger::runtime::Mutex;

/// Where the answer of one command is sent. If it is dropped without an answer, the outcome of the command is unknown.
pub(crate) enum AnswerTo {
    /// A call of this one command.
    Call(oneshot::Sender<Answer>),
    /// A call of many commands, among them this one.
    Item { answers: Arc<BatchAnswers>, place: usize },
}

impl AnswerTo {
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(super) fn no_caller() -> AnswerTo {
        AnswerTo::Call(oneshot::channel().0)
    }

    pub(super) fn send(self, answer: Answer) {
        match self {
            AnswerTo::Call(caller) => {
                let _gone = caller.send(answer);
            }
            AnswerTo::Item { answers, place } => answers.put(place, answer),
        }
    }

    /// Whether the caller has gone away.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            AnswerTo::Call(caller) => caller.is_closed(),
            AnswerTo::Item { answers, .. } => answers.caller.as_ref().is_none_or(oneshot::Sender::is_closed),
        }
    }

    /// Whether its call consists of this one command: no other answer waits for this one.
    pub(super) fn is_alone(&self) -> bool {
        match self {
            AnswerTo::Call(_) => true,
            AnswerTo::Item { answers, .. } => answers.commands == 1,
        }
    }
}

/// The answers of one call of many commands. Dropping the last reference sends them.
pub(crate) struct BatchAnswers {
    commands: usize,
    given: Mutex<Vec<Option<Answer>>>,
    caller: Option<oneshot::Sender<Vec<Option<Answer>>>>,
}

impl BatchAnswers {
    /// Makes the collector for a call of this number of commands, and the receiver of its answers, in the order of the commands.
    /// `None` stands for an unknown outcome.
    pub(crate) fn of(commands: usize) -> (Arc<BatchAnswers>, oneshot::Receiver<Vec<Option<Answer>>>) {
        let (caller, arrive) = oneshot::channel();
        let mut given = Vec::with_capacity(commands);
        given.resize_with(commands, || None);
        (Arc::new(BatchAnswers { commands, given: Mutex::new(given), caller: Some(caller) }), arrive)
    }

    /// Sets the answer to the command with this index.
    pub(crate) fn put(&self, place: usize, answer: Answer) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(given) = given.get_mut(place) {
            *given = Some(answer);
        }
    }
}

impl Drop for BatchAnswers {
    fn drop(&mut self) {
        let given = self.given.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(caller) = self.caller.take() {
            let _gone = caller.send(std::mem::take(given));
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::domain::{Reason, Rejection};

    fn answer(text: &str) -> Answer {
        Err(Rejection::new(Reason::Internal, text))
    }

    #[test]
    fn batch_answers_are_sent_together_in_the_order_of_the_commands() {
        let (answers, mut arrive) = BatchAnswers::of(4);
        let to = |place| AnswerTo::Item { answers: Arc::clone(&answers), place };
        let (second, third, fourth) = (to(1), to(2), to(3));
        answers.put(0, answer("refused immediately"));
        drop(answers);
        fourth.send(answer("d"));
        drop(third);
        assert!(arrive.try_recv().is_err(), "one of them is not there");
        second.send(answer("b"));
        let arrived = arrive.try_recv().unwrap();
        assert_eq!(
            arrived,
            [Some(answer("refused immediately")), Some(answer("b")), None, Some(answer("d"))]
        );
    }

    #[test]
    fn a_caller_that_has_gone_is_known_to_each_of_its_commands() {
        let (answers, arrive) = BatchAnswers::of(2);
        let all = [0, 1].map(|place| AnswerTo::Item { answers: Arc::clone(&answers), place });
        assert!(all.iter().all(|one| !one.is_closed()));
        drop(arrive);
        assert!(all.iter().all(AnswerTo::is_closed));
        for one in all {
            one.send(answer("not read"));
        }
    }
}
