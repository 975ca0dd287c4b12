//! What bounds an owner, as the pages name it, and that each has a row.

use std::collections::BTreeSet;

use super::{Limit, TESTED, limits};
use crate::docs::read;

/// The owners whose bound a text states: "of a consumer", "each principal".
fn owners(text: &str) -> Vec<&str> {
    const KINDS: [&str; 5] = ["principal", "consumer", "address", "key", "connection"];
    let words: Vec<&str> = text
        .split_whitespace()
        .map(|word| word.trim_matches(|letter: char| !letter.is_alphanumeric()))
        .map(|word| word.strip_suffix("'s").unwrap_or(word))
        .collect();
    let pairs = words.windows(2).filter(|two| ["a", "an", "one", "each", "this"].contains(&two[0]));
    pairs.map(|two| two[1]).filter(|word| KINDS.contains(word)).collect()
}

fn rows(part: &str) -> impl Iterator<Item = Vec<&str>> {
    part.lines().filter(|line| line.starts_with("| ")).map(|line| line.split(" | ").collect())
}

#[test]
fn every_limit_of_an_owner_has_a_row() {
    let limits = limits();
    assert_eq!(limits.iter().map(|limit| limit.name).collect::<Vec<_>>(), TESTED, "each row is a test");
    let covers = |what: &str, owner: &str| {
        let documented = |limit: &Limit| {
            limit.documented.iter().any(|(start, whose)| what.starts_with(start) && *whose == owner)
        };
        limits.iter().any(documented)
    };
    let mut known = BTreeSet::new();
    let page = read("docs/configuration.md");
    for table in ["settings", "policies"] {
        let part = page.split_once(&format!("<!-- printed: {table} -->")).unwrap().1;
        for row in rows(part.split_once("<!-- end -->").unwrap().0) {
            // A number; how long a connection lives is not shared by anything.
            if row.len() > 2 && row[1].parse::<u64>().is_ok() {
                let name = row[0].trim_start_matches("| ").trim_matches('`').to_owned();
                known.extend(
                    owners(row.last().unwrap()).into_iter().map(|owner| (name.clone(), owner.to_owned())),
                );
            }
        }
    }
    let contract = read("docs/contract.md");
    let section = contract.split_once("\n## 10. Limits\n").unwrap().1.split_once("\n## 11. ").unwrap().0;
    for row in rows(section) {
        let what = row[0].trim_start_matches("| ").to_owned();
        let whose = owners(&row.join(" ")).into_iter().map(str::to_owned).collect::<Vec<_>>();
        known.extend(whose.into_iter().map(|owner| (what.clone(), owner)));
    }
    assert!(known.len() >= 14, "the pages name the limits: {known:?}");
    let missing: Vec<_> = known.iter().filter(|(what, owner)| !covers(what, owner)).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
    for (start, owner) in limits.iter().flat_map(|limit| limit.documented) {
        assert!(
            known.iter().any(|(what, whose)| what.starts_with(start) && whose == owner),
            "not documented: {start} of {owner}"
        );
    }
    let metrics = read("docs/metrics.md");
    let row =
        metrics.lines().find(|line| line.contains("`idempotency_ledger_principal_refusals_total`")).unwrap();
    for pair in row.split_once("limit: ").unwrap().1.split_once('.').unwrap().0.split("; ") {
        let (word, setting) = pair.split_once(", ").unwrap();
        let series = format!("idempotency_ledger_principal_refusals_total{{limit=\"{word}\"}}");
        let counts = |limit: &Limit| limit.counted == Some(&*series) && limit.documented[0].0 == setting;
        assert!(limits.iter().any(counts), "{pair} has no row");
    }
}
