//! The stored form of a message's id: a UUID in canonical form (lower case, with hyphens) as 16 bytes, any other text
//! unchanged.

use uuid::Uuid;

/// The length of a UUID in canonical form.
pub(super) const LENGTH: usize = uuid::fmt::Hyphenated::LENGTH;

/// The columns `id` and `id_uuid`, of which one is null.
pub(super) fn stored(id: &str) -> (Option<String>, Option<Uuid>) {
    match packed(id) {
        Some(uuid) => (None, Some(uuid)),
        None => (Some(id.to_owned()), None),
    }
}

/// The id in these columns; a UUID is formatted into `buffer`.
pub(super) fn read<'a>(
    id: Option<&'a str>,
    uuid: Option<Uuid>,
    buffer: &'a mut [u8; LENGTH],
) -> Result<&'a str, String> {
    match (id, uuid) {
        (Some(id), None) => Ok(id),
        (None, Some(uuid)) => Ok(uuid.hyphenated().encode_lower(buffer)),
        (None, None) => Err("it is empty, and id_uuid too".to_owned()),
        (Some(_), Some(_)) => Err("it is not empty, and id_uuid neither".to_owned()),
    }
}

fn packed(id: &str) -> Option<Uuid> {
    let uuid = if id.len() == LENGTH { Uuid::try_parse(id).ok()? } else { return None };
    (*uuid.hyphenated().encode_lower(&mut [0; LENGTH]) == *id).then_some(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_returns_stored_id_and_uuid_takes_16_bytes() {
        for (id, packed) in [
            ("01890a5d-ac96-774b-bcce-b302099a8057", true),
            ("00000000-0000-0000-0000-000000000000", true),
            ("01890A5D-ac96-774b-bcce-b302099a8057", false),
            ("01890a5dac96774bbcceb302099a8057", false),
            ("{01890a5d-ac96-774b-bcce-b302099a8057}", false),
            ("01890a5d-ac96-774b-bcce-b302099a805g", false),
            ("01890a5da-c96-774b-bcce-b302099a8057", false),
            ("order-4711-from-the-shop-of-the-north", false),
            ("1", false),
        ] {
            let (text, uuid) = stored(id);
            assert_eq!((text.is_none(), uuid.is_some()), (packed, packed), "{id}");
            assert_eq!(read(text.as_deref(), uuid, &mut [0; LENGTH]), Ok(id));
        }
    }

    #[test]
    fn read_needs_exactly_one_column() {
        for (text, uuid) in [(None, None), (Some("1"), Some(Uuid::nil()))] {
            assert!(read(text, uuid, &mut [0; LENGTH]).is_err(), "{text:?} {uuid:?}");
        }
    }
}
