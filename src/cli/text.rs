//! Instants, durations and texts from outside, for people.

use std::fmt::{Display, Write as _};

use prost_types::{Duration, Timestamp};

use crate::common::duration_arg::DurationArg;

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Whether a character is invisible, or affects a terminal: control or bidi characters.
pub(crate) fn hidden(c: char) -> bool {
    c.is_control()
        || (c.is_whitespace() && c != ' ')
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
}

/// A text from outside, made harmless for a terminal: no control characters, no escape sequences, no bidi characters, no soft
/// hyphens, no spaces and joiners without a width. Variation selectors and fillers stay: texts of many scripts need them.
pub(crate) fn clean(text: &str) -> String {
    let harmless = |c: char| match c {
        '\n' | '\r' | '\t' => ' ',
        '\u{ad}'
        | '\u{61c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(harmless).collect()
}

/// A name, quoted where it is not what it seems: with spaces at its ends, or invisible characters.
pub(crate) fn name(text: &str) -> String {
    if text.trim() != text || text.chars().any(hidden) { quoted(text) } else { clean(text) }
}

/// A duration in its two largest units: `45s`, `3m`, `2d 4h`.
pub(crate) fn rough(seconds: i64) -> String {
    let two = |value: i64, large: i64, unit: &str, small: i64, rest: &str| {
        let left = value % large / small;
        if left == 0 {
            format!("{}{unit}", value / large)
        } else {
            format!("{}{unit} {left}{rest}", value / large)
        }
    };
    match seconds {
        ..MINUTE => format!("{}s", seconds.max(0)),
        MINUTE..HOUR => format!("{}m", seconds / MINUTE),
        HOUR..DAY => two(seconds, HOUR, "h", MINUTE, "m"),
        DAY.. => two(seconds, DAY, "d", HOUR, "h"),
    }
}

/// How long ago an instant was, from `now`.
pub(crate) fn ago(instant: Option<&Timestamp>, now: &Timestamp) -> String {
    instant.map_or_else(|| "-".to_owned(), |instant| rough(now.seconds.saturating_sub(instant.seconds)))
}

/// An instant, with how long ago or ahead it is.
pub(crate) fn instant(instant: &Timestamp, now: &Timestamp) -> String {
    let passed = now.seconds.saturating_sub(instant.seconds);
    if passed >= 0 {
        format!("{} ({} ago)", when(instant), rough(passed))
    } else {
        format!("{} (in {})", when(instant), rough(passed.saturating_neg()))
    }
}

/// An instant to the second.
pub(crate) fn when(instant: &Timestamp) -> String {
    Timestamp { nanos: 0, ..*instant }.to_string()
}

/// A duration in the largest unit that is exact: `90s`, `2m`, `7d`. A negative one, which no server sends, is
/// empty.
pub(crate) fn exact(duration: &Duration) -> String {
    let duration = std::time::Duration::try_from(*duration);
    duration.map_or_else(|_| "-".to_owned(), |duration| DurationArg::from(duration).to_string())
}

/// A number with its noun: `1 entry`, `2 entries`.
pub(crate) fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, one: &str, more: &str) -> String {
    let noun = if number == N::from(1) { one } else { more };
    format!("{number} {noun}")
}

/// The duration as a message.
pub(crate) fn duration(value: std::time::Duration) -> Duration {
    Duration {
        seconds: i64::try_from(value.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(value.subsec_nanos()).unwrap_or(0),
    }
}

/// A word for a shell's command, to be pasted: invisible characters are written as bytes, in the way that
/// every POSIX shell reads (`$'…'` is not portable: dash takes it literally).
pub(crate) fn quoted(word: &str) -> String {
    if !word.chars().any(hidden) {
        return shlex::try_quote(word).map_or_else(|_| clean(word), std::borrow::Cow::into_owned);
    }
    // A command substitution drops trailing line ends: they follow it.
    let body = word.trim_end_matches('\n');
    let mut text = "\"$(printf %b '".to_owned();
    for c in body.chars() {
        // A `!` within double quotes would trigger bash's history expansion.
        if hidden(c) || matches!(c, '\\' | '\'' | '!') {
            for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                let _written = write!(text, "\\0{byte:03o}");
            }
        } else {
            text.push(c);
        }
    }
    text + "')" + &word[body.len()..] + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_text_cannot_control_a_terminal() {
        assert_eq!(clean("a\x1b[31mb\nc\u{202e}d\u{9b}e"), "a\u{fffd}[31mb c\u{fffd}d\u{fffd}e");
        assert_eq!(clean("a\u{61c}b\u{ad}c\u{2066}d"), "a\u{fffd}b\u{fffd}c\u{fffd}d");
        assert_eq!(clean("Grüße, 世界"), "Grüße, 世界");
    }

    #[test]
    fn misleading_name_is_quoted() {
        let seen = [("a b", "a b"), ("a ", "'a '"), ("a\u{200b}", r#""$(printf %b 'a\0342\0200\0213')""#)];
        for (text, shown) in seen {
            assert_eq!(name(text), shown);
        }
    }

    #[test]
    fn ages_have_two_units_at_most() {
        for (seconds, text) in [
            (-5, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3_599, "59m"),
            (3_600, "1h"),
            (3_700, "1h 1m"),
            (187_200, "2d 4h"),
            (172_800, "2d"),
        ] {
            assert_eq!(rough(seconds), text);
        }
    }

    #[test]
    fn durations_are_exact() {
        for (seconds, nanos, text) in
            [(0, 0, "0s"), (90, 0, "90s"), (120, 0, "2m"), (604_800, 0, "7d"), (1, 500_000_000, "1500ms")]
        {
            assert_eq!(exact(&Duration { seconds, nanos }), text);
        }
    }

    #[test]
    fn singular_and_plural_agree() {
        for (number, text) in [(0, "0 entries"), (1, "1 entry"), (2, "2 entries")] {
            assert_eq!(counted(number, "entry", "entries"), text);
        }
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("order-1"), "order-1");
        assert_eq!(quoted("it's"), "\"it's\"");
        let hidden = r#""$(printf %b 'a\0342\0200\0213b\0012\0047\0134\0033f')""#;
        assert_eq!(quoted("a\u{200b}b\n'\\\u{1b}f"), hidden);
        // Shells read exactly the same word.
        for word in [
            "",
            "$(x)`y`",
            "a b",
            "!!",
            "it's \"so\"",
            "\u{a0}\u{ad}é",
            "-x\u{202e}\u{7f}1",
            "\t'\\n",
            "%s!\u{ad}\n\n",
            "\n",
        ] {
            let command = format!("printf %s {}", quoted(word));
            for shell in ["sh", "bash"] {
                let said = std::process::Command::new(shell).args(["-c", &command]).output().unwrap();
                assert_eq!(String::from_utf8(said.stdout).unwrap(), word, "{shell}: {command}");
            }
        }
    }
}
