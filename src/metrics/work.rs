//! Counts of the ledger's workers: the queue, the batches, the statements.

use std::time::Duration;

use prometheus::local::LocalHistogram;
use prometheus::{Error, Histogram, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry};

use super::catalogue::{
    BATCHES, FAILURES, QUEUE, QUEUE_BYTES, QUEUE_WAIT, READY, STATEMENT_ROWS, STATEMENTS,
};

/// The lanes of the queue, in the order in which they are served.
pub(crate) const LANES: [&str; 5] = ["close", "renew", "release", "claim", "lookup"];

/// The statements of claims and settlements.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Statement {
    Insert,
    Complete,
    Load,
    Replace,
    Locked,
    Policies,
    Poll,
    StoreMessages,
    AttachMessages,
    HandOut,
}

impl Statement {
    const ALL: [Statement; 10] = [
        Statement::Insert,
        Statement::Complete,
        Statement::Load,
        Statement::Replace,
        Statement::Locked,
        Statement::Policies,
        Statement::Poll,
        Statement::StoreMessages,
        Statement::AttachMessages,
        Statement::HandOut,
    ];

    /// The name in metrics and traces.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Statement::Insert => "insert",
            Statement::Complete => "complete",
            Statement::Load => "load",
            Statement::Replace => "replace",
            Statement::Locked => "locked",
            Statement::Policies => "policies",
            Statement::Poll => "poll",
            Statement::StoreMessages => "store_messages",
            Statement::AttachMessages => "attach_messages",
            Statement::HandOut => "hand_out",
        }
    }

    /// The index in `ALL`.
    const fn place(self) -> usize {
        self as usize
    }
}

/// The counts of the workers.
pub(crate) struct Work {
    queue: IntGaugeVec,
    queue_bytes: IntGauge,
    /// By lane.
    queue_wait: Vec<Histogram>,
    batches: Histogram,
    /// By statement: its duration, and its number of rows.
    statements: Vec<(Histogram, Histogram)>,
    failures: IntCounterVec,
    ready: IntGauge,
    /// Whether a metrics endpoint exposes the counts.
    counts: bool,
}

impl Work {
    pub(super) fn new(registry: &Registry, counts: bool) -> Result<Work, Error> {
        let queue_wait = QUEUE_WAIT.histograms(registry)?;
        let (seconds, rows) = (STATEMENTS.histograms(registry)?, STATEMENT_ROWS.histograms(registry)?);
        let of =
            |all: &HistogramVec, statement: Statement| all.get_metric_with_label_values(&[statement.name()]);
        let both = |statement| Ok((of(&seconds, statement)?, of(&rows, statement)?));
        Ok(Work {
            queue: QUEUE.gauges(registry)?,
            queue_bytes: QUEUE_BYTES.gauge(registry)?,
            queue_wait: LANES
                .iter()
                .map(|lane| queue_wait.get_metric_with_label_values(&[lane]))
                .collect::<Result<_, _>>()?,
            batches: BATCHES.histograms(registry)?.get_metric_with_label_values::<&str>(&[])?,
            statements: Statement::ALL.into_iter().map(both).collect::<Result<_, Error>>()?,
            failures: FAILURES.counters(registry)?,
            ready: READY.gauge(registry)?,
            counts,
        })
    }

    /// Shows the current length of the queue.
    pub(crate) fn waits(&self, by_lane: [usize; LANES.len()], bytes: usize) {
        for (lane, commands) in LANES.iter().zip(by_lane) {
            if let Ok(gauge) = self.queue.get_metric_with_label_values(&[lane]) {
                gauge.set(whole(commands));
            }
        }
        self.queue_bytes.set(whole(bytes));
    }

    /// Counts the commands that were taken from these lanes after these times, the commands of one call
    /// together.
    pub(crate) fn waited(&self, waits: impl Iterator<Item = (usize, Duration)>) {
        if !self.counts {
            return;
        }
        let mut counted: [Option<LocalHistogram>; LANES.len()] = Default::default();
        for (lane, wait) in waits {
            if let Some((counted, all)) = counted.get_mut(lane).zip(self.queue_wait.get(lane)) {
                counted.get_or_insert_with(|| all.local()).observe(wait.as_secs_f64());
            }
        }
    }

    /// Counts a batch of this many commands.
    pub(crate) fn took(&self, commands: usize) {
        if self.counts {
            self.batches.observe(items(commands));
        }
    }

    /// Counts a statement with this many rows, and its duration.
    pub(crate) fn sent(&self, statement: Statement, rows: usize, took: Duration) {
        if let Some((seconds, sizes)) = self.statements.get(statement.place()).filter(|_| self.counts) {
            seconds.observe(took.as_secs_f64());
            sizes.observe(items(rows));
        }
    }

    /// Counts a statement that failed.
    pub(crate) fn failed(&self, statement: Statement, kind: &'static str) {
        if let Ok(count) = self.failures.get_metric_with_label_values(&[statement.name(), kind]) {
            count.inc();
        }
    }

    /// Shows whether the store answers.
    pub(crate) fn is_ready(&self, ready: bool) {
        self.ready.set(i64::from(ready));
    }
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// As a value of a histogram.
#[allow(clippy::cast_precision_loss, reason = "batches are small: fewer than 2^52")]
fn items(number: usize) -> f64 {
    number as f64
}
