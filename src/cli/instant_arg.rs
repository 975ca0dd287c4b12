//! Instants in flags: as RFC 3339, or as how long ago.

use std::str::FromStr;

use prost_types::Timestamp;

use super::clock;
use crate::common::duration_arg::DurationArg;

/// An instant as people write it: `2026-11-21T13:00:00Z`, or `2h` for two hours ago, by this machine's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InstantArg(pub(super) Timestamp);

impl FromStr for InstantArg {
    type Err = String;
    fn from_str(text: &str) -> Result<InstantArg, String> {
        parsed(text, clock::now())
    }
}

fn parsed(text: &str, now: Timestamp) -> Result<InstantArg, String> {
    if let Ok(ago) = text.parse::<DurationArg>() {
        let ago = i64::try_from(std::time::Duration::from(ago).as_secs()).unwrap_or(i64::MAX);
        return Ok(InstantArg(Timestamp { seconds: now.seconds.saturating_sub(ago).max(0), nanos: 0 }));
    }
    let instant = text.parse::<Timestamp>().map(InstantArg);
    instant.map_err(|_| {
        format!("`{text}` is neither an instant like 2026-11-21T13:00:00Z nor a duration like 2h")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_read_in_both_forms() {
        let now = Timestamp { seconds: 1_795_266_690, nanos: 0 };
        for (text, seconds) in [
            ("2026-11-21T13:11:30Z", 1_795_266_690),
            ("2026-11-21T14:11:30+01:00", 1_795_266_690),
            ("90s", 1_795_266_600),
            ("2h", 1_795_259_490),
        ] {
            assert_eq!(parsed(text, now).unwrap().0.seconds, seconds, "{text}");
        }
        for text in ["", "soon", "13:00", "yesterday"] {
            assert!(parsed(text, now).is_err_and(|error| error.contains("neither an instant")), "{text}");
        }
    }
}
