//! The configuration file: settings at the top level, policies, and issuers of tokens. Each value is read separately, so that all
//! problems are reported together.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::issuers::IssuerArgs;
use super::problem::{Problem, ValueSources};
use super::settings::Settings;
use crate::policy_args::PolicyArgs;

/// The contents of a file.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) settings: Settings,
    pub(super) policy: PolicyArgs,
    pub(super) consumers: BTreeMap<String, PolicyArgs>,
    pub(super) issuers: BTreeMap<String, IssuerArgs>,
}

/// Reads a file. Problems are added to the list; valid values are returned.
pub(super) fn read(path: &Path, sources: &mut ValueSources, problems: &mut Vec<Problem>) -> File {
    path.clone_into(&mut sources.file);
    if path.as_os_str().is_empty() {
        let text = "config: is empty: name a file, or leave it out".to_owned();
        problems.push(Problem { text, source: sources.of("config") });
        return File::default();
    }
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let text = format!("config: {}: {error}", path.display());
            problems.push(Problem { text, source: sources.of("config") });
            return File::default();
        }
    };
    let (root, errors) = DeTable::parse_recoverable(&text);
    for error in &errors {
        let source = error.span().map(|span| format!("{}, line {}", path.display(), line(&text, span.start)));
        problems.push(Problem { text: format!("config: {}", error.message()), source });
    }
    lines(root.get_ref(), "", &text, &mut sources.lines);
    // Without a successful parse, no value can be trusted.
    match toml::from_str(&text) {
        Ok(root) if errors.is_empty() => parts(root, sources, problems),
        Ok(_) | Err(_) => File::default(),
    }
}

/// The number of the line with this byte offset.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The path of a key in problems: a consumer's name is quoted.
fn join(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        "consumers" => format!("{path}.{key:?}"),
        _ => format!("{path}.{key}"),
    }
}

fn lines(table: &DeTable<'_>, path: &str, text: &str, found: &mut BTreeMap<String, usize>) {
    for (key, value) in table {
        let path = join(path, key.get_ref());
        found.insert(path.clone(), line(text, key.span().start));
        if let DeValue::Table(inner) = value.get_ref() {
            lines(inner, &path, text, found);
        }
    }
}

fn parts(mut root: Table, sources: &ValueSources, problems: &mut Vec<Problem>) -> File {
    let mut wrong = |path: &str, text: &str| {
        // Only the first line: the position follows from the source.
        let text = text.trim().lines().next().unwrap_or_default();
        // The value of the file, even if a flag of the same name overrides it.
        let source = sources.in_file(path).unwrap_or_else(|| sources.file.display().to_string());
        problems.push(Problem { text: format!("{path}: {text}"), source: Some(source) });
    };
    let policy = root.remove("policy").unwrap_or(Value::Table(Table::new()));
    let policy = section("policy", policy, &mut wrong);
    let consumers = root.remove("consumers").unwrap_or(Value::Table(Table::new()));
    let consumers = if let Value::Table(consumers) = consumers {
        consumers
    } else {
        wrong("consumers", "must be sections like [consumers.\"payments\"]");
        Table::new()
    };
    let consumers = consumers.into_iter().map(|(name, args)| {
        let args = section(&join("consumers", &name), args, &mut wrong);
        (name, args)
    });
    let consumers = consumers.collect();
    let issuers = root.remove("issuers").unwrap_or(Value::Table(Table::new()));
    let issuers = if let Value::Table(issuers) = issuers {
        issuers
    } else {
        wrong("issuers", "must be sections like [issuers.corp]");
        Table::new()
    };
    let issuers = issuers.into_iter().map(|(name, args)| {
        let args = section(&join("issuers", &name), args, &mut wrong);
        (name, args)
    });
    let issuers = issuers.collect();
    File { settings: each("", root, &mut wrong), policy, consumers, issuers }
}

/// A section of fields.
fn section<T: DeserializeOwned + Default>(path: &str, value: Value, wrong: &mut impl FnMut(&str, &str)) -> T {
    if let Value::Table(table) = value {
        return each(path, table, wrong);
    }
    wrong(path, "must be a section of fields like `lease = \"2m\"`");
    T::default()
}

/// The values of a table, each read separately, and then together.
fn each<T: DeserializeOwned + Default>(path: &str, table: Table, wrong: &mut impl FnMut(&str, &str)) -> T {
    let mut sound = Table::new();
    for (keys, value) in leaves(table) {
        match nested(&keys, value.clone()).try_into::<T>() {
            Ok(_) => put(&mut sound, &keys, value),
            Err(error) => {
                let path = keys.iter().fold(path.to_owned(), |path, key| join(&path, key));
                wrong(&path, error.message());
            }
        }
    }
    sound.try_into().unwrap_or_else(|error: toml::de::Error| {
        wrong(if path.is_empty() { "config" } else { path }, error.message());
        T::default()
    })
}

/// The values that are not tables, each with its path of keys.
fn leaves(table: Table) -> Vec<(Vec<String>, Value)> {
    let mut found = Vec::new();
    for (key, value) in table {
        if value.as_table().is_none_or(Table::is_empty) {
            found.push((vec![key], value));
        } else if let Value::Table(inner) = value {
            found.extend(leaves(inner).into_iter().map(|(mut keys, value)| {
                keys.insert(0, key.clone());
                (keys, value)
            }));
        }
    }
    found
}

fn nested(keys: &[String], value: Value) -> Table {
    let mut table = Table::new();
    put(&mut table, keys, value);
    table
}

fn put(table: &mut Table, keys: &[String], value: Value) {
    match keys {
        [] => {}
        [key] => drop(table.insert(key.clone(), value)),
        [key, rest @ ..] => {
            let inner = table.entry(key.clone()).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                put(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_report_what_is_not_a_section() {
        for (text, expected) in [
            ("[consumers.pay]\nlease = '3s'\n[issuers.corp]\nissuer = 'https://corp'", &[][..]),
            ("consumers = 3", &["consumers: must be sections like [consumers.\"payments\"]"]),
            ("issuers = ['corp']", &["issuers: must be sections like [issuers.corp]"]),
            ("policy = 3", &["policy: must be a section of fields like `lease = \"2m\"`"]),
            (
                "[consumers]\npay = true\n[issuers]\ncorp = 'https://corp'",
                &[
                    "consumers.\"pay\": must be a section of fields like `lease = \"2m\"`",
                    "issuers.corp: must be a section of fields like `lease = \"2m\"`",
                ],
            ),
        ] {
            let mut problems = Vec::new();
            parts(toml::from_str(text).unwrap(), &ValueSources::default(), &mut problems);
            let texts: Vec<String> = problems.into_iter().map(|problem| problem.text).collect();
            assert_eq!(texts, expected, "{text}");
        }
    }
}
