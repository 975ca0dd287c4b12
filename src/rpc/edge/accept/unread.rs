//! Answers that are made and that their client has not read yet. A client that asks for much and reads nothing would have
//! them all kept: its connection ends before they take more than they may.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

/// Smaller pieces are not counted: those of all calls of a connection together are as much as one large answer.
const COUNTED_FROM: usize = 16_384;

/// The bytes of answers that wait, of one connection or of all.
#[derive(Clone)]
pub(super) struct Waiting {
    bytes: Arc<AtomicUsize>,
    max: usize,
}

impl Waiting {
    pub(super) fn new(max: usize) -> Waiting {
        Waiting { bytes: Arc::default(), max }
    }

    /// Whether there are not too many with these.
    fn add(&self, bytes: usize) -> bool {
        self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= self.max
    }

    fn sent(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Those of one connection; cheap to clone.
#[derive(Clone)]
pub(super) struct Unread(Arc<OfConnection>);

struct OfConnection {
    own: Waiting,
    all: Waiting,
    /// Ends the connection.
    cut: CancellationToken,
}

impl Unread {
    /// At most so many of this connection, and what all may have.
    pub(super) fn new(own_max: usize, all: Waiting, cut: CancellationToken) -> Unread {
        Unread(Arc::new(OfConnection { own: Waiting::new(own_max), all, cut }))
    }

    /// Counts a piece of an answer, for as long as it is kept anywhere. Whether it may be is seen by the connection.
    pub(super) fn counted(&self, data: Bytes) -> Bytes {
        let bytes = data.len();
        if bytes < COUNTED_FROM {
            return data;
        }
        // Both count it, whatever the first one says.
        let (own, all) = (self.0.own.add(bytes), self.0.all.add(bytes));
        if !(own && all) {
            self.0.cut.cancel();
        }
        Bytes::from_owner(Kept { data, unread: self.clone() })
    }
}

/// A piece of an answer that is not sent yet.
struct Kept {
    data: Bytes,
    unread: Unread,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let OfConnection { own, all, .. } = &*self.unread.0;
        own.sent(self.data.len());
        all.sent(self.data.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_counts_until_it_is_sent_and_too_much_ends_its_connection() {
        let all = Waiting::new(100_000);
        let connection = || Unread::new(60_000, all.clone(), CancellationToken::new());
        let (one, other, third) = (connection(), connection(), connection());
        let piece = |unread: &Unread, bytes| unread.counted(vec![7; bytes].into());
        let small: Vec<Bytes> = (0..100).map(|_| piece(&one, 16_000)).collect();
        assert_eq!(small.len(), 100);
        let first = piece(&one, 50_000);
        let part = first.slice(..10);
        drop(first);
        assert!(!one.0.cut.is_cancelled());
        let more = piece(&one, 20_000);
        assert!(one.0.cut.is_cancelled(), "a part keeps the whole");
        drop((part, more));
        assert_eq!(all.bytes.load(Ordering::Relaxed), 0);
        let (kept, last) = (piece(&other, 60_000), piece(&third, 50_000));
        assert!(!other.0.cut.is_cancelled() && third.0.cut.is_cancelled(), "all together have too much");
        assert_eq!((kept.len(), last.len()), (60_000, 50_000));
    }
}
