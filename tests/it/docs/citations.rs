//! The specification is `docs/contract.md`. Whoever cites a section of it does so in one way, and the section exists.

use std::collections::BTreeSet;

use super::{files, read};

const CONTRACT: &str = "docs/contract.md";
/// What holds these tests' own examples of wrong citations.
const THIS: &str = "tests/it/docs/citations.rs";

/// The numbers of the headings `## N. …`.
fn headings(contract: &str) -> BTreeSet<u32> {
    let numbers =
        contract.lines().filter_map(|line| line.strip_prefix("## ")?.split_once(". ")?.0.parse().ok());
    numbers.collect()
}

/// The text without the marks at which its lines of comment begin: a citation may go on in the next line.
fn joined(text: &str) -> String {
    let lines =
        text.lines().map(|line| line.trim().trim_start_matches(['/', '!', '#', '-', '*', '>']).trim());
    lines.collect::<Vec<_>>().join(" ")
}

/// The numbers at the start of `text`: `4`, `4 and 5`, `4, 5 and 8`; empty where it starts with none.
fn numbers(mut text: &str) -> Vec<u32> {
    let mut found = Vec::new();
    loop {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let Ok(number) = text[..digits].parse() else { return found };
        found.push(number);
        text = &text[digits..];
        let Some(rest) = [", ", " and ", " to "].iter().find_map(|between| text.strip_prefix(between)) else {
            return found;
        };
        text = rest;
    }
}

/// What is wrong with the citations of a text. In the specification itself `section N` is enough.
fn faults(text: &str, own: bool, known: &BTreeSet<u32>) -> Vec<String> {
    let text = joined(text);
    let lower = text.to_ascii_lowercase();
    let mut found = Vec::new();
    if let Some(at) = text.find('\u{a7}') {
        found.push(format!("cites by a sign, must be `{CONTRACT}, section N`: {}", around(&text, at)));
    }
    for (at, word) in lower.match_indices("section") {
        let after = &lower[at + word.len()..];
        let after = after.strip_prefix('s').unwrap_or(after).trim_start_matches(' ');
        let cited = numbers(after);
        if cited.is_empty() {
            continue;
        }
        if !own && !text[..at].ends_with(&format!("{CONTRACT}, ")) {
            found.push(format!("must be `{CONTRACT}, section N`: {}", around(&text, at)));
        }
        for number in cited.iter().filter(|number| !known.contains(number)) {
            found.push(format!("there is no section {number}: {}", around(&text, at)));
        }
    }
    found
}

/// The words around a place.
fn around(text: &str, at: usize) -> String {
    let before = text[..at].chars().rev().take(40).collect::<Vec<_>>().into_iter().rev().collect::<String>();
    before + &text[at..].chars().take(40).collect::<String>()
}

#[test]
fn every_cited_section_exists() {
    let known = headings(&read(CONTRACT));
    assert_eq!(known, (1..=15).collect(), "the headings of {CONTRACT}: the numbers are cited, so they stay");
    let mut wrong = Vec::new();
    let mut cited = 0;
    let mut all = files(&["src", "proto", "migrations", "tests", "examples", "docs"]);
    all.push(("README.md".into(), read("README.md")));
    for (path, text) in all.iter().filter(|(path, _)| !path.ends_with(THIS)) {
        cited += joined(text).matches(&format!("{CONTRACT}, section")).count();
        let own = path.ends_with(CONTRACT);
        wrong.extend(
            faults(text, own, &known).into_iter().map(|fault| format!("{}: {fault}", path.display())),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(cited > 10, "the source cites its specification, but only {cited} citations were found");
}

#[test]
fn a_wrong_citation_is_noticed() {
    let known = BTreeSet::from([4, 5, 8]);
    for (text, own, count) in [
        ("no citation of anything", false, 0),
        ("the first section of a file, and sections of it", false, 0),
        ("/// docs/contract.md, section 4.", false, 0),
        ("//! docs/contract.md, sections 4, 5 and 8: once more", false, 0),
        ("/// As it stands in docs/contract.md,\n    /// section 5, for the latest token.", false, 0),
        ("of a token (section 8)", true, 0),
        ("/// docs/contract.md, section 15.", false, 1),
        ("//! docs/contract.md, sections 4, 5 and 9", false, 1),
        ("//! docs/contract.md, sections 3 to 9", false, 2),
        ("of a token (section 9)", true, 1),
        ("/// Contract, section 4.", false, 1),
        ("//! the contract's section 4", false, 1),
        ("/// Section 4, in its order.", false, 1),
        ("-- of the contract's\n-- section 4", false, 1),
        ("# section\n# 4", false, 1),
        ("// docs/contract.md \u{a7}4", false, 1),
        ("// see \u{a7} 4", true, 1),
        ("/// Section 99, somewhere", false, 2),
    ] {
        let found = faults(text, own, &known);
        assert_eq!(found.len(), count, "{text:?}: {found:?}");
    }
}

#[test]
fn headings_are_read() {
    assert_eq!(
        headings("# T\n## 1. A\ntext ## 3. no\n## 2. B\n### 4. C\n##5. D\n## E\n"),
        BTreeSet::from([1, 2])
    );
}
