//! Each promise of SECURITY.md, and each bound of docs/threats.md, names the suites that prove it, and they exist.

use std::path::Path;

use super::read;

/// What a comment behind a promise begins with.
const PROVED: &str = "<!-- proved by:";
/// The rows of docs/threats.md whose bound is not the ledger's own: what stands in the column begins so.
const BOUNDED_BY_OTHERS: [&str; 2] = ["nothing", "the database's own rights"];
/// The row that is bounded by the modes of files alone, which an administrator sets.
const MODES_ALONE: &str = "modes of files";

/// Whether a suite of this name is in `tests/it`: a module with tests, or one test of it.
pub(super) fn exists(name: &str) -> bool {
    let module = |parts: &[&str]| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it").join(parts.join("/"));
        let inside = [path.with_extension("rs"), path.join("mod.rs")];
        inside.iter().find_map(|file| std::fs::read_to_string(file).ok())
    };
    let parts: Vec<&str> = name.split("::").collect();
    if let Some(text) = module(&parts) {
        let is_tested = ["#[test]", "#[tokio::test", "_stores!("].iter().any(|mark| text.contains(mark));
        return is_tested || text.lines().any(|line| line.starts_with("mod "));
    }
    let Some((test, parents)) = parts.split_last() else { return false };
    module(parents).is_some_and(|text| is_test(&text, test))
}

/// Whether a function of a file is a test: by its attribute, or stamped once for each store.
fn is_test(text: &str, name: &str) -> bool {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = |line: &str| {
        line.trim_start_matches("async ")
            .strip_prefix("fn ")
            .is_some_and(|rest| rest.starts_with(&format!("{name}(")))
    };
    let Some(at) = lines.iter().position(|line| begins(line)) else { return false };
    let attribute = at.checked_sub(1).map_or("", |before| lines[before]);
    attribute.starts_with("#[test]")
        || attribute.starts_with("#[tokio::test")
        || text.contains("_stores!(") && lines.contains(&format!("{name},").as_str())
}

/// The promises, each with the suites that it names.
fn promises(page: &str) -> Vec<(String, Vec<String>)> {
    let (_, section) = page.split_once("## What is promised\n").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section behind it");
    let section = section.trim_end();
    let bullets = section.split("\n- ").skip(1);
    bullets
        .map(|bullet| {
            let (_, comment) = bullet.split_once(PROVED).unwrap_or((bullet, "-->"));
            let (names, _) = comment.split_once("-->").expect("an end of the comment");
            let first = bullet.lines().next().unwrap_or_default().to_owned();
            (first, names.split_whitespace().map(str::to_owned).collect())
        })
        .collect()
}

/// The rows of the tables that have this heading, without their heads.
fn rows(page: &str, heading: &str) -> Vec<Vec<String>> {
    let (_, table) = page.split_once(&format!("{heading}\n")).unwrap_or_else(|| panic!("no table {heading}"));
    let lines = table.lines().skip(1).take_while(|line| line.starts_with('|'));
    lines
        .map(|line| line.split(" | ").map(|cell| cell.trim_matches(['|', ' ']).to_owned()).collect())
        .collect()
}

#[test]
fn each_promise_names_tests_that_exist() {
    let promises = promises(&read("SECURITY.md"));
    assert!(promises.len() >= 6, "{promises:?}");
    for (promise, names) in promises {
        assert!(!names.is_empty(), "SECURITY.md: `{promise}` must end with `{PROVED} SUITE … -->`");
        for name in names {
            assert!(exists(&name), "SECURITY.md: `{promise}` names {name}, which is not in tests/it");
        }
    }
}

#[test]
fn each_bound_of_a_threat_names_suites_that_exist() {
    let page = read("docs/threats.md");
    let threats = rows(&page, "| who | can | what bounds it | how it is noticed | what to do |");
    let proofs = rows(&page, "| who | suites |");
    assert!(threats.len() > 20, "{threats:?}");
    for threat in &threats {
        let (who, bound) = (&threat[0], &threat[2]);
        let others = BOUNDED_BY_OTHERS.iter().any(|start| bound.starts_with(start)) || bound == MODES_ALONE;
        let proof = proofs.iter().find(|row| row[0] == *who);
        assert_eq!(proof.is_none(), others, "docs/threats.md: what proves the bounds of `{who}` ({bound})");
    }
    for proof in &proofs {
        let who = &proof[0];
        assert!(
            threats.iter().any(|threat| threat[0] == *who),
            "docs/threats.md: `{who}` is in no row of the threats"
        );
        let names: Vec<&str> = proof[1].split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "docs/threats.md: `{who}` has no suite");
        for name in names {
            assert!(exists(name), "docs/threats.md: `{who}` names {name}, which is not in tests/it");
        }
    }
}

#[test]
fn a_name_that_is_no_test_is_noticed() {
    for (name, there) in [
        ("docs::promises", true),
        ("docs::promises::a_name_that_is_no_test_is_noticed", true),
        ("identity", true),
        ("garbage::messages_that_can_not_be_read_are_refused_by_field", true),
        ("docs::promises::exists", false),
        ("docs::promises::no_such_test", false),
        ("docs::no_such_suite", false),
        ("no_such_suite", false),
        ("harness::raw::send", false),
        ("", false),
    ] {
        assert_eq!(exists(name), there, "{name}");
    }
    let page =
        "## What is promised\n\n- **One** <!-- proved by: a b::c -->\n- **Two**\n  more\n\n## What is not\n";
    let expected = [("**One** <!-- proved by: a b::c -->", vec!["a", "b::c"]), ("**Two**", vec![])];
    for ((first, names), (line, expected)) in promises(page).into_iter().zip(expected) {
        assert_eq!((first.as_str(), names), (line, expected.into_iter().map(str::to_owned).collect()));
    }
}
