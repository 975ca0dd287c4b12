//! The workload: what the load does with each message.

use std::fmt;
use std::str::FromStr;

/// With more keys, none of them would be hot.
const HOT_KEYS_MAX: u32 = 10_000;
const NONE_OF: &str = "is none of claim, pair, duplicates=90%, hot-keys=10 and renew";

/// What the load does with each message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workload {
    /// A new message is claimed.
    Claim,
    /// A new message is claimed and completed.
    Pair,
    /// A message is claimed; this percentage was completed before the run.
    Duplicates { percent: u32 },
    /// One of this number of messages is claimed, and released immediately.
    HotKeys { keys: u32 },
    /// The lease of a message is renewed repeatedly.
    Renew,
}

impl FromStr for Workload {
    type Err = String;

    fn from_str(text: &str) -> Result<Workload, String> {
        let (name, value) =
            text.split_once('=').map_or((text, None), |(name, value)| (name, Some(value.trim())));
        let number = |value: Option<&str>, usual: u32, min: u32, max: u32| {
            let Some(value) = value else { return Ok(usual) };
            let read = value.parse().ok().filter(|number| (min..=max).contains(number));
            read.ok_or_else(|| format!("{name}: `{value}` is not a whole number from {min} to {max}"))
        };
        match (name.trim(), value) {
            ("claim", None) => Ok(Workload::Claim),
            ("pair", None) => Ok(Workload::Pair),
            ("renew", None) => Ok(Workload::Renew),
            ("duplicates", value) => {
                let value = value.map(|value| value.strip_suffix('%').unwrap_or(value));
                number(value, 90, 0, 100).map(|percent| Workload::Duplicates { percent })
            }
            ("hot-keys", value) => number(value, 10, 1, HOT_KEYS_MAX).map(|keys| Workload::HotKeys { keys }),
            (_, Some(_)) if ["claim", "pair", "renew"].contains(&name) => {
                Err(format!("{name} does not take a value"))
            }
            _ => Err(format!("`{text}` {NONE_OF}")),
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Workload::Claim => to.write_str("claim"),
            Workload::Pair => to.write_str("pair"),
            Workload::Duplicates { percent } => write!(to, "duplicates={percent}%"),
            Workload::HotKeys { keys } => write!(to, "hot-keys={keys}"),
            Workload::Renew => to.write_str("renew"),
        }
    }
}

impl Workload {
    /// Whether the answers to Claim are counted.
    pub(super) fn counts_claims(self) -> bool {
        match self {
            Workload::Claim | Workload::Duplicates { .. } | Workload::HotKeys { .. } => true,
            Workload::Pair | Workload::Renew => false,
        }
    }

    /// Whether several claims of one message may be granted, one after the other.
    pub(super) fn has_hot_keys(self) -> bool {
        matches!(self, Workload::HotKeys { .. })
    }

    /// The unit that is counted, singular and plural.
    pub(super) fn unit(self) -> (&'static str, &'static str) {
        match self {
            Workload::Claim | Workload::Duplicates { .. } | Workload::HotKeys { .. } => ("claim", "claims"),
            Workload::Pair => ("pair", "pairs"),
            Workload::Renew => ("renewal", "renewals"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workloads_are_parsed_and_printed() {
        for (text, canonical) in [
            ("claim", "claim"),
            ("pair", "pair"),
            ("renew", "renew"),
            ("duplicates", "duplicates=90%"),
            ("duplicates=35%", "duplicates=35%"),
            ("duplicates=0", "duplicates=0%"),
            ("hot-keys", "hot-keys=10"),
            ("hot-keys=1", "hot-keys=1"),
        ] {
            let read: Workload = text.parse().unwrap();
            assert_eq!(read.to_string(), canonical, "{text}");
            assert_eq!(canonical.parse(), Ok(read));
        }
        for (text, says) in [
            ("pear", "`pear` is none of claim, pair, duplicates=90%, hot-keys=10 and renew"),
            ("", "`` is none of"),
            ("claim=3", "claim does not take a value"),
            ("duplicates=101%", "duplicates: `101` is not a whole number from 0 to 100"),
            ("duplicates=-1", "duplicates: `-1` is not a whole"),
            ("hot-keys=0", "hot-keys: `0` is not a whole number from 1 to 10000"),
            ("hot-keys=", "hot-keys: `` is not"),
        ] {
            let refused = text.parse::<Workload>().unwrap_err();
            assert!(refused.starts_with(says), "{text}: {refused}");
        }
    }
}
