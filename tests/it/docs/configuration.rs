//! The tables of `docs/configuration.md` are printed from the program: names and texts are those of its flags, bounds
//! those of its refusals, and a default is one when stating it changes nothing.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Args as _, FromArgMatches as _};
use idempotency_ledger::domain::Policy;
use idempotency_ledger::identity::{Rights, Tokens};
use idempotency_ledger::server::config::{Config, Settings};

use super::{block, files, printed, read};

const PAGE: &str = "docs/configuration.md";
/// Beyond every bound.
const FAR: [&str; 5] = ["1000000000000000", "2000000000", "1000000d", "1e15", "1000000000000000000"];

fn command() -> clap::Command {
    Settings::augment_args(clap::Command::new("serve"))
}

/// The configuration with this one flag; or what is wrong with it.
fn with(flags: &[String]) -> Result<Config, Vec<String>> {
    let matches = command().try_get_matches_from([&["serve".to_owned()], flags].concat());
    let settings = matches.and_then(|matches| Settings::from_arg_matches(&matches));
    Config::load(settings.map_err(|error| vec![error.to_string()])?, None)
}

/// How a configuration shows itself, whoever chose the database.
fn shown(config: &Config) -> String {
    format!("{config:?}").replace("by_default: true", "by_default: false")
}

/// `A to B`, as a refusal of this field tells it; none where no value is refused.
fn bounds(field: &str, refused: impl Fn(&str) -> Vec<String>) -> Option<(String, String)> {
    let tell = |problem: &String| {
        let rest = problem.strip_prefix(field)?.strip_prefix(": is ")?;
        let (least, most) = rest.split_once(", must be ")?.1.split_once(" to ")?;
        Some((spoken(least.split(' ').next().unwrap()), spoken(most)))
    };
    FAR.iter().find_map(|value| refused(value).iter().find_map(tell))
}

/// A duration or a number in the way of the page.
fn spoken(value: &str) -> String {
    let with_unit = value.ends_with(|last: char| last.is_ascii_alphabetic());
    let Some(duration) = humantime::parse_duration(value).ok().filter(|_| with_unit) else {
        return value.to_owned();
    };
    let millis = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let unit = units.into_iter().find(|(size, _)| millis % size == 0);
    match unit {
        _ if millis == 0 => "0s".to_owned(),
        Some((size, unit)) => format!("{}{unit}", millis / size),
        None => format!("{millis}ms"),
    }
}

#[test]
fn settings_are_printed() {
    let usual = shown(&with(&[]).unwrap());
    let mut table = "| setting | default | bounds | what it is |\n| --- | --- | --- | --- |\n".to_owned();
    for arg in command().get_arguments() {
        let flag = arg.get_long().unwrap();
        let name = flag.replace('-', "_");
        let variable = format!("IDEMPOTENCY_LEDGER_{}", name.to_uppercase());
        assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(variable.as_str()));
        let help = arg.get_help().unwrap().to_string();
        let (text, default) = help
            .strip_suffix(']')
            .and_then(|help| help.split_once(" [default: "))
            .unwrap_or_else(|| panic!("--{flag}: its help ends with no `[default: …]`: {help}"));
        let stated = with(&[format!("--{flag}={default}")]).unwrap_or_else(|problems| panic!("{problems:?}"));
        assert_eq!(shown(&stated), usual, "--{flag}: its help says that {default} is the default");
        let refused = |value: &str| with(&[format!("--{flag}={value}")]).err().unwrap_or_default();
        let (text, bounds) = match bounds(&name, refused) {
            None => (text, String::new()),
            Some((least, most)) => {
                let texts = [format!(", {least} to {most}"), format!(", at most {most}")];
                let text = texts.iter().find_map(|bounds| text.strip_suffix(bounds.as_str()));
                (text.unwrap_or_else(|| panic!("--{flag}: its help ends with none of {texts:?}: {help}")), {
                    format!("{least} to {most}")
                })
            }
        };
        writeln!(table, "| `{name}` | {default} | {bounds} | {text} |").unwrap();
    }
    printed(PAGE, "settings", &table);
}

/// The configuration with this one field in its policy; or what is wrong with it.
fn with_policy(field: &str, value: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ledger.toml");
    std::fs::write(&file, format!("policy.{field} = {value}\n")).unwrap();
    Config::load(Settings::default(), Some(&file)).err().unwrap_or_default()
}

/// The fields of a policy by their paths, with the comments of the protobuf files.
fn fields(proto: &str, message: &str, prefix: &str) -> Vec<(String, String)> {
    let (mut found, mut comment) = (Vec::new(), Vec::new());
    for line in block(proto, "message", message) {
        let line = line.trim();
        if let Some(text) = line.strip_prefix("// ") {
            comment.push(text.to_owned());
            continue;
        }
        let text = std::mem::take(&mut comment).join(" ");
        let (before, _) = line.split_once(" = ").unwrap();
        let name = before.rsplit_once(' ').unwrap().1;
        if before.starts_with("BackoffPolicy ") {
            found.extend(fields(proto, "BackoffPolicy", "backoff."));
        } else {
            found.push((format!("{prefix}{name}"), text.trim_end_matches('.').to_owned()));
        }
    }
    found
}

/// The defaults of the policy by their paths.
fn defaults() -> BTreeMap<String, String> {
    let whole = serde_json::to_value(Policy::default()).unwrap();
    let mut found = BTreeMap::new();
    let mut left = vec![(String::new(), whole)];
    while let Some((path, value)) = left.pop() {
        match value {
            serde_json::Value::Object(fields) => {
                left.extend(fields.into_iter().map(|(name, value)| {
                    (if path.is_empty() { name } else { format!("{path}.{name}") }, value)
                }))
            }
            serde_json::Value::Null => drop(found.insert(path, "none".to_owned())),
            serde_json::Value::String(word) => drop(found.insert(path, word)),
            value => drop(found.insert(path, value.to_string())),
        }
    }
    found
}

#[test]
fn fields_of_policies_are_printed() {
    let defaults = defaults();
    let mut table = "| field | default | bounds | what it is |\n| --- | --- | --- | --- |\n".to_owned();
    let fields = fields(&read("proto/idempotency/ledger/v1/admin.proto"), "Policy", "");
    assert_eq!(fields.len(), defaults.len(), "{fields:?} {defaults:?}");
    for (name, text) in fields {
        let refused = |value: &str| {
            let value = if value.ends_with('d') { format!("\"{value}\"") } else { value.to_owned() };
            with_policy(&name, &value)
        };
        let bounds = bounds(&format!("policy.{name}"), refused);
        // What is bounded by durations is one, and kept in microseconds.
        let span = bounds.as_ref().is_some_and(|(_, most)| most.ends_with(|last: char| last.is_alphabetic()));
        let default = if span { spoken(&format!("{}us", defaults[&name])) } else { defaults[&name].clone() };
        let bounds = bounds.map(|(least, most)| format!("{least} to {most}")).unwrap_or_default();
        writeln!(table, "| `{name}` | {default} | {bounds} | {text} |").unwrap();
    }
    printed(PAGE, "policies", &table);
}

/// Flags that are no settings of the file stand on the page by name, with their variables.
#[test]
fn every_flag_is_on_the_page() {
    let help = std::process::Command::new(env!("CARGO_BIN_EXE_idempotency-ledger"));
    let help = { help }.args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let page = read(PAGE);
    let flags = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
    let flags: Vec<&str> = flags.filter(|flag| *flag != "help").collect();
    assert!(flags.len() > 20, "{help}");
    for flag in flags {
        let setting = format!("| `{}` |", flag.replace('-', "_"));
        assert!(
            page.contains(&setting) || page.contains(&format!("`--{flag}`")),
            "{PAGE} tells nothing of --{flag}"
        );
    }
}

/// The files that the documents show can be used as they stand: the server's, and those of contexts.
#[test]
fn shown_files_are_accepted() {
    let (mut servers, mut contexts, mut rights) = (0, 0, 0);
    let mut pages = files(&["docs"]);
    pages.push(("README.md".into(), read("README.md")));
    for (path, text) in pages {
        for part in text.split("```toml\n").skip(1) {
            let folder = tempfile::tempdir().unwrap();
            let (file, text) = (folder.path().join("shown.toml"), part.split("```").next().unwrap());
            std::fs::write(&file, text).unwrap();
            if text.contains("[[rights]]") {
                let warnings = Rights::read(text).unwrap().lint(None, 0);
                assert!(warnings.is_empty(), "{}: {warnings:?}", path.display());
                rights += 1;
                continue;
            }
            if text.starts_with("[tokens]") {
                Tokens::read(text).unwrap();
                continue;
            }
            if text.contains("\n[contexts.") {
                let mut list = std::process::Command::new(env!("CARGO_BIN_EXE_idempotency-ledger"));
                list.args(["context", "list", "--contexts-file"]).arg(&file);
                let listed = list.output().unwrap();
                assert!(
                    listed.status.success() && !listed.stdout.is_empty(),
                    "{}: {listed:?}",
                    path.display()
                );
                contexts += 1;
                continue;
            }
            if let Err(problems) = Config::load(Settings::default(), Some(&file)) {
                panic!("{}: {problems:?}", path.display());
            }
            servers += 1;
        }
    }
    assert!(servers * contexts * rights > 0, "no page shows a file: {servers}, {contexts}, {rights}");
}
