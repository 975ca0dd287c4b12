//! The forms of the ids of new messages: one for each order that ids have, so that a run shows what each form
//! costs the store.

use std::sync::atomic::{AtomicU64, Ordering};

use clap::ValueEnum;
use uuid::Uuid;

use crate::common::random;

/// How the ids of new messages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Ids {
    /// UUIDs of version 4: new messages lie anywhere in the store's indexes
    Random,
    /// UUIDs of version 7, which begin with the time: new messages are neighbours
    V7,
    /// ULIDs, which begin with the time
    Ulid,
    /// `ObjectId`s of `MongoDB`: a second, a number of the process, a counter
    ObjectId,
    /// Snowflakes: decimals that begin with the time
    Snowflake,
    /// Decimals of one sequence, which starts at the microseconds of the Unix epoch
    Decimal,
    /// Topic, partition and offset, as `bench/3/1042`: twelve partitions
    Offset,
}

/// The twelve partitions of a topic that is spread over a small cluster.
const PARTITIONS: u64 = 12;
/// The millisecond of the Unix epoch from which Snowflakes count: that of the service they are named after.
const SNOWFLAKE_EPOCH: u64 = 1_288_834_974_657;
/// A Snowflake has 10 bits of a worker and 12 bits of a sequence below its time.
const SNOWFLAKE_SHIFT: u32 = 22;
const SNOWFLAKE_SEQUENCE: u64 = (1 << 12) - 1;
/// An `ObjectId` ends with three bytes of a counter.
const OBJECT_ID_COUNTER: u64 = (1 << 24) - 1;
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const ULID_DIGITS: u32 = 26;

/// Makes ids of one form.
#[derive(Debug)]
pub(super) struct Maker {
    ids: Ids,
    /// The next number of the sequence.
    next: AtomicU64,
    /// Five bytes that identify this process in an `ObjectId`.
    process: u64,
}

impl Maker {
    pub(super) fn new(ids: Ids) -> Maker {
        // A run makes fewer than a million ids a second: the sequence of the next run begins beyond this one's end.
        let next = millis() * 1_000;
        let (process, _) = random::id().as_u64_pair();
        Maker { ids, next: AtomicU64::new(next), process: process >> 24 }
    }

    /// An id that no run has made before, in 16 bytes; its low half is random.
    pub(super) fn make(&self) -> Uuid {
        let number = || self.next.fetch_add(1, Ordering::Relaxed);
        let (_, low) = random::id().as_u64_pair();
        match self.ids {
            Ids::Random => random::id(),
            Ids::V7 | Ids::Ulid => random::id_with_time(),
            Ids::ObjectId => {
                Uuid::from_u64_pair((millis() / 1_000) << 32 | (number() & OBJECT_ID_COUNTER), low)
            }
            Ids::Snowflake => {
                let time = millis().saturating_sub(SNOWFLAKE_EPOCH) << SNOWFLAKE_SHIFT;
                Uuid::from_u64_pair(time | (number() & SNOWFLAKE_SEQUENCE), low)
            }
            Ids::Decimal | Ids::Offset => Uuid::from_u64_pair(number(), low),
        }
    }

    /// The text of an id that `make` has made.
    pub(super) fn text(&self, id: Uuid) -> String {
        let (high, _) = id.as_u64_pair();
        match self.ids {
            Ids::Random | Ids::V7 => uuid_text(id),
            Ids::Ulid => {
                let digit = |place: u32| CROCKFORD[(id.as_u128() >> (5 * place)) as usize & 31];
                (0..ULID_DIGITS).rev().map(|place| char::from(digit(place))).collect()
            }
            Ids::ObjectId => {
                format!("{:08x}{:010x}{:06x}", high >> 32, self.process, high & OBJECT_ID_COUNTER)
            }
            Ids::Snowflake | Ids::Decimal => high.to_string(),
            Ids::Offset => format!("bench/{}/{}", high % PARTITIONS, high / PARTITIONS),
        }
    }
}

/// A UUID in canonical form.
pub(super) fn uuid_text(id: Uuid) -> String {
    id.hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_owned()
}

/// Milliseconds since the Unix epoch by this machine's clock, with which an id of version 7 begins.
fn millis() -> u64 {
    let (high, _) = random::id_with_time().as_u64_pair();
    high >> 16
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// One id of each form, as its text.
    #[test]
    fn text_of_each_form() {
        let id = Uuid::from_u128(0x017f_22e2_79b0_7cc3_98c4_dc0c_0c07_398f);
        let number = Uuid::from_u64_pair(0x507f_1f77_0000_0011, 0);
        for (ids, id, text) in [
            (Ids::V7, id, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"),
            (Ids::Ulid, id, "01FWHE4YDGFK1SHH6W1G60EECF"),
            (Ids::ObjectId, number, "507f1f770000000abc000011"),
            (Ids::Snowflake, Uuid::from_u64_pair(1_541_815_603_606_036_480, 7), "1541815603606036480"),
            (Ids::Decimal, Uuid::from_u64_pair(1042, 7), "1042"),
            (Ids::Offset, Uuid::from_u64_pair(12 * 1042 + 3, 7), "bench/3/1042"),
        ] {
            let maker = Maker { ids, next: AtomicU64::new(0), process: 0xabc };
            assert_eq!(maker.text(id), text, "{ids:?}");
        }
    }

    #[test]
    fn ids_of_every_form_differ() {
        for ids in Ids::value_variants() {
            let maker = Maker::new(*ids);
            let texts: BTreeSet<String> = (0..2_000).map(|_| maker.text(maker.make())).collect();
            assert_eq!(texts.len(), 2_000, "{ids:?}");
        }
    }
}
