//! Ids that carry the time at which they were made: `UUIDv7` (RFC 9562) and ULID, in their canonical forms.

/// Crockford's alphabet, in the order of its values.
const DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

/// The 48 bits of milliseconds that the id begins with; none where it is any other text.
pub(super) fn made_at(id: &str) -> Option<[u8; 6]> {
    match id.len() {
        36 => of_uuid(id.as_bytes()),
        26 => of_ulid(id.as_bytes()),
        _ => None,
    }
}

/// Lowercase, with its hyphens: any other way to write it is another id.
fn of_uuid(id: &[u8]) -> Option<[u8; 6]> {
    let fits = |(place, byte): (usize, &u8)| match place {
        8 | 13 | 18 | 23 => *byte == b'-',
        14 => *byte == b'7',
        19 => matches!(byte, b'8' | b'9' | b'a' | b'b'),
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    if !id.iter().enumerate().all(fits) {
        return None;
    }
    let digits = id[..8].iter().chain(&id[9..13]);
    let value = |digit: &u8| u64::from(if digit.is_ascii_digit() { digit - b'0' } else { digit - b'a' + 10 });
    Some(last_six(digits.fold(0, |number, digit| number << 4 | value(digit))))
}

/// Uppercase, and no larger than 128 bits.
fn of_ulid(id: &[u8]) -> Option<[u8; 6]> {
    let value = |digit: &u8| DIGITS.binary_search(digit).ok().map(|value| value as u64);
    let mut time = 0;
    for (place, digit) in id.iter().enumerate() {
        let value = value(digit)?;
        if place < 10 {
            time = time << 5 | value;
        }
    }
    (id[0] <= b'7').then(|| last_six(time))
}

fn last_six(number: u64) -> [u8; 6] {
    let [_, _, bytes @ ..] = number.to_be_bytes();
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_an_id_in_its_canonical_form() {
        let made = Some([0x01, 0x7f, 0x22, 0xe2, 0x79, 0xb0]);
        for (id, time) in [
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398f", made),
            ("017f22e2-79b0-7000-8000-000000000000", made),
            ("017F22E2-79B0-7CC3-98C4-DC0C0C07398F", None),
            ("017f22e279b07cc398c4dc0c0c07398f", None),
            ("017f22e2-79b0-4cc3-98c4-dc0c0c07398f", None),
            ("017f22e2-79b0-7cc3-c8c4-dc0c0c07398f", None),
            ("017f22e2-79b0-7cc3-98c4_dc0c0c07398f", None),
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398g", None),
            ("017f22e2-79b0-7cc3-98c4-dc0c0c07398é", None),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAV", Some([0x01, 0x56, 0x3e, 0x3a, 0xb5, 0xd3])),
            ("7ZZZZZZZZZZZZZZZZZZZZZZZZZ", Some([0xff; 6])),
            ("80000000000000000000000000", None),
            ("01arz3ndektsv4rrffq69g5fav", None),
            ("01ARZ3NDEKTSV4RRFFQ69G5FAU", None),
            ("01ARZ3NDEKTSV4RRFFQ69G5FA", None),
            ("order-1", None),
            ("", None),
        ] {
            assert_eq!(made_at(id), time, "{id}");
        }
    }
}
