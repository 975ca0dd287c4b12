//! `docs/contract.md` names everything that the protobuf files publish, and says of each error what they say.

use std::collections::{BTreeMap, BTreeSet};

use super::{block, read};

pub(super) const LEDGER: &str = "proto/idempotency/ledger/v1/ledger.proto";
pub(super) const ADMIN: &str = "proto/idempotency/ledger/v1/admin.proto";

/// The text of a section, its subsections included.
fn section(number: u32) -> String {
    let contract = read("docs/contract.md");
    let start = format!("\n## {number}. ");
    let text = contract.split_once(&start).unwrap_or_else(|| panic!("there is no section {number}")).1;
    text.split("\n## ").next().unwrap().to_owned()
}

/// The values of an enum, without prefix, but the unspecified one, each with its comment.
pub(super) fn words(proto: &str, name: &str, prefix: &str) -> BTreeMap<String, String> {
    let (mut found, mut comment) = (BTreeMap::new(), String::new());
    for line in block(proto, "enum", name) {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("// ") {
            comment = format!("{comment} {text}").trim().to_owned();
        } else if let Some((word, _)) = line.strip_prefix(prefix).and_then(|line| line.split_once(" = ")) {
            found.insert(word.to_owned(), std::mem::take(&mut comment));
        }
    }
    found.remove("UNSPECIFIED").expect("each enum has it");
    assert!(!found.is_empty(), "{name}");
    found
}

fn names_all(number: u32, words: impl IntoIterator<Item = String>) {
    let text = section(number);
    let missing: Vec<String> =
        words.into_iter().filter(|word| !text.contains(&format!("`{word}`"))).collect();
    assert!(missing.is_empty(), "docs/contract.md, section {number}, does not name {missing:?}");
}

#[test]
fn states_and_causes_are_named() {
    let (ledger, admin) = (read(LEDGER), read(ADMIN));
    names_all(1, words(&ledger, "Advice", "ADVICE_").into_keys());
    names_all(2, words(&ledger, "EntryState", "ENTRY_STATE_").into_keys());
    names_all(2, words(&ledger, "ParkCause", "PARK_CAUSE_").into_keys());
    names_all(2, words(&admin, "ClosedBy", "CLOSED_BY_").into_keys());
}

#[test]
fn calls_are_named() {
    for (path, service) in [(LEDGER, "LedgerService"), (ADMIN, "AdminService")] {
        let text = read(path);
        let calls = block(&text, "service", service).into_iter().filter_map(|line| {
            line.trim().strip_prefix("rpc ")?.split_once('(').map(|(name, _)| name.to_owned())
        });
        let calls: Vec<String> = calls.collect();
        assert!(calls.len() > 5, "the calls of {service} were read: {calls:?}");
        names_all(3, calls.into_iter().chain([service.to_owned()]));
    }
}

#[test]
fn verdicts_and_their_fields_are_named() {
    let ledger = read(LEDGER);
    let field = |line: &&str| {
        let (before, _) = line.trim().split_once(" = ").filter(|(before, _)| !before.starts_with("//"))?;
        before.rsplit_once(' ').map(|(_, name)| name.to_owned())
    };
    let fields = |name| block(&ledger, "message", name).iter().filter_map(field).collect::<Vec<String>>();
    names_all(4, fields("ClaimResponse").into_iter().filter(|name| name != "advice"));
    for verdict in ["Acquired", "Completed", "InProgress", "Backoff", "Failed", "Parked", "OutsideWindow"] {
        // What a batch leaves out is told with the limits.
        names_all(4, fields(verdict).into_iter().filter(|name| name != "checkpoint_omitted"));
    }
}

/// The rows of the table of errors: reason, status, and whether it was applied.
fn told(table: &str) -> BTreeMap<String, (String, String)> {
    let mut found = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with("| ") && line.matches('|').count() == 7) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        for reason in cells[1].split('`').skip(1).step_by(2) {
            let status = cells[0].split(';').next().unwrap().to_owned();
            let before = found.insert(reason.to_owned(), (status, cells[2].to_owned()));
            assert_eq!(before, None, "{reason} stands in the table twice");
        }
    }
    found
}

#[test]
fn errors_are_those_of_the_enum() {
    let published =
        words(&read(LEDGER), "ErrorReason", "ERROR_REASON_").into_iter().map(|(word, comment)| {
            let status = comment.split([' ', ',']).next().unwrap().to_owned();
            let applied = if comment.contains(", not applied:") { "no" } else { "unknown" };
            assert!(applied == "no" || comment.contains(", unknown whether applied:"), "{word}: {comment}");
            (word, (status, applied.to_owned()))
        });
    let (told, published): (BTreeMap<_, _>, BTreeMap<_, _>) = (told(&section(7)), published.collect());
    let all: BTreeSet<&String> = told.keys().chain(published.keys()).collect();
    let wrong = all.into_iter().filter(|word| told.get(*word) != published.get(*word));
    let wrong =
        wrong.map(|word| format!("{word}: {:?}, published: {:?}", told.get(word), published.get(word)));
    let wrong: Vec<String> = wrong.collect();
    assert!(wrong.is_empty(), "docs/contract.md, section 7:\n{}", wrong.join("\n"));
}
