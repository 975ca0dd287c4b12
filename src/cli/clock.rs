//! The operator's own clock. It is used only for ages where the server did not send its own instant; it
//! decides nothing.

use std::time::{SystemTime, UNIX_EPOCH};

use prost_types::Timestamp;

/// Now, by this machine's clock.
#[allow(clippy::disallowed_methods, reason = "it is only shown, as ages")]
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp { seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: 0 }
}
