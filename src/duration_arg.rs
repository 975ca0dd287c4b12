//! Durations as people write them, in flags and files.

use std::str::FromStr;
use std::time::Duration;

use serde::Deserialize;

/// A duration as people write it: `500ms`, `30s`, `15m`, `24h`, `7d`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "String")]
pub struct DurationArg(Duration);

impl FromStr for DurationArg {
    type Err = String;
    fn from_str(text: &str) -> Result<DurationArg, String> {
        let parsed = humantime::parse_duration(text);
        parsed
            .map(DurationArg)
            .map_err(|error| format!("`{text}` is no duration like 500ms, 30s, 15m, 24h or 7d: {error}"))
    }
}

impl From<DurationArg> for Duration {
    fn from(arg: DurationArg) -> Duration {
        arg.0
    }
}

impl TryFrom<String> for DurationArg {
    type Error = String;
    fn try_from(text: String) -> Result<DurationArg, String> {
        text.parse()
    }
}
