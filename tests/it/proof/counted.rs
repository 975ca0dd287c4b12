//! Counts and lists agree. A seeded random walk changes entries in every way; after each step the stored rows, the lists by each
//! filter, `SummarizeEntries`, `GroupEntries`, `ListReplayRuns` and the metrics of entries and messages must all report the same.
//! The catalogues: the fields of `EntryFilter`, each of which some list must have set, and the states and causes of
//! `ledger.proto`.

mod alike;
mod expected;
mod filters;
mod groups;
mod reads;
mod shown;
mod walk;

use super::run::Run;
use crate::harness::server::Kind;
use crate::harness::{dynamic, on_both_stores};

use self::expected::Rows;
use self::walk::Walk;

on_both_stores!(counts_are_those_of_lists);

/// The metrics are compared after this number of steps, and in each step in which a live entry has a kind that no comparison has
/// covered. The server counts entries in real time, so each comparison waits.
const METRICS_EVERY: u64 = 16;

async fn counts_are_those_of_lists(kind: Kind) {
    let mut run = Run::new("counted", 64);
    let mut walk = Walk::start(kind, run.seed).await;
    let (mut seen, mut measured) = (Rows::default(), Rows::default());
    for step in 0..run.size {
        walk.step().await;
        let compared = async {
            let rows = walk.rows().await;
            shown::lists(&mut walk, &rows).await?;
            shown::summaries(&walk, &rows).await?;
            let is_measured = step % METRICS_EVERY == METRICS_EVERY - 1;
            groups::groups(&mut walk, &rows, is_measured).await?;
            let live = rows.live(walk.server.at.now());
            if is_measured || live.has_more_than(&measured) {
                walk.new_second().await;
                let rows = walk.rows().await;
                shown::metrics(&walk, &rows).await?;
                return Ok::<_, String>((rows.live(walk.server.at.now()), rows));
            }
            Ok((Rows::default(), rows))
        };
        match compared.await {
            Ok((live, rows)) => (measured, seen) = (measured.or(live), seen.or(rows)),
            Err(problem) => run.fail(format!("step {step}: {problem}"), &[("steps", walk.log.join("\n"))]),
        }
        run.progress(step + 1, format!("{seen:?}"));
    }
    for (what, rows) in [("the walk", &seen), ("the metrics", &measured)] {
        let missed = rows.missing();
        assert!(missed.is_empty(), "{what} never came to {missed:?} (seed {})", run.seed);
    }
    assert_eq!(walk.fields_set, dynamic::fields("EntryFilter"), "some list sets each field of a filter");
    run.summary(format!("{kind:?}, {} steps, {seen:?}", run.size));
    walk.server.stop().await;
}
