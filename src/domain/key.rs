//! The key of an entry: `(consumer, source, id)`, compared as bytes, and the replay run in whose namespace it
//! is.

use std::sync::Arc;

use sha1::Sha1;
use sha2::{Digest, Sha256};
use uuid::{Builder, Uuid};

use super::key_place;
use super::namespace::Namespace;

/// The 128-bit hash under which the store files a key.
pub type KeyHash = Uuid;

/// The format number of [`Key::hash`], which each store keeps: entries that were stored under another format
/// are not found. Format 1 had places for `UUIDv7` and ULID alone.
pub const KEY_FORMAT: i32 = 2;

/// The namespace of `idempotency_key`: the `UUIDv5` of `idempotency-ledger` in the DNS namespace.
/// Published in the protobuf comments; it must never change.
const IDEMPOTENCY_NAMESPACE: Uuid = Uuid::from_u128(0x1f15feca_771b_5c87_8f0c_36c3e92c2c95);

/// How many bytes of a digest a hash and an idempotency key have: those of a UUID.
const HEAD_BYTES: usize = 16;

/// Names one message for one consumer. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(Arc<Parts>);

#[derive(Debug, PartialEq, Eq, Hash)]
struct Parts {
    hash: KeyHash,
    namespace: Namespace,
    source: Box<str>,
    id: Box<str>,
}

impl Key {
    /// Makes a key of parts that the edge has validated.
    #[must_use]
    pub fn new(consumer: &str, source: &str, id: &str) -> Key {
        Key::of(Namespace::live(consumer.to_owned()), source.to_owned(), id.to_owned())
    }

    /// Makes a key in a namespace, of parts that need not be copied.
    #[must_use]
    pub fn of(namespace: Namespace, source: String, id: String) -> Key {
        let digest = with_name(Sha256::new(), [namespace.name(), &source, &id]).finalize();
        let mut hash = head(&digest);
        if let Some(place) = key_place::of(&id) {
            hash.copy_within(..HEAD_BYTES - key_place::BYTES, key_place::BYTES);
            hash[..key_place::BYTES].copy_from_slice(&place);
        }
        Key(Arc::new(Parts { hash: Uuid::from_bytes(hash), namespace, source: source.into(), id: id.into() }))
    }

    /// The logical consumer.
    #[must_use]
    pub fn consumer(&self) -> &str {
        self.0.namespace.consumer()
    }

    /// The replay run; empty if the key is live.
    #[must_use]
    pub fn replay_run(&self) -> &str {
        self.0.namespace.replay_run()
    }

    /// Whether the key is in the namespace of a replay run.
    #[must_use]
    pub fn is_of_run(&self) -> bool {
        !self.replay_run().is_empty()
    }

    /// The consumer and the run together: rows, lists and quotas are kept by namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.0.namespace
    }

    /// The producer.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// The message's id within its source.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.id
    }

    /// The bytes of its parts together.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.namespace.name().len() + self.0.source.len() + self.0.id.len()
    }

    /// The first 128 bits of the SHA-256 of the length-prefixed parts. Where the id is ordered, the 48 bits
    /// of its place (`key_place`) come first, and 80 bits of the SHA-256 after them: so the store files
    /// neighbours next to each other, instead of touching a separate index page for each. The parts
    /// distinguish two keys with the same hash; the store keeps them too.
    #[must_use]
    pub fn hash(&self) -> KeyHash {
        self.0.hash
    }

    /// The `UUIDv5` that a consumer hands to its payment or mail provider: the same on every
    /// attempt, and in every replay run.
    #[must_use]
    pub fn idempotency_key(&self) -> Uuid {
        let digest = Sha1::new().chain_update(IDEMPOTENCY_NAMESPACE);
        let digest = with_name(digest, [self.consumer(), self.source(), self.id()]).finalize();
        Builder::from_sha1_bytes(head(&digest)).into_uuid()
    }
}

/// Digests the parts, each preceded by its length in bytes as four bytes, big-endian: injective.
fn with_name<D: Digest>(mut digest: D, parts: [&str; 3]) -> D {
    for part in parts {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        digest.update(length.to_be_bytes());
        digest.update(part);
    }
    digest
}

/// The first bytes of a digest.
fn head(digest: &[u8]) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head.copy_from_slice(&digest[..HEAD_BYTES]);
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_differs_by_borders_case_and_normal_form() {
        let keys = [
            Key::new("ab", "c", "d"),
            Key::new("a", "bc", "d"),
            Key::new("a", "b", "cd"),
            Key::new("A", "b", "cd"),
            Key::new("a", "b", "cd "),
            Key::new("a", "b", "\u{e9}"),
            Key::new("a", "b", "e\u{301}"),
        ];
        for (i, one) in keys.iter().enumerate() {
            for (j, other) in keys.iter().enumerate() {
                assert_eq!(i == j, one.hash() == other.hash(), "{one:?} {other:?}");
                assert_eq!(i == j, one.idempotency_key() == other.idempotency_key());
            }
        }
    }

    #[test]
    fn key_counts_the_bytes_of_its_parts() {
        assert_eq!(Key::new("payments", "shop", "order-1").bytes(), 8 + 4 + 7);
        assert_eq!(Key::new("payments", "shop", "\u{e9}").bytes(), 8 + 4 + 2);
    }

    /// The hash of a key is a stored format.
    #[test]
    fn key_hash_never_changes() {
        for (id, hash) in [
            ("first order", "5ee41570403d8be12c84472b54f6b374"),
            ("order-1", "085020000001c99706d150e069fc41ea"),
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", "017f22e279b029e19d473d497ab4c636"),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "01563e3ab5d3961626a2fe8cd340c3ca"),
        ] {
            assert_eq!(Key::new("payments", "shop", id).hash().simple().to_string(), hash, "{id}");
        }
    }

    #[test]
    fn run_and_live_entry_have_two_keys_of_one_message() {
        let of = |consumer: &str, run: &str| {
            Key::of(Namespace::new(consumer, run), "shop".into(), "order-1".into())
        };
        let (live, run) = (of("payments", ""), of("payments", "2026-q1"));
        assert_eq!(live, Key::new("payments", "shop", "order-1"));
        assert_eq!((run.consumer(), run.replay_run()), ("payments", "2026-q1"));
        assert_ne!((live.clone(), live.hash()), (run.clone(), run.hash()));
        assert_eq!(live.idempotency_key(), run.idempotency_key());
        // No name that a user can choose names a key of the run.
        for other in [of("payments2026-q1", ""), of("payments", "2026-q"), of("payments2026-q", "1")] {
            assert_ne!((&other, other.hash()), (&run, run.hash()));
        }
        // It is a stored format.
        assert_eq!(run.hash().simple().to_string(), "085020000001fb73a8665f3852fb080b");
    }

    #[test]
    fn idempotency_key_never_changes() {
        let key = Key::new("payments", "shop", "order-1");
        let name = b"\0\0\0\x08payments\0\0\0\x04shop\0\0\0\x07order-1";
        assert_eq!(key.idempotency_key(), Uuid::new_v5(&IDEMPOTENCY_NAMESPACE, name));
        assert_eq!(key.idempotency_key().to_string(), "4f1f7cc0-8bad-558e-8643-b7f0ebacf63a");
        assert_eq!(key.idempotency_key().get_version_num(), 5);
        assert_eq!(IDEMPOTENCY_NAMESPACE, Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"idempotency-ledger"));
    }
}
