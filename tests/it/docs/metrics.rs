//! `docs/metrics.md`: its table is printed from the program, and its queries name metrics and labels that exist.

use std::collections::BTreeSet;

use idempotency_ledger::metrics::table;

use super::{printed, read};

const PAGE: &str = "docs/metrics.md";

#[test]
fn the_page_shows_every_metric() {
    printed(PAGE, "metrics", &table());
}

/// The words of a text that may be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !(letter.is_alphanumeric() || letter == '_')).filter(|word| !word.is_empty())
}

#[test]
fn queries_name_metrics_and_labels_that_exist() {
    let table = table();
    let cells = |line: &str| line.split(" | ").map(str::to_owned).collect::<Vec<_>>();
    let rows: Vec<Vec<String>> = table.lines().skip(2).map(cells).collect();
    let names: BTreeSet<&str> = rows.iter().flat_map(|row| words(&row[0])).collect();
    let labels: BTreeSet<&str> = rows.iter().flat_map(|row| words(&row[2])).chain(["le"]).collect();
    let page = read(PAGE);
    let (_, queries) = page.split_once("## First questions").unwrap();
    let mut seen = 0;
    for query in queries.lines().filter_map(|line| line.split('`').nth(1)) {
        for name in words(query)
            .filter(|word| word.starts_with("idempotency_ledger_") || word.starts_with("grpc_server_"))
        {
            let parts = ["_bucket", "_sum", "_count"];
            let stem = parts.iter().find_map(|part| name.strip_suffix(part)).unwrap_or(name);
            assert!(names.contains(name) || names.contains(stem), "{name} is no metric: {query}");
            seen += 1;
        }
        let inside = query.split('{').skip(1).filter_map(|rest| rest.split('}').next());
        let matched = inside.flat_map(|matchers| matchers.split(',')).filter_map(|one| words(one).next());
        let by = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next()).flat_map(words);
        for label in matched.chain(by) {
            assert!(labels.contains(label), "{label} is no label: {query}");
        }
    }
    assert!(seen >= 7, "the queries were not found");
}
