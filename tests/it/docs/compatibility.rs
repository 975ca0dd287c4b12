//! The numbers of docs/compatibility.md are those of this program.

use idempotency_ledger::domain::KEY_FORMAT;
use idempotency_ledger::store::{LEVEL, SCHEMA};

use super::read;

/// The row of this version, as the page must have it.
fn row(postgres: &str) -> String {
    let (version, rust) = (env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_RUST_VERSION"));
    format!("| {version} | {SCHEMA} | {LEVEL} | {KEY_FORMAT} | {postgres} | {rust} |")
}

#[test]
fn table_of_releases_has_the_numbers_of_this_program() {
    let readme = read("README.md");
    let postgres = readme.split_once("or Postgres ").unwrap().1.split_once('.').unwrap().0;
    let row = row(postgres);
    assert!(
        read("docs/compatibility.md").lines().any(|line| line == row),
        "docs/compatibility.md must have: {row}"
    );
}
