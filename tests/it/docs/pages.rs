//! The pages: their links lead somewhere, the README stays short, and its figures were measured.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{files, read};

/// The pages with tables of figures that large runs printed.
pub(super) const PAGES_WITH_FIGURES: [&str; 2] = ["README.md", "docs/proofs.md"];

/// The pages of the top folder, and all of docs/ and deploy/.
fn pages() -> Vec<(PathBuf, String)> {
    let mut pages = files(&["docs", "deploy"]);
    pages.extend(["README.md", "CHANGELOG.md", "SECURITY.md"].map(|page| (page.into(), read(page))));
    pages.retain(|(path, _)| path.extension().is_some_and(|extension| extension == "md"));
    pages
}

/// A page without its blocks of code.
fn prose(page: &str) -> String {
    page.split("\n```").step_by(2).collect()
}

/// What a heading is linked by.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(page: &str) -> BTreeSet<String> {
    let text = prose(page);
    text.lines().filter_map(|line| Some(anchor(line.trim_start_matches('#').strip_prefix(' ')?))).collect()
}

/// The targets of links in prose, without those to other places of the network.
fn links(page: &str) -> Vec<String> {
    let text = prose(page);
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// `docs/../README.md` is `README.md`.
fn normal(path: &Path) -> PathBuf {
    let mut kept = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            kept.pop();
        } else {
            kept.push(part);
        }
    }
    kept
}

#[test]
fn every_link_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = pages();
    let mut wrong = Vec::new();
    for (path, text) in &pages {
        for link in links(text) {
            let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
            let target = match file {
                "" => path.clone(),
                file => normal(&path.parent().unwrap().join(file)),
            };
            let page = pages.iter().find(|(path, _)| *path == target);
            let found = match (heading, page) {
                ("", _) => root.join(&target).exists(),
                (heading, Some((_, text))) => anchors(text).contains(heading),
                // A page of another folder, such as the README of a package.
                (heading, None) => std::fs::read_to_string(root.join(&target))
                    .is_ok_and(|text| anchors(&text).contains(heading)),
            };
            if !found {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "links that lead nowhere:\n{}", wrong.join("\n"));
}

#[test]
fn links_and_headings_are_read() {
    let page = "# A b's `C`\n\n[x](y.md#z) ![p](q) [far](https://x.y)\n\n```sh\n# no heading [n](o)\n```\n\n## D-e\n";
    assert_eq!(links(page), ["y.md#z", "q"]);
    assert_eq!(anchors(page), BTreeSet::from(["a-bs-c".to_owned(), "d-e".to_owned()]));
    assert_eq!(normal(Path::new("docs/../proto/x")), Path::new("proto/x"));
}

/// Files of the source that a page names.
#[test]
fn every_named_file_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut named = 0;
    for (page, text) in pages() {
        for path in prose(&text).split('`').skip(1).step_by(2) {
            let ours = ["src/", "tests/", "migrations/", "proto/", "examples/"]
                .iter()
                .any(|room| path.starts_with(room));
            if ours && !path.contains(' ') {
                named += 1;
                assert!(root.join(path).exists(), "{} names {path}, which is not there", page.display());
            }
        }
    }
    assert!(named > 20, "the pages name {named} files");
}

#[test]
fn the_readme_is_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 200, "README.md has {lines} lines, at most 200: the rest is for a page in docs/");
}

/// The numbers of a text: digits, with at most one point.
fn numbers(text: &str) -> Vec<&str> {
    let parts = text.split(|c: char| !c.is_ascii_digit() && c != '.').map(|part| part.trim_matches('.'));
    parts.filter(|part| !part.is_empty()).collect()
}

/// The rows of a table of figures that were not measured as they stand there, by the results of the large runs.
fn not_measured(page: &str, results: &str) -> (usize, Vec<String>) {
    let (mut rows, mut wrong) = (0, Vec::new());
    for row in page.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let command = cells.last().and_then(|cell| cell.strip_prefix("`tests/prove "));
        let Some(suite) = command.and_then(|command| command.strip_suffix('`')) else { continue };
        rows += 1;
        let runs = results.lines().filter(|line| line.split('\t').next() == Some(suite));
        let measured: BTreeSet<&str> = runs.flat_map(numbers).collect();
        let shown = cells[..cells.len() - 1].iter().flat_map(|cell| numbers(cell));
        let wild: Vec<&str> = shown.filter(|number| !measured.contains(number)).collect();
        if !wild.is_empty() {
            wrong.push(format!("{suite}: {wild:?}"));
        }
    }
    (rows, wrong)
}

#[test]
fn the_figures_were_measured() {
    let results = read("tests/lib/results.tsv");
    for page in PAGES_WITH_FIGURES {
        let (rows, wrong) = not_measured(&read(page), &results);
        assert!(rows >= 5, "{page} has {rows} figures");
        assert!(
            wrong.is_empty(),
            "figures of {page} that no large run printed (tests/lib/results.tsv): {wrong:?}"
        );
    }
}

#[test]
fn an_invented_figure_is_noticed() {
    let results = "kill\t2026-11-22\t500\t199 kills, 0.5 ms.\nother\t2026-11-22\t1\t77 kills\n";
    for (row, wrong) in [
        ("| servers | 199 kills, 0.5 ms | `tests/prove kill` |", 0),
        ("| servers | 77 kills | `tests/prove kill` |", 1),
        ("| 3 servers | 199 kills | `tests/prove kill` |", 1),
        ("| servers | 199 kills | `tests/prove gone` |", 1),
        ("| servers | 12 kills | nobody |", 0),
    ] {
        assert_eq!(not_measured(row, results).1.len(), wrong, "{row}");
    }
}
