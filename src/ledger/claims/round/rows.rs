//! The rows of one statement, each with the per-key queue that waits for it.

use crate::domain::{Answer, Folded, Reply, StoreTime};
use crate::ledger::claims::request::{KeyQueue, Request};

/// Bytes of payload that one statement writes at most, unless a single row has more. It must end within the statement timeout.
const STATEMENT_BYTES_MAX: usize = 4 << 20;

/// A per-key queue that waits for a statement, and what was decided on it.
pub(in crate::ledger::claims) struct PendingRow {
    pub(in crate::ledger::claims) key_queue: KeyQueue,
    /// The answer to its head once the statement is done; `None` if the statement itself has the answer.
    pub(in crate::ledger::claims) answer: Option<Answer>,
    /// The decisions on the commands behind the head, in order. The statement carries their changes too.
    pub(in crate::ledger::claims) later: Vec<Folded>,
    /// Until when the row may be written.
    pub(in crate::ledger::claims) until: StoreTime,
    /// The version of the entry that is replaced; `None` if a row is inserted, or if the statement itself finds the entry.
    pub(in crate::ledger::claims) replaced_version: Option<i64>,
}

impl PendingRow {
    /// No decision yet.
    pub(in crate::ledger::claims) fn undecided(key_queue: KeyQueue) -> PendingRow {
        PendingRow {
            key_queue,
            answer: None,
            later: Vec::new(),
            until: StoreTime::MAX,
            replaced_version: None,
        }
    }

    /// The commands that were decided; for each, whether the statement carries its change (always for the head), and whether the
    /// change renews a lease that was over.
    pub(in crate::ledger::claims) fn decided(&mut self) -> impl Iterator<Item = (&mut Request, bool, bool)> {
        let head = (true, self.answer.as_ref().is_some_and(revives));
        let later = self.later.iter().map(|folded| (folded.wrote, revives(&folded.answer)));
        let all = std::iter::once(head).chain(later);
        self.key_queue.requests_mut().zip(all).map(|(request, (wrote, revives))| (request, wrote, revives))
    }
}

fn revives(answer: &Answer) -> bool {
    matches!(answer, Ok(Reply::Renewed { revived: true, .. }))
}

/// See the module: as many rows as per-key queues, in the same order.
pub(in crate::ledger::claims) struct StatementRows<T> {
    pub(in crate::ledger::claims) pending: Vec<PendingRow>,
    pub(in crate::ledger::claims) rows: Vec<T>,
}

impl<T> Default for StatementRows<T> {
    fn default() -> StatementRows<T> {
        StatementRows { pending: Vec::new(), rows: Vec::new() }
    }
}

impl<T> StatementRows<T> {
    pub(in crate::ledger::claims) fn with_capacity(capacity: usize) -> StatementRows<T> {
        StatementRows { pending: Vec::with_capacity(capacity), rows: Vec::with_capacity(capacity) }
    }

    pub(in crate::ledger::claims) fn push(&mut self, pending: PendingRow, row: T) {
        self.pending.push(pending);
        self.rows.push(row);
    }

    pub(in crate::ledger::claims) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(in crate::ledger::claims) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(in crate::ledger::claims) fn split_off(&mut self, at: usize) -> StatementRows<T> {
        StatementRows { pending: self.pending.split_off(at), rows: self.rows.split_off(at) }
    }

    pub(in crate::ledger::claims) fn key_queues(self) -> impl Iterator<Item = KeyQueue> {
        self.pending.into_iter().map(|pending| pending.key_queue)
    }

    /// Splits into those that match and the others.
    pub(in crate::ledger::claims) fn partition(
        self,
        is: impl Fn(&KeyQueue) -> bool,
    ) -> (StatementRows<T>, StatementRows<T>) {
        let (mut ours, mut others) = (StatementRows::default(), StatementRows::default());
        for (pending, row) in self.pending.into_iter().zip(self.rows) {
            let part = if is(&pending.key_queue) { &mut ours } else { &mut others };
            part.push(pending, row);
        }
        (ours, others)
    }

    /// Splits by size, so that each statement ends within its timeout. The last part is first.
    pub(in crate::ledger::claims) fn split_by_size(
        mut self,
        bytes: impl Fn(&T) -> usize,
    ) -> Vec<StatementRows<T>> {
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

    fn part(rows: &[usize]) -> StatementRows<usize> {
        let mut part = StatementRows::default();
        for (number, bytes) in rows.iter().enumerate() {
            let command = Command::Settle(1, Settle::Release { delay: Span::ZERO, unpin: false });
            let head = Request::new(command, AnswerTo::no_caller(), CallSpan::default());
            let key = Key::new("c", "s", &number.to_string());
            part.push(PendingRow::undecided(KeyQueue::new(key, head, Instant::now())), *bytes);
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
            let made = part(&rows).split_by_size(|bytes| *bytes);
            for part in &made {
                assert_eq!(part.pending.len(), part.rows.len());
            }
            let made: Vec<Vec<usize>> = made.into_iter().map(|part| part.rows).collect();
            assert_eq!(made, parts, "{rows:?}");
        }
    }
}
