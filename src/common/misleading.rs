//! Characters that make a name look like another one, or that control a terminal which shows it.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Whether a character is not allowed in a principal's name: a control character (C1 and DEL included), or a bidirectional
/// formatting character, with which the name looks like another one in a log.
pub(crate) fn is_misleading(one: char) -> bool {
    let turns = matches!(one, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    one.is_control() || turns
}

/// Start of an escape.
const ESCAPE: &str = "\\u{";

/// A name for formats without an escape: `\u{9b}` in place of each misleading character. Two different names stay
/// different: where a name contains the letters `\u{`, their backslash is written as `\u{5c}`.
pub(crate) fn visible(name: &str) -> Cow<'_, str> {
    if !name.contains(is_misleading) && !name.contains(ESCAPE) {
        return Cow::Borrowed(name);
    }
    let mut visible = String::with_capacity(name.len() + 16);
    for (at, one) in name.char_indices() {
        if is_misleading(one) || name[at..].starts_with(ESCAPE) {
            // Writing to a String does not fail.
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
    fn visible_names_show_misleading_characters_and_stay_distinct() {
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
