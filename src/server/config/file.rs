//! The file: settings at its top level, policies, and issuers of tokens. Each value is read by itself, so that all that cannot be read is
//! reported at once.

use std::collections::BTreeMap;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::issuers::IssuerArgs;
use super::problem::{Places, Problem};
use super::settings::Settings;
use crate::policy_args::PolicyArgs;

/// What a file states.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) settings: Settings,
    pub(super) policy: PolicyArgs,
    pub(super) consumers: BTreeMap<String, PolicyArgs>,
    pub(super) issuers: BTreeMap<String, IssuerArgs>,
}

/// Reads a file. What is wrong is added to the problems; what is right is returned.
pub(super) fn read(path: &Path, places: &mut Places, problems: &mut Vec<Problem>) -> File {
    path.clone_into(&mut places.file);
    if path.as_os_str().is_empty() {
        let text = "config: is empty: name a file, or leave it out".to_owned();
        problems.push(Problem { text, place: places.of("config") });
        return File::default();
    }
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let text = format!("config: {}: {error}", path.display());
            problems.push(Problem { text, place: places.of("config") });
            return File::default();
        }
    };
    let (root, errors) = DeTable::parse_recoverable(&text);
    for error in &errors {
        let place = error.span().map(|span| format!("{}, line {}", path.display(), line(&text, span.start)));
        problems.push(Problem { text: format!("config: {}", error.message()), place });
    }
    lines(root.get_ref(), "", &text, &mut places.lines);
    // What cannot be parsed has no values that could be trusted.
    match toml::from_str(&text) {
        Ok(root) if errors.is_empty() => parts(root, places, problems),
        Ok(_) | Err(_) => File::default(),
    }
}

/// The number of the line that holds this byte.
fn line(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

/// The path of a key as problems name it: a consumer's name is quoted.
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

fn parts(mut root: Table, places: &Places, problems: &mut Vec<Problem>) -> File {
    let mut wrong = |path: &str, text: &str| {
        // Without the position, which is the place's.
        let text = text.trim().lines().next().unwrap_or_default();
        // It is the file's own value, though a flag of the same name may stand above it.
        let place = places.in_file(path).unwrap_or_else(|| places.file.display().to_string());
        problems.push(Problem { text: format!("{path}: {text}"), place: Some(place) });
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

/// A table's values, each read by itself, and then together.
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

/// The values that are no tables, each with its keys.
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
