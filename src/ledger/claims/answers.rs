//! Whom a command's answer goes to. The answers of a call of many commands go together, once the last one is there: its
//! caller can do nothing with a part of them, and would be woken for each.

use std::sync::{Arc, PoisonError};

use tokio::sync::oneshot;

use crate::domain::Answer;
use crate::ledger::runtime::Mutex;

/// Whom one command's answer goes to. Dropped without an answer it tells nothing: what became of the command is unknown.
pub(crate) enum AnswerTo {
    /// A call of this one command.
    Call(oneshot::Sender<Answer>),
    /// A call of many commands, among them this one.
    Item { answers: Arc<Answers>, place: usize },
}

impl AnswerTo {
    #[cfg(all(test, not(feature = "shuttle")))]
    pub(super) fn nobody() -> AnswerTo {
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

    /// The caller has gone away.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            AnswerTo::Call(caller) => caller.is_closed(),
            AnswerTo::Item { answers, .. } => answers.caller.as_ref().is_none_or(oneshot::Sender::is_closed),
        }
    }

    /// Its call consists of this one command: no other answer waits for this one.
    pub(super) fn is_alone(&self) -> bool {
        match self {
            AnswerTo::Call(_) => true,
            AnswerTo::Item { answers, .. } => answers.commands == 1,
        }
    }
}

/// The answers of one call of many commands, as far as they are there. The last one that lets go of it sends them.
pub(crate) struct Answers {
    commands: usize,
    given: Mutex<Vec<Option<Answer>>>,
    caller: Option<oneshot::Sender<Vec<Option<Answer>>>>,
}

impl Answers {
    /// For so many commands; and where they arrive, in the order of the commands. None: it is unknown what became of one.
    pub(crate) fn of(commands: usize) -> (Arc<Answers>, oneshot::Receiver<Vec<Option<Answer>>>) {
        let (caller, arrive) = oneshot::channel();
        let mut given = Vec::with_capacity(commands);
        given.resize_with(commands, || None);
        (Arc::new(Answers { commands, given: Mutex::new(given), caller: Some(caller) }), arrive)
    }

    /// The answer to the command at this place.
    pub(crate) fn put(&self, place: usize, answer: Answer) {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(given) = given.get_mut(place) {
            *given = Some(answer);
        }
    }
}

impl Drop for Answers {
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
    fn the_answers_of_a_call_arrive_together_in_the_order_of_its_commands() {
        let (answers, mut arrive) = Answers::of(4);
        let to = |place| AnswerTo::Item { answers: Arc::clone(&answers), place };
        let (second, third, fourth) = (to(1), to(2), to(3));
        answers.put(0, answer("refused at once"));
        drop(answers);
        fourth.send(answer("d"));
        drop(third);
        assert!(arrive.try_recv().is_err(), "one of them is not there");
        second.send(answer("b"));
        let arrived = arrive.try_recv().unwrap();
        assert_eq!(arrived, [Some(answer("refused at once")), Some(answer("b")), None, Some(answer("d"))]);
    }

    #[test]
    fn a_caller_that_has_gone_is_known_to_each_of_its_commands() {
        let (answers, arrive) = Answers::of(2);
        let all = [0, 1].map(|place| AnswerTo::Item { answers: Arc::clone(&answers), place });
        assert!(all.iter().all(|one| !one.is_closed()));
        drop(arrive);
        assert!(all.iter().all(AnswerTo::is_closed));
        for one in all {
            one.send(answer("nobody reads it"));
        }
    }
}
