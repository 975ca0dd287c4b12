//! Patterns: an exact name, or a prefix of names.

use std::fmt;

/// The wildcard at the end of a pattern: it matches any rest, also an empty one.
const REST: char = '*';

/// An exact name, or, if the text ends with `*`, all names with this prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Exact(Box<str>),
    Prefix(Box<str>),
}

impl Pattern {
    /// # Errors
    /// The fault of the text.
    pub(super) fn of(text: &str, bytes_max: usize) -> Result<Pattern, String> {
        if text.is_empty() {
            return Err("is empty: write a name, or a prefix that ends with *".into());
        }
        if text.len() > bytes_max {
            return Err(format!("has {} bytes, must be at most {bytes_max} bytes", text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err("contains a control character; none is allowed".into());
        }
        match text.strip_suffix(REST) {
            Some(prefix) if prefix.contains(REST) => {
                Err(format!("{text:?} has more than one *: one at the end is all that can be"))
            }
            Some(prefix) => Ok(Pattern::Prefix(prefix.into())),
            // A name with a `*` inside may exist, but in this file it is most likely a mistake.
            None if text.contains(REST) => {
                Err(format!("{text:?} has a * inside: it can stand at the end only"))
            }
            None => Ok(Pattern::Exact(text.into())),
        }
    }

    pub(super) fn fits(&self, name: &str) -> bool {
        match self {
            Pattern::Exact(exact) => **exact == *name,
            Pattern::Prefix(prefix) => name.starts_with(&**prefix),
        }
    }

    /// Whether it matches every name.
    pub(super) fn is_all(&self) -> bool {
        matches!(self, Pattern::Prefix(prefix) if prefix.is_empty())
    }

    /// Whether it matches every name that the other matches.
    pub(super) fn covers(&self, other: &Pattern) -> bool {
        match (self, other) {
            (_, Pattern::Exact(name)) => self.fits(name),
            (Pattern::Prefix(prefix), Pattern::Prefix(longer)) => longer.starts_with(&**prefix),
            (Pattern::Exact(_), Pattern::Prefix(_)) => false,
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pattern::Exact(name) => to.write_str(name),
            Pattern::Prefix(prefix) => write!(to, "{prefix}{REST}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_star_matches_any_rest() {
        for (pattern, name, fits) in [
            ("payments", "payments", true),
            ("payments", "payments2", false),
            ("payments", "payment", false),
            ("payments", "Payments", false),
            ("pay*", "payments", true),
            ("pay*", "pay", true),
            ("pay*", "pa", false),
            ("*", "", true),
            ("*", "any", true),
        ] {
            let pattern = Pattern::of(pattern, 64).expect("a pattern");
            assert_eq!(pattern.fits(name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn of_invalid_pattern_reports_reason() {
        for (text, says) in [
            ("", "is empty"),
            ("a*b", "inside"),
            ("*a", "inside"),
            ("a**", "more than one"),
            ("a\nb", "control character"),
            ("12345678901", "must be at most 10 bytes"),
        ] {
            let problem = Pattern::of(text, 10).expect_err(text);
            assert!(problem.contains(says), "{text}: {problem}");
        }
        assert!(Pattern::of("1234567890", 10).is_ok(), "a pattern of the maximum length");
    }

    #[test]
    fn covers_every_match_of_the_other() {
        for (wide, narrow, covers) in [
            ("*", "pay*", true),
            ("pay*", "pay*", true),
            ("pay*", "payments", true),
            ("payments*", "pay*", false),
            ("payments", "payments*", false),
            ("payments", "payments", true),
        ] {
            let of = |text| Pattern::of(text, 64).expect("a pattern");
            assert_eq!(of(wide).covers(&of(narrow)), covers, "{wide} {narrow}");
        }
    }
}
