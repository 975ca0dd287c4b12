//! The file of rights: which principal may do what, for which consumers. Default deny: what no line allows is refused.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use serde::Deserialize;
use toml::Spanned;

use super::PRINCIPAL_BYTES_MAX;
use super::pattern::Pattern;

/// The longest name of a consumer that any setting allows, in bytes.
const CONSUMER_BYTES_MAX: usize = 1_024;
const LINES_MAX: usize = 10_000;
const CONSUMERS_MAX: usize = 1_000;

/// A right of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Claim, `BatchClaim`, Lookup and `BatchLookup`.
    Claim,
    /// Complete, Fail, Release, Renew and `BatchSettle`.
    Settle,
    /// Queries.
    Read,
    /// Changes of entries and policies.
    Admin,
    /// Store and `BatchStore`: who may store makes workers process a payload.
    Store,
}

/// The number of rights.
const RIGHTS: usize = Right::ALL.len();

impl Right {
    /// All of them.
    pub const ALL: [Right; 5] = [Right::Claim, Right::Settle, Right::Read, Right::Admin, Right::Store];

    /// The word in the file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Right::Claim => "claim",
            Right::Settle => "settle",
            Right::Read => "read",
            Right::Admin => "admin",
            Right::Store => "store",
        }
    }

    /// The index in [`Right::ALL`].
    const fn place(self) -> usize {
        match self {
            Right::Claim => 0,
            Right::Settle => 1,
            Right::Read => 2,
            Right::Admin => 3,
            Right::Store => 4,
        }
    }
}

impl fmt::Display for Right {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.word())
    }
}

/// The consumers on which a right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose<'a> {
    /// At least one consumer: the first check, before the request is read.
    Any,
    /// One consumer.
    Consumer(&'a str),
    /// All consumers with this prefix, which is not empty.
    Prefix(&'a str),
    /// All consumers: rights on single consumers or prefixes are not enough.
    All,
}

/// A line of the file, as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Stated {
    principal: String,
    consumers: Vec<String>,
    may: Vec<Right>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RightsFile {
    #[serde(default)]
    rights: Vec<Spanned<Stated>>,
}

/// A line of the file: a `[[rights]]` section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RightsLine {
    /// The line number at which it begins, from 1.
    pub(super) number: usize,
    pub(super) principal: Pattern,
    pub(super) consumers: Vec<Pattern>,
    pub(super) may: Vec<Right>,
}

impl RightsLine {
    fn allows(&self, right: Right, whose: Whose<'_>) -> bool {
        let fits = |pattern: &Pattern| match whose {
            Whose::Consumer(name) => pattern.fits(name),
            Whose::Prefix(asked) => pattern.covers(&Pattern::Prefix(asked.into())),
            Whose::All => pattern.is_all(),
            Whose::Any => true,
        };
        self.may.contains(&right) && self.consumers.iter().any(fits)
    }
}

/// All lines. A principal has the union of the rights of all lines that match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    pub(super) lines: Vec<RightsLine>,
}

/// The number of the line with this byte offset.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// A problem of a TOML file, with its line.
pub(super) fn problem_of(text: &str, error: &toml::de::Error) -> String {
    let said = error.message().lines().next().unwrap_or_default();
    match error.span() {
        Some(Range { start, .. }) => format!("line {}: {said}", line_of(text, start)),
        None => said.to_owned(),
    }
}

impl Rights {
    /// Reads the file's text.
    ///
    /// # Errors
    /// All problems, each with its line.
    pub fn read(text: &str) -> Result<Rights, Vec<String>> {
        let RightsFile { rights } = toml::from_str(text).map_err(|error| vec![problem_of(text, &error)])?;
        if rights.len() > LINES_MAX {
            return Err(vec![format!("has {} sections, must have at most {LINES_MAX}", rights.len())]);
        }
        let (mut lines, mut problems) = (Vec::with_capacity(rights.len()), Vec::new());
        for stated in rights {
            let number = line_of(text, stated.span().start);
            match line(number, stated.into_inner()) {
                Ok(line) => lines.push(line),
                Err(wrong) => problems.extend(wrong.into_iter().map(|text| format!("line {number}: {text}"))),
            }
        }
        if problems.is_empty() { Ok(Rights { lines }) } else { Err(problems) }
    }

    /// The grants of a principal.
    #[must_use]
    pub fn of(&self, principal: &str) -> Grants {
        self.granted(&self.fitting(principal))
    }

    /// The indexes of the lines that match a principal, a key under which many principals share their grants.
    pub(super) fn fitting(&self, principal: &str) -> Vec<usize> {
        let fits = |(_, line): &(usize, &RightsLine)| line.principal.fits(principal);
        self.lines.iter().enumerate().filter(fits).map(|(at, _)| at).collect()
    }

    /// The union of what these lines allow.
    pub(super) fn granted(&self, places: &[usize]) -> Grants {
        let mut scopes: [Scope; RIGHTS] = Default::default();
        for line in places.iter().filter_map(|at| self.lines.get(*at)) {
            for right in &line.may {
                scopes[right.place()].add(&line.consumers);
            }
        }
        for scope in &mut scopes {
            scope.exact.sort_unstable();
            scope.exact.dedup();
        }
        Grants(Some(Arc::new(scopes)))
    }

    /// The consumers that some line names exactly, neither by a prefix nor by `*`.
    pub fn named_consumers(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().flat_map(|line| &line.consumers).filter_map(|pattern| match pattern {
            Pattern::Exact(name) => Some(&**name),
            Pattern::Prefix(_) => None,
        })
    }

    /// The number of the first line that allows it; `None` if no line does.
    #[must_use]
    pub fn line_for(&self, principal: &str, right: Right, whose: Whose<'_>) -> Option<usize> {
        let mut lines = self.lines.iter().filter(|line| line.principal.fits(principal));
        lines.find(|line| line.allows(right, whose)).map(|line| line.number)
    }
}

fn line(number: usize, stated: Stated) -> Result<RightsLine, Vec<String>> {
    let Stated { principal, consumers, mut may } = stated;
    let mut problems = Vec::new();
    let principal = Pattern::of(&principal, PRINCIPAL_BYTES_MAX);
    let principal = principal.map_err(|text| problems.push(format!("principal: {text}")));
    if consumers.is_empty() {
        problems.push("consumers: is empty: name consumers, prefixes like \"billing-*\", or \"*\"".into());
    }
    if consumers.len() > CONSUMERS_MAX {
        problems.push(format!("consumers: has {} names, must have at most {CONSUMERS_MAX}", consumers.len()));
    }
    let mut patterns = Vec::new();
    for text in consumers.iter().take(CONSUMERS_MAX) {
        match Pattern::of(text, CONSUMER_BYTES_MAX) {
            Ok(pattern) => patterns.push(pattern),
            Err(text) => problems.push(format!("consumers: {text}")),
        }
    }
    if may.is_empty() {
        problems.push("may: is empty: name some of claim, settle, read and admin".into());
    }
    may.dedup();
    match principal {
        Ok(principal) if problems.is_empty() => {
            Ok(RightsLine { number, principal, consumers: patterns, may })
        }
        Ok(_) | Err(()) => Err(problems),
    }
}

/// The consumers for which one right holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Scope {
    all: bool,
    /// Sorted.
    exact: Vec<Box<str>>,
    prefixes: Vec<Box<str>>,
}

impl Scope {
    fn add(&mut self, patterns: &[Pattern]) {
        for pattern in patterns {
            match pattern {
                _ if pattern.is_all() => self.all = true,
                Pattern::Exact(name) => self.exact.push(name.clone()),
                Pattern::Prefix(prefix) => self.prefixes.push(prefix.clone()),
            }
        }
    }
}

/// The grants of one principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants(Option<Arc<[Scope; RIGHTS]>>);

impl Grants {
    /// Everything.
    pub const EVERYTHING: Grants = Grants(None);

    /// Whether a right holds.
    #[must_use]
    pub fn allow(&self, right: Right, whose: Whose<'_>) -> bool {
        let Some(scopes) = &self.0 else { return true };
        let scope = &scopes[right.place()];
        match whose {
            _ if scope.all => true,
            Whose::All => false,
            // Exact names are never enough: consumers that were not seen yet may also have the prefix.
            Whose::Prefix(asked) => scope.prefixes.iter().any(|prefix| asked.starts_with(&**prefix)),
            Whose::Any => !scope.exact.is_empty() || !scope.prefixes.is_empty(),
            Whose::Consumer(name) => {
                scope.exact.binary_search_by(|exact| (**exact).cmp(name)).is_ok()
                    || scope.prefixes.iter().any(|prefix| name.starts_with(&**prefix))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "# who may do what\n\
        [[rights]]\nprincipal = 'token:payments'\nconsumers = ['payments', 'payments-*']\nmay = ['claim', 'settle']\n\
        \n\
        [[rights]]\nprincipal = 'spiffe://shop/*'\nconsumers = ['*']\nmay = ['read']\n\
        [[rights]]\nprincipal = 'token:payments'\nconsumers = ['refunds']\nmay = ['admin']\n";

    #[test]
    fn grants_are_the_union_of_matching_lines() {
        let rights = Rights::read(FILE).expect("rights");
        let (one, many, all) = (Whose::Consumer, Whose::Prefix, Whose::All);
        for (principal, right, whose, line) in [
            ("token:payments", Right::Claim, one("payments"), Some(2)),
            ("token:payments", Right::Settle, one("payments-eu"), Some(2)),
            ("token:payments", Right::Settle, one("payment"), None),
            ("token:payments", Right::Read, one("payments"), None),
            ("token:payments", Right::Admin, one("payments"), None),
            ("token:payments", Right::Admin, one("refunds"), Some(11)),
            ("token:payments", Right::Claim, one("refunds"), None),
            ("token:payments", Right::Claim, all, None),
            ("token:payments2", Right::Claim, one("payments"), None),
            ("token:", Right::Claim, one("payments"), None),
            ("token:payments", Right::Claim, many("payments-"), Some(2)),
            ("token:payments", Right::Claim, many("payments-e"), Some(2)),
            ("token:payments", Right::Claim, many("payments"), None),
            ("token:payments", Right::Claim, many("p"), None),
            ("token:payments", Right::Admin, many("refunds"), None),
            ("spiffe://shop/checkout", Right::Read, many("p"), Some(7)),
            ("spiffe://shop/checkout", Right::Read, one("any"), Some(7)),
            ("spiffe://shop/checkout", Right::Read, all, Some(7)),
            ("spiffe://shop/checkout", Right::Claim, one("any"), None),
            ("spiffe://shop", Right::Read, all, None),
            ("anonymous", Right::Read, one("payments"), None),
            ("", Right::Read, one("payments"), None),
            ("token:payments", Right::Claim, Whose::Any, Some(2)),
            ("token:payments", Right::Admin, Whose::Any, Some(11)),
            ("token:payments", Right::Read, Whose::Any, None),
            ("spiffe://shop/x", Right::Read, Whose::Any, Some(7)),
        ] {
            let found = rights.line_for(principal, right, whose);
            assert_eq!(found, line, "{principal} {right} {whose:?}");
            let grants = rights.of(principal);
            assert_eq!(grants.allow(right, whose), line.is_some(), "{principal} {right} {whose:?}");
        }
    }

    #[test]
    fn read_too_many_consumers_is_refused() {
        for (number, is_read) in [(CONSUMERS_MAX, true), (CONSUMERS_MAX + 1, false)] {
            let names = (0..number).map(|one| format!("'c{one}'")).collect::<Vec<_>>().join(", ");
            let line = format!("[[rights]]\nprincipal = '*'\nconsumers = [{names}]\nmay = ['read']\n");
            assert_eq!(Rights::read(&line).is_ok(), is_read, "{number}");
        }
    }

    #[test]
    fn an_empty_file_allows_nothing() {
        let rights = Rights::read("").expect("rights");
        for right in Right::ALL {
            assert!(!rights.of("token:any").allow(right, Whose::Consumer("any")), "{right}");
            assert!(Grants::EVERYTHING.allow(right, Whose::All), "{right}");
        }
    }

    #[test]
    fn right_index_matches_all() {
        for (place, right) in Right::ALL.into_iter().enumerate() {
            assert_eq!(right.place(), place, "{right}");
        }
    }

    #[test]
    fn read_invalid_reports_line() {
        let section = |lines: &str| format!("\n[[rights]]\n{lines}\n");
        for (text, says) in [
            ("rights = 5".to_owned(), "line 1: "),
            (section("principal = 'a'\nconsumers = ['c']"), "line 2: missing field `may`"),
            (section("principal = 'a'\nconsumers = ['c']\nmay = ['own']"), "line 5: unknown variant `own`"),
            (
                section("principal = 'a'\nconsumers = ['c']\nmay = ['read']\nsince = 1"),
                "line 6: unknown field `since`",
            ),
            (section("principal = ''\nconsumers = ['c']\nmay = ['read']"), "line 2: principal: is empty"),
            (section("principal = 'a'\nconsumers = []\nmay = ['read']"), "line 2: consumers: is empty"),
            (section("principal = 'a'\nconsumers = ['*-eu']\nmay = ['read']"), "line 2: consumers: "),
            (section("principal = 'a'\nconsumers = ['c']\nmay = []"), "line 2: may: is empty"),
            ("[[right]]\n".to_owned(), "line 1: unknown field `right`"),
            (
                section(&format!("principal = 'a'\nconsumers = [{}]\nmay = ['read']", "'c',".repeat(1_001))),
                "line 2: consumers: has 1001 names, must have at most 1000",
            ),
            (
                section("principal = 'a'\nconsumers = ['c']\nmay = ['read']").repeat(10_001),
                "has 10001 sections, must have at most 10000",
            ),
        ] {
            let problems = Rights::read(&text).expect_err(&text);
            assert!(problems.iter().any(|one| one.starts_with(says)), "{says}: {problems:?}");
        }
    }
}
