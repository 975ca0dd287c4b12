//! Batches: each row has an answer of its own, however many there are, and is found by its key.

use bytes::Bytes;
use idempotency_ledger::domain::{Entry, Key, Policy, Span, StoreTime, Terms};
use idempotency_ledger::store::{Completion, Done, Found, ROWS_MAX, SQLITE_STATEMENTS, Session};
use sqlx::{AssertSqlSafe, Executor as _, Row as _};

use super::{claim, granted, next};
use crate::harness::on_all_stores;
use crate::harness::server::{Kind, START, TestStore, put_new};

on_all_stores!(
    each_row_of_a_batch_has_its_own_answer,
    what_is_unusual_of_a_completion_is_told_whatever_the_others_are,
);

/// First grants of messages with these names, in the order in which statements take them.
fn grants(names: impl Iterator<Item = String>, now: StoreTime) -> Vec<Entry> {
    let mut rows: Vec<Entry> = names.map(|name| granted(&name, now)).collect();
    rows.sort_by_key(|row| row.key.hash());
    rows
}

async fn stored(session: &mut dyn Session, rows: &[Entry]) -> Vec<Entry> {
    let keys: Vec<Key> = rows.iter().map(|row| row.key.clone()).collect();
    let found = session.entries().load(&keys).await.unwrap().found.into_iter();
    let entry = |found| match found {
        Found::Entry(entry) => *entry,
        Found::Absent | Found::Collision | Found::Unreadable(_) => panic!("{found:?}"),
    };
    found.map(entry).collect()
}

async fn each_row_of_a_batch_has_its_own_answer(kind: Kind) {
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let mut later = START;
    for count in [1, 2, 3, 100, 255, 256, 257, ROWS_MAX] {
        let now = later;
        later = now + Span::from_secs(60);
        at.set_clock(now).await;
        let rows = grants((0..count).map(|number| format!("{count}-{number}")), now);
        let there: Vec<Entry> = rows.iter().step_by(3).cloned().collect();
        put_new(&mut *session, now, &there).await;

        // Every third is there already.
        let back = StoreTime(-now.micros());
        let guesses: Vec<Entry> = rows.iter().map(|row| row.clone().stamped(back, back.micros())).collect();
        let inserted = session.entries().insert(&guesses, StoreTime::MAX).await.unwrap();
        let tokens: Vec<Option<i64>> =
            rows.iter().enumerate().map(|(place, row)| (place % 3 > 0).then_some(row.token)).collect();
        assert_eq!(inserted.tokens(), tokens, "{count}");
        assert_eq!(stored(&mut *session, &rows).await, rows, "{count}");

        // Every fifth has another version.
        at.set_clock(later).await;
        let mut changed: Vec<Entry> = rows.iter().map(|row| next(row, &claim(2), later)).collect();
        changed.iter_mut().step_by(5).for_each(|row| row.version += 1);
        let replaced = session.entries().replace(&changed).await.unwrap();
        assert_eq!(replaced, (0..count).map(|place| place % 5 > 0).collect::<Vec<_>>(), "{count}");
        let mut expected = changed;
        expected.iter_mut().zip(&rows).step_by(5).for_each(|(row, before)| row.clone_from(before));
        assert_eq!(stored(&mut *session, &rows).await, expected, "{count}");

        // Every seventh has another token; the lease of every fifth is over.
        let completions = expected.iter().enumerate().map(|(place, row)| Completion {
            key: row.key.clone(),
            token: row.token - i64::from(place % 7 == 0),
            result: Bytes::from(place.to_string()),
            terms: Terms::of(&Policy::default()),
            result_dropped: false,
        });
        let done = session.entries().complete(&completions.collect::<Vec<_>>()).await.unwrap();
        let closed = |(place, row): (usize, &Entry)| {
            (place % 7 > 0).then_some(Done { late: place % 5 == 0, attempt: row.attempts, doubled: false })
        };
        assert_eq!(done, expected.iter().enumerate().map(closed).collect::<Vec<_>>(), "{count}");
        for (place, (row, before)) in stored(&mut *session, &rows).await.into_iter().zip(expected).enumerate()
        {
            if place % 7 == 0 {
                assert_eq!(row, before, "{count}");
            } else {
                assert_eq!(row.result, place.to_string(), "{count}");
            }
        }
    }
}

/// How a message of a batch is completed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum How {
    Usual,
    Late,
    Again,
    /// After an operator proved that the effect had happened twice, the entry was granted again.
    Marked,
    /// The holder of an earlier claim has reported the effect, too.
    Second,
    Not,
}

async fn what_is_unusual_of_a_completion_is_told_whatever_the_others_are(kind: Kind) {
    use How::{Again, Late, Marked, Not, Second, Usual};
    let at = TestStore::new(kind).await;
    let mut session = at.session().await;
    let mut later = START;
    for (number, batch) in [
        [Usual, Usual, Usual],
        [Usual, Late, Usual],
        [Usual, Usual, Again],
        [Late, Again, Usual],
        [Late, Late, Late],
        [Again, Again, Again],
        [Marked, Usual, Usual],
        [Usual, Second, Marked],
        [Second, Marked, Not],
        [Not, Usual, Usual],
        [Usual, Not, Late],
        [Again, Usual, Not],
        [Not, Not, Not],
    ]
    .into_iter()
    .enumerate()
    {
        let (start, now) = (later, later + Span::from_secs(60));
        later = now;
        at.set_clock(start).await;
        let first = grants((0..batch.len()).map(|place| format!("{number}-{place}")), start);
        put_new(&mut *session, start, &first).await;
        // The lease of a first claim is over by now, that of a second one is not.
        at.set_clock(now).await;
        let held = |(row, how): (&Entry, &How)| {
            let mut row = if *how == Late { row.clone() } else { next(row, &claim(2), now) };
            row.attempts = if *how == Again { 2 } else { 1 };
            row.doubled = *how == Marked;
            row.superseded_completes = i32::from(*how == Second);
            row
        };
        let rows: Vec<Entry> = first.iter().zip(&batch).map(held).collect();
        let changed: Vec<Entry> =
            rows.iter().zip(&first).filter(|(row, first)| row != first).map(|(row, _)| row.clone()).collect();
        assert!(session.entries().replace(&changed).await.unwrap().iter().all(|done| *done));
        let completions = rows.iter().zip(&batch).map(|(row, how)| Completion {
            key: row.key.clone(),
            token: row.token - i64::from(*how == Not),
            result: Bytes::new(),
            terms: Terms::of(&Policy::default()),
            result_dropped: false,
        });
        let done = session.entries().complete(&completions.collect::<Vec<_>>()).await.unwrap();
        let told = batch.map(|how| match how {
            Usual => Some(Done { late: false, attempt: 1, doubled: false }),
            Late => Some(Done { late: true, attempt: 1, doubled: false }),
            Again => Some(Done { late: false, attempt: 2, doubled: false }),
            Marked | Second => Some(Done { late: false, attempt: 1, doubled: true }),
            Not => None,
        });
        assert_eq!(done, told, "{batch:?}");
        let marks: Vec<bool> = stored(&mut *session, &rows).await.iter().map(|row| row.doubled).collect();
        assert_eq!(marks, batch.map(|how| matches!(how, Marked | Second)), "{batch:?}");
    }
}

/// By statistics of a small table `SQLite` might read the whole of it, and would go on so while it grows.
#[tokio::test]
async fn whatever_was_analysed_sqlite_finds_the_rows_of_a_batch_by_key() {
    const BY_KEY: &str = "USING INDEX sqlite_autoindex_entries_1 (key=?)";
    let at = TestStore::new(Kind::Sqlite).await;
    let mut session = at.session().await;
    let mut connection = at.sqlite().await;
    let mut there = 0;
    for analysed in [0, 1, 2, 5, 20, 60, 1_000] {
        let rows = grants((there..analysed).map(|number| number.to_string()), START);
        put_new(&mut *session, START, &rows).await;
        there = analysed;
        connection.execute("ANALYZE").await.unwrap();
        for (name, by_key) in [
            ("load", true),
            ("load_at_once", true),
            ("insert", false),
            ("insert_at_once", false),
            ("complete", true),
            ("complete_at_once", true),
            ("replace", true),
            ("replace_at_once", true),
            ("delete", true),
        ] {
            let head = format!("-- ledger.{name}\n");
            let all: Vec<&str> =
                SQLITE_STATEMENTS.iter().filter_map(|text| text.strip_prefix(&head)).collect();
            assert!(!all.is_empty(), "{name}");
            for text in all {
                // At once, BEGIN comes before it.
                let explain = AssertSqlSafe(format!(
                    "EXPLAIN QUERY PLAN {}",
                    text.strip_prefix("BEGIN IMMEDIATE;\n").unwrap_or(text).split(";\n").next().unwrap()
                ));
                let plan = sqlx::query(explain).fetch_all(&mut connection).await.unwrap();
                let plan: Vec<&str> = plan.iter().map(|row| row.get("detail")).collect();
                let of_entries = |step: &&str| step.contains(" e ") || step.contains(" entries ");
                let steps: Vec<&str> = plan.iter().copied().filter(of_entries).collect();
                let right =
                    if by_key { steps.len() == 1 && steps[0].contains(BY_KEY) } else { steps.is_empty() };
                let whole = plan.iter().any(|step| *step == "SCAN e" || *step == "SCAN entries");
                assert!(right && !whole, "{name}, {analysed} rows analysed: {plan:?}");
            }
        }
    }
}
