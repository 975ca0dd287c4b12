//! Edits the text of the contexts file and leaves everything else unchanged: comments, order, blank lines.
//! The caller parses the result again before it is written, since a file may use TOML in ways that these
//! edits do not know.

use std::fmt::Write as _;
use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::fields::Field;

/// A byte order mark, which some editors write before the text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The text with this context as the current one.
pub(super) fn with_current(text: &str, name: &str) -> String {
    let value = quoted(name);
    if let Some(found) = root_value(text, "current") {
        return replaced(text, vec![(found, value)]);
    }
    // Text after a section's heading belongs to the section.
    let begin = text.len() - text.trim_start_matches(BYTE_ORDER_MARK).len();
    let gap = if text[begin..].is_empty() { "" } else { "\n" };
    replaced(text, vec![(begin..begin, format!("current = {value}\n{gap}"))])
}

/// The text without a current context.
pub(super) fn without_current(text: &str) -> String {
    let Some(found) = root_value(text, "current") else { return text.to_owned() };
    let (begin, mut end) = (line_begin(text, found.start), line_end(text, found.end));
    // The blank line that separated it.
    if begin == 0 && text[end..].starts_with('\n') {
        end += 1;
    }
    replaced(text, vec![(begin..end, String::new())])
}

/// The text with these fields of a context.
pub(super) fn with_fields(text: &str, name: &str, fields: &[(Field, String)]) -> String {
    let literal = |field: Field, value: &str| if field.is_bool() { value.to_owned() } else { quoted(value) };
    let Some((_, stand)) = context(text, name) else {
        let mut text = text.to_owned();
        if !text.is_empty() {
            text.push_str(if text.ends_with('\n') { "\n" } else { "\n\n" });
        }
        let _written = writeln!(text, "[contexts.{}]", key(name));
        for (field, value) in fields {
            let _written = writeln!(text, "{} = {}", field.word(), literal(*field, value));
        }
        return text;
    };
    let last = stand.iter().map(|(_, found)| found.end).max().unwrap_or(text.len());
    let (mut changes, mut new) = (Vec::new(), String::new());
    for (field, value) in fields {
        let literal = literal(*field, value);
        match stand.iter().find(|(word, _)| word == field.word()) {
            Some((_, found)) => changes.push((found.clone(), literal)),
            None => drop(writeln!(new, "{} = {literal}", field.word())),
        }
    }
    let end = line_end(text, last);
    let gap = if text[..end].ends_with('\n') { "" } else { "\n" };
    if !new.is_empty() {
        changes.push((end..end, format!("{gap}{new}")));
    }
    replaced(text, changes)
}

/// The text without a context, and without the comment directly above it.
pub(super) fn without_context(text: &str, name: &str) -> String {
    let Some((heading, _)) = context(text, name) else { return text.to_owned() };
    let mut begin = line_begin(text, heading.start);
    let is_section = text[begin..].trim_start().starts_with('[');
    let mut end = line_end(text, heading.end);
    if is_section {
        let next = lines(text, end).find(|line| text[line.clone()].trim_start().starts_with('['));
        end = comment_above(text, next.map_or(text.len(), |line| line.start), end);
    }
    begin = comment_above(text, begin, 0);
    replaced(text, vec![(begin..end, String::new())])
}

/// Where the comment begins that is directly above the line at this position.
fn comment_above(text: &str, mut at: usize, floor: usize) -> usize {
    while at > floor {
        let above = line_begin(text, at - 1);
        if above < floor || !text[above..at].trim_start().starts_with('#') {
            break;
        }
        at = above;
    }
    at
}

/// The position of a value at the top level.
fn root_value(text: &str, word: &str) -> Option<Range<usize>> {
    let (root, _) = DeTable::parse_recoverable(text);
    Some(root.get_ref().get(word)?.span())
}

/// Fields by name, with the positions of their values.
type FieldRanges = Vec<(String, Range<usize>)>;

/// The position of a context's heading, and of each of its values.
fn context(text: &str, name: &str) -> Option<(Range<usize>, FieldRanges)> {
    let (root, _) = DeTable::parse_recoverable(text);
    let DeValue::Table(contexts) = root.get_ref().get("contexts")?.get_ref() else { return None };
    let (key, value) = contexts.get_key_value(name)?;
    let DeValue::Table(fields) = value.get_ref() else { return None };
    let fields = fields.iter().map(|(key, value)| (key.get_ref().clone().into_owned(), value.span()));
    Some((key.span(), fields.collect()))
}

/// The text with these ranges replaced.
fn replaced(text: &str, mut changes: Vec<(Range<usize>, String)>) -> String {
    let mut text = text.to_owned();
    changes.sort_by_key(|(place, _)| place.start);
    for (place, other) in changes.into_iter().rev() {
        text.replace_range(place, &other);
    }
    text
}

fn line_begin(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// The position after the end of the line.
fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |end| at + end + 1)
}

/// The lines from this one on.
fn lines(text: &str, from: usize) -> impl Iterator<Item = Range<usize>> {
    let mut at = from;
    std::iter::from_fn(move || {
        let begin = at;
        at = line_end(text, begin);
        (begin < text.len()).then_some(begin..at)
    })
}

fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A name as a TOML key: a point would split it.
fn key(name: &str) -> String {
    if name.contains('.') { quoted(name) } else { name.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# Ours.\n\ncurrent = \"prod\" # careful\n\n# Production: ask first.\n[contexts.prod]\n\
                        endpoint = \"https://a:1\" # the balancer\n\n# For tries.\n[contexts.\"test.1\"]\n\
                        endpoint = \"b:1\"\ntimeout = \"5s\"";

    #[test]
    fn use_changes_only_the_current_context() {
        let used = with_current(FILE, "test.1");
        assert_eq!(used, FILE.replace("current = \"prod\"", "current = \"test.1\""));
        assert_eq!(with_current("", "a"), "current = \"a\"\n");
        let section = "# Eve's\n[contexts.a]\n";
        assert_eq!(with_current(section, "a"), format!("current = \"a\"\n\n{section}"));
        assert_eq!(with_current("\u{feff}[contexts.a]\n", "a"), "\u{feff}current = \"a\"\n\n[contexts.a]\n");
        assert_eq!(without_current(&with_current(section, "a")), section);
        assert_eq!(without_current(FILE), FILE.replace("current = \"prod\" # careful\n", ""));
        assert_eq!(without_current(section), section);
    }

    #[test]
    fn fields_are_changed_in_place_and_added_at_the_end() {
        let fields = [(Field::Timeout, "9s".to_owned()), (Field::Endpoint, "https://\"c\":1".to_owned())];
        let set = with_fields(FILE, "prod", &fields);
        let line = "endpoint = 'https://\"c\":1' # the balancer\ntimeout = \"9s\"\n";
        assert_eq!(set, FILE.replace("endpoint = \"https://a:1\" # the balancer\n", line));
        // The last line has no line end.
        let set = with_fields(FILE, "test.1", &[(Field::PlaintextToken, "true".to_owned())]);
        assert_eq!(set, format!("{FILE}\nplaintext_token = true\n"));
        let new = with_fields(FILE, "x.y", &fields[..1]);
        assert_eq!(new, format!("{FILE}\n\n[contexts.\"x.y\"]\ntimeout = \"9s\"\n"));
        assert_eq!(with_fields("", "x", &fields[..1]), "[contexts.x]\ntimeout = \"9s\"\n");
    }

    #[test]
    fn removed_context_takes_only_its_own_comment() {
        let without = without_context(FILE, "prod");
        let (first, rest) = FILE.split_once("# Production").unwrap();
        assert_eq!(without, format!("{first}{}", &rest[rest.find("# For tries").unwrap()..]));
        assert_eq!(without_context(FILE, "test.1"), FILE.split_once("# For tries").unwrap().0);
        assert_eq!(without_context(FILE, "none"), FILE);
        let inline = "[contexts]\na = { endpoint = \"x:1\" }\nb = { endpoint = \"y:1\" }\n";
        assert_eq!(without_context(inline, "a"), "[contexts]\nb = { endpoint = \"y:1\" }\n");
    }
}
