//! Whose commands are served next: those of the consumers that wait in one lane of the queue, by deficit round robin
//! (Shreedhar, Varghese 1995), so that the backlog of one does not keep the others waiting. A chain is the packet of that
//! algorithm, and its commands are its length.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use crate::domain::Key;
use crate::ledger::claims::request::Chain;

/// How many commands each turn brings a consumer. So few that a batch has room for several consumers, and so many that the
/// change of turns costs nothing.
const QUANTUM: usize = 16;

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
struct Backlog {
    chains: VecDeque<Chain>,
    /// How many commands they have.
    commands: usize,
    /// How many commands it may be served before it is the next one's turn.
    deficit: usize,
}

impl Backlog {
    /// The next chain, if it may be served in this turn.
    fn pop(&mut self) -> Option<Chain> {
        let next = self.chains.front()?;
        self.deficit = self.deficit.checked_sub(next.len())?;
        self.commands -= next.len();
        self.chains.pop_front()
    }
}

/// The chains of one lane. It holds no more backlogs than there are consumers with chains in it; a consumer that is alone
/// costs one comparison of its name.
#[derive(Default)]
pub(in crate::ledger::claims) struct RoundRobin {
    /// Whose turn it is; none: nobody waits.
    current: Option<Consumer>,
    backlog: Backlog,
    others: HashMap<Consumer, Backlog>,
    /// The others, in the order of their turns.
    order: VecDeque<Consumer>,
}

impl RoundRobin {
    /// Comes last in the backlog of its consumer.
    pub(in crate::ledger::claims) fn push_back(&mut self, chain: Chain) {
        let backlog = self.backlog_of(&chain.key);
        backlog.commands += chain.len();
        backlog.chains.push_back(chain);
    }

    /// Comes first in the backlog of its consumer.
    pub(in crate::ledger::claims) fn push_front(&mut self, chain: Chain) {
        let backlog = self.backlog_of(&chain.key);
        backlog.commands += chain.len();
        backlog.chains.push_front(chain);
    }

    fn backlog_of(&mut self, key: &Key) -> &mut Backlog {
        match &self.current {
            Some(current) if current.0.namespace() == key.namespace() => &mut self.backlog,
            None => {
                self.current = Some(Consumer(key.clone()));
                self.backlog.deficit = QUANTUM;
                &mut self.backlog
            }
            Some(_) => {
                let order = &mut self.order;
                self.others.entry(Consumer(key.clone())).or_insert_with_key(|consumer| {
                    order.push_back(consumer.clone());
                    Backlog::default()
                })
            }
        }
    }

    /// How many commands of a key's consumer wait.
    pub(in crate::ledger::claims) fn waiting(&self, key: &Key) -> usize {
        match &self.current {
            Some(current) if current.0.namespace() == key.namespace() => self.backlog.commands,
            _ => self.others.get(key.namespace().name()).map_or(0, |backlog| backlog.commands),
        }
    }

    /// The next chain.
    pub(in crate::ledger::claims) fn pop(&mut self) -> Option<Chain> {
        self.current.as_ref()?;
        loop {
            if let Some(chain) = self.backlog.pop() {
                if self.backlog.chains.is_empty() {
                    // Whoever waits no more leaves nothing behind, its deficit included.
                    self.current = None;
                    self.backlog = Backlog::default();
                    self.next_turn();
                }
                return Some(chain);
            }
            self.next_turn();
        }
    }

    /// Whoever has had its turn comes last. A consumer that is alone has the next turn too.
    fn next_turn(&mut self) {
        if let Some(next) = self.order.pop_front() {
            let backlog = self.others.remove::<str>(next.borrow()).unwrap_or_default();
            let before = std::mem::replace(&mut self.backlog, backlog);
            if let Some(consumer) = self.current.replace(next) {
                self.order.push_back(consumer.clone());
                self.others.insert(consumer, before);
            }
        }
        self.backlog.deficit += QUANTUM;
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::domain::{Command, Settle, Span};
    use crate::ledger::claims::answers::AnswerTo;
    use crate::ledger::claims::request::Request;
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

    fn come(lane: &mut RoundRobin, consumer: &str, chains: usize, commands: usize) {
        for waits in 1..=chains {
            lane.push_back(chain(consumer, commands));
            assert_eq!(lane.waiting(&Key::new(consumer, "other", "id")), waits * commands);
        }
    }

    /// Who is served, with how many commands in a row.
    fn served(lane: &mut RoundRobin) -> Vec<(String, usize)> {
        let mut served: Vec<(String, usize)> = Vec::new();
        while let Some(chain) = lane.pop() {
            match served.last_mut() {
                Some((last, commands)) if last == chain.key.consumer() => *commands += chain.len(),
                _ => served.push((chain.key.consumer().to_owned(), chain.len())),
            }
        }
        served
    }

    #[test]
    fn consumers_are_served_in_turns_of_like_length() {
        type Waits<'a> = &'a [(&'a str, usize, usize)];
        // Who comes, with how many chains, of how many commands each; and who is served, how many in a row.
        let rows: &[(Waits, &[(&str, usize)])] = &[
            (&[], &[]),
            (&[("a", 1, 1)], &[("a", 1)]),
            (&[("bulk", 1_000, 1)], &[("bulk", 1_000)]),
            (&[("bulk", 3, 1_000)], &[("bulk", 3_000)]),
            // Whoever comes after a backlog waits for one turn of it.
            (&[("bulk", 100, 1), ("a", 1, 1)], &[("bulk", 16), ("a", 1), ("bulk", 84)]),
            (
                &[("bulk", 100, 1), ("a", 20, 1), ("b", 1, 1)],
                &[("bulk", 16), ("a", 16), ("b", 1), ("bulk", 16), ("a", 4), ("bulk", 68)],
            ),
            // A chain is never parted: it waits until enough turns have come together.
            (&[("bulk", 3, 40), ("a", 60, 1)], &[("a", 32), ("bulk", 40), ("a", 28), ("bulk", 80)]),
        ];
        for (waits, expected) in rows {
            let mut lane = RoundRobin::default();
            for &(consumer, chains, commands) in *waits {
                come(&mut lane, consumer, chains, commands);
            }
            let expected: Vec<_> =
                expected.iter().map(|(who, commands)| ((*who).to_owned(), *commands)).collect();
            assert_eq!(served(&mut lane), expected, "{waits:?}");
            assert!(lane.current.is_none() && lane.others.is_empty() && lane.order.is_empty());
            assert_eq!(lane.waiting(&Key::new("bulk", "s", "1")), 0);
        }
    }

    #[test]
    fn whoever_comes_back_is_first_in_its_own_backlog_and_in_nobody_elses() {
        let mut lane = RoundRobin::default();
        come(&mut lane, "bulk", QUANTUM, 1);
        come(&mut lane, "a", 1, 1);
        lane.push_front(chain("bulk", 3));
        assert_eq!(lane.pop().map(|chain| chain.len()), Some(3));
        assert_eq!(served(&mut lane), [("bulk".to_owned(), 13), ("a".into(), 1), ("bulk".into(), 3)]);
    }

    /// Whatever it leaves unused in a turn in which it waits no more is not kept.
    #[test]
    fn nobody_saves_turns_up() {
        let mut lane = RoundRobin::default();
        for _ in 0..100 {
            come(&mut lane, "a", 1, 1);
            assert_eq!(served(&mut lane), [("a".to_owned(), 1)]);
        }
        come(&mut lane, "a", 40, 1);
        come(&mut lane, "b", 1, 1);
        assert_eq!(served(&mut lane), [("a".to_owned(), 16), ("b".into(), 1), ("a".into(), 24)]);
    }
}
