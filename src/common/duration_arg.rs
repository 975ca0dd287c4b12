//! Durations in flags and files.

use std::fmt;
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
            .map_err(|error| format!("`{text}` is not a duration like 500ms, 30s, 15m, 24h or 7d: {error}"))
    }
}

/// In the largest unit that is exact: `90s`, `2m`, `7d`. It parses as the same duration.
impl fmt::Display for DurationArg {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u128, &str); 7] = [
            (86_400_000_000_000, "d"),
            (3_600_000_000_000, "h"),
            (60_000_000_000, "m"),
            (1_000_000_000, "s"),
            (1_000_000, "ms"),
            (1_000, "us"),
            (1, "ns"),
        ];
        let nanos = self.0.as_nanos();
        let exact = UNITS.into_iter().find(|(size, _)| nanos > 0 && nanos.is_multiple_of(*size));
        let (size, unit) = exact.unwrap_or((1, "s"));
        write!(to, "{}{unit}", nanos / size)
    }
}

impl From<Duration> for DurationArg {
    fn from(duration: Duration) -> DurationArg {
        DurationArg(duration)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_shown_exactly_and_parsed_back() {
        for (nanos, text) in [
            (0, "0s"),
            (1, "1ns"),
            (2_000, "2us"),
            (1_500_000_000, "1500ms"),
            (90_000_000_000, "90s"),
            (120_000_000_000, "2m"),
            (5_400_000_000_000, "90m"),
            (7_200_000_000_000, "2h"),
            (604_800_000_000_000, "7d"),
            (86_400_000_000_001, "86400000000001ns"),
        ] {
            let duration = DurationArg(Duration::from_nanos(nanos));
            assert_eq!(duration.to_string(), text);
            let read: Duration = text.parse::<DurationArg>().unwrap().into();
            assert_eq!(read, Duration::from_nanos(nanos), "{text}");
        }
    }
}
