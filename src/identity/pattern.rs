//! A name, or what names begin with.

use std::fmt;

/// What a `*` at the end stands for: any rest, the empty one too.
const REST: char = '*';

/// A name as it is, or, where it ends with `*`, all names that begin so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    Exact(Box<str>),
    Prefix(Box<str>),
}

impl Pattern {
    /// # Errors
    /// What is wrong with the text.
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
            // A name like this may exist; who writes it here means something else.
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

    /// Whether it stands for every name.
    pub(super) fn is_all(&self) -> bool {
        matches!(self, Pattern::Prefix(prefix) if prefix.is_empty())
    }

    /// Whether every name that fits the other fits this one.
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
    fn a_star_at_the_end_stands_for_any_rest() {
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
    fn what_is_no_pattern_is_refused_with_the_reason() {
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
    }

    #[test]
    fn one_covers_another_where_nothing_is_left_out() {
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
