//! What the documents say, compared with the source.

mod citations;
mod contract;

use std::fs;
use std::path::{Path, PathBuf};

/// The file of the repository that has this path.
fn read(path: &str) -> String {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&whole).unwrap_or_else(|error| panic!("{path}: {error}"))
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
