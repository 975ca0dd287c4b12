//! What a search for due messages has found, and whether more entries must be read.

use prost_types::Timestamp;

use crate::cli::clock;
use crate::proto;

/// The messages of one consumer, by when they are due.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) consumer: String,
    /// The consumer's summary; without states if the consumer has no entry.
    pub(super) summary: proto::ConsumerSummary,
    /// The store's clock.
    pub(super) now: Timestamp,
    pub(super) unreadable: Vec<proto::UnreadableEntry>,
    /// When the last entry that was read was created. `None` if all entries were read.
    pub(super) read_until: Option<Timestamp>,
    limit: usize,
    /// Sorted by the instant from which they are due, the earliest first.
    entries: Vec<(Timestamp, proto::Entry)>,
}

impl Found {
    pub(super) fn new(consumer: &str, answer: proto::SummarizeEntriesResponse, limit: usize) -> Found {
        Found {
            consumer: consumer.to_owned(),
            summary: answer.consumers.into_iter().next().unwrap_or_default(),
            now: answer.as_of.unwrap_or_else(clock::now),
            unreadable: Vec::new(),
            read_until: None,
            limit,
            entries: Vec::new(),
        }
    }

    /// Adds a page of entries in the order of their creation.
    pub(super) fn add(&mut self, page: proto::ListEntriesResponse) {
        // A server of an earlier version does not return how far it has read, nor the filter's message state.
        let last = page.entries.last().and_then(|entry| entry.created_at);
        let read = page.looked_at_until.or(last);
        self.read_until = if page.next_page_token.is_empty() { None } else { read };
        let kept = page.entries.into_iter().filter_map(|entry| Some((entry.due_at?, entry)));
        self.entries.extend(kept);
        self.entries.sort_by_key(|(due_at, _)| instant(due_at));
        // One more than is shown: the next one where none is due.
        self.entries.truncate(self.limit + 1);
        self.unreadable.extend(page.unreadable);
    }

    /// Whether no entry that was not read can be due before those that are shown.
    pub(super) fn is_whole(&self) -> bool {
        let Some(until) = &self.read_until else { return true };
        let shown = self.entries.get(self.limit.saturating_sub(1));
        let last = shown.map_or(instant(&self.now), |(due_at, _)| instant(due_at).min(instant(&self.now)));
        last < instant(until)
    }

    /// The messages that are due, in the order in which they are due.
    pub(super) fn due(&self) -> Vec<&proto::Entry> {
        let due = self.entries.iter().filter(|(due_at, _)| instant(due_at) <= instant(&self.now));
        due.take(self.limit).map(|(_, entry)| entry).collect()
    }

    /// When the next message is due, where none is due now. `None` if no message waits, or that is not known.
    pub(super) fn next_due(&self) -> Option<&Timestamp> {
        let (due_at, _) = self.entries.first()?;
        let is_known = self.read_until.as_ref().is_none_or(|until| instant(due_at) < instant(until));
        (is_known && instant(due_at) > instant(&self.now)).then_some(due_at)
    }
}

fn instant(at: &Timestamp) -> (i64, i32) {
    (at.seconds, at.nanos)
}

/// Whether `ClaimNext` hands the message out alone: its last lease, and the one before it, ran out.
pub(super) fn is_suspect(entry: &proto::Entry) -> bool {
    let before = entry.history.last().is_some_and(|past| past.outcome() == proto::ClosedBy::Expiry);
    entry.expired && before
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::screens::{NOW, before};
    use crate::proto::{Attempt, ClosedBy, Entry, EntryKey, ListEntriesResponse, SummarizeEntriesResponse};

    fn entry(id: &str, created: i64, due: i64) -> Entry {
        let key = Some(EntryKey { id: id.into(), ..EntryKey::default() });
        Entry { key, created_at: before(created), due_at: before(due), ..Entry::default() }
    }

    fn page(entries: Vec<Entry>, until: Option<i64>) -> ListEntriesResponse {
        ListEntriesResponse {
            entries,
            next_page_token: if until.is_some() { "more".into() } else { String::new() },
            looked_at_until: until.and_then(before),
            ..ListEntriesResponse::default()
        }
    }

    fn found(limit: usize) -> Found {
        let as_of = before(0);
        Found::new("mail", SummarizeEntriesResponse { as_of, ..SummarizeEntriesResponse::default() }, limit)
    }

    fn ids(found: &Found) -> Vec<&str> {
        found.due().iter().map(|entry| entry.key.as_ref().map_or("", |key| key.id.as_str())).collect()
    }

    #[test]
    fn search_ends_where_no_later_entry_can_be_due_earlier() {
        // Pages as (id, created, due) in seconds ago, and how far each was read; what is due, and whether that is sure.
        type Row = (&'static str, i64, i64);
        type Page = (&'static [Row], Option<i64>);
        type Case = (&'static str, usize, &'static [Page], &'static [&'static str], bool);
        let table: [Case; 6] = [
            ("one page is all", 2, &[(&[("a", 90, 90), ("b", 80, 80)], None)], &["a", "b"], true),
            ("full before the next page", 1, &[(&[("a", 90, 90), ("b", 80, 80)], Some(80))], &["a"], true),
            (
                "an early entry whose attempt is due late",
                2,
                &[(&[("a", 90, 10), ("b", 80, 80)], Some(80))],
                &["b", "a"],
                false,
            ),
            (
                "the next page goes in between",
                2,
                &[(&[("a", 90, 10), ("b", 80, 80)], Some(80)), (&[("c", 70, 70), ("d", 60, 60)], Some(60))],
                &["b", "c"],
                true,
            ),
            (
                "due at the instant that was read is not sure",
                1,
                &[(&[("a", 90, 80)], Some(80))],
                &["a"],
                false,
            ),
            ("what is due later is not shown", 9, &[(&[("a", 90, -30), ("b", 80, 0)], None)], &["b"], true),
        ];
        for (what, limit, pages, due, is_whole) in table {
            let mut found = found(limit);
            for (rows, until) in pages {
                let entries = rows.iter().map(|(id, created, due)| entry(id, *created, *due)).collect();
                found.add(page(entries, *until));
            }
            assert_eq!((ids(&found), found.is_whole()), (due.to_vec(), is_whole), "{what}");
        }
    }

    #[test]
    fn next_due_message_is_named_only_where_it_is_known() {
        for (rows, until, next) in [
            (&[("a", 90, -30)][..], None, Some(NOW + 30)),
            (&[("a", 90, -30), ("b", 80, -10)], None, Some(NOW + 10)),
            // An entry that was not read may be due before it.
            (&[("a", 90, -30)], Some(90), None),
            (&[("a", 90, 5)], None, None),
            (&[], None, None),
        ] {
            let mut found = found(3);
            let entries = rows.iter().map(|(id, created, due)| entry(id, *created, *due)).collect();
            found.add(page(entries, until));
            assert_eq!(found.next_due().map(|at| at.seconds), next, "{rows:?}");
        }
    }

    #[test]
    fn suspect_has_lost_two_leases_in_a_row() {
        let past = |outcome: ClosedBy| Attempt { outcome: outcome.into(), ..Attempt::default() };
        for (expired, outcomes, is) in [
            (true, &[ClosedBy::Expiry][..], true),
            (true, &[ClosedBy::FailRetryable, ClosedBy::Expiry], true),
            (true, &[ClosedBy::Expiry, ClosedBy::Release], false),
            (true, &[], false),
            (false, &[ClosedBy::Expiry, ClosedBy::Expiry], false),
        ] {
            let history = outcomes.iter().map(|outcome| past(*outcome)).collect();
            assert_eq!(is_suspect(&Entry { expired, history, ..Entry::default() }), is, "{outcomes:?}");
        }
    }
}
