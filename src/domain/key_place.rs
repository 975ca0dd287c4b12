//! Places of ordered ids: the 48 bits with which the hash of a key begins where the id itself is ordered, so that the
//! store files neighbours next to each other. Random keys write a whole page of the index for nearly each claim after a
//! checkpoint: 4,994 bytes of WAL a claim where ordered ones write 356 (1,000,000 rows).
//!
//! A place depends on the id alone, and nothing but the order of keys depends on it: it is not a time, whatever the id says. An id
//! that is mistaken for another form gets a less useful place, and the same identity. It is a stored format:
//! [`KEY_FORMAT`](super::KEY_FORMAT) is its number.
//!
//! | form | text | place |
//! | --- | --- | --- |
//! | UUID version 7 (RFC 9562) | 36 characters, lowercase, with hyphens | its 48 bits of time |
//! | UUID version 6 | the same | the first 48 of its 60 bits of time |
//! | UUID version 1 | the same | the same, in the order of version 6 |
//! | ULID | 26 characters of Crockford's alphabet, uppercase, at most 128 bits | its 48 bits of time |
//! | KSUID | 27 characters of 0-9, A-Z, a-z, at most 160 bits | the first 48 bits: 32 of time, 16 random |
//! | `ObjectId` of MongoDB | 24 hexadecimal digits, lowercase | the first 48 bits: 32 of time, 16 random |
//! | decimal: sequence, Snowflake | 1 to 20 digits, no sign, no leading zero | 7 bits: how many bits it has; 41: its first ones |
//! | decimal behind a prefix: `topic/partition/offset`, `topic-partition@offset`, `order-1042` | a text that ends neither with a letter nor with a digit, and a decimal | 12 bits of the prefix's FNV-1a; 7: how many bits the decimal has; 29: its first ones |

/// How many bytes a place has.
pub(super) const BYTES: usize = 6;

type Place = [u8; BYTES];

/// Crockford's alphabet, in the order of its values.
const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// More digits are not a decimal: 64 bits have 20.
const DECIMAL_DIGITS_MAX: usize = 20;
/// 2^67 is larger than the largest decimal: 7 bits hold the number of its bits.
const LENGTH_BITS: u32 = 7;
const PREFIX_BITS: u32 = 12;

/// The place of an id; `None` if the id has no form of the table above.
pub(super) fn of(id: &str) -> Option<Place> {
    let bytes = id.as_bytes();
    let other = match bytes.len() {
        36 => of_uuid(bytes),
        26 => of_ulid(bytes),
        27 => of_ksuid(bytes),
        24 => of_object_id(bytes),
        _ => None,
    };
    other.or_else(|| of_decimal(bytes))
}

/// Lowercase, with its hyphens: any other spelling is another id.
fn of_uuid(id: &[u8]) -> Option<Place> {
    let fits = |(place, byte): (usize, &u8)| match place {
        8 | 13 | 18 | 23 => *byte == b'-',
        19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
        _ => hexadecimal(*byte).is_some(),
    };
    if !id.iter().enumerate().all(fits) {
        return None;
    }
    let number =
        |digits: &[u8]| digits.iter().copied().filter_map(hexadecimal).fold(0, |sum, digit| sum << 4 | digit);
    let first = number(&id[..13]);
    match id[14] {
        b'6' | b'7' => Some(last_six(first)),
        // The low 32 bits of the time come first, then the middle 16, then the version and the high 12.
        b'1' => Some(last_six(number(&id[15..18]) << 36 | (first & 0xffff) << 20 | first >> 28)),
        _ => None,
    }
}

fn of_ulid(id: &[u8]) -> Option<Place> {
    let value = |digit: &u8| CROCKFORD.binary_search(digit).ok().map(|value| value as u64);
    let mut time = 0;
    for (place, digit) in id.iter().enumerate() {
        let value = value(digit)?;
        if place < 10 {
            time = time << 5 | value;
        }
    }
    (id[0] <= b'7').then(|| last_six(time))
}

fn of_ksuid(id: &[u8]) -> Option<Place> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'A'..=b'Z' => Some(digit - b'A' + 10),
        b'a'..=b'z' => Some(digit - b'a' + 36),
        _ => None,
    };
    // 160 bits, 32 in each word, most significant first.
    let mut number = [0_u64; 5];
    for digit in id {
        let mut carried = u64::from(value(*digit)?);
        for word in number.iter_mut().rev() {
            carried += *word * 62;
            *word = carried & 0xffff_ffff;
            carried >>= 32;
        }
        if carried > 0 {
            return None;
        }
    }
    Some(last_six(number[0] << 16 | number[1] >> 16))
}

fn of_object_id(id: &[u8]) -> Option<Place> {
    let mut first = 0;
    for (place, digit) in id.iter().enumerate() {
        let value = hexadecimal(*digit)?;
        if place < 2 * BYTES {
            first = first << 4 | value;
        }
    }
    Some(last_six(first))
}

/// A decimal, alone or after a prefix.
fn of_decimal(id: &[u8]) -> Option<Place> {
    let digits = id.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let (prefix, digits) = id.split_at(id.len() - digits);
    let is_decimal = match digits {
        [] | [b'0', _, ..] => false,
        digits => digits.len() <= DECIMAL_DIGITS_MAX,
    };
    if !is_decimal {
        return None;
    }
    let decimal = digits.iter().fold(0, |sum: u128, digit| sum * 10 + u128::from(digit - b'0'));
    let Some(last) = prefix.last() else { return Some(last_six(ordered(decimal, 48))) };
    // A letter before the digits: they may be the end of a hexadecimal number, which has no order.
    if !last.is_ascii() || last.is_ascii_alphanumeric() {
        return None;
    }
    let bits = 48 - PREFIX_BITS;
    let of_prefix = u64::from(fnv1a(prefix) >> (32 - PREFIX_BITS));
    Some(last_six(of_prefix << bits | ordered(decimal, bits)))
}

/// A decimal in this number of bits, in the order of decimals: the number of its bits first, then as many of
/// its leading bits as fit.
fn ordered(decimal: u128, bits: u32) -> u64 {
    let room = bits - LENGTH_BITS;
    let length = u128::BITS - decimal.leading_zeros();
    // No more leading bits than fit.
    let first = u64::try_from(decimal >> length.saturating_sub(room)).unwrap_or(u64::MAX);
    u64::from(length) << room | first
}

/// The hash of Fowler, Noll and Vo, in its variant 1a with 32 bits.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

fn hexadecimal(digit: u8) -> Option<u64> {
    match digit {
        b'0'..=b'9' => Some(u64::from(digit - b'0')),
        b'a'..=b'f' => Some(u64::from(digit - b'a' + 10)),
        _ => None,
    }
}

fn last_six(number: u64) -> Place {
    let [_, _, bytes @ ..] = number.to_be_bytes();
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(id: &str) -> Option<u64> {
        of(id).map(|[a, b, c, d, e, f]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// The place of an id is a stored format.
    #[test]
    fn place_of_an_id_never_changes() {
        let made = Some(0x017f_22e2_79b0);
        for (id, place) in [
            // UUID: RFC 9562 has an example of each version.
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", made),
            ("017f22e2-79b0-7000-8000-000000000000", made),
            ("1ec9414c-232a-6b00-b3c8-9f6bdeced846", Some(0x1ec9_414c_232a)),
            ("c232ab00-9414-11ec-b3c8-9f6bdeced846", Some(0x1ec9_414c_232a)),
            ("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", None),
            ("017f22e279b07cc398c4dc0c0c07398f", None),
            ("017f22e2-79b0-4cc3-98c4-dc0c0c07398f", None),
            ("017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", None),
            ("017f22e2-79b0-7cc3-98c4_dc0c0c07398f", None),
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398g", None),
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398é", None),
            // ULID.
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", Some(0x0156_3e3a_b5d3)),
            ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", Some(0xffff_ffff_ffff)),
            ("80000000000000000000000000", None),
            ("01arz3ndektsv4rrffq69g5fav", None),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAU", None),
            ("01ARZ3NDEKTSV4RRFFQ69G5FA", None),
            // KSUID.
            ("0ujtsYcgvSTl8PAuAdqWYSMnLOv", Some(0x0669_f7ef_b5a1)),
            ("000000000000000000000000000", Some(0)),
            ("aWgEPTl1tmebfsQzFP4bxwgy80V", Some(0xffff_ffff_ffff)),
            ("aWgEPTl1tmebfsQzFP4bxwgy80W", None),
            ("0ujtsYcgvSTl8PAuAdqWYSMnLO_", None),
            // ObjectId.
            ("507f1f77bcf86cd799439011", Some(0x507f_1f77_bcf8)),
            ("507F1F77BCF86CD799439011", None),
            // Decimals.
            ("0", Some(0)),
            ("1", Some(1 << 41 | 1)),
            ("2", Some(2 << 41 | 2)),
            ("1042", Some(11 << 41 | 0x412)),
            ("2199023255551", Some(41 << 41 | 0x1ff_ffff_ffff)),
            ("2199023255552", Some(42 << 41 | 0x100_0000_0000)),
            ("1541815603606036480", Some(61 << 41 | 0x156_5a11_f621)),
            ("18446744073709551615", Some(64 << 41 | 0x1ff_ffff_ffff)),
            ("99999999999999999999", Some(67 << 41 | 0x15a_f1d7_8b58)),
            ("100000000000000000000", None),
            ("01", None),
            ("00", None),
            ("+1", Some(number("+0").unwrap() | 1 << 29 | 1)),
            ("1.", None),
            ("١", None),
            // Decimals behind a prefix.
            ("orders/3/0", Some(0x6ad << 36)),
            ("orders/3/42", Some(0x6ad << 36 | 6 << 29 | 0x2a)),
            ("orders/4/42", Some(0xeae << 36 | 6 << 29 | 0x2a)),
            ("orders-3@42", Some(0x42a << 36 | 6 << 29 | 0x2a)),
            ("order-1042", Some(0x085 << 36 | 11 << 29 | 0x412)),
            ("order-9223372036854775807", Some(0x085 << 36 | 63 << 29 | 0x1fff_ffff)),
            ("order-01042", None),
            ("order1042", None),
            ("ordré1042", None),
            ("order-184467440737095516150", None),
            ("order-", None),
            ("", None),
        ] {
            let shown = number(id).map(|place| format!("{place:#014x}"));
            assert_eq!(number(id), place, "{id}: {shown:?}");
        }
    }

    #[test]
    fn larger_decimal_has_no_smaller_place() {
        let mut before = [[0; BYTES]; 3];
        // Each length of a decimal, around each power of two and of ten.
        let powers = (0..67).map(|power| 1_u128 << power).chain((0..20).map(|power| 10_u128.pow(power)));
        let mut all: Vec<u128> =
            powers.flat_map(|power| [power - 1, power, power + 1, power + power / 3]).collect();
        all.retain(|decimal| *decimal < 10_u128.pow(20));
        all.sort_unstable();
        for decimal in all {
            let forms = [decimal.to_string(), format!("orders/3/{decimal}"), format!("orders:17:{decimal}")];
            for (form, before) in forms.iter().zip(&mut before) {
                let place = of(form).unwrap();
                assert!(place >= *before, "{form}");
                *before = place;
            }
        }
    }

    /// 10,000 consecutive ids spread over few places of the index: those of one prefix are neighbours.
    #[test]
    fn places_of_consecutive_ids_are_neighbours() {
        for (what, from, prefix) in [
            ("sequence", 20_000_000_u128, ""),
            ("Snowflake", 1_541_815_603_606_036_480, ""),
            ("offsets", 20_000_000_000, "orders/3/"),
        ] {
            let [first, last] =
                [from, from + 10_000].map(|decimal| number(&format!("{prefix}{decimal}")).unwrap());
            assert!(last - first <= 10_000, "{what}: {}", last - first);
        }
    }

    /// Every text that a client may send is accepted.
    #[test]
    fn place_accepts_any_text() {
        let pieces = [
            "0",
            "9",
            "a",
            "F",
            "Z",
            "-",
            "/",
            "@",
            " ",
            "é",
            "\u{1}",
            "507f1f77bcf86cd799439011",
            "18446744073709551615",
        ];
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..50_000 {
            let mut id = String::new();
            for _ in 0..random % 40 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                id.push_str(pieces[usize::try_from(random).unwrap() % pieces.len()]);
            }
            random = random.wrapping_mul(0x2545_f491_4f6c_dd1d) | 1;
            assert_eq!(of(&id), of(&id.clone()), "{id}");
        }
    }
}
