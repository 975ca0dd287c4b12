//! Finds the quantities of a page: a number with a unit.

/// What a unit counts. Times are compared in milliseconds, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Kind {
    Time,
    Bytes,
    Percent,
    /// Parts of a whole, in eighths.
    Eighths,
    Count,
}

/// A unit by its name, and how much one of it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Unit(pub(super) Kind, pub(super) f64);

const TIMES: &[(&[&str], f64)] = &[
    (&["us", "µs"], 0.001),
    (&["ms"], 1.0),
    (&["s", "second", "seconds"], 1_000.0),
    (&["m", "min", "minute", "minutes"], 60_000.0),
    (&["h", "hour", "hours"], 3_600_000.0),
    (&["d", "day", "days"], 86_400_000.0),
    (&["week", "weeks"], 7.0 * 86_400_000.0),
    (&["year", "years"], 365.0 * 86_400_000.0),
];
const SIZES: &[(&[&str], f64)] = &[
    (&["B", "byte", "bytes"], 1.0),
    (&["KiB"], 1_024.0),
    (&["MiB"], 1_048_576.0),
    (&["GiB"], 1_073_741_824.0),
    (&["kB", "KB"], 1e3),
    (&["MB", "megabytes"], 1e6),
    (&["GB"], 1e9),
];
const COUNTED: &[&str] = &[
    "attempts",
    "batches",
    "bit",
    "bits",
    "calls",
    "characters",
    "claims",
    "columns",
    "commands",
    "connections",
    "consumers",
    "cores",
    "digits",
    "entries",
    "fields",
    "files",
    "holds",
    "items",
    "keys",
    "levels",
    "messages",
    "pages",
    "principals",
    "requests",
    "rows",
    "runs",
    "scrapes",
    "series",
    "sessions",
    "statements",
    "streams",
    "threads",
    "times",
    "values",
];
/// Numbers as words. They are quantities before a time, a size or a part: "three calls" is more often an example than a bound.
const WORDS: &[(&str, f64)] = &[
    ("two", 2.0),
    ("three", 3.0),
    ("four", 4.0),
    ("five", 5.0),
    ("six", 6.0),
    ("seven", 7.0),
    ("eight", 8.0),
    ("nine", 9.0),
    ("ten", 10.0),
    ("eleven", 11.0),
    ("twelve", 12.0),
    ("fifteen", 15.0),
    ("twenty", 20.0),
    ("thirty", 30.0),
    ("forty", 40.0),
    ("fifty", 50.0),
    ("sixty", 60.0),
    ("hundred", 100.0),
];
/// What stands before digits that are a part of a name, a version, a path, a selector or an escape.
const PARTS_OF_NAMES: &str = ".,-/#_[^:+=%";
/// What stands between two numbers that share a unit.
const LINKS: [&str; 3] = [" to ", " or ", " and "];

/// A quantity, by its place in the text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Quantity {
    pub(super) at: usize,
    pub(super) end: usize,
    /// The number as the text has it.
    pub(super) figure: f64,
    /// The number of its decimal places.
    pub(super) places: i32,
    pub(super) unit: Unit,
}

impl Quantity {
    /// The number in milliseconds or bytes, or as it is.
    pub(super) fn amount(&self) -> f64 {
        self.figure * self.unit.1
    }
}

/// The unit of this name; `None` if it is another word.
pub(super) fn unit(name: &str) -> Option<Unit> {
    let of = |table: &[(&[&str], f64)], kind| {
        let row = table.iter().find(|(names, _)| names.contains(&name));
        row.map(|(_, size)| Unit(kind, *size))
    };
    let counted = || COUNTED.contains(&name).then_some(Unit(Kind::Count, 1.0));
    let eighths = || (name == "eighths").then_some(Unit(Kind::Eighths, 1.0));
    of(TIMES, Kind::Time).or_else(|| of(SIZES, Kind::Bytes)).or_else(eighths).or_else(counted)
}

/// The unit that follows a number, and the length of what is between them and of its name.
fn unit_after(after: &str) -> Option<(usize, Unit)> {
    let between = usize::from(after.starts_with([' ', '-']));
    let rest = &after[between..];
    if rest.starts_with('%') {
        return Some((between + 1, Unit(Kind::Percent, 1.0)));
    }
    let end = rest.find(|letter: char| !letter.is_ascii_alphabetic() && letter != 'µ').unwrap_or(rest.len());
    let goes_on = rest[end..].starts_with(|next: char| next == '_' || next.is_ascii_digit());
    unit(&rest[..end]).filter(|_| !goes_on).map(|unit| (between + end, unit))
}

/// The digits at the beginning of a text, without a comma or point that ends them.
fn digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ',' && c != '.').unwrap_or(text.len());
    text[..end].trim_end_matches([',', '.'])
}

/// The unit of a number that shares it with the next number: `250 to 500 ms`. The bounds 0 and 1 need no source.
fn shared_unit(number: &str, after: &str) -> Option<Unit> {
    let rest =
        LINKS.iter().find_map(|link| after.strip_prefix(link)).filter(|_| !["0", "1"].contains(&number))?;
    let next = digits(rest);
    (!next.is_empty()).then(|| unit_after(&rest[next.len()..])).flatten().map(|(_, unit)| unit)
}

/// The quantities of a text whose number is a word.
fn in_words(text: &str) -> Vec<Quantity> {
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    for (word, figure) in WORDS {
        for (at, _) in lower.match_indices(word) {
            let after = &text[at + word.len()..];
            let is_word = !text[..at].ends_with(|c: char| c.is_alphanumeric() || PARTS_OF_NAMES.contains(c))
                && after.starts_with([' ', '-']);
            let with_unit = unit_after(after).filter(|(_, unit)| is_word && unit.0 != Kind::Count);
            if let Some((length, unit)) = with_unit {
                let end = at + word.len() + length;
                found.push(Quantity { at, end, figure: *figure, places: 0, unit });
            }
        }
    }
    found
}

/// All quantities of a text, in their order.
pub(super) fn quantities(text: &str) -> Vec<Quantity> {
    let mut found = in_words(text);
    let mut from = 0;
    while let Some(at) = text[from..].find(|c: char| c.is_ascii_digit()).map(|at| from + at) {
        let number = digits(&text[at..]);
        from = at + number.len();
        let before = text[..at].chars().next_back();
        if before.is_some_and(|before| before.is_alphanumeric() || PARTS_OF_NAMES.contains(before)) {
            continue;
        }
        let Ok(figure) = number.replace(',', "").parse() else { continue };
        let after = &text[from..];
        let with_unit = unit_after(after).or_else(|| shared_unit(number, after).map(|unit| (0, unit)));
        if let Some((length, unit)) = with_unit {
            let places = number.split_once('.').map_or(0, |(_, places)| places.len());
            let places = i32::try_from(places).unwrap();
            found.push(Quantity { at, end: from + length, figure, places, unit });
        }
    }
    found.sort_by_key(|quantity| quantity.at);
    found
}

/// The text of a page in one line, without the parts that other tests compare with their source: tables that are printed from
/// the program, blocks of code, and, on the pages where they are judged, rows of figures that a large run printed.
pub(super) fn prose(page: &str, has_figures: bool) -> String {
    let mut lines = Vec::new();
    let (mut is_printed, mut is_code) = (false, false);
    for line in page.lines() {
        let fence = line.trim_start().starts_with("```");
        is_printed |= line.starts_with("<!-- printed: ");
        if !is_printed && !is_code && !fence && !(has_figures && is_figure(line)) {
            lines.push(line);
        }
        is_code ^= fence;
        is_printed &= !line.starts_with("<!-- end -->");
    }
    lines.iter().flat_map(|line| line.split_whitespace()).collect::<Vec<_>>().join(" ")
}

/// Whether a line is a row that ends with the command whose output it shows.
fn is_figure(line: &str) -> bool {
    let command = line.strip_suffix("` |").and_then(|line| line.rsplit_once("| `tests/prove "));
    command.is_some_and(|(_, name)| !name.contains('`'))
}

#[test]
fn quantities_of_a_text_are_found() {
    for (text, expected) in [
        ("for 5 s, or `30s`; at most 8,192 bytes.", vec!["5 s", "30s", "8,192 bytes"]),
        (
            "250 to 500 ms, and 1 to 64 bytes; ±10 % of 1.5 times",
            vec!["250", "500 ms", "64 bytes", "10 %", "1.5 times"],
        ),
        ("a 128-bit hash, 1,024 streams, 4.1 ms", vec!["128-bit", "1,024 streams", "4.1 ms"]),
        (
            "300 kB of 3,000 series; 100 holds, 20 consumers",
            vec!["300 kB", "3,000 series", "100 holds", "20 consumers"],
        ),
        (
            "Five eighths; within ten seconds, 4 s or two-hour, fifteen MiB",
            vec!["Five eighths", "ten seconds", "4 s", "two-hour", "fifteen MiB"],
        ),
        ("tens of calls, often seconds, a tenth, three calls, one second, twenty-two s, six", vec![]),
        ("rate(x[5m]) of v1.2 s, RFC 3339, bytes; `%23 %40`, P10 s, 5 sat", vec![]),
        ("with more than 1, messages of 3 of 4", vec![]),
    ] {
        let found: Vec<&str> = quantities(text).iter().map(|one| &text[one.at..one.end]).collect();
        assert_eq!(found, expected, "{text}");
    }
}

#[test]
fn parts_that_other_tests_compare_are_left_out() {
    let page = "a 1 s\n<!-- printed: x -->\n| 2 s |\n<!-- end -->\nb  3 s\n  ```sh\n4 s\n  ```\n| 5 s | `tests/prove x` |\n";
    assert_eq!(prose(page, true), "a 1 s b 3 s");
    assert_eq!(prose(page, false), "a 1 s b 3 s | 5 s | `tests/prove x` |");
}
