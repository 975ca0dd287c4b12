//! Warns of tokens of the file that have expired, or expire soon, before their holders are refused.

use std::time::{Duration, Instant};

use rustls::pki_types::UnixTime;

use crate::identity::Tokens;

/// How often the warnings are repeated while the files do not change.
const WARN_AGAIN: Duration = Duration::from_hours(24);
/// The maximum number of lines each time: a file may have thousands of tokens. The first to expire come first.
const LINES_MAX: usize = 20;

/// When the last warnings were logged.
#[derive(Debug, Default)]
pub(super) struct TokenEnds(Option<Instant>);

impl TokenEnds {
    /// Warns of the tokens that have expired or expire within 14 days: at the start, when the files have changed, and once a day.
    pub(super) fn warn(&mut self, tokens: Option<&Tokens>, changed: bool) {
        let now = Instant::now();
        if !self.is_due(now, changed) {
            return;
        }
        self.0 = Some(now);
        let ending = tokens.map_or_else(Vec::new, |tokens| tokens.ending(UnixTime::now().as_secs()));
        for one in ending.iter().take(LINES_MAX) {
            tracing::warn!(principal = one.principal, "tokens_file: {one}");
        }
        if let Some(more) = ending.len().checked_sub(LINES_MAX).filter(|more| *more > 0) {
            tracing::warn!(
                more,
                "tokens_file: more tokens have ended, or end within 14 days: `rights lint` names them"
            );
        }
    }

    fn is_due(&self, now: Instant, changed: bool) -> bool {
        changed || self.0.is_none_or(|last| now.saturating_duration_since(last) >= WARN_AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_due_at_each_change_and_once_a_day() {
        let start = Instant::now();
        let warned = TokenEnds(Some(start));
        for (after, changed, due) in [
            (0, false, false),
            (0, true, true),
            (86_399, false, false),
            (86_400, false, true),
            (5, true, true),
        ] {
            assert_eq!(warned.is_due(start + Duration::from_secs(after), changed), due, "{after} {changed}");
        }
        assert!(TokenEnds::default().is_due(start, false));
    }
}
