//! The options that all commands of a group share may stand before the group's name too: `--json entries list` is
//! `entries --json list`.

use std::ffi::OsString;

use clap::{Arg, Command};

/// The words of a command line, the binary's name first, with the shared options moved after the name of
/// their group. Other words stay in place, so that clap refuses them as usual.
#[must_use]
pub fn options_behind_group(words: Vec<OsString>, root: &Command) -> Vec<OsString> {
    let mut group = 1;
    while let Some(option) = words.get(group).and_then(|word| word.to_str()?.strip_prefix("--")) {
        let (name, value) =
            option.split_once('=').map_or((option, None), |(name, value)| (name, Some(value)));
        let Some(shared) = root.get_subcommands().find_map(|group| shared(group, name)) else { return words };
        let takes_next = value.is_none() && shared.get_action().takes_values();
        group += if takes_next { 2 } else { 1 };
    }
    let known = words.get(group).and_then(|word| root.find_subcommand(word));
    let names = words.get(1..group).unwrap_or_default().iter().filter_map(|word| word.to_str());
    let names = names.filter_map(|word| Some(word.strip_prefix("--")?.split('=').next().unwrap_or_default()));
    if !known.is_some_and(|known| names.into_iter().all(|name| shared(known, name).is_some())) {
        return words;
    }
    let mut words = words;
    if let Some(before) = words.get_mut(1..=group) {
        before.rotate_right(1);
    }
    words
}

/// The option of this name that all commands of a group share.
fn shared<'g>(group: &'g Command, name: &str) -> Option<&'g Arg> {
    let is_named = |arg: &&Arg| {
        let names = arg.get_long_and_visible_aliases().unwrap_or_default();
        arg.is_global_set() && names.contains(&name)
    };
    group.get_arguments().find(is_named)
}

#[cfg(test)]
mod tests {
    use clap::ArgAction::SetTrue;

    use super::*;

    #[test]
    fn only_shared_options_are_moved() {
        let json = Arg::new("json").long("json").global(true).action(SetTrue);
        let endpoint = Arg::new("endpoint").long("endpoint").visible_alias("server").global(true);
        let own = Arg::new("own").long("own");
        let group = Command::new("entries").args([json, endpoint, own]).subcommand(Command::new("list"));
        let serve = Command::new("serve").arg(Arg::new("listen").long("listen"));
        let root = Command::new("ledger").subcommands([group, serve]);
        for (typed, arranged) in [
            ("ledger", "ledger"),
            ("ledger entries list", "ledger entries list"),
            ("ledger entries --json list", "ledger entries --json list"),
            ("ledger --json entries list", "ledger entries --json list"),
            ("ledger --endpoint a:1 --json entries list", "ledger entries --endpoint a:1 --json list"),
            ("ledger --endpoint=a:1 entries list --json", "ledger entries --endpoint=a:1 list --json"),
            ("ledger --server a:1 entries list", "ledger entries --server a:1 list"),
            // A value that looks like a command.
            ("ledger --endpoint entries entries list", "ledger entries --endpoint entries list"),
            // These are refused unchanged.
            ("ledger --endpoint entries list", "ledger --endpoint entries list"),
            ("ledger --own x entries list", "ledger --own x entries list"),
            ("ledger --json serve", "ledger --json serve"),
            ("ledger --json", "ledger --json"),
            ("ledger --json --help", "ledger --json --help"),
            ("ledger --endpoint", "ledger --endpoint"),
            ("ledger -- --json entries", "ledger -- --json entries"),
            ("ledger --version entries", "ledger --version entries"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(options_behind_group(words(typed), &root), words(arranged), "{typed}");
        }
    }
}
