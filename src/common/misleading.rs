//! Characters by which a name looks like another one, or does something to a terminal that shows it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character is not allowed in a principal's name: a control character (those of C1 and DEL included), or one
/// that turns the direction of writing, so that the name looks like another one in a log.
pub(crate) fn misleads(one: char) -> bool {
    let turns = matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    one.is_control() || turns
}

/// Begins an escape.
const ESCAPE: &str = "\\u{";

/// A name for formats without an escape of their own: `\u{9b}` in the place of each character that misleads. Two
/// different names stay different: where a name has the letters `\u{`, their backslash is written as `\u{5c}`.
pub(crate) fn visible(name: &str) -> Cow<'_, str> {
    if !name.contains(misleads) && !name.contains(ESCAPE) {
        return Cow::Borrowed(name);
    }
    let mut visible = String::with_capacity(name.len() + 16);
    for (at, one) in name.char_indices() {
        if misleads(one) || name[at..].starts_with(ESCAPE) {
            // Writing to a text does not fail.
            let _written = write!(visible, "{ESCAPE}{:x}}}", u32::from(one));
        } else {
            visible.push(one);
        }
    }
    Cow::Owned(visible)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn visible_names_show_what_misleads_and_stay_apart() {
        for (name, shown) in [
            ("billing", "billing"),
            ("b\u{e4}nk \\ \u{1f4b0}", "b\u{e4}nk \\ \u{1f4b0}"),
            ("a\u{9b}2Jb", "a\\u{9b}2Jb"),
            ("a\u{7f}\u{1}", "a\\u{7f}\\u{1}"),
            ("a\u{202e}b\u{2066}", "a\\u{202e}b\\u{2066}"),
            ("a\\u{9b}", "a\\u{5c}u{9b}"),
            ("a\\\\u{9b}", "a\\\\u{5c}u{9b}"),
        ] {
            assert_eq!(visible(name), shown, "{name:?}");
        }
    }
}
