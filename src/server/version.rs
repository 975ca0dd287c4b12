//! The version of this binary, for people and for programs that compare versions.

use crate::domain::KEY_FORMAT;
use crate::store::{LEVEL, SCHEMA};

/// The package version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that was built, as `build.rs` finds it; `unknown` if it finds none.
const COMMIT: &str = env!("LEDGER_COMMIT");

/// The package version, the commit, the schema version, the feature level, and the key format: as text, or as one object of JSON.
/// docs/compatibility.md defines which versions work together.
#[must_use]
pub fn text(json: bool) -> String {
    if json {
        return serde_json::json!({
            "version": VERSION,
            "commit": COMMIT,
            "schema": SCHEMA,
            "level": LEVEL,
            "keyFormat": KEY_FORMAT,
        })
        .to_string();
    }
    let rows = [
        ("commit", COMMIT.to_owned()),
        ("schema", SCHEMA.to_string()),
        ("features", format!("up to {LEVEL}")),
        ("key format", KEY_FORMAT.to_string()),
    ];
    let rows = rows.map(|(name, value)| format!("\n{name:<12}{value}"));
    format!("idempotency-ledger {VERSION}{}", rows.concat())
}
