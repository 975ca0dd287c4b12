//! What to do with the broker's message.

use super::State;

/// What to do with the broker's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Advice {
    /// The claim is held: process.
    Process,
    /// Done: acknowledge.
    Ack,
    /// Let the broker deliver again.
    RetryLater,
    /// Only a person can change the answer.
    DeadLetter,
}

impl Advice {
    /// The advice of a settlement or of a rejection, by the state that the entry is in now.
    #[must_use]
    pub fn of_state(state: State) -> Advice {
        match state {
            State::Completed => Advice::Ack,
            State::FailedTerminal | State::Parked(_) => Advice::DeadLetter,
            State::Received | State::InProgress | State::FailedRetryable => Advice::RetryLater,
        }
    }

    /// The bare word, as it stands in `ErrorInfo.metadata["advice"]`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Advice::Process => "PROCESS",
            Advice::Ack => "ACK",
            Advice::RetryLater => "RETRY_LATER",
            Advice::DeadLetter => "DEAD_LETTER",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_advice_has_its_word() {
        let words = [Advice::Process, Advice::Ack, Advice::RetryLater, Advice::DeadLetter].map(Advice::word);
        assert_eq!(words, ["PROCESS", "ACK", "RETRY_LATER", "DEAD_LETTER"]);
    }
}
