//! What this binary is, for people and for the programs that compare versions.

use crate::domain::KEY_FORMAT;
use crate::store::{LEVEL, SCHEMA};

/// The version of the package.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that was built, as `build.rs` finds it; `unknown` if it finds none.
const COMMIT: &str = env!("LEDGER_COMMIT");

/// The version, the commit, the version of the schema, the number of the newest feature that is known, and the format of keys:
/// for people, or as one object of JSON. docs/compatibility.md says what goes with what.
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
