//! A fold: several commands for one key, decided one after the other in memory, and written once.

use super::{Answer, Command, Context, Decision, Entry, Key, decide};

/// Several commands for one key. Each command is decided on the entry as the commands before it left it, as
/// if each had been written before the next one arrived. Their outcome is one write, and one step of the
/// version: the write replaces the entry that was read, and no reader ever sees the states between.
///
/// An answer that depends on a change must not be given before that write is durable. If the write is lost,
/// nothing that was decided here counts.
#[derive(Debug)]
pub struct Fold<'a> {
    key: &'a Key,
    read: Option<&'a Entry>,
    write: Option<Entry>,
    grants: bool,
}

/// One command of a fold.
#[derive(Clone, Debug, PartialEq)]
pub struct Folded {
    /// Its answer.
    pub answer: Answer,
    /// It changed the entry: the write of the fold carries its change.
    pub wrote: bool,
}

impl<'a> Fold<'a> {
    /// Begins with the entry that was read.
    #[must_use]
    pub fn new(key: &'a Key, read: Option<&'a Entry>) -> Fold<'a> {
        Fold { key, read, write: None, grants: false }
    }

    /// The entry as the commands so far left it.
    #[must_use]
    pub fn entry(&self) -> Option<&Entry> {
        self.write.as_ref().or(self.read)
    }

    /// Decides the next command, without keeping the decision.
    #[must_use]
    pub fn decide(&self, command: &Command, context: &Context<'_>) -> Decision {
        decide(self.key, self.entry(), command, context)
    }

    /// Keeps the decision on the next command.
    pub fn keep(&mut self, decision: Decision) -> Folded {
        let Decision { answer, write, grants } = decision;
        let wrote = write.is_some();
        if let Some(mut next) = write {
            // However many commands change the entry, it is written once.
            if let Some(before) = &self.write {
                next.version = before.version;
            }
            self.write = Some(next);
            self.grants |= grants;
        }
        Folded { answer, wrote }
    }

    /// The entry to write where the version is still the one that was read, and whether the write is valid
    /// only under the policy in force at that time; `None` if nothing changes.
    #[must_use]
    pub fn into_write(self) -> Option<(Entry, bool)> {
        self.write.map(|entry| (entry, self.grants))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Policy, Reply, State, StoreTime};

    fn decision(version: Option<i64>, grants: bool) -> Decision {
        let write = version.map(|version| Entry {
            version,
            ..Entry::blank(&Key::new("c", "s", "1"), &Policy::default(), StoreTime(0))
        });
        let answer =
            Ok(Reply::Released { state: State::Received, replayed: false, unpinned: false, in_a_row: 1 });
        Decision { answer, write, grants }
    }

    /// Each decision has the version that it writes, and whether it is a grant.
    #[test]
    fn fold_writes_its_last_entry_with_its_first_version() {
        for (decisions, written) in [
            (vec![], None),
            (vec![(None, false)], None),
            (vec![(Some(7), false)], Some((7, false))),
            (vec![(Some(7), true)], Some((7, true))),
            (vec![(Some(7), true), (Some(8), false), (None, false)], Some((7, true))),
            (vec![(Some(7), false), (Some(8), true)], Some((7, true))),
            (vec![(Some(7), false), (Some(8), false)], Some((7, false))),
        ] {
            let key = Key::new("c", "s", "1");
            let mut fold = Fold::new(&key, None);
            for &(version, grants) in &decisions {
                assert_eq!(fold.keep(decision(version, grants)).wrote, version.is_some());
            }
            let found = fold.into_write().map(|(entry, grants)| (entry.version, grants));
            assert_eq!(found, written, "{decisions:?}");
        }
    }
}
