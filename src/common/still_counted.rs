//! Counts that are not zero although nothing can hold anything any more. Each count of clients (bytes, calls, connections, places)
//! is returned by the guard that took it. A count that is left when its last holder is gone is a mistake of this program, and
//! would refuse callers until the process ends: so it is looked for where a connection and where the server ends.

use std::fmt;

/// How many counts are named; more of them say nothing new.
const NAMED_MAX: usize = 16;

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct StillCounted(Vec<String>);

impl StillCounted {
    /// Notes a count of something, unless it is zero.
    pub(crate) fn note(&mut self, what: impl fmt::Display, count: usize) {
        if count > 0 && self.0.len() < NAMED_MAX {
            self.0.push(format!("{count} {what}"));
        }
    }

    pub(crate) fn extend(&mut self, others: StillCounted) {
        let free = NAMED_MAX.saturating_sub(self.0.len());
        self.0.extend(others.0.into_iter().take(free));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for StillCounted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_named_up_to_a_bound() {
        let mut left = StillCounted::default();
        left.note("calls", 0);
        assert!(left.is_empty());
        left.note("calls", 2);
        let mut more = StillCounted::default();
        (0..20).for_each(|_| more.note("bytes", 1));
        left.extend(more);
        assert_eq!(left.to_string(), format!("2 calls{}", ", 1 bytes".repeat(NAMED_MAX - 1)));
    }
}
