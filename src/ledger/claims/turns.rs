//! Whose turn it is: consumers that wait in one lane of the queue are served in turns, so that the flood of one does
//! not keep the others waiting.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use super::chain::Chain;
use crate::domain::Key;

/// How many commands a consumer has taken before it is the next one's turn. So few that a batch of a thousand has room
/// for many consumers, and so many that the change of turns costs nothing.
const TURN: usize = 16;

/// The consumer of a key, by which the others are found. Cheaper to keep than its name.
#[derive(Clone)]
struct Consumer(Key);

impl Borrow<str> for Consumer {
    fn borrow(&self) -> &str {
        self.0.namespace().name()
    }
}

impl Hash for Consumer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.namespace().name().hash(state);
    }
}

impl PartialEq for Consumer {
    fn eq(&self, other: &Consumer) -> bool {
        self.0.namespace().name() == other.0.namespace().name()
    }
}

impl Eq for Consumer {}

/// The chains of one consumer, oldest first.
#[derive(Default)]
struct Line {
    chains: VecDeque<Chain>,
    /// How many commands it has taken beyond its turns: a chain is never parted. It waits so much longer for it.
    debt: usize,
}

/// The chains of one lane. It holds no more lines than there are consumers with chains in it; a consumer that is alone
/// costs one comparison of its name.
#[derive(Default)]
pub(super) struct Turns {
    /// Whose turn it is; none: nobody waits.
    current: Option<Consumer>,
    line: Line,
    /// How many commands are left of its turn.
    left: usize,
    others: HashMap<Consumer, Line>,
    /// The others, in the order of their turns.
    order: VecDeque<Consumer>,
}

impl Turns {
    /// Comes last in the line of its consumer.
    pub(super) fn push_back(&mut self, chain: Chain) {
        self.line_of(&chain.key).push_back(chain);
    }

    /// Comes first in the line of its consumer.
    pub(super) fn push_front(&mut self, chain: Chain) {
        self.line_of(&chain.key).push_front(chain);
    }

    fn line_of(&mut self, key: &Key) -> &mut VecDeque<Chain> {
        match &self.current {
            Some(current) if current.0.namespace() == key.namespace() => &mut self.line.chains,
            None => {
                (self.current, self.left) = (Some(Consumer(key.clone())), TURN);
                &mut self.line.chains
            }
            Some(_) => {
                let consumer = Consumer(key.clone());
                let order = &mut self.order;
                let line = self.others.entry(consumer).or_insert_with_key(|consumer| {
                    order.push_back(consumer.clone());
                    Line::default()
                });
                &mut line.chains
            }
        }
    }

    /// How many chains of a key's consumer wait.
    pub(super) fn waits(&self, key: &Key) -> usize {
        match &self.current {
            Some(current) if current.0.namespace() == key.namespace() => self.line.chains.len(),
            _ => self.others.get(key.namespace().name()).map_or(0, |line| line.chains.len()),
        }
    }

    /// The next chain.
    pub(super) fn pop(&mut self) -> Option<Chain> {
        while self.left == 0 && !self.order.is_empty() {
            self.next_turn();
        }
        let chain = self.line.chains.pop_front()?;
        let commands = chain.len();
        if self.order.is_empty() {
            self.left = TURN;
        } else {
            self.line.debt += commands.saturating_sub(self.left);
            self.left = self.left.saturating_sub(commands);
        }
        if self.line.chains.is_empty() {
            self.leave();
        }
        Some(chain)
    }

    /// Whoever has had its turn comes last.
    fn next_turn(&mut self) {
        let Some(next) = self.order.pop_front() else { return };
        let line = self.others.remove::<str>(next.borrow()).unwrap_or_default();
        let line = std::mem::replace(&mut self.line, line);
        if let Some(consumer) = self.current.replace(next) {
            self.order.push_back(consumer.clone());
            self.others.insert(consumer, line);
        }
        self.begin();
    }

    /// Whoever waits no more leaves nothing behind.
    fn leave(&mut self) {
        self.line.debt = 0;
        self.current = self.order.pop_front();
        if let Some(next) = &self.current
            && let Some(line) = self.others.remove::<str>(next.borrow())
        {
            self.line = line;
        }
        self.begin();
    }

    /// A turn is as much shorter as its consumer is in debt.
    fn begin(&mut self) {
        self.left = TURN.saturating_sub(self.line.debt);
        self.line.debt = self.line.debt.saturating_sub(TURN);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::super::answers::AnswerTo;
    use super::super::chain::Request;
    use super::*;
    use crate::domain::{Command, Settle, Span};
    use crate::ledger::runtime::Instant;
    use crate::traces::CallSpan;

    fn chain(consumer: &str, commands: usize) -> Chain {
        let request = || {
            let release = Command::Settle(1, Settle::Release { delay: Span::ZERO });
            Request::new(release, AnswerTo::nobody(), CallSpan::default())
        };
        let mut chain = Chain::new(Key::new(consumer, "s", "1"), request(), Instant::now());
        (1..commands).for_each(|_| chain.push(request()));
        chain
    }

    /// Who is served, with how many commands in a row.
    fn served(turns: &mut Turns) -> Vec<(String, usize)> {
        let mut served: Vec<(String, usize)> = Vec::new();
        while let Some(chain) = turns.pop() {
            match served.last_mut() {
                Some((last, commands)) if last == chain.key.consumer() => *commands += chain.len(),
                _ => served.push((chain.key.consumer().to_owned(), chain.len())),
            }
        }
        served
    }

    #[test]
    fn consumers_take_turns() {
        type Waits<'a> = &'a [(&'a str, usize, usize)];
        // Who comes, with how many chains, of how many commands each; and who is served, how many in a row.
        let rows: &[(Waits, &[(&str, usize)])] = &[
            (&[], &[]),
            (&[("a", 1, 1)], &[("a", 1)]),
            (&[("flood", 1_000, 1)], &[("flood", 1_000)]),
            // Whoever comes after a flood waits for one turn of it.
            (&[("flood", 100, 1), ("a", 1, 1)], &[("flood", 16), ("a", 1), ("flood", 84)]),
            (
                &[("flood", 100, 1), ("a", 20, 1), ("b", 1, 1)],
                &[("flood", 16), ("a", 16), ("b", 1), ("flood", 16), ("a", 4), ("flood", 68)],
            ),
            // A chain is never parted; whoever took too much waits for as much longer.
            (
                &[("flood", 3, 40), ("a", 60, 1)],
                &[("flood", 40), ("a", 32), ("flood", 40), ("a", 28), ("flood", 40)],
            ),
        ];
        for (waits, expected) in rows {
            let mut turns = Turns::default();
            for &(consumer, chains, commands) in *waits {
                (0..chains).for_each(|_| turns.push_back(chain(consumer, commands)));
            }
            let expected: Vec<_> =
                expected.iter().map(|(who, commands)| ((*who).to_owned(), *commands)).collect();
            assert_eq!(served(&mut turns), expected, "{waits:?}");
            assert!(turns.current.is_none() && turns.others.is_empty() && turns.order.is_empty());
        }
    }

    #[test]
    fn whoever_comes_back_is_first_in_its_own_line_and_in_nobody_elses() {
        let mut turns = Turns::default();
        (0..TURN).for_each(|_| turns.push_back(chain("flood", 1)));
        turns.push_back(chain("a", 1));
        turns.push_front(chain("flood", 3));
        assert_eq!(turns.pop().map(|chain| chain.len()), Some(3));
        assert_eq!(served(&mut turns), [("flood".to_owned(), 13), ("a".into(), 1), ("flood".into(), 3)]);
    }
}
