//! The state of an import that its sender and its receiver share.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::chunk::Chunk;

/// A server that owes an answer for this long will not send it.
pub(super) const SILENCE_MAX: Duration = Duration::from_mins(2);

/// A message in flight.
pub(super) enum Sent {
    /// Rows, without their entries.
    Rows(Chunk),
    /// A message without rows, which keeps the stream open.
    KeepsOpen,
}

impl Sent {
    fn chunk(&self) -> Option<&Chunk> {
        match self {
            Sent::Rows(chunk) => Some(chunk),
            Sent::KeepsOpen => None,
        }
    }
}

/// What the sender and the receiver share.
#[derive(Default)]
pub(super) struct Sending {
    /// The messages in flight.
    pub(super) sent: VecDeque<Sent>,
    /// The first line that is in none of the answered messages.
    after: Option<u64>,
    pub(super) bad: Vec<(u64, String)>,
    pub(super) broken: Option<String>,
    /// No further message is sent: the server must end its answers, too.
    pub(super) ended: bool,
    /// Since when the server owes an answer, or its end. `None` while the file is slower than the server.
    owes_since: Option<Instant>,
}

impl Sending {
    pub(super) fn sends(&mut self, message: Sent, now: Instant) {
        self.sent.push_back(message);
        self.owes_since.get_or_insert(now);
    }

    pub(super) fn ends(&mut self, why: Option<String>, now: Instant) {
        (self.broken, self.ended) = (why, true);
        self.owes_since.get_or_insert(now);
    }

    /// Removes the oldest message in flight: the next answer is about it. `None` if no message is in flight.
    pub(super) fn answered(&mut self, now: Instant) -> Option<Sent> {
        let message = self.sent.pop_front()?;
        self.after = message.chunk().map(|chunk| chunk.after).or(self.after);
        self.owes_since = (self.ended || !self.sent.is_empty()).then_some(now);
        Some(message)
    }

    /// For how long the server may still be silent.
    pub(super) fn patience(&self, now: Instant) -> Duration {
        let owed_for = self.owes_since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
        SILENCE_MAX.saturating_sub(owed_for)
    }

    /// The line to continue from: any row from there on may not be stored, including a row that was held back while later rows were
    /// sent. `None` if no message was sent.
    pub(super) fn next_line(&self) -> Option<u64> {
        self.sent.iter().find_map(Sent::chunk).map(|chunk| chunk.begin).or(self.after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn import_continues_at_the_first_line_without_an_answer() {
        let (mut sending, now) = (Sending::default(), Instant::now());
        // Line 2 has the key of line 1, and waits.
        let chunks = [(vec![1, 3], 1, 2), (vec![2, 4], 2, 5)];
        let chunks = chunks.map(|(lines, begin, after)| Chunk { lines, begin, after, ..Chunk::default() });
        assert_eq!(sending.next_line(), None);
        let [first, second] = chunks;
        sending.sends(Sent::KeepsOpen, now);
        assert_eq!(sending.next_line(), None, "no row is sent");
        sending.sends(Sent::Rows(first), now);
        assert_eq!(sending.next_line(), Some(1));
        assert!(matches!(sending.answered(now), Some(Sent::KeepsOpen)));
        assert_eq!(sending.next_line(), Some(1));
        assert!(matches!(sending.answered(now), Some(Sent::Rows(_))));
        assert_eq!(sending.next_line(), Some(2), "nothing is under way");
        sending.sends(Sent::KeepsOpen, now);
        assert_eq!(sending.next_line(), Some(2), "only a message without rows is under way");
        assert!(sending.answered(now).is_some());
        assert_eq!(sending.next_line(), Some(2), "it was answered");
        sending.sends(Sent::Rows(second), now);
        assert_eq!(sending.next_line(), Some(2));
        assert!(sending.answered(now).is_some() && sending.answered(now).is_none());
        assert_eq!(sending.next_line(), Some(5));
    }

    #[test]
    fn silence_counts_only_while_an_answer_is_owed() {
        enum Is {
            Sent,
            Answered,
            Ended,
        }
        use Is::{Answered, Ended, Sent};
        // What happens at which second, and until when the server may be silent; `None`: it owes nothing.
        for (number, (steps, until)) in [
            (&[][..], None),
            (&[(0, Sent)], Some(120)),
            (&[(300, Sent)], Some(420)),
            (&[(0, Sent), (1, Answered)], None),
            (&[(0, Sent), (1, Answered), (601, Sent)], Some(721)),
            (&[(0, Sent), (50, Sent)], Some(120)),
            (&[(0, Sent), (50, Sent), (60, Answered)], Some(180)),
            (&[(0, Sent), (50, Sent), (60, Answered), (70, Answered)], None),
            (&[(0, Sent), (60, Answered), (200, Ended)], Some(320)),
            (&[(0, Sent), (10, Ended), (60, Answered)], Some(180)),
        ]
        .into_iter()
        .enumerate()
        {
            let (mut sending, began) = (Sending::default(), Instant::now());
            let at = |seconds| began + Duration::from_secs(seconds);
            for (seconds, is) in steps {
                match is {
                    Sent => sending.sends(super::Sent::Rows(Chunk::default()), at(*seconds)),
                    Answered => drop(sending.answered(at(*seconds))),
                    Ended => sending.ends(None, at(*seconds)),
                }
            }
            let late = at(1_000_000);
            assert_eq!(
                sending.patience(late),
                if until.is_none() { SILENCE_MAX } else { Duration::ZERO },
                "{number}"
            );
            if let Some(until) = until {
                let before = at(until - 1);
                assert_eq!(sending.patience(before), Duration::from_secs(1), "{number}");
            }
        }
    }
}
