//! Replay runs, and how they begin and end.

use async_trait::async_trait;

use super::{StoreError, WriteResult};
use crate::domain::{AuditEvent, ReplayRun, RunMode, StoreTime};
use crate::store::from_row::from_row;

/// Replay runs. Every change raises [`PolicyBook::policy_epoch`](super::PolicyBook::policy_epoch): runs are read and
/// trusted together with the policies in force.
#[async_trait]
pub trait ReplayBook: Send {
    /// All runs that may have entries.
    async fn replay_runs(&mut self) -> Result<Vec<ReplayRun>, StoreError>;

    /// Reads one run, whether it may have entries or not.
    async fn replay_run(&mut self, consumer: &str, name: &str) -> Result<Option<ReplayRun>, StoreError>;

    /// The runs of a consumer by name, after this one.
    async fn replay_runs_of(
        &mut self,
        consumer: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<ReplayRun>, StoreError>;

    /// Adds a run if the policies in force are still those of this epoch, writes its audit event, and raises the level of the
    /// store to that of runs: all or nothing.
    async fn add_replay_run(
        &mut self,
        run: &ReplayRun,
        policy_epoch: i64,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError>;

    /// Closes a run at the instant of its audit event, if it is still open: both or neither.
    async fn close_replay_run(
        &mut self,
        consumer: &str,
        name: &str,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError>;

    /// Records that the purge has deleted every entry of a run.
    async fn sweep_replay_run(&mut self, consumer: &str, name: &str, at: StoreTime)
    -> Result<(), StoreError>;

    /// Records that up to [`ROWS_MAX`](super::ROWS_MAX) runs have no entries, among those that ended before this instant: the
    /// purge never visits a run that never had an entry. Returns the number of these runs.
    async fn sweep_empty_runs(&mut self, ended_before: StoreTime, at: StoreTime)
    -> Result<usize, StoreError>;
}

/// The level of the store from the first run on: see docs/changing.md, "A feature that older binaries must not meet".
pub const REPLAY_LEVEL: i32 = 3;

from_row! {
    /// A run in a row of either database.
    pub(super) struct RunRow {
        consumer: String,
        name: String,
        mode: i16,
        created_at: i64,
        ends_at: i64,
        closed_at: Option<i64>,
        actor: String,
        reason: String,
    }
}

/// The number of a mode: that of `ReplayMode`.
pub(super) fn number(mode: RunMode) -> i16 {
    match mode {
        RunMode::Suppress => 2,
        RunMode::Rebuild => 3,
    }
}

/// The runs that can be read. An unreadable run is left out, so that nothing is granted in it.
pub(super) fn readable(rows: Vec<RunRow>) -> Vec<ReplayRun> {
    rows.into_iter().filter_map(RunRow::run).collect()
}

impl RunRow {
    fn run(self) -> Option<ReplayRun> {
        let mode = [RunMode::Suppress, RunMode::Rebuild].into_iter().find(|mode| number(*mode) == self.mode);
        if mode.is_none() {
            tracing::error!(
                consumer = self.consumer,
                run = self.name,
                mode = self.mode,
                "a replay run cannot be read"
            );
        }
        Some(ReplayRun {
            consumer: self.consumer,
            name: self.name,
            mode: mode?,
            created_at: StoreTime(self.created_at),
            ends_at: StoreTime(self.ends_at),
            closed_at: self.closed_at.map(StoreTime),
            actor: self.actor,
            reason: self.reason,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_leaves_out_a_run_of_an_unknown_mode() {
        let row = |mode| RunRow {
            consumer: "c".into(),
            name: format!("run-{mode}"),
            mode,
            created_at: 1,
            ends_at: 2,
            closed_at: None,
            actor: "tests".into(),
            reason: "tests".into(),
        };
        let read = readable((0..=4).map(row).collect()).into_iter().map(|run| (run.name, run.mode));
        let expected = [("run-2".to_owned(), RunMode::Suppress), ("run-3".to_owned(), RunMode::Rebuild)];
        assert_eq!(read.collect::<Vec<_>>(), expected);
    }
}
