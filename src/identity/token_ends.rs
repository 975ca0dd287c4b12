//! The ends of tokens: how the file writes them, and which of them are near.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An end is warned of from this long before it on, in seconds: 14 days.
const WARNED_BEFORE: u64 = 14 * DAY;
const DAY: u64 = 86_400;

/// An instant as the file has it, such as `2027-03-01T00:00:00Z`, in seconds since 1970; `None` if it is not one. A
/// fraction of a second is left out.
pub(super) fn instant(text: &str) -> Option<u64> {
    let at = humantime::parse_rfc3339(text).ok()?;
    at.duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs())
}

/// The same instant, as the file has it.
pub(super) fn written(seconds: u64) -> String {
    let at: Option<SystemTime> = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    at.map_or_else(String::new, |at| humantime::format_rfc3339_seconds(at).to_string())
}

/// A token that has ended, or ends soon.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ending {
    /// Its end, in seconds since 1970. The server accepts it for 60 seconds more.
    pub expires: u64,
    /// Whom it stands for.
    pub principal: String,
    /// Days until its end, rounded up; `None` if it has ended.
    pub days: Option<u64>,
}

impl fmt::Display for Ending {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (principal, end) = (&self.principal, written(self.expires));
        match self.days {
            None => write!(to, "a token of {principal} ended at {end}, and is refused: take its line out"),
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

/// Of tokens, by their principals and ends, those that have ended at this second since 1970, or end within 14 days; by
/// their ends.
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
    fn an_end_is_an_instant_in_utc() {
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
    fn what_has_ended_or_ends_within_two_weeks_is_named() {
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
            "a token of token:over ended at 2027-03-01T00:00:00Z, and is refused: take its line out"
        );
        assert!(said[2].contains("within 14 days"), "{said:?}");
    }
}
