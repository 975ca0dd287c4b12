//! Groups rows into messages: bounded in rows and bytes, with each key at most once.

use std::collections::{HashSet, VecDeque};

use prost::Message as _;

use crate::proto::{EntryKey, ImportedEntry};

/// What the reader found, in the order of the file.
pub(super) enum Found {
    /// Rows to send, and how far the file was read for them.
    Chunk(Chunk),
    /// A row that cannot be sent: its line, and why.
    Bad(u64, String),
    /// The rest of the file cannot be read.
    Broken(String),
}

/// The maximum number of rows of a message.
pub(super) const ROWS_MAX: usize = 500;
/// The maximum number of bytes of its rows.
pub(super) const BYTES_MAX: usize = 1_000_000;
/// The number of rows that may wait because their key is in the message already. One more ends the message.
const WAITING_MAX: usize = 500;

/// The rows of a message, and their lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunk {
    pub(super) lines: Vec<u64>,
    pub(super) entries: Vec<ImportedEntry>,
    /// The first line that is in this or a later message.
    pub(super) begin: u64,
    /// The first line that is in a later message.
    pub(super) after: u64,
    /// The number of bytes of the file that were read when it was full.
    pub(super) position: u64,
}

type Line = (u64, ImportedEntry);

/// Gathers rows.
#[derive(Default)]
pub(super) struct Chunks {
    now: Chunk,
    bytes: usize,
    keys: HashSet<(String, String, String)>,
    waiting: VecDeque<Line>,
    position: u64,
    /// The last line that was added.
    line: u64,
}

impl Chunks {
    /// Adds a row; returns the message that is full with it.
    pub(super) fn push(&mut self, line: u64, position: u64, entry: ImportedEntry) -> Option<Chunk> {
        self.position = position;
        let full = self.now.entries.len() >= ROWS_MAX
            || self.bytes + size(&entry) > BYTES_MAX
            || self.waiting.len() >= WAITING_MAX;
        let chunk = full.then(|| self.cut());
        self.line = line;
        self.put((line, entry));
        chunk
    }

    /// Passes on all remaining messages, until `take` refuses one.
    pub(super) fn flush(&mut self, mut take: impl FnMut(Chunk) -> bool) {
        while !self.now.entries.is_empty() {
            let chunk = self.cut();
            if !take(chunk) {
                return;
            }
        }
    }

    fn put(&mut self, (line, entry): Line) {
        let key = entry.key.clone().unwrap_or_default();
        let EntryKey { consumer, source, id, replay_run: _ } = key;
        // A row that does not fit waits, too: the next message begins with the waiting rows.
        let fits = self.now.entries.len() < ROWS_MAX && self.bytes + size(&entry) <= BYTES_MAX;
        if fits && self.keys.insert((consumer, source, id)) {
            self.bytes += size(&entry);
            self.now.lines.push(line);
            self.now.entries.push(entry);
        } else {
            self.waiting.push_back((line, entry));
        }
    }

    /// Ends the message; the next one begins with the rows that waited.
    fn cut(&mut self) -> Chunk {
        let mut chunk = std::mem::take(&mut self.now);
        chunk.position = self.position;
        chunk.after = self.waiting.iter().map(|(line, _)| *line).min().unwrap_or(self.line + 1);
        chunk.begin = chunk.lines.iter().min().map_or(chunk.after, |line| chunk.after.min(*line));
        self.bytes = 0;
        self.keys.clear();
        for line in std::mem::take(&mut self.waiting) {
            self.put(line);
        }
        chunk
    }
}

fn size(entry: &ImportedEntry) -> usize {
    // The tag and the length of a repeated field.
    entry.encoded_len() + 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, bytes: usize) -> ImportedEntry {
        ImportedEntry {
            key: Some(EntryKey { id: id.into(), ..EntryKey::default() }),
            result: vec![0; bytes].into(),
            ..ImportedEntry::default()
        }
    }

    fn cut(rows: impl Iterator<Item = ImportedEntry>) -> Vec<Vec<u64>> {
        let (mut chunks, mut all) = (Chunks::default(), Vec::new());
        for (line, row) in (1..).zip(rows) {
            all.extend(chunks.push(line, line, row));
        }
        chunks.flush(|chunk| {
            all.push(chunk);
            true
        });
        for chunk in &all {
            let keys: HashSet<_> = chunk.entries.iter().map(|entry| format!("{:?}", entry.key)).collect();
            assert_eq!(keys.len(), chunk.entries.len(), "a key is there twice");
            assert!(chunk.entries.iter().map(size).sum::<usize>() <= BYTES_MAX);
        }
        for pair in all.windows(2) {
            let later = |from: usize| all[from..].iter().flat_map(|chunk| &chunk.lines).min().copied();
            let at = all.iter().position(|chunk| chunk.lines == pair[0].lines).unwrap();
            assert_eq!((Some(pair[0].begin), Some(pair[0].after)), (later(at), later(at + 1)));
        }
        all.into_iter().map(|chunk| chunk.lines).collect()
    }

    #[test]
    fn chunk_is_bounded_in_rows_and_bytes() {
        let lines = cut((0..1_201).map(|at| row(&at.to_string(), 1)));
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [500, 500, 201]);
        let lines = cut((0..5).map(|at| row(&at.to_string(), 400_000)));
        assert_eq!(lines, [vec![1, 2], vec![3, 4], vec![5]]);
    }

    #[test]
    fn repeated_key_waits_for_the_next_chunk() {
        let lines = cut(["a", "a", "b", "a"].map(|id| row(id, 1)).into_iter());
        assert_eq!(lines, [vec![1, 3], vec![2], vec![4]]);
        let lines = cut((0..1_300).map(|_| row("a", 1)));
        assert_eq!(lines.iter().map(Vec::len).sum::<usize>(), 1_300);
        let mixed = (0..3_000).map(|at| row(&(at % 700).to_string(), 1));
        assert_eq!(cut(mixed).iter().map(Vec::len).sum::<usize>(), 3_000);
    }
}
