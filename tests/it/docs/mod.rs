//! What the documents say, compared with the source.

mod citations;
mod compatibility;
mod configuration;
mod contract;
mod memory;
mod metrics;
mod numbers;
mod pages;
mod promises;
mod reasons;
mod traces;

use std::fs;
use std::path::{Path, PathBuf};

/// The file of the repository that has this path.
pub(crate) fn read(path: &str) -> String {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&whole).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A part of a page that is printed from the source: between its marks stands exactly this text. With
/// `LEDGER_PRINT_DOCS` set, the page is rewritten instead.
fn printed(page: &str, name: &str, text: &str) {
    let whole = read(page);
    let begin = format!("<!-- printed: {name} -->\n");
    let (before, rest) = whole.split_once(&begin).unwrap_or_else(|| panic!("{page} has no `{begin}`"));
    let (stands, after) =
        rest.split_once("<!-- end -->").unwrap_or_else(|| panic!("{page}: {name} has no end"));
    if stands == text {
        return;
    }
    assert!(
        std::env::var_os("LEDGER_PRINT_DOCS").is_some(),
        "{page} does not show what the program says of {name}; this prints it: LEDGER_PRINT_DOCS=1 cargo test --locked \
         --features crash-points --test it docs:: -- --test-threads 1\n\n{text}\nbut it shows\n{stands}"
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
    fs::write(path, format!("{before}{begin}{text}<!-- end -->{after}")).unwrap();
}

/// The lines between `kind NAME {` and its end, at the outermost level of a protobuf file.
fn block<'p>(proto: &'p str, kind: &str, name: &str) -> Vec<&'p str> {
    let lines = proto.lines().skip_while(|line| *line != format!("{kind} {name} {{")).skip(1);
    let lines: Vec<&str> = lines.take_while(|line| *line != "}").collect();
    assert!(!lines.is_empty(), "there is no {kind} {name}");
    lines
}

/// All text files below these folders, with their paths in the repository.
fn files(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in folders {
        let mut left = vec![root.join(folder)];
        let before = found.len();
        while let Some(path) = left.pop() {
            if path.is_dir() {
                left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((path.strip_prefix(root).unwrap().to_owned(), text));
            }
        }
        assert!(found.len() > before, "{folder} holds no text");
    }
    found
}
