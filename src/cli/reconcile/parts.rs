//! Groups rows into requests: bounded in rows and bytes, with each key at most once.

use std::collections::{HashSet, VecDeque};

use prost::Message as _;

use crate::proto::ReconcileRow;

/// The maximum number of rows of a request.
const ROWS_MAX: usize = 500;
/// The number of bytes of its rows from which on a request is full.
const BYTES_MAX: usize = 1_000_000;
/// The number of rows that may wait because their key is in the request already. One more ends the request.
const WAITING_MAX: usize = 500;

/// A row, and its line in the file.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) line: u64,
    pub(super) row: ReconcileRow,
}

/// The next item of a file.
#[derive(Debug)]
pub(super) enum Next {
    Row(Box<Placed>),
    /// A line that is not a valid row, and why.
    Bad(u64, String),
    /// The last line, which was cut off, as by a crash: nothing follows from it.
    Torn(u64),
    /// The rest of the file cannot be read.
    Broken(String),
}

/// The rows of a file in requests, and what is wrong with the file.
pub(super) struct Parts<I> {
    rows: I,
    waiting: VecDeque<Placed>,
    /// The bad lines since the last request.
    pub(super) bad: Vec<(u64, String)>,
    /// The last line if it was cut off.
    pub(super) torn: Option<u64>,
    /// Why the file could not be read to its end.
    pub(super) broken: Option<String>,
}

impl<I: Iterator<Item = Next>> Parts<I> {
    pub(super) fn new(rows: I) -> Parts<I> {
        Parts { rows, waiting: VecDeque::new(), bad: Vec::new(), torn: None, broken: None }
    }
}

impl<I: Iterator<Item = Next>> Iterator for Parts<I> {
    type Item = Vec<Placed>;

    fn next(&mut self) -> Option<Vec<Placed>> {
        let (mut part, mut keys, mut bytes) = (Vec::new(), HashSet::new(), 0);
        let mut earlier = std::mem::take(&mut self.waiting);
        while part.len() < ROWS_MAX && bytes < BYTES_MAX && self.waiting.len() < WAITING_MAX {
            let placed = match earlier.pop_front() {
                Some(placed) => placed,
                None => match self.rows.next() {
                    Some(Next::Row(placed)) => *placed,
                    Some(Next::Bad(line, why)) => {
                        self.bad.push((line, why));
                        continue;
                    }
                    Some(Next::Torn(line)) => {
                        self.torn = Some(line);
                        continue;
                    }
                    Some(Next::Broken(why)) => {
                        self.broken = Some(why);
                        break;
                    }
                    None => break,
                },
            };
            // A key has its rows in the order of the file.
            if keys.insert(placed.row.key.clone()) {
                bytes += placed.row.encoded_len();
                part.push(placed);
            } else {
                self.waiting.push_back(placed);
            }
        }
        self.waiting.append(&mut earlier);
        (!part.is_empty()).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::EntryKey;

    fn parts(ids: impl Iterator<Item = String>, bytes: usize) -> Vec<Vec<u64>> {
        let row = |(line, id): (u64, String)| {
            let key = Some(EntryKey { id, ..EntryKey::default() });
            let row = ReconcileRow { key, result: vec![0; bytes].into(), ..ReconcileRow::default() };
            Next::Row(Box::new(Placed { line, row }))
        };
        let parts = Parts::new((1..).zip(ids).map(row));
        parts.map(|part| part.iter().map(|placed| placed.line).collect()).collect()
    }

    #[test]
    fn part_is_bounded_in_rows_and_bytes() {
        let numbers = || (0..1_201).map(|id| id.to_string());
        assert_eq!(parts(numbers(), 0).iter().map(Vec::len).collect::<Vec<_>>(), [500, 500, 201]);
        assert_eq!(parts(numbers().take(30), 100_000).iter().map(Vec::len).max(), Some(10));
    }

    #[test]
    fn rows_of_one_key_keep_their_order() {
        let same = ["a", "a", "b", "a", "c"].map(str::to_owned);
        assert_eq!(parts(same.into_iter(), 0), [vec![1, 3, 5], vec![2], vec![4]]);
        let many = parts((0..3_000).map(|at| (at % 700).to_string()), 0);
        let mut last = vec![0; 700];
        for line in many.iter().flatten() {
            let key = usize::try_from((line - 1) % 700).unwrap();
            assert!(*line > last[key], "{line} after {}", last[key]);
            last[key] = *line;
        }
        assert_eq!(many.iter().map(Vec::len).sum::<usize>(), 3_000);
    }
}
