//! The comments of the calls name the errors that a call may get: those of any call once, at the service, and those of
//! its own at each call. Every reason stands in at least one of these lists, and each word in them is a reason.

use std::collections::{BTreeMap, BTreeSet};

use super::contract::{ADMIN, LEDGER, words};
use super::read;

const COMMON: &str = "Errors of any call:";
const OWN: &str = "Its own errors:";

/// The comments above `service NAME` and above each of its calls, by that name.
fn comments(proto: &str) -> BTreeMap<String, String> {
    let (mut found, mut comment) = (BTreeMap::new(), String::new());
    for line in proto.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("//") {
            // An empty line of a comment ends a paragraph.
            comment = if text.is_empty() { comment + "\n" } else { comment + text };
            continue;
        }
        let name = line.strip_prefix("service ").or_else(|| line.strip_prefix("rpc "));
        if let Some(name) = name.and_then(|name| name.split(['(', ' ']).next()) {
            found.insert(name.to_owned(), std::mem::take(&mut comment));
        }
        comment.clear();
    }
    found
}

/// The words of a paragraph that are written like reasons, what stands in parentheses left out; none: the comment has
/// no paragraph that begins so.
fn listed(comment: &str, begin: &str) -> Option<BTreeSet<String>> {
    let paragraph = comment.lines().find_map(|line| line.trim().strip_prefix(begin))?;
    let mut depth = 0_usize;
    let outside: String = paragraph
        .chars()
        .filter(|letter| {
            depth += usize::from(*letter == '(');
            let kept = depth == 0;
            depth = depth.saturating_sub(usize::from(*letter == ')'));
            kept
        })
        .collect();
    let parts = outside.split(|letter: char| !letter.is_ascii_uppercase() && letter != '_');
    Some(parts.filter(|word| word.len() > 1).map(str::to_owned).collect())
}

/// What is wrong with the lists of these comments, and all that they name.
fn faults(
    comments: &BTreeMap<String, String>,
    reasons: &BTreeSet<String>,
) -> (Vec<String>, BTreeSet<String>) {
    let (mut wrong, mut named) = (Vec::new(), BTreeSet::new());
    for (name, comment) in comments {
        let begin = if name.ends_with("Service") { COMMON } else { OWN };
        let Some(words) = listed(comment, begin) else {
            wrong.push(format!("{name} has no paragraph `{begin} …`"));
            continue;
        };
        let unknown = words.difference(reasons);
        wrong.extend(unknown.map(|word| format!("{name} names {word}, which is no reason")));
        named.extend(words);
    }
    (wrong, named)
}

#[test]
fn the_calls_name_their_errors() {
    let ledger = read(LEDGER);
    let reasons: BTreeSet<String> = words(&ledger, "ErrorReason", "ERROR_REASON_").into_keys().collect();
    let (mut wrong, mut named) = (Vec::new(), BTreeSet::new());
    for (proto, calls) in [(&ledger, 13), (&read(ADMIN), 29)] {
        let comments = comments(proto);
        assert_eq!(comments.len(), calls, "the service and its calls: {:?}", comments.keys());
        let (faults, words) = faults(&comments, &reasons);
        wrong.extend(faults);
        named.extend(words);
    }
    wrong.extend(reasons.difference(&named).map(|word| format!("no call names {word}")));
    assert!(wrong.is_empty(), "the comments of the protobuf files:\n{}", wrong.join("\n"));
}

#[test]
fn a_wrong_list_is_noticed() {
    let reasons = BTreeSet::from(["INVALID_FIELD".to_owned(), "DRAINING".to_owned()]);
    for (proto, count) in [
        ("// Errors of any call: DRAINING;\n// INVALID_FIELD (as `OTHER`).\nservice SomeService {\n", 0),
        (
            "// Text.\n//\n  // Its own errors: none.\n  //\n  // More of GONE.\n  rpc Get(A) returns (B) {\n",
            0,
        ),
        ("  // Its own errors: GONE; DRAINING (the (old) NAME).\n  rpc Get(A) returns (B) {\n", 1),
        ("  // Errors: DRAINING.\n  rpc Get(A) returns (B) {\n", 1),
        ("  // Its own errors: none.\n\n  rpc Get(A) returns (B) {\n", 1),
        ("// Its own errors: none.\nservice SomeService {\n  rpc Get(A) returns (B) {\n", 2),
    ] {
        let (wrong, _) = faults(&comments(proto), &reasons);
        assert_eq!(wrong.len(), count, "{proto}: {wrong:?}");
    }
}
