//! Counts and lists agree. A seeded random walk changes entries in every way; after each step the stored rows, the lists by each
//! filter, `SummarizeEntries`, `ListReplayRuns` and the metrics of entries must all report the same. The catalogues: the fields
//! of `EntryFilter`, and the states and causes of `ledger.proto`.

mod expected;
mod shown;
mod walk;

use super::run::Run;
use crate::harness::on_both_stores;
use crate::harness::server::Kind;

use self::expected::Rows;
use self::walk::Walk;

on_both_stores!(counts_are_those_of_lists);

/// The metrics are compared after this number of steps: a count for them takes a moment of real time.
const METRICS_EVERY: u64 = 16;

async fn counts_are_those_of_lists(kind: Kind) {
    let mut run = Run::new("counted", 64);
    let mut walk = Walk::start(kind, run.seed).await;
    let mut seen = Rows::default();
    for step in 0..run.size {
        walk.step().await;
        let compared = async {
            let rows = walk.rows().await;
            shown::lists(&mut walk, &rows).await?;
            shown::summaries(&walk, &rows).await?;
            if step % METRICS_EVERY == METRICS_EVERY - 1 {
                walk.new_second().await;
                shown::metrics(&walk, &walk.rows().await).await?;
            }
            Ok::<_, String>(rows)
        };
        match compared.await {
            Ok(rows) => seen = seen.or(rows),
            Err(problem) => run.fail(format!("step {step}: {problem}"), &[("steps", walk.log.join("\n"))]),
        }
        run.progress(step + 1, format!("{seen:?}"));
    }
    let missed = seen.missing();
    assert!(missed.is_empty(), "the walk never came to {missed:?} (seed {})", run.seed);
    run.summary(format!("{kind:?}, {} steps, {seen:?}", run.size));
    walk.server.stop().await;
}
