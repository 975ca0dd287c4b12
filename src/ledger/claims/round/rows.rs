//! The part of a batch that one statement carries: the rows, and for each the chain that waits for it.

use crate::domain::{Answer, Folded, Reply, StoreTime};
use crate::ledger::claims::request::{Chain, Request};

/// How many bytes of payload one statement writes, unless a single row has more.
const STATEMENT_BYTES_MAX: usize = 4 << 20;

/// A chain that waits for a statement, and what was decided on it.
pub(in crate::ledger::claims) struct Pending {
    pub(in crate::ledger::claims) chain: Chain,
    /// What its head is told when the statement is done; none: the statement itself says it.
    pub(in crate::ledger::claims) answer: Option<Answer>,
    /// What was decided on the commands behind the head, in their order. The statement carries their changes too.
    pub(in crate::ledger::claims) later: Vec<Folded>,
    /// Until when the row may be written.
    pub(in crate::ledger::claims) until: StoreTime,
    /// The version of the entry that it replaces; none: it is inserted, or the statement itself finds the entry.
    pub(in crate::ledger::claims) over: Option<i64>,
}

impl Pending {
    /// Nothing is decided yet.
    pub(in crate::ledger::claims) fn undecided(chain: Chain) -> Pending {
        Pending { chain, answer: None, later: Vec::new(), until: StoreTime::MAX, over: None }
    }

    /// The commands that were decided, whether the statement carries a change of theirs, and whether that renews a lease
    /// that was over. The head's it does.
    pub(in crate::ledger::claims) fn decided(&mut self) -> impl Iterator<Item = (&mut Request, bool, bool)> {
        let head = (true, self.answer.as_ref().is_some_and(revives));
        let later = self.later.iter().map(|folded| (folded.wrote, revives(&folded.answer)));
        let all = std::iter::once(head).chain(later);
        self.chain.requests_mut().zip(all).map(|(request, (wrote, revives))| (request, wrote, revives))
    }
}

fn revives(answer: &Answer) -> bool {
    matches!(answer, Ok(Reply::Renewed { revived: true, .. }))
}

/// See the module: as many rows as chains, in the same order.
pub(in crate::ledger::claims) struct Part<T> {
    pub(in crate::ledger::claims) pending: Vec<Pending>,
    pub(in crate::ledger::claims) rows: Vec<T>,
}

impl<T> Default for Part<T> {
    fn default() -> Part<T> {
        Part { pending: Vec::new(), rows: Vec::new() }
    }
}

impl<T> Part<T> {
    pub(in crate::ledger::claims) fn with_capacity(capacity: usize) -> Part<T> {
        Part { pending: Vec::with_capacity(capacity), rows: Vec::with_capacity(capacity) }
    }

    pub(in crate::ledger::claims) fn push(&mut self, pending: Pending, row: T) {
        self.pending.push(pending);
        self.rows.push(row);
    }

    pub(in crate::ledger::claims) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(in crate::ledger::claims) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(in crate::ledger::claims) fn split_off(&mut self, at: usize) -> Part<T> {
        Part { pending: self.pending.split_off(at), rows: self.rows.split_off(at) }
    }

    pub(in crate::ledger::claims) fn chains(self) -> impl Iterator<Item = Chain> {
        self.pending.into_iter().map(|pending| pending.chain)
    }

    /// Those of which something is true, and the others.
    pub(in crate::ledger::claims) fn partition(self, is: impl Fn(&Chain) -> bool) -> (Part<T>, Part<T>) {
        let (mut ours, mut others) = (Part::default(), Part::default());
        for (pending, row) in self.pending.into_iter().zip(self.rows) {
            let part = if is(&pending.chain) { &mut ours } else { &mut others };
            part.push(pending, row);
        }
        (ours, others)
    }

    /// Parts that are small enough for one statement, which must end in time. The last part comes first.
    pub(in crate::ledger::claims) fn in_parts(mut self, bytes: impl Fn(&T) -> usize) -> Vec<Part<T>> {
        let mut parts = Vec::new();
        let mut held = 0;
        for place in (0..self.len()).rev() {
            let more = self.rows.get(place).map_or(0, &bytes);
            if held + more > STATEMENT_BYTES_MAX && place + 1 < self.len() {
                parts.push(self.split_off(place + 1));
                held = 0;
            }
            held += more;
        }
        parts.push(self);
        parts
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::domain::{Command, Key, Settle, Span};
    use crate::ledger::claims::answers::AnswerTo;
    use crate::ledger::runtime::Instant;
    use crate::traces::CallSpan;

    fn part(rows: &[usize]) -> Part<usize> {
        let mut part = Part::default();
        for (number, bytes) in rows.iter().enumerate() {
            let command = Command::Settle(1, Settle::Release { delay: Span::ZERO, unpin: false });
            let head = Request::new(command, AnswerTo::nobody(), CallSpan::default());
            let key = Key::new("c", "s", &number.to_string());
            part.push(Pending::undecided(Chain::new(key, head, Instant::now())), *bytes);
        }
        part
    }

    #[test]
    fn a_statement_has_as_many_rows_as_its_bytes_allow() {
        const HALF: usize = STATEMENT_BYTES_MAX / 2;
        for (rows, parts) in [
            (vec![], vec![vec![]]),
            (vec![0; 3], vec![vec![0; 3]]),
            (vec![HALF, HALF, 1], vec![vec![HALF, 1], vec![HALF]]),
            (vec![3 * HALF, 1, HALF, HALF], vec![vec![HALF, HALF], vec![1], vec![3 * HALF]]),
        ] {
            let made = part(&rows).in_parts(|bytes| *bytes);
            for part in &made {
                assert_eq!(part.pending.len(), part.rows.len());
            }
            let made: Vec<Vec<usize>> = made.into_iter().map(|part| part.rows).collect();
            assert_eq!(made, parts, "{rows:?}");
        }
    }
}
