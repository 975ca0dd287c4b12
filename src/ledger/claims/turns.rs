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
pub(super) struct Line {
    chains: VecDeque<Chain>,
    /// How many commands they have.
    commands: usize,
    /// How many they had at the most since the line began.
    most: usize,
    /// How many commands it has taken beyond its turns: a chain is never parted. It waits so much longer for it.
    debt: usize,
}

impl Line {
    /// How many commands wait in it.
    pub(super) fn commands(&self) -> usize {
        self.commands
    }

    /// Whether its consumer came with no more commands than that, so far.
    pub(super) fn has_few(&self, few: usize) -> bool {
        self.most <= few
    }

    fn comes(&mut self, commands: usize) {
        self.commands += commands;
        self.most = self.most.max(self.commands);
    }

    fn pop(&mut self) -> Option<Chain> {
        let chain = self.chains.pop_front()?;
        self.commands -= chain.len();
        Some(chain)
    }

    /// Moves its chains, as far as there is room for their commands. Whether none is left.
    fn move_into(&mut self, room: &mut usize, into: &mut Vec<Chain>) -> bool {
        while *room > 0
            && let Some(chain) = self.pop()
        {
            *room = room.saturating_sub(chain.len());
            into.push(chain);
        }
        self.chains.is_empty()
    }
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
    pub(super) fn push_back(&mut self, chain: Chain) -> &Line {
        let line = self.line_of(&chain.key);
        line.comes(chain.len());
        line.chains.push_back(chain);
        line
    }

    /// Comes first in the line of its consumer.
    pub(super) fn push_front(&mut self, chain: Chain) {
        let line = self.line_of(&chain.key);
        line.comes(chain.len());
        line.chains.push_front(chain);
    }

    fn line_of(&mut self, key: &Key) -> &mut Line {
        match &self.current {
            Some(current) if current.0.namespace() == key.namespace() => &mut self.line,
            None => {
                (self.current, self.left) = (Some(Consumer(key.clone())), TURN);
                &mut self.line
            }
            Some(_) => {
                let consumer = Consumer(key.clone());
                let order = &mut self.order;
                self.others.entry(consumer).or_insert_with_key(|consumer| {
                    order.push_back(consumer.clone());
                    Line::default()
                })
            }
        }
    }

    /// The line of a key's consumer; none: nothing of it waits.
    pub(super) fn line(&self, key: &Key) -> Option<&Line> {
        match &self.current {
            Some(current) if current.0.namespace() == key.namespace() => Some(&self.line),
            _ => self.others.get(key.namespace().name()),
        }
    }

    /// The next chain.
    pub(super) fn pop(&mut self) -> Option<Chain> {
        while self.left == 0 && !self.order.is_empty() {
            self.next_turn();
        }
        let chain = self.line.pop()?;
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

    /// Moves the chains of consumers that came with no more commands than `few`, and have few elsewhere, too, as far as there is
    /// room for their commands. Nobody else's turn changes.
    pub(super) fn pop_few(
        &mut self,
        few: usize,
        elsewhere: impl Fn(&Key) -> bool,
        room: &mut usize,
        into: &mut Vec<Chain>,
    ) {
        let mut is_served = |key: &Key, line: &mut Line, room: &mut usize| {
            line.has_few(few) && elsewhere(key) && line.move_into(room, into)
        };
        while let Some(current) = &self.current
            && is_served(&current.0, &mut self.line, room)
        {
            self.leave();
        }
        let others = &mut self.others;
        self.order.retain(|consumer| {
            if *room == 0 {
                return true;
            }
            let Some(line) = others.get_mut::<str>(consumer.borrow()) else { return false };
            let served = is_served(&consumer.0, line, room);
            if served {
                others.remove::<str>(consumer.borrow());
            }
            !served
        });
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
        self.current = self.order.pop_front();
        let next = self.current.as_ref().and_then(|next| self.others.remove::<str>(next.borrow()));
        self.line = next.unwrap_or_default();
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
            let release = Command::Settle(1, Settle::Release { delay: Span::ZERO, unpin: false });
            Request::new(release, AnswerTo::nobody(), CallSpan::default())
        };
        let mut chain = Chain::new(Key::new(consumer, "s", "1"), request(), Instant::now());
        (1..commands).for_each(|_| chain.push(request()));
        chain
    }

    fn come(turns: &mut Turns, consumer: &str, chains: usize, commands: usize) {
        for waits in 1..=chains {
            assert_eq!(turns.push_back(chain(consumer, commands)).commands(), waits * commands);
        }
    }

    /// Who is served, with how many commands in a row.
    fn served(turns: &mut Turns) -> Vec<(String, usize)> {
        in_a_row(std::iter::from_fn(|| turns.pop()))
    }

    fn in_a_row(chains: impl Iterator<Item = Chain>) -> Vec<(String, usize)> {
        let mut served: Vec<(String, usize)> = Vec::new();
        for chain in chains {
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
                come(&mut turns, consumer, chains, commands);
            }
            let expected: Vec<_> =
                expected.iter().map(|(who, commands)| ((*who).to_owned(), *commands)).collect();
            assert_eq!(served(&mut turns), expected, "{waits:?}");
            assert!(turns.current.is_none() && turns.others.is_empty() && turns.order.is_empty());
        }
    }

    /// Who has few, without one that has many elsewhere, is moved, in this order.
    fn few(turns: &mut Turns, room: usize) -> Vec<(String, usize)> {
        let (mut room, mut chains) = (room, Vec::new());
        turns.pop_few(16, |key| key.consumer() != "elsewhere", &mut room, &mut chains);
        in_a_row(chains.into_iter())
    }

    #[test]
    fn those_that_have_few_are_served_without_the_others() {
        // Who waits, with how many chains of how many commands, and how many commands there is room for; who is served, and who is
        // left.
        type Waits<'a> = &'a [(&'a str, usize, usize)];
        type Served<'a> = &'a [(&'a str, usize)];
        let rows: &[(Waits, usize, Served, Served)] = &[
            (&[], 100, &[], &[]),
            (&[("flood", 17, 1)], 100, &[], &[("flood", 17)]),
            (&[("flood", 2, 9)], 100, &[], &[("flood", 18)]),
            (&[("flood", 17, 1), ("a", 1, 1)], 100, &[("a", 1)], &[("flood", 17)]),
            (&[("a", 1, 1), ("flood", 17, 1)], 100, &[("a", 1)], &[("flood", 17)]),
            (
                &[("a", 1, 1), ("elsewhere", 1, 1), ("b", 1, 1)],
                100,
                &[("a", 1), ("b", 1)],
                &[("elsewhere", 1)],
            ),
            (&[("a", 4, 4), ("b", 2, 1)], 100, &[("a", 16), ("b", 2)], &[]),
            (
                &[("a", 16, 1), ("flood", 20, 1), ("b", 2, 1), ("c", 30, 1)],
                100,
                &[("a", 16), ("b", 2)],
                &[("flood", 16), ("c", 16), ("flood", 4), ("c", 14)],
            ),
            (
                &[("flood", 20, 1), ("a", 16, 1), ("b", 2, 1), ("c", 1, 1)],
                17,
                &[("a", 16), ("b", 1)],
                &[("flood", 16), ("b", 1), ("c", 1), ("flood", 4)],
            ),
            (&[("flood", 17, 1), ("a", 1, 1)], 0, &[], &[("flood", 16), ("a", 1), ("flood", 1)]),
        ];
        for (waits, room, moved, left) in rows {
            let mut turns = Turns::default();
            for &(consumer, chains, commands) in *waits {
                come(&mut turns, consumer, chains, commands);
            }
            let named = |served: Served| -> Vec<(String, usize)> {
                served.iter().map(|(who, commands)| ((*who).to_owned(), *commands)).collect()
            };
            let was = (few(&mut turns, *room), served(&mut turns));
            assert_eq!(was, (named(moved), named(left)), "{waits:?}, {room}");
            assert!(turns.current.is_none() && turns.others.is_empty() && turns.order.is_empty());
        }
    }

    #[test]
    fn whoever_has_few_left_of_many_has_not_few() {
        let mut turns = Turns::default();
        come(&mut turns, "a", 17, 1);
        turns.pop();
        assert_eq!(few(&mut turns, 100), []);
        // Until it has none.
        assert_eq!(served(&mut turns), [("a".to_owned(), 16)]);
        come(&mut turns, "a", 16, 1);
        assert_eq!(few(&mut turns, 100), [("a".to_owned(), 16)]);
        // What comes back counts, too.
        turns.push_front(chain("a", 17));
        assert_eq!(few(&mut turns, 100), []);
    }

    #[test]
    fn whoever_comes_back_is_first_in_its_own_line_and_in_nobody_elses() {
        let mut turns = Turns::default();
        come(&mut turns, "flood", TURN, 1);
        come(&mut turns, "a", 1, 1);
        turns.push_front(chain("flood", 3));
        assert_eq!(turns.pop().map(|chain| chain.len()), Some(3));
        assert_eq!(served(&mut turns), [("flood".to_owned(), 13), ("a".into(), 1), ("flood".into(), 3)]);
    }
}
