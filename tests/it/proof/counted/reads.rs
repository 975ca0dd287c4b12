//! The reads of a session, each with several bounds: what was asked, and the answer as text. Catalogue: the methods of the traits
//! of a session, in `src/store`.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;

use idempotency_ledger::domain::{
    AuditEvent, AuditListing, AuditOf, EntryFilter, Key, Listing, Namespace, OpenRange, ParkCause, Span,
    State, Summary,
};
use idempotency_ledger::store::{Fault, LeftAlone, Session, StoreError, state_number};

use super::walk::{NAMESPACES, PREFIXES, SOURCES};

/// The reads that are asked here.
pub(super) const ASKED: [&str; 24] = [
    "audit",
    "audited",
    "consumers",
    "count_changed",
    "count_due",
    "effective_retentions",
    "event_digests",
    "holds",
    "list",
    "load_by_hash",
    "message",
    "message_bytes",
    "oldest_due",
    "open_consumers",
    "open_rows",
    "part_digests",
    "policies",
    "policy_versions",
    "purge_status",
    "replay_run",
    "replay_runs",
    "replay_runs_of",
    "stored_at",
    "summary",
];
/// Reads whose answer is that of one turn, one server or one store; and `load`, which is compared with the spec.
pub(super) const LEFT_OUT: [&str; 6] =
    ["created_between", "first_created_after", "load", "locked", "policy_epoch", "replicas_below"];

/// Pages after which a list must have ended.
const PAGES_MAX: usize = 200;
/// States whose entries are in the index of open entries from their change on.
const OPEN: [State; 4] =
    [State::Received, State::FailedRetryable, State::FailedTerminal, State::Parked(ParkCause::Consumer)];

/// What was asked, and the answer.
#[derive(Default)]
pub(super) struct Answers(pub(super) Vec<(String, String)>);

impl Answers {
    fn note(&mut self, read: &str, asked: impl Debug, answer: Result<impl Debug, StoreError>) {
        let answer = match answer {
            Ok(answer) => format!("{answer:?}"),
            // The clock was set back.
            Err(StoreError::NotApplied(Fault::ClockBehind)) => "the clock is behind".to_owned(),
            Err(error) => panic!("{read} {asked:?}: {error:?}"),
        };
        self.0.push((format!("{read} {asked:?}"), answer));
    }
}

pub(super) async fn answers(session: &mut dyn Session, keys: &[Key]) -> Answers {
    let mut all = Answers::default();
    entries(session, keys, &mut all).await;
    lists(session, &mut all).await;
    open(session, &mut all).await;
    counts(session, &mut all).await;
    events(session, keys, &mut all).await;
    messages(session, keys, &mut all).await;
    books(session, &mut all).await;
    all
}

async fn entries(session: &mut dyn Session, keys: &[Key], all: &mut Answers) {
    for key in keys {
        let found = session.operators().load_by_hash(key.hash()).await.map(|(_, found)| found);
        all.note("load_by_hash", key, found);
    }
}

/// All rows of a list, on pages of this size.
async fn listed(
    session: &mut dyn Session,
    filter: &EntryFilter,
    newest_first: bool,
    limit: usize,
) -> Vec<String> {
    let (mut rows, mut after) = (Vec::new(), None);
    for _ in 0..PAGES_MAX {
        let listing = Listing { filter: filter.clone(), newest_first, after, limit };
        let page = session.operators().list(&listing).await.unwrap();
        assert!(page.rows.len() <= limit);
        rows.extend(page.rows.iter().map(|row| format!("{:?}", row.entry)));
        after = page.next;
        if after.is_none() {
            return rows;
        }
    }
    panic!("{filter:?}: the list does not end");
}

async fn lists(session: &mut dyn Session, all: &mut Answers) {
    let parked = vec![state_number(State::Parked(ParkCause::Consumer))];
    let mut filters = vec![EntryFilter { states: parked, ..EntryFilter::of("") }];
    for (consumer, replay_run) in NAMESPACES {
        let every = EntryFilter { replay_run: replay_run.to_owned(), ..EntryFilter::of(consumer) };
        filters.extend([
            EntryFilter { source: Some(SOURCES[1].to_owned()), ..every.clone() },
            EntryFilter { id_prefix: PREFIXES[1].to_owned(), ..every.clone() },
            EntryFilter { expired: true, ..every.clone() },
            EntryFilter { doubled: true, ..every.clone() },
            every,
        ]);
    }
    for filter in filters {
        for (newest_first, limit) in [(false, 2), (true, 3)] {
            let rows = listed(session, &filter, newest_first, limit).await;
            all.note("list", (&filter, newest_first, limit), Ok(rows));
        }
    }
}

async fn open(session: &mut dyn Session, all: &mut Answers) {
    let states = OPEN.map(state_number);
    for (states, doubled) in [(&states[..], false), (&states[..1], false), (&[], true)] {
        for names in 1..=3 {
            let (mut found, mut after) = (Vec::new(), Some(String::new()));
            while let Some(name) = after {
                let page = session.operators().open_consumers(&name, states, doubled, names).await.unwrap();
                found.extend(page.open);
                after = page.last;
            }
            all.note("open_consumers", (states, doubled, names), Ok(found));
        }
    }
    for (consumer, replay_run) in NAMESPACES {
        let namespace = Namespace::new(consumer, replay_run).name().to_owned();
        let filter = EntryFilter { replay_run: replay_run.to_owned(), ..EntryFilter::of(consumer) };
        for state in OPEN.map(state_number) {
            let (mut rows, mut before) = (Vec::new(), None);
            loop {
                let range = OpenRange { namespace: namespace.clone(), state, before, limit: 2 };
                let (_, page) = session.operators().open_rows(&range, &filter).await.unwrap();
                let Some(last) = page.last() else { break };
                before = Some(last.place);
                rows.extend(page);
            }
            all.note("open_rows", (&namespace, state), Ok(rows));
        }
    }
}

/// The counts of a summary that do not depend on which entries were looked at: of a state with more entries than are counted, only
/// that there are more. Postgres looks for claims that are not in its index yet among entries of other states as well, so that the
/// bound of `IN_PROGRESS` is another one there: `held` says whether these counts are compared.
fn settled(summary: Summary, held: bool) -> impl Debug {
    let mut states: BTreeMap<(String, i16), (i64, i64, bool)> = BTreeMap::new();
    for count in summary.counts.into_iter().filter(|count| held || count.state != State::InProgress) {
        let state = states.entry((count.consumer, state_number(count.state))).or_default();
        *state = (state.0 + count.count, state.1 + count.near_exhaustion, state.2 || count.at_least);
    }
    let known = |(_, (_, _, at_least)): &(&(String, i16), &(i64, i64, bool))| !at_least;
    let exact: Vec<String> = states.iter().filter(known).map(|state| format!("{state:?}")).collect();
    let more: Vec<(String, i16)> =
        states.iter().filter(|(_, state)| state.2).map(|(name, _)| name.clone()).collect();
    let (mut doubled, mut completed) = (summary.doubled, summary.completed);
    doubled.sort();
    completed.retain(|(_, count)| *count > 0);
    completed.sort();
    (exact, more, doubled, completed, summary.estimated, summary.names)
}

async fn counts(session: &mut dyn Session, all: &mut Answers) {
    let names = NAMESPACES.map(|(consumer, run)| Namespace::new(consumer, run).name().to_owned());
    for limit in 1..=4 {
        all.note("consumers", limit, session.operators().consumers("", limit).await);
        all.note("consumers after c", limit, session.operators().consumers("c", limit).await);
    }
    for most in [1, 2, 3, 100] {
        let near: Vec<(String, Option<i32>)> = names.iter().cloned().zip([None, Some(1), Some(2)]).collect();
        let summary = session.operators().summary(&near, most).await;
        all.note("summary", most, summary.map(|summary| settled(summary, most == 100)));
    }
    for (own, others) in [(0, 0), (0, 60), (60, 0), (10, 300)] {
        let own = HashMap::from([("c".to_owned(), Span::from_secs(own))]);
        let left_alone = LeftAlone { own, others: Span::from_secs(others) };
        for due_max in [1, 2, 5, 1_000] {
            let status = session.operators().purge_status(&left_alone, due_max).await;
            let status = status.map(|(_, status)| (status.due, status.oldest));
            all.note("purge_status", (&left_alone, due_max), status);
        }
    }
}

async fn audited(session: &mut dyn Session, of: &AuditOf, limit: usize) -> Vec<AuditEvent> {
    let (mut events, mut before) = (Vec::new(), None);
    loop {
        let listing = AuditListing { of: of.clone(), before, limit };
        let page = session.operators().audit(&listing).await.unwrap();
        let Some(last) = page.last() else { return events };
        before = Some((last.at, last.stored_id()));
        events.extend(page);
    }
}

async fn events(session: &mut dyn Session, keys: &[Key], all: &mut Answers) {
    let every = audited(session, &AuditOf::All, 100).await;
    let consumers = ["c", "d"].map(|consumer| AuditOf::Consumer(consumer.to_owned()));
    let entries = keys.iter().map(|key| AuditOf::Entry(key.hash()));
    for of in [AuditOf::All].into_iter().chain(consumers).chain(entries) {
        all.note("audit", &of, Ok(audited(session, &of, 3).await));
    }
    let ids: Vec<String> = every.iter().map(AuditEvent::stored_id).chain(["none".into()]).collect();
    let digests = session.operators().event_digests(&ids).await;
    all.note("event_digests", &ids, digests.map(|found| found.into_iter().collect::<BTreeMap<_, _>>()));
    for event in every.iter().take(5) {
        let (consumer, id) = (&event.consumer, &event.request_id);
        all.note("audited", (consumer, id), session.operators().audited(consumer, id).await);
        let operation = id.split('/').next().unwrap();
        let changed = session.operators().count_changed(consumer, operation, &event.action).await;
        all.note("count_changed", (consumer, operation, &event.action), changed);
        let digests = session.operators().part_digests(&["c".into(), "d".into()], id).await;
        all.note("part_digests", id, digests);
    }
}

async fn messages(session: &mut dyn Session, keys: &[Key], all: &mut Answers) {
    let hashes: Vec<_> = keys.iter().map(Key::hash).collect();
    all.note("stored_at", "all", session.inbox().stored_at(&hashes).await);
    for key in keys {
        // No two Stores of a test process have the same payload.
        let kept = session.inbox().message(key.hash()).await;
        let kept = kept.map(|kept| kept.map(|kept| (kept.message.len(), kept.stored_at)));
        all.note("message", key, kept);
    }
    for consumer in ["c", "d", "absent"] {
        let oldest = session.inbox().oldest_due(consumer).await.map(|(_, oldest)| oldest);
        all.note("oldest_due", consumer, oldest);
        for most in [1, 2, 100] {
            all.note("count_due", (consumer, most), session.inbox().count_due(consumer, most).await);
        }
    }
    all.note("message_bytes", (), session.inbox().message_bytes().await);
}

async fn books(session: &mut dyn Session, all: &mut Answers) {
    all.note("policies", (), session.policy_book().policies().await);
    let retentions = session.policy_book().effective_retentions().await.map(|(_, mut retentions)| {
        retentions.sort_by(|one, other| one.consumer.cmp(&other.consumer));
        retentions
    });
    all.note("effective_retentions", (), retentions);
    all.note("holds", (), session.hold_book().holds().await);
    for (consumer, run) in NAMESPACES {
        all.note("replay_run", (consumer, run), session.replay_book().replay_run(consumer, run).await);
        for limit in [1, 2] {
            let versions = session.policy_book().policy_versions(consumer, i32::MAX, limit).await;
            all.note("policy_versions", (consumer, limit), versions);
            let runs = session.replay_book().replay_runs_of(consumer, "", limit).await;
            all.note("replay_runs_of", (consumer, limit), runs);
        }
    }
    let runs = session.replay_book().replay_runs().await.map(|mut runs| {
        runs.sort_by(|one, other| one.name.cmp(&other.name));
        runs
    });
    all.note("replay_runs", (), runs);
}
