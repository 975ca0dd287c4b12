//! Where the number of a quantity is from, and whether it is that number there.

use std::ffi::OsStr;
use std::path::Path;

use super::super::promises::exists;
use super::super::{files, read};
use super::quantities::{Kind, Quantity, unit};

/// The printed tables of settings and policies.
const CONFIGURATION: &str = "docs/configuration.md";
/// Outputs of large runs: a page may round their numbers to the places that it shows.
const RESULTS: &str = "tests/lib/results";
/// Constants that are made of other ones, at most this deep.
const DEPTH_MAX: usize = 8;

/// A number of the source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    number: f64,
    /// In milliseconds then.
    is_time: bool,
}

/// The faults of the source of a quantity.
pub(super) fn fits(quantity: &Quantity, source: &str) -> Result<(), String> {
    let (first, rest) = source.split_once(' ').unwrap_or((source, ""));
    match (first, rest) {
        ("example", "") => Ok(()),
        ("theirs", product) if !product.is_empty() => Ok(()),
        ("measured", command) if is_command(command) => Ok(()),
        ("setting", what) => equals_cell(quantity, "settings", what),
        ("policy", what) => equals_cell(quantity, "policies", what),
        ("suite", what) => equals_size(quantity, what),
        (path, text) if text.starts_with('"') && text.len() > 2 && is_file(path) => {
            stands_in(quantity, path, &one_line(&text[1..text.len() - 1]))
        }
        (path, expression) if path.starts_with("src/") && is_file(path) => {
            let value = value(expression, &read(path), DEPTH_MAX)?;
            let same = if value.is_time {
                quantity.unit.0 == Kind::Time && equal(value.number, quantity.amount())
            } else {
                figures(quantity).iter().any(|figure| equal(value.number, *figure))
            };
            same.then_some(()).ok_or_else(|| format!("{expression} is {value:?}"))
        }
        _ => Err("is not a source: see the head of tests/it/docs/numbers.rs".to_owned()),
    }
}

fn is_file(path: &str) -> bool {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path).is_file()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether this is a command of this repository, or a suite of `tests/it`.
fn is_command(command: &str) -> bool {
    if let Some(suite) = command.strip_prefix("tests/prove ") {
        return is_file(&format!("tests/lib/prove/{suite}"))
            || read("tests/lib/suites.sh").contains(&format!("    \"{suite}|"));
    }
    command.starts_with("cargo build ") || exists(command)
}

fn equal(one: f64, other: f64) -> bool {
    (one - other).abs() <= 1e-9 * one.abs().max(1.0)
}

/// The numbers by which source code may mean a quantity: a time in any unit, a size in bytes or KiB, a share of 1,
/// eighths also in sixteenths.
fn figures(quantity: &Quantity) -> Vec<f64> {
    let (figure, amount) = (quantity.figure, quantity.amount());
    match quantity.unit.0 {
        Kind::Time => vec![figure, amount, amount / 1e3, amount * 1e3, amount * 1e6],
        Kind::Bytes => vec![figure, amount, amount / 1_024.0],
        Kind::Percent => vec![figure, figure / 100.0],
        Kind::Eighths => vec![figure, 2.0 * figure],
        Kind::Count => vec![figure],
    }
}

/// A number with a unit in the way of the printed tables: `500ms`, `7d`, `1024`.
fn cell(text: &str) -> Option<Value> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let size = if end == text.len() { None } else { Some(unit(&text[end..])?.1) };
    Some(Value { number: number * size.unwrap_or(1.0), is_time: size.is_some() })
}

/// `NAME default|min|max` of a printed table of the configuration.
fn equals_cell(quantity: &Quantity, table: &str, what: &str) -> Result<(), String> {
    let (name, column) = what.split_once(' ').ok_or("has no `default`, `min` or `max`")?;
    let page = read(CONFIGURATION);
    let (_, rows) = page.split_once(&format!("<!-- printed: {table} -->")).expect(table);
    let (rows, _) = rows.split_once("<!-- end -->").expect(table);
    let row = rows.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
    let cells: Vec<&str> = row.ok_or("is not in the table")?.split('|').map(str::trim).collect();
    let (least, most) = cells[3].split_once(" to ").unwrap_or_default();
    let text = match column {
        "default" => cells[2],
        "min" => least,
        "max" => most,
        _ => return Err("has no `default`, `min` or `max`".to_owned()),
    };
    let value = cell(text).ok_or_else(|| format!("is {text}"))?;
    let same = if value.is_time {
        quantity.unit.0 == Kind::Time && equal(value.number, quantity.amount())
    } else {
        equal(value.number, quantity.figure) || equal(value.number, quantity.amount())
    };
    same.then_some(()).ok_or_else(|| format!("is {text}"))
}

/// `NAME small|large`: the size of a suite.
fn equals_size(quantity: &Quantity, what: &str) -> Result<(), String> {
    let suites = read("tests/lib/suites.sh");
    let (name, size) = what.split_once(' ').unwrap_or((what, ""));
    let row = suites.lines().find_map(|line| line.trim_start().strip_prefix(&format!("\"{name}|")));
    let fields: Vec<&str> = row.ok_or("is not a suite")?.split('|').collect();
    let text = if size == "large" { fields[2] } else { fields[1] };
    let same = text.parse().is_ok_and(|number: f64| equal(number, quantity.figure));
    same.then_some(()).ok_or_else(|| format!("is {text}"))
}

/// A file in one line, without its lines of comments: the comment "at 4 calls a poll" may stay when the constant below it changes.
fn code(path: &str, text: &str) -> String {
    let comment = match Path::new(path).extension().and_then(OsStr::to_str) {
        Some("go" | "js" | "proto" | "rs" | "ts") => "//",
        Some("py" | "sh" | "toml" | "yaml" | "yml") | None => "#",
        Some("sql") => "--",
        Some(_) => return one_line(text),
    };
    let lines = text.lines().filter(|line| !line.trim_start().starts_with(comment));
    one_line(&lines.collect::<Vec<_>>().join(" "))
}

/// A text of a file, with the number in it.
fn stands_in(quantity: &Quantity, path: &str, text: &str) -> Result<(), String> {
    let file = read(path);
    if !code(path, &file).contains(text) {
        let only = if one_line(&file).contains(text) { "only in comments" } else { "nowhere" };
        return Err(format!("{path} has {text:?} {only}"));
    }
    let half =
        if path.starts_with(RESULTS) { 0.5 * 0.1_f64.powi(quantity.places) / quantity.figure } else { 0.0 };
    let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.' && c != '_');
    let numbers: Vec<f64> =
        numbers.filter_map(|one| one.trim_matches('.').replace('_', "").parse().ok()).collect();
    let same = |figure: &f64| {
        numbers.iter().any(|number| equal(*number, *figure) || (number - figure).abs() <= half * figure)
    };
    figures(quantity).iter().any(same).then_some(()).ok_or_else(|| format!("{text:?} has {numbers:?}"))
}

/// The value of an expression of constants, of which this file or exactly one of `src` has each.
pub(super) fn value(expression: &str, file: &str, depth: usize) -> Result<Value, String> {
    if !expression.contains(|c: char| c.is_ascii_uppercase()) {
        return number(expression, file, depth);
    }
    number(expression, file, depth.checked_sub(1).ok_or("is made of itself")?)
}

fn number(expression: &str, file: &str, depth: usize) -> Result<Value, String> {
    let mut reading = Reading { tokens: tokens(expression), file, depth };
    let value = reading.shifted()?;
    reading.tokens.is_empty().then_some(value).ok_or_else(|| format!("`{expression}` goes on"))
}

/// Names with their paths, numbers, and signs, the last one first.
fn tokens(expression: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '.';
    let (mut found, mut rest) = (Vec::new(), expression.trim());
    while !rest.is_empty() {
        let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
        let length = if rest.starts_with("<<") { 2 } else { word.max(1) };
        found.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    found.reverse();
    found
}

/// A reader of expressions.
struct Reading<'t> {
    tokens: Vec<&'t str>,
    file: &'t str,
    depth: usize,
}

impl Reading<'_> {
    fn next_is(&mut self, token: &str) -> bool {
        let is_it = self.tokens.last() == Some(&token);
        if is_it {
            self.tokens.pop();
        }
        is_it
    }

    fn shifted(&mut self) -> Result<Value, String> {
        let mut value = self.sum()?;
        while self.next_is("<<") {
            value.number *= self.sum()?.number.exp2();
        }
        Ok(value)
    }

    fn sum(&mut self) -> Result<Value, String> {
        let mut value = self.product()?;
        loop {
            let sign = if self.next_is("+") {
                1.0
            } else if self.next_is("-") {
                -1.0
            } else {
                return Ok(value);
            };
            let other = self.product()?;
            if other.is_time != value.is_time {
                return Err("adds a time and a number".to_owned());
            }
            value.number += sign * other.number;
        }
    }

    fn product(&mut self) -> Result<Value, String> {
        let mut value = self.cast()?;
        loop {
            if self.next_is("*") {
                let other = self.cast()?;
                value =
                    Value { number: value.number * other.number, is_time: value.is_time || other.is_time };
            } else if self.next_is("/") {
                let other = self.cast()?;
                value =
                    Value { number: value.number / other.number, is_time: value.is_time != other.is_time };
            } else {
                return Ok(value);
            }
        }
    }

    fn cast(&mut self) -> Result<Value, String> {
        let value = self.atom()?;
        while self.next_is("as") {
            self.tokens.pop();
        }
        Ok(value)
    }

    fn atom(&mut self) -> Result<Value, String> {
        let token = self.tokens.pop().ok_or("ends too early")?;
        if token == "(" {
            let value = self.shifted()?;
            return self.next_is(")").then_some(value).ok_or_else(|| "has an open parenthesis".to_owned());
        }
        if token.starts_with(|c: char| c.is_ascii_digit()) {
            let number = token.replace('_', "").parse().map_err(|_| format!("{token} is not a number"))?;
            return Ok(Value { number, is_time: false });
        }
        if let Some((_, unit)) = token.split_once("::from_") {
            let size = match unit {
                "micros" => 0.001,
                "millis" => 1.0,
                "secs" => 1_000.0,
                "mins" => 60_000.0,
                "hours" => 3_600_000.0,
                "days" => 86_400_000.0,
                _ => return Err(format!("{token} is not known")),
            };
            return Ok(Value { number: self.atom()?.number * size, is_time: true });
        }
        self.constant(token)
    }

    fn constant(&self, path: &str) -> Result<Value, String> {
        let name = path.rsplit("::").next().unwrap_or(path);
        if let Some(expression) = definition(name, self.file) {
            return value(expression, self.file, self.depth);
        }
        let all = files(&["src"]);
        let found: Vec<_> =
            all.iter().filter_map(|(_, text)| Some((definition(name, text)?, text))).collect();
        match found[..] {
            [(expression, text)] => value(expression, text, self.depth),
            _ => Err(format!("{name} is defined {} times", found.len())),
        }
    }
}

/// What a constant of a file is set to.
fn definition<'f>(name: &str, file: &'f str) -> Option<&'f str> {
    let (_, rest) = file.split_once(&format!("const {name}: "))?;
    Some(rest.split_once(" = ")?.1.split_once(';')?.0)
}

#[test]
fn lines_of_comments_are_left_out() {
    for (path, text, expected) in [
        ("a.rs", "/// 1\n#[x(2)] // 3\n  // 4\n5", "#[x(2)] // 3 5"),
        ("a/b", "#!6\n7 # 8\n", "7 # 8"),
        ("a.sql", "-- 9\n  10", "10"),
        ("a.md", "# 11\n12", "# 11 12"),
    ] {
        assert_eq!(code(path, text), expected, "{path}");
    }
}

#[test]
fn expressions_are_evaluated() {
    let file = "const A: Duration = Duration::from_secs(5);\npub const B: usize = 16 * 1_024;\nconst C: u64 = 4 << 20;\n\
                const D: usize = 2 * B as usize;\nconst E: Span = Span::from_days(1);\nconst F: u32 = F;\n";
    for (expression, number, is_time) in [
        ("A", 5_000.0, true),
        ("B", 16_384.0, false),
        ("C", 4_194_304.0, false),
        ("D", 32_768.0, false),
        ("A + 2 * A", 15_000.0, true),
        ("E / A", 17_280.0, false),
        ("128 - 8 * (B / 2_048)", 64.0, false),
        ("Duration::from_millis(250) * 2", 500.0, true),
    ] {
        assert_eq!(value(expression, file, DEPTH_MAX), Ok(Value { number, is_time }), "{expression}");
    }
    for expression in ["A + B", "F", "A B", "(A", "NOT_DEFINED_ANYWHERE", ""] {
        assert!(value(expression, file, DEPTH_MAX).is_err(), "{expression}");
    }
}
