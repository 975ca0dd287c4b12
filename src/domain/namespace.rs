//! A namespace of entries: those of a consumer, or those of one of its replay runs.

/// Separates a consumer and its replay run in the store's name of their namespace. The edge refuses control
/// characters in names, so that a user cannot choose the name of a run.
const SEPARATOR: char = '\u{1f}';

/// A consumer, live or in one of its replay runs. Rows, lists and quotas are kept by namespace; policy,
/// registration, rights and metrics by the consumer alone.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Namespace {
    name: Box<str>,
    /// The length of the consumer's name, in bytes.
    consumer: usize,
}

impl Namespace {
    /// The namespace of a consumer's live entries.
    #[must_use]
    pub fn live(consumer: String) -> Namespace {
        Namespace { consumer: consumer.len(), name: consumer.into() }
    }

    /// The namespace of a consumer and a run; an empty run means live.
    #[must_use]
    pub fn new(consumer: &str, replay_run: &str) -> Namespace {
        if replay_run.is_empty() {
            return Namespace::live(consumer.to_owned());
        }
        Namespace { name: format!("{consumer}{SEPARATOR}{replay_run}").into(), consumer: consumer.len() }
    }

    /// The namespace that the store has under this name.
    #[must_use]
    pub fn stored(name: &str) -> Namespace {
        Namespace { consumer: name.find(SEPARATOR).unwrap_or(name.len()), name: name.into() }
    }

    /// Its name in the store.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The consumer.
    #[must_use]
    pub fn consumer(&self) -> &str {
        self.name.get(..self.consumer).unwrap_or_default()
    }

    /// The run; empty if live.
    #[must_use]
    pub fn replay_run(&self) -> &str {
        self.name.get(self.consumer + SEPARATOR.len_utf8()..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_is_found_by_its_name() {
        for (consumer, run) in [("c", ""), ("c", "r"), ("", ""), ("\u{e9}t\u{e9}", "2026.q1_a-b")] {
            let made = Namespace::new(consumer, run);
            assert_eq!((made.consumer(), made.replay_run()), (consumer, run));
            assert_eq!(Namespace::stored(made.name()), made);
        }
        assert_eq!(Namespace::new("c", "").name(), "c", "live entries are stored under the consumer's name");
        assert!(Namespace::new("c", "r").name().contains(char::is_control));
    }
}
