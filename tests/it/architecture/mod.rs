//! The borders that a single crate does not have by itself, and the promises that are about the
//! source: who may import whom, where time and randomness live, what is published.

mod graph;
mod phrases;
mod settings;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use idempotency_ledger::proto::ErrorReason;

use self::graph::Graph;

/// The text files in a folder, with those in its folders.
pub(crate) fn files(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(text) = fs::read_to_string(&path) {
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} is empty");
    found
}

/// The code of a file, without its comments.
pub(crate) fn code(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// What no room may name but the one whose duty it is.
#[test]
fn what_is_inside_a_room_stays_there() {
    // Who, and what must not stand there.
    let rows: &[(&str, &[&str])] = &[
        ("src/domain", &["sqlx", "tonic", "tokio", "async ", "tracing"]),
        ("src/identity", &["sqlx", "tonic", "std::fs", "tracing"]),
        ("src/store", &["tonic"]),
        (
            "src/ledger",
            &["sqlx", "tonic", "PostgresStore", "SqliteStore", "store::postgres", "store::sqlite"],
        ),
        ("src/rpc", &["sqlx", "PostgresStore", "SqliteStore", "dyn Store", "dyn Session"]),
        ("src/listener", &["sqlx", "tonic", "prost"]),
        ("src/cli", &["sqlx"]),
    ];
    for (folder, forbidden) in rows {
        for (path, text) in files(folder) {
            for word in *forbidden {
                assert!(!code(&text).contains(word), "{} must not use {word}", path.display());
            }
        }
    }
}

/// What the rooms of `src` use, drawn from their code.
fn drawn() -> Graph {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut modules = BTreeMap::new();
    for (path, text) in files("src") {
        let path = path.strip_prefix(&root).unwrap().with_extension("");
        let mut module: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module.last().is_some_and(|name| name == "mod" || name == "lib") {
            module.pop();
        }
        // The interleavings are a test, and put their own clock in the runtime's place. Unit tests may use what they like.
        if module == ["main"]
            || module.iter().any(|name| ["interleavings", "runtime", "tests"].contains(&name.as_str()))
        {
            continue;
        }
        let own = text.split("\n#[cfg(test").next().unwrap().split("\n#[cfg(all(test").next().unwrap();
        let code = code(own).replace("pub(in crate::", "pub(in ");
        // The rules are a separate crate, which the others know as `crate::domain`.
        let of_rules = module.first().is_some_and(|room| room == "domain");
        let code = if of_rules { code.replace("crate::", "crate::domain::") } else { code };
        modules.insert(module, code);
    }
    Graph::new(&modules)
}

#[test]
fn no_file_and_no_room_uses_one_that_uses_it() {
    let graph = drawn();
    assert_eq!(graph.circle(), None, "files in a circle");
    assert_eq!(graph.of_rooms().circle(), None, "rooms in a circle");
}

/// Each room, and the rooms that it may use. Everything but the domain may use `common`, which uses no room.
const WALLS: &[(&str, &[&str])] = &[
    ("common", &[]),
    ("domain", &[]),
    ("proto", &["common"]),
    ("metrics", &["domain", "common"]),
    ("traces", &["domain"]),
    ("identity", &["common"]),
    ("store", &["domain", "common"]),
    ("ledger", &["domain", "store", "metrics", "traces", "common"]),
    ("wire", &["domain", "proto", "common"]),
    ("accounts", &["domain", "identity", "metrics", "proto", "wire", "common"]),
    ("listener", &["identity", "metrics", "accounts", "common"]),
    (
        "rpc",
        &[
            "domain", "identity", "ledger", "metrics", "traces", "proto", "wire", "accounts", "listener",
            "common",
        ],
    ),
    ("policy_args", &["proto", "common"]),
    ("cli", &["identity", "proto", "policy_args", "common"]),
    (
        "server",
        &[
            "domain",
            "identity",
            "store",
            "metrics",
            "traces",
            "ledger",
            "rpc",
            "proto",
            "wire",
            "accounts",
            "listener",
            "cli",
            "policy_args",
            "common",
        ],
    ),
    ("bench", &["cli", "proto", "common"]),
    ("command_line", &["server", "cli", "bench", "common"]),
];

/// The room of a module: the folder or file of `src` that it lies in.
fn room(module: &[String]) -> Option<&'static str> {
    let first = module.first()?;
    let room = WALLS.iter().map(|(room, _)| *room).find(|room| room == first);
    Some(room.unwrap_or_else(|| panic!("src/{first} is not a room of WALLS: say what it may use")))
}

#[test]
fn each_room_uses_only_what_it_may() {
    for (from, targets) in drawn().arrows {
        for to in targets {
            // The crate's root names its rooms, and uses none.
            let (Some(one), Some(other)) = (room(&from), room(&to)) else { continue };
            let (_, may) = WALLS.iter().find(|(room, _)| *room == one).unwrap();
            let (from, to) = (from.join("/"), to.join("/"));
            assert!(
                one == other || may.contains(&other),
                "src/{from} uses src/{to}: {one} must not use {other}"
            );
        }
    }
}

/// The type that a line of code declares, if it declares one.
fn declared(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(") ")?.1,
        Some(rest) => rest.trim_start(),
        None => line,
    };
    let named = ["struct ", "enum ", "trait "].iter().find_map(|word| line.strip_prefix(word))?;
    named.split(|letter: char| !letter.is_alphanumeric()).next()
}

/// One word, one thing.
#[test]
fn a_type_name_stands_in_at_most_two_rooms() {
    assert_eq!(declared("    pub(in crate::x) struct Turn<T> {"), Some("Turn"));
    assert_eq!(declared("enum Kind {"), Some("Kind"));
    assert_eq!(declared("// struct A"), None);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut rooms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let code = files("src")
        .into_iter()
        .filter(|(path, _)| !path.iter().any(|part| part == "tests" || part == "tests.rs"));
    for (path, text) in code {
        let room = path.strip_prefix(&root).unwrap().iter().next().unwrap().to_string_lossy().into_owned();
        let own = text.split("\n#[cfg(test").next().unwrap();
        for name in own.lines().filter_map(declared) {
            rooms.entry(name.to_owned()).or_default().insert(room.clone());
        }
    }
    let many: Vec<_> = rooms.iter().filter(|(_, rooms)| rooms.len() > 2).collect();
    assert!(many.is_empty(), "a name of types in more than two rooms means two things: {many:?}");
}

/// A file of one duty is short. Where one is longer, its first lines say why.
#[test]
fn long_files_say_why() {
    const LINES_MAX: usize = 400;
    let code = files("src").into_iter().chain(files("tests/it"));
    for (path, text) in code.filter(|(path, _)| path.extension().is_some_and(|end| end == "rs")) {
        let says =
            text.lines().take_while(|line| line.starts_with("//!")).any(|line| line.contains("Long because"));
        let lines = text.lines().count();
        assert!(
            says || lines <= LINES_MAX,
            "{} has {lines} lines: split it, or say `Long because …` at its top",
            path.display()
        );
    }
}

/// A run of spaces within a text: its line was broken without a backslash, and users read the indentation.
#[test]
fn texts_have_no_indentation_inside() {
    let is_broken = |line: &str| {
        let line = line.trim_start();
        let (before, after) = line.split_once("      ").unwrap_or_default();
        // Within quotation marks, an odd number of which stands before it, and between words: tables have such runs, too.
        let is_inside = before.replace("\\\"", "").matches('"').count() % 2 == 1 && !before.ends_with("\\n");
        let is_of_words = before.ends_with(|one: char| one.is_lowercase() || ".,;}`".contains(one))
            && after.trim_start().starts_with(|one: char| one.is_alphabetic() || "{`".contains(one));
        is_inside && is_of_words && !line.starts_with("//")
    };
    assert!(is_broken("    \"the producer in       the source\"") && !is_broken("A,       \"b\""));
    assert!(!is_broken("\"backoff:\\n      initial\""));
    for (path, text) in files("src") {
        let broken = text.lines().find(|line| is_broken(line));
        assert_eq!(broken, None, "{}", path.display());
    }
}

#[test]
fn time_and_randomness_have_one_home_each() {
    // The operators' command line has a clock of its own, which only tells ages.
    for (word, homes) in [
        ("SystemTime::now", &["src/store/clock.rs", "src/cli/clock.rs"][..]),
        ("Uuid::new_v4", &["src/common/random.rs"]),
    ] {
        for (path, text) in files("src") {
            let home = homes.iter().any(|home| path.ends_with(home));
            assert!(home || !code(&text).contains(word), "{word} in {}", path.display());
        }
    }
}

#[test]
fn every_reason_is_published() {
    let source =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/domain/reason.rs")).unwrap();
    let body = source.split("\nreasons! {").nth(1).unwrap().split('}').next().unwrap();
    let words = body.lines().filter_map(|line| line.split('"').nth(1));
    let words: Vec<String> = words.map(|word| format!("ERROR_REASON_{word}")).collect();
    for word in &words {
        assert!(ErrorReason::from_str_name(word).is_some(), "{word} is not published");
    }
    let published = (1..).map_while(|number| ErrorReason::try_from(number).ok());
    for reason in published {
        assert!(words.iter().any(|word| word == reason.as_str_name()), "{reason:?} is never used");
    }
}

#[test]
fn both_stores_have_the_same_migrations() {
    let names = |store: &str| {
        let mut names: Vec<_> = files(&format!("migrations/{store}"))
            .iter()
            .map(|(path, _)| path.file_name().unwrap().to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(names("postgres"), names("sqlite"));
}
