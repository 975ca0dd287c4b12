//! Limits of replay runs: how many a consumer and a principal may have, so that none of them uses up the
//! limit of all. See docs/contract.md, section 8.

use super::reason::{Reason, Rejection};

/// The number of counted runs that a consumer may have, and all consumers together. A run counts until the
/// purge has removed all of its entries.
const RUNS_MAX: (usize, usize) = (1_000, 10_000);

/// The number of counted runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Those of the consumer for which a run is created.
    pub of_consumer: usize,
    /// Those of all consumers that the creating principal has created.
    pub of_principal: usize,
    /// All of them.
    pub of_all: usize,
}

impl RunCounts {
    /// Whether one more run may be created. A consumer and a principal may each have half of what the others
    /// leave free: so none of them takes the last place, and each newcomer finds some.
    ///
    /// # Errors
    /// `STATE_NOT_ALLOWED`, with the bound and whose it is.
    pub fn room(self, actor: &str) -> Result<(), Rejection> {
        let share = |own: usize| (RUNS_MAX.1.saturating_sub(self.of_all.saturating_sub(own))).div_ceil(2);
        let of_consumer = RUNS_MAX.0.min(share(self.of_consumer));
        let of_principal = share(self.of_principal);
        let (whose, own, most) = if self.of_consumer >= of_consumer {
            ("the consumer has".to_owned(), self.of_consumer, of_consumer)
        } else if self.of_principal >= of_principal {
            (format!("{actor} has created"), self.of_principal, of_principal)
        } else {
            return Ok(());
        };
        Err(Rejection::new(
            Reason::StateNotAllowed,
            format!(
                "{whose} {own} replay runs that still count, and {most} are the most now: {} of a consumer, and of the {} of \
                 all consumers a consumer and a principal may have half of what the others leave free; nothing was \
                 changed: a run counts until the purge has taken its entries, one that never had any until an hour \
                 after its end, so close runs that are not needed",
                RUNS_MAX.0, RUNS_MAX.1
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consumer_and_principal_have_half_of_what_others_leave_free() {
        for (name, [of_consumer, of_principal, of_all], says) in [
            ("the first", [0, 0, 0], ""),
            ("the last of a consumer", [999, 999, 999], ""),
            (
                "one more of a consumer",
                [1_000, 1_000, 1_000],
                "the consumer has 1000 replay runs that still count, and 1000 are",
            ),
            ("the last of one principal", [0, 4_999, 4_999], ""),
            (
                "one more of one principal",
                [0, 5_000, 5_000],
                "token:one has created 5000 replay runs that still count, and 5000 are",
            ),
            ("next to another principal", [0, 0, 5_000], ""),
            ("half of the rest", [0, 2_499, 7_499], ""),
            ("and no more", [0, 2_500, 7_500], "2500 are the most now"),
            ("more than its share", [0, 5_000, 7_500], "3750 are the most now"),
            ("a consumer of the rest", [250, 0, 9_750], "the consumer has 250 replay runs"),
            ("a third one", [0, 0, 9_999], ""),
            ("none is left", [0, 0, 10_000], "the consumer has 0 replay runs that still count, and 0 are"),
        ] {
            let said = RunCounts { of_consumer, of_principal, of_all }.room("token:one").err();
            let said = said.map(|refused| refused.message).unwrap_or_default();
            assert!(said.contains(says) && said.is_empty() == says.is_empty(), "{name}: {said:?}");
        }
    }
}
