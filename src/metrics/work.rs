//! What the ledger's workers do: the queue, the batches, the statements.

use std::time::Duration;

use prometheus::{Error, Histogram, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Registry};

use super::catalogue::{BATCHES, FAILURES, QUEUE, QUEUE_BYTES, QUEUE_WAIT, READY, STATEMENTS};

/// The lanes of the queue, in the order in which they are served.
pub(crate) const LANES: [&str; 4] = ["close", "renew", "release", "claim"];
/// A statement of claims and settlements, by its name.
type Statement = &'static str;

/// See the module.
pub(crate) struct Work {
    queue: IntGaugeVec,
    queue_bytes: IntGauge,
    /// By lane.
    queue_wait: Vec<Histogram>,
    batches: Histogram,
    statements: HistogramVec,
    failures: IntCounterVec,
    ready: IntGauge,
}

impl Work {
    pub(super) fn new(registry: &Registry) -> Result<Work, Error> {
        let queue_wait = QUEUE_WAIT.histograms(registry)?;
        Ok(Work {
            queue: QUEUE.gauges(registry)?,
            queue_bytes: QUEUE_BYTES.gauge(registry)?,
            queue_wait: LANES
                .iter()
                .map(|lane| queue_wait.get_metric_with_label_values(&[lane]))
                .collect::<Result<_, _>>()?,
            batches: BATCHES.histograms(registry)?.get_metric_with_label_values::<&str>(&[])?,
            statements: STATEMENTS.histograms(registry)?,
            failures: FAILURES.counters(registry)?,
            ready: READY.gauge(registry)?,
        })
    }

    /// What waits, as of now.
    pub(crate) fn waits(&self, by_lane: [usize; LANES.len()], bytes: usize) {
        for (lane, commands) in LANES.iter().zip(by_lane) {
            if let Ok(gauge) = self.queue.get_metric_with_label_values(&[lane]) {
                gauge.set(whole(commands));
            }
        }
        self.queue_bytes.set(whole(bytes));
    }

    /// Commands of one call were taken from this lane after so long.
    pub(crate) fn waited(&self, lane: usize, wait: Duration) {
        if let Some(histogram) = self.queue_wait.get(lane) {
            histogram.observe(wait.as_secs_f64());
        }
    }

    /// A worker took so many commands.
    pub(crate) fn took(&self, commands: usize) {
        // Fewer than 2^52.
        #[allow(clippy::cast_precision_loss, reason = "batches are small")]
        self.batches.observe(commands as f64);
    }

    /// A statement took so long.
    pub(crate) fn sent(&self, statement: Statement, took: Duration) {
        if let Ok(histogram) = self.statements.get_metric_with_label_values(&[statement]) {
            histogram.observe(took.as_secs_f64());
        }
    }

    /// A statement failed.
    pub(crate) fn failed(&self, statement: Statement, kind: &'static str) {
        if let Ok(count) = self.failures.get_metric_with_label_values(&[statement, kind]) {
            count.inc();
        }
    }

    /// Whether the store answers.
    pub(crate) fn is_ready(&self, ready: bool) {
        self.ready.set(i64::from(ready));
    }
}

fn whole(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
