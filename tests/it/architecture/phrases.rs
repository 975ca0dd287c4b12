//! The language of the house: phrases that readers of many countries read twice, each with what stands in its place. No
//! file of the product has one of them; tests keep what they have, and take no more.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::files;

/// The phrases, in lower case, and what to write instead. `^` is the beginning of a sentence, `*` a word.
const PHRASES: &[(&[&str], &str)] = &[
    (&["whoever", "those who", "somebody"], "the client, the caller, the consumer, the holder"),
    (&["nobody"], "no client, no caller, no consumer"),
    (&["^ so many", "^ so long", "^ so much"], "the number of …, how long …"),
    (&["; none:", "^ none:"], "`None` if …"),
    (&["at the most"], "at most"),
    (&["at the least"], "at least"),
    (&["at once"], "immediately, or concurrently"),
    (&["is no"], "is not a …"),
    (&["has none"], "has no …"),
    (&["takes no"], "does not take …"),
    (&["of late"], "recently"),
    (&["anew", "once more"], "again"),
    (&["for want of", "but for"], "without, except"),
    (&["goes by"], "depends on, follows"),
    (&["shall be", "is to"], "will be, must be"),
    (&["of its own", "of their own", "of his own"], "its own, separate"),
    (&["told", "tells of", "says so"], "reports, logs, returns, describes"),
    (&["what is * is"], "name the thing: X things are Y"),
    (&["beside"], "next to, during, while, besides"),
];

/// How many times the phrase occurs in a line of lower-case text.
fn occurrences(line: &str, phrase: &str) -> usize {
    let is_letter = |letter: char| letter.is_alphanumeric() || letter == '_';
    let (opens, phrase) = phrase.strip_prefix("^ ").map_or((false, phrase), |rest| (true, rest));
    let (first, rest) = phrase.split_once(" *").map_or((phrase, None), |(first, rest)| (first, Some(rest)));
    let is_one = |(at, _): &(usize, &str)| {
        let (before, mut after) = (&line[..*at], &line[at + first.len()..]);
        if let Some(rest) = rest {
            let word = after.trim_start().trim_start_matches(is_letter);
            let Some(end) = word.strip_prefix(rest) else { return false };
            after = end;
        }
        let opened = before
            .trim_end_matches([' ', '/', '!', '#'])
            .chars()
            .last()
            .is_none_or(|end| ".:?".contains(end));
        let alone =
            !(before.ends_with(is_letter) && phrase.starts_with(is_letter)) && !after.starts_with(is_letter);
        alone && (!opens || opened) && !(phrase == "is no" && after.starts_with(" longer"))
    };
    line.match_indices(first).filter(is_one).count()
}

/// The phrases of a text, each with its line and what to write instead.
fn found(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (number, line) in text.to_ascii_lowercase().lines().enumerate() {
        for (phrases, instead) in PHRASES {
            for phrase in *phrases {
                let hit =
                    format!("line {}: \"{}\": write: {instead}", number + 1, phrase.trim_start_matches("^ "));
                found.extend(std::iter::repeat_n(hit, occurrences(line, phrase)));
            }
        }
    }
    found
}

/// The texts that people read: sources, tests, pages, and the manual in the protobuf files.
fn texts() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = ["phrases.rs", "phrases.tsv", "mutants.py"];
    let all = ["src", "tests", "docs", "proto"].into_iter().flat_map(files);
    let readme = root.join("README.md");
    all.chain([(readme.clone(), fs::read_to_string(readme).unwrap())])
        .filter(|(path, _)| {
            path.extension().is_none_or(|end| ["rs", "md", "proto", "py", "sh"].iter().any(|one| *one == end))
        })
        .filter(|(path, _)| !own.contains(&path.file_name().unwrap().to_str().unwrap()))
        .map(|(path, text)| (path.strip_prefix(root).unwrap().to_string_lossy().into_owned(), text))
        .collect()
}

#[test]
fn no_file_gains_a_phrase() {
    let recorded: BTreeMap<&str, usize> = include_str!("phrases.tsv")
        .lines()
        .map(|line| line.split_once('\t').unwrap())
        .map(|(path, count)| (path, count.parse().unwrap()))
        .collect();
    let (mut wrong, mut now) = (String::new(), String::new());
    for (path, text) in texts() {
        let hits = found(&text);
        let most = recorded.get(path.as_str()).copied().unwrap_or_default();
        if !hits.is_empty() {
            writeln!(now, "{path}\t{}", hits.len()).unwrap();
        }
        if hits.len() > most {
            writeln!(
                wrong,
                "{path} has {} of the phrases, at most {most}:\n  {}",
                hits.len(),
                hits.join("\n  ")
            )
            .unwrap();
        } else if hits.len() < most {
            writeln!(wrong, "{path} has {} of the phrases: record that, so that it stays so", hits.len())
                .unwrap();
        }
    }
    if std::env::var_os("LEDGER_PRINT_DOCS").is_some() {
        fs::write(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/architecture/phrases.tsv"), now)
            .unwrap();
        return;
    }
    assert!(
        wrong.is_empty(),
        "{wrong}LEDGER_PRINT_DOCS=1 records the counts of tests/it/architecture/phrases.tsv"
    );
}

#[test]
fn phrases_are_found_with_their_replacement() {
    for (text, hits) in [
        ("Whoever calls is no client, and is no longer served at once.", 3),
        ("/// The token; none: it is absent.\n// None: as before", 2),
        ("fn f() -> Option<u8> {\n    None\n}\nmatch x { None => 1 }", 0),
        ("So long it waits. So many are let in. Not so many.", 2),
        ("At the most two, at the least one, beside others of its own.", 4),
        ("at most, at least, immediately, next to", 0),
    ] {
        assert_eq!(found(text).len(), hits, "{text}: {:?}", found(text));
    }
    assert!(found("of late").concat().contains("line 1: \"of late\": write: recently"));
}
