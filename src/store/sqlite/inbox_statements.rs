//! Statements about messages and handouts, each about one row.

use crate::store::columns::{columns, select_list};
use crate::store::numbers::number;

pub(super) const INBOX_STORE: &str = concat!(
    "-- ledger.inbox_store
INSERT INTO entries (
    key, created_at, token, lease_until, consumer, source, terms, attempts, version, state, closed_by, attention,
    next_at, body, id, id_uuid, fingerprint, traceparent)
VALUES (?1, ?2, ?3, ?2, ?4, ?5, ?6, 0, ?7, ",
    number!(RECEIVED),
    ", ",
    number!(BY_STORE),
    ", ",
    number!(RECEIVED),
    ", ?2, ",
    number!(KEPT),
    ", ?8, ?9, ?10, ?11)
ON CONFLICT (key) DO NOTHING"
);

/// Keeps the message of an entry that was written. The message of an earlier life of the key may still be there.
pub(super) const INBOX_KEEP: &str = "\
-- ledger.inbox_keep
INSERT INTO messages (key, generation, stored_at, bytes, message) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (key) DO UPDATE SET generation = excluded.generation, stored_at = excluded.stored_at,
    bytes = excluded.bytes, message = excluded.message";

/// The handout of a claim.
pub(super) const INBOX_LOOK: &str = "\
-- ledger.inbox_look
SELECT consumer, principal, owner, keys FROM handouts WHERE claim_id = ?1";

/// The columns of a candidate: those of its entry, when it was due, and the size of its message.
macro_rules! candidate {
    () => {
        concat!(
            columns!(),
            ", e.next_at AS due_at, (SELECT m.bytes FROM messages m WHERE m.key = e.key) AS message_bytes"
        )
    };
}

/// The due entries of a consumer behind the cursor.
pub(super) const INBOX_TAKE: &str = concat!(
    "-- ledger.inbox_take
SELECT ",
    candidate!(),
    "
FROM entries e INDEXED BY entries_due
WHERE e.consumer = (SELECT no FROM consumers WHERE name = ?1)
  AND e.next_at <= ?2 AND (e.next_at, e.key) > (?3, ?4)
ORDER BY e.next_at, e.key LIMIT ?5"
);

/// One entry of an earlier handout.
pub(super) const INBOX_TAKEN: &str =
    concat!("-- ledger.inbox_taken\nSELECT ", candidate!(), "\nFROM entries e WHERE e.key = ?1");

/// Records a handout. Inserts nothing if this claim has one.
pub(super) const INBOX_HANDED_OUT: &str = "\
-- ledger.inbox_handed_out
INSERT INTO handouts (claim_id, consumer, principal, owner, at, keys) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (claim_id) DO NOTHING";

pub(super) const INBOX_MESSAGE: &str = "\
-- ledger.inbox_message
SELECT stored_at, message FROM messages WHERE key = ?1";

/// When the next entry of a consumer is due.
pub(super) const INBOX_NEXT: &str = "\
-- ledger.inbox_next
SELECT next_at FROM entries INDEXED BY entries_due
WHERE consumer = (SELECT no FROM consumers WHERE name = ?1) AND next_at > ?2
ORDER BY next_at, key LIMIT 1";

pub(super) const INBOX_STORED_AT: &str = "\
-- ledger.inbox_stored_at
SELECT stored_at FROM messages WHERE key = ?1";

/// The entries of a consumer that wait for the longest time. Some of them may be unreadable.
pub(super) const INBOX_OLDEST: &str = concat!(
    "-- ledger.inbox_oldest
SELECT ",
    columns!(),
    ", e.next_at AS due_at
FROM entries e INDEXED BY entries_due
WHERE e.consumer = (SELECT no FROM consumers WHERE name = ?1) AND e.next_at <= ?2
ORDER BY e.next_at, e.key LIMIT 10"
);

/// Reads an index alone, as far as the limit.
pub(super) const INBOX_COUNT: &str = "\
-- ledger.inbox_count
SELECT (SELECT count(*) FROM (
        SELECT 1 FROM entries INDEXED BY entries_due
        WHERE consumer = (SELECT no FROM consumers WHERE name = ?1) AND next_at <= ?2 LIMIT ?3)) AS due,
    (SELECT count(*) FROM (
        SELECT 1 FROM entries INDEXED BY entries_due
        WHERE consumer = (SELECT no FROM consumers WHERE name = ?1) AND next_at > ?2 LIMIT ?3)) AS later";

/// Reads an index alone.
pub(super) const INBOX_BYTES: &str = "\
-- ledger.inbox_bytes
SELECT coalesce(sum(bytes), 0) AS bytes FROM messages INDEXED BY messages_stored";

pub(super) const INBOX_ERASABLE: &str = "\
-- ledger.inbox_erasable
SELECT key, version, erase_at FROM entries INDEXED BY entries_erasable
WHERE erase_at <= ?1 ORDER BY erase_at, key LIMIT ?2";

pub(super) const INBOX_ERASE: &str = concat!(
    "-- ledger.inbox_erase
UPDATE entries SET body = ",
    number!(ERASED),
    ", erase_at = NULL, version = version + 1 WHERE key = ?1 AND version = ?2"
);

/// An entry's version is higher than those of all messages before it.
pub(super) const INBOX_ERASE_MESSAGE: &str = "\
-- ledger.inbox_erase_message
DELETE FROM messages WHERE key = ?1 AND generation <= ?2";

pub(super) const INBOX_FORGET: &str = "\
-- ledger.inbox_forget
DELETE FROM handouts WHERE claim_id IN (SELECT claim_id FROM handouts WHERE at < ?1 ORDER BY at LIMIT ?2)";

pub(super) const INBOX_PAGE: &str = "\
-- ledger.inbox_page
SELECT stored_at, key FROM messages INDEXED BY messages_stored
WHERE (stored_at, key) > (?1, ?2) ORDER BY stored_at, key LIMIT ?3";

pub(super) const INBOX_SWEEP: &str = concat!(
    "-- ledger.inbox_sweep
DELETE FROM messages
WHERE key = ?1 AND NOT EXISTS (SELECT 1 FROM entries e WHERE e.key = ?1 AND e.body = ",
    number!(KEPT),
    ")"
);
