//! Counts the fields of an encoded message: nothing is decoded, and no memory is allocated.

use prost::encoding::{DecodeContext, WireType, decode_key, skip_field};

/// More than any message has: a batch of the most items that can be configured has 1,000.
pub(super) const FIELDS_MAX: usize = 4_096;
/// The list of items in each batch, `requests` and `settlements`.
const ITEMS: u32 = 1;

/// The number of fields and items of a message, without nested ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FieldCount {
    /// All fields; the count ends after [`FIELDS_MAX`].
    pub(super) all: usize,
    /// The items of a batch among them.
    pub(super) items: usize,
    /// Whether the count reached the end of the message. A malformed field ends it: the decoder then reports the error.
    pub(super) whole: bool,
}

impl FieldCount {
    pub(super) fn of(mut message: &[u8]) -> FieldCount {
        let mut fields = FieldCount::default();
        while fields.all <= FIELDS_MAX {
            if message.is_empty() {
                fields.whole = true;
                break;
            }
            let Some(is_item) = skip(&mut message) else { break };
            fields.all += 1;
            fields.items += usize::from(is_item);
        }
        fields
    }
}

/// Skips one field, as the decoder skips an unknown one. Returns whether it is an item; `None` if the decoder refuses it.
fn skip(message: &mut &[u8]) -> Option<bool> {
    let (tag, wire_type) = decode_key(message).ok()?;
    if tag == ITEMS && wire_type != WireType::LengthDelimited {
        return None;
    }
    skip_field(wire_type, tag, message, DecodeContext::default()).ok()?;
    Some(tag == ITEMS)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::proto;

    /// Numbers that look random, the same in each run.
    struct Numbers(u64);

    impl Numbers {
        fn below(&mut self, bound: usize) -> usize {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(self.0 >> 33).unwrap() % bound
        }

        fn bytes(&mut self, most: usize) -> Vec<u8> {
            (0..self.below(most + 1)).map(|_| u8::try_from(self.below(256)).unwrap()).collect()
        }

        fn batch(&mut self) -> proto::BatchClaimRequest {
            let request = |numbers: &mut Numbers| proto::ClaimRequest {
                key: (numbers.below(4) > 0).then(|| proto::EntryKey {
                    consumer: "c".repeat(numbers.below(3)),
                    id: "i".repeat(numbers.below(200)),
                    ..Default::default()
                }),
                fingerprint: numbers.bytes(40).into(),
                ..Default::default()
            };
            proto::BatchClaimRequest { requests: (0..self.below(30)).map(|_| request(self)).collect() }
        }

        /// A field that no current message has.
        fn unknown(&mut self) -> Vec<u8> {
            match self.below(4) {
                0 => vec![0x10, 0x96, 0x01],
                1 => [&[0x1a, 4][..], &[9; 4]].concat(),
                2 => [&[0x21][..], &[7; 8]].concat(),
                // A group with an item in it, which is not one of the batch.
                _ => vec![0x2b, 0x0a, 0, 0x2c],
            }
        }
    }

    #[test]
    fn fields_are_counted_without_decoding() {
        // 1: an item, 2: a number, 3: three bytes, 4: fixed 64, 5: fixed 32, 6: a group, and two empty items.
        let message = [
            10, 1, 7, 16, 150, 1, 26, 3, 9, 9, 9, 33, 1, 2, 3, 4, 5, 6, 7, 8, 45, 1, 2, 3, 4, 51, 8, 1, 52,
            10, 0, 10, 0,
        ];
        assert_eq!(FieldCount::of(&message), FieldCount { all: 8, items: 3, whole: true });
        assert_eq!(FieldCount::of(&[]), FieldCount { all: 0, items: 0, whole: true });
        for (what, broken, all, items) in [
            ("cut off", &[10, 0, 18, 200, 1][..], 1, 1),
            ("no message", &[0xff; 40], 0, 0),
            ("an item that is a number", &[10, 0, 8, 1], 1, 1),
            ("the end of a group that has not begun", &[10, 0, 20], 1, 1),
            ("a group without an end", &[10, 0, 19, 8, 1], 1, 1),
        ] {
            assert_eq!(FieldCount::of(broken), FieldCount { all, items, whole: false }, "{what}");
            assert!(proto::BatchClaimRequest::decode(broken).is_err(), "{what}");
        }
        assert_eq!(FieldCount::of(&[10, 0].repeat(FIELDS_MAX)).all, FIELDS_MAX);
        assert!(!FieldCount::of(&[10, 0].repeat(FIELDS_MAX + 2)).whole);
    }

    #[test]
    fn items_are_those_that_the_decoder_finds() {
        let mut numbers = Numbers(1);
        for _ in 0..2_000 {
            let batch = numbers.batch();
            let mut message = Vec::new();
            for request in &batch.requests {
                if numbers.below(3) == 0 {
                    message.extend(numbers.unknown());
                }
                proto::BatchClaimRequest { requests: vec![request.clone()] }.encode(&mut message).unwrap();
            }
            let fields = FieldCount::of(&message);
            assert_eq!((fields.items, fields.whole), (batch.requests.len(), true), "{message:?}");
            assert_eq!(proto::BatchClaimRequest::decode(&message[..]), Ok(batch));
        }
    }

    /// The count agrees with the decoder, and no input panics.
    #[test]
    fn mutated_messages_are_counted_as_the_decoder_reads_them() {
        let mut numbers = Numbers(2);
        let (mut read, mut refused) = (0, 0);
        for round in 0..20_000 {
            let mut message =
                if round % 4 == 0 { numbers.bytes(60) } else { numbers.batch().encode_to_vec() };
            for _ in 0..numbers.below(4) {
                if !message.is_empty() {
                    let at = numbers.below(message.len());
                    message[at] = u8::try_from(numbers.below(256)).unwrap();
                }
            }
            if numbers.below(4) == 0 {
                message.truncate(numbers.below(message.len() + 1));
            }
            let fields = FieldCount::of(&message);
            match proto::BatchClaimRequest::decode(&message[..]) {
                Ok(batch) => {
                    assert_eq!((fields.items, fields.whole), (batch.requests.len(), true), "{message:?}");
                    read += 1;
                }
                Err(_) => refused += 1,
            }
        }
        assert!(read > 1_000 && refused > 1_000, "{read} {refused}");
    }
}
