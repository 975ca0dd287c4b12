//! The expiry of tokens: its format in the file, and tokens that expire soon.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long before the expiry of a token warnings begin, in seconds: 14 days.
const WARNED_BEFORE: u64 = 14 * DAY;
const DAY: u64 = 86_400;

/// Parses an instant of the file, such as `2027-03-01T00:00:00Z`, to seconds since 1970; `None` if it is malformed. Fractions
/// of a second are dropped.
pub(super) fn instant(text: &str) -> Option<u64> {
    let at = humantime::parse_rfc3339(text).ok()?;
    at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// Formats an instant for the file.
pub(super) fn written(seconds: u64) -> String {
    let at: Option<SystemTime> = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    at.map_or_else(String::new, |at| humantime::format_rfc3339_seconds(at).to_string())
}

/// A token that has expired, or expires soon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ending {
    /// The expiry in seconds since 1970. The server accepts the token for 60 seconds more (leeway).
    pub expires: u64,
    /// The principal of the token.
    pub principal: String,
    /// Days until the expiry, rounded up; `None` if it has expired.
    pub days: Option<u64>,
}

impl fmt::Display for Ending {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (principal, end) = (&self.principal, written(self.expires));
        match self.days {
            None => write!(
                to,
                "a token of {principal} ended at {end}, and is refused from a minute after that: take its line out"
            ),
            Some(days) => {
                let unit = if days == 1 { "day" } else { "days" };
                write!(
                    to,
                    "a token of {principal} ends at {end}, within {days} {unit}: make another one before"
                )
            }
        }
    }
}

/// The tokens that have expired at this second since 1970, or expire within 14 days, ordered by expiry.
pub(super) fn ending<'a>(all: impl Iterator<Item = (&'a str, u64)>, now: u64) -> Vec<Ending> {
    let mut near: Vec<Ending> = all
        .filter(|(_, expires)| *expires <= now.saturating_add(WARNED_BEFORE))
        .map(|(principal, expires)| Ending {
            expires,
            principal: principal.to_owned(),
            days: expires.checked_sub(now).filter(|left| *left > 0).map(|left| left.div_ceil(DAY)),
        })
        .collect();
    near.sort_unstable();
    near
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instant_must_be_utc() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2027-03-01T00:00:00Z", Some(1_803_859_200)),
            ("2027-03-01T00:00:00.9Z", Some(1_803_859_200)),
            ("2027-03-01T00:00:00", None),
            ("2027-03-01T00:00:00+01:00", None),
            ("2027-03-01", None),
            ("2027-02-30T00:00:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("90d", None),
            ("", None),
        ] {
            assert_eq!(instant(text), seconds, "{text}");
        }
        assert_eq!(written(1_803_859_200), "2027-03-01T00:00:00Z");
    }

    #[test]
    fn ending_returns_expired_and_soon_expiring() {
        let now = 1_803_859_200;
        let all = [
            ("token:later", now + WARNED_BEFORE + 1),
            ("token:soon", now + WARNED_BEFORE),
            ("token:today", now + 1),
            ("token:over", now),
        ];
        let ending = || ending(all.into_iter(), now);
        let named: Vec<_> = ending().into_iter().map(|ending| (ending.principal, ending.days)).collect();
        let expected = [("token:over", None), ("token:today", Some(1)), ("token:soon", Some(14))]
            .map(|(name, days)| (name.to_owned(), days));
        assert_eq!(named, expected);
        let said: Vec<String> = ending().iter().map(Ending::to_string).collect();
        assert_eq!(
            said[0],
            "a token of token:over ended at 2027-03-01T00:00:00Z, and is refused from a minute after that: take its line out"
        );
        assert!(said[2].contains("within 14 days"), "{said:?}");
    }
}
