//! The order in which one lane of the queue serves its consumers: deficit round robin (Shreedhar, Varghese 1995), so that
//! the large backlog of one consumer does not delay the others. Without it one consumer filled its lane, and every other
//! consumer waited behind it (`tests/prove speed --only flood` measures the delay). A per-key queue is the packet of that
//! algorithm, and its number of commands is the packet's length. An empty backlog keeps no deficit.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};

use crate::domain::Key;
use crate::ledger::claims::request::KeyQueue;

/// Commands that one turn of the round robin adds to a consumer's deficit: small, so that a batch has room for several
/// consumers, and large enough that switching between consumers costs nothing measurable.
const QUANTUM: usize = 16;

/// The consumer of a key, as a map key. Cloning a key is cheaper than copying the consumer's name.
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

/// The per-key queues of one consumer, oldest first.
#[derive(Default)]
struct Backlog {
    key_queues: VecDeque<KeyQueue>,
    /// Number of commands in all per-key queues.
    commands: usize,
    /// Commands that this consumer may still be served before the next consumer's turn.
    deficit: usize,
}

impl Backlog {
    /// The next per-key queue, if the deficit covers all of its commands.
    fn pop(&mut self) -> Option<KeyQueue> {
        let next = self.key_queues.front()?;
        self.deficit = self.deficit.checked_sub(next.len())?;
        self.commands -= next.len();
        self.key_queues.pop_front()
    }
}

/// The per-key queues of one lane. It has at most one backlog for each consumer with commands in the lane; while only one
/// consumer is active, a command costs one comparison of the consumer's name.
#[derive(Default)]
pub(in crate::ledger::claims) struct RoundRobin {
    /// The consumer being served; `None` if the lane is empty.
    current: Option<Consumer>,
    backlog: Backlog,
    others: HashMap<Consumer, Backlog>,
    /// The other consumers, in the order of their turns.
    order: VecDeque<Consumer>,
}

impl RoundRobin {
    /// Appends to the backlog of its consumer.
    pub(in crate::ledger::claims) fn push_back(&mut self, key_queue: KeyQueue) {
        let backlog = self.backlog_of(&key_queue.key);
        backlog.commands += key_queue.len();
        backlog.key_queues.push_back(key_queue);
    }

    /// Prepends to the backlog of its consumer.
    pub(in crate::ledger::claims) fn push_front(&mut self, key_queue: KeyQueue) {
        let backlog = self.backlog_of(&key_queue.key);
        backlog.commands += key_queue.len();
        backlog.key_queues.push_front(key_queue);
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

    /// Number of waiting commands of the consumer of this key.
    pub(in crate::ledger::claims) fn waiting(&self, key: &Key) -> usize {
        match &self.current {
            Some(current) if current.0.namespace() == key.namespace() => self.backlog.commands,
            _ => self.others.get(key.namespace().name()).map_or(0, |backlog| backlog.commands),
        }
    }

    /// Removes the per-key queue that is served next.
    pub(in crate::ledger::claims) fn pop(&mut self) -> Option<KeyQueue> {
        self.current.as_ref()?;
        loop {
            if let Some(key_queue) = self.backlog.pop() {
                if self.backlog.key_queues.is_empty() {
                    // An empty backlog is removed together with its deficit.
                    self.current = None;
                    self.backlog = Backlog::default();
                    self.next_turn();
                }
                return Some(key_queue);
            }
            self.next_turn();
        }
    }

    /// Moves the current consumer to the end of the order, and starts the turn of the next consumer. A single consumer gets
    /// the next turn itself.
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

    fn key_queue(consumer: &str, commands: usize) -> KeyQueue {
        let request = || {
            let release = Command::Settle(1, Settle::Release { delay: Span::ZERO, unpin: false });
            Request::new(release, AnswerTo::no_caller(), CallSpan::default())
        };
        let mut key_queue = KeyQueue::new(Key::new(consumer, "s", "1"), request(), Instant::now());
        (1..commands).for_each(|_| key_queue.push(request()));
        key_queue
    }

    fn come(lane: &mut RoundRobin, consumer: &str, key_queues: usize, commands: usize) {
        for waits in 1..=key_queues {
            lane.push_back(key_queue(consumer, commands));
            assert_eq!(lane.waiting(&Key::new(consumer, "other", "id")), waits * commands);
        }
    }

    /// The consumers in the order in which they are served, with the number of commands in a row.
    fn served(lane: &mut RoundRobin) -> Vec<(String, usize)> {
        let mut served: Vec<(String, usize)> = Vec::new();
        while let Some(key_queue) = lane.pop() {
            match served.last_mut() {
                Some((last, commands)) if last == key_queue.key.consumer() => *commands += key_queue.len(),
                _ => served.push((key_queue.key.consumer().to_owned(), key_queue.len())),
            }
        }
        served
    }

    #[test]
    fn consumers_take_turns_of_one_quantum() {
        type Backlogs<'a> = &'a [(&'a str, usize, usize)];
        // Each consumer with the number of its per-key queues and of the commands in each; and the order of service.
        let rows: &[(Backlogs, &[(&str, usize)])] = &[
            (&[], &[]),
            (&[("a", 1, 1)], &[("a", 1)]),
            (&[("bulk", 1_000, 1)], &[("bulk", 1_000)]),
            (&[("bulk", 3, 1_000)], &[("bulk", 3_000)]),
            // A consumer that follows a backlog waits for one turn of it.
            (&[("bulk", 100, 1), ("a", 1, 1)], &[("bulk", 16), ("a", 1), ("bulk", 84)]),
            (
                &[("bulk", 100, 1), ("a", 20, 1), ("b", 1, 1)],
                &[("bulk", 16), ("a", 16), ("b", 1), ("bulk", 16), ("a", 4), ("bulk", 68)],
            ),
            // A per-key queue is never split: it waits until the deficit of several turns covers it.
            (&[("bulk", 3, 40), ("a", 60, 1)], &[("a", 32), ("bulk", 40), ("a", 28), ("bulk", 80)]),
        ];
        for (waits, expected) in rows {
            let mut lane = RoundRobin::default();
            for &(consumer, key_queues, commands) in *waits {
                come(&mut lane, consumer, key_queues, commands);
            }
            let expected: Vec<_> =
                expected.iter().map(|(who, commands)| ((*who).to_owned(), *commands)).collect();
            assert_eq!(served(&mut lane), expected, "{waits:?}");
            assert!(lane.current.is_none() && lane.others.is_empty() && lane.order.is_empty());
            assert_eq!(lane.waiting(&Key::new("bulk", "s", "1")), 0);
        }
    }

    #[test]
    fn a_requeued_command_is_first_only_in_the_backlog_of_its_consumer() {
        let mut lane = RoundRobin::default();
        come(&mut lane, "bulk", QUANTUM, 1);
        come(&mut lane, "a", 1, 1);
        lane.push_front(key_queue("bulk", 3));
        assert_eq!(lane.pop().map(|key_queue| key_queue.len()), Some(3));
        assert_eq!(served(&mut lane), [("bulk".to_owned(), 13), ("a".into(), 1), ("bulk".into(), 3)]);
    }

    /// An empty backlog does not keep its deficit.
    #[test]
    fn an_empty_backlog_saves_no_deficit() {
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
