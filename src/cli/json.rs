//! Messages as canonical proto3 JSON, by their descriptors.

use std::sync::LazyLock;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage};

use super::problem::Problem;
use crate::rpc::proto::FILE_DESCRIPTOR_SET;

static POOL: LazyLock<Result<DescriptorPool, String>> =
    LazyLock::new(|| DescriptorPool::decode(FILE_DESCRIPTOR_SET).map_err(|error| error.to_string()));

/// A message of our package, by its name there.
pub(super) fn value<M: Message>(name: &str, message: &M) -> Result<serde_json::Value, Problem> {
    let made = || {
        let pool = POOL.as_ref().map_err(Clone::clone)?;
        let full = format!("idempotency.ledger.v1.{name}");
        let descriptor = pool.get_message_by_name(&full).ok_or_else(|| format!("there is no {full}"))?;
        let bytes = message.encode_to_vec();
        let dynamic = DynamicMessage::decode(descriptor, &bytes[..]).map_err(|error| error.to_string())?;
        serde_json::to_value(dynamic).map_err(|error| error.to_string())
    };
    made().map_err(|error: String| Problem::failed(format!("the answer cannot be written as JSON: {error}")))
}

/// The same as a text in one line.
pub(super) fn text<M: Message>(name: &str, message: &M) -> Result<String, Problem> {
    value(name, message).map(|value| value.to_string())
}

/// The same; what only would be done is marked.
pub(super) fn marked<M: Message>(name: &str, message: &M, dry_run: bool) -> Result<String, Problem> {
    let mut value = value(name, message)?;
    if let (true, Some(object)) = (dry_run, value.as_object_mut()) {
        object.insert("dryRun".to_owned(), true.into());
    }
    Ok(value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::proto::{Entry, EntryKey, EntryState};

    #[test]
    fn a_message_becomes_canonical_json() {
        let entry = Entry {
            key: Some(EntryKey {
                consumer: "c".into(),
                source: "s".into(),
                id: "i".into(),
                ..EntryKey::default()
            }),
            state: EntryState::Parked.into(),
            version: 1 << 53,
            created_at: Some(prost_types::Timestamp { seconds: 1_780_000_000, nanos: 0 }),
            fingerprint: vec![1, 2].into(),
            ..Entry::default()
        };
        let expected = serde_json::json!({
            "key": { "consumer": "c", "source": "s", "id": "i" },
            "state": "ENTRY_STATE_PARKED",
            "version": "9007199254740992",
            "createdAt": "2026-05-28T20:26:40Z",
            "fingerprint": "AQI=",
        });
        assert_eq!(value("Entry", &entry).unwrap(), expected);
    }
}
