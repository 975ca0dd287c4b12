//! The options of a run, with the bounds of each value.

use std::time::Duration;

use clap::{Args, value_parser};

use super::ids::Ids;
use super::workload::Workload;
use crate::cli::problem::Problem;
use crate::common::duration_arg::DurationArg;

const SECOND: Duration = Duration::from_secs(1);
/// The number of concurrent calls that a server accepts on one connection.
const CALLS_OF_A_CONNECTION: u32 = 256;
const CONNECTIONS: u32 = 4;
/// With batches: they use the client's memory, too.
const ITEMS_IN_FLIGHT_MAX: u32 = 200_000;
/// The last step of `--steps`.
const STEPS_MAX: u32 = 1_024;

/// `bench`.
#[derive(Args, Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a separate flag")]
pub(crate) struct Measurement {
    /// The workload: claim, pair (claim and complete), duplicates=90% (claims, of which this
    /// share is of completed messages), hot-keys=10 (claim one of this many messages, and release it), or renew
    #[arg(long, default_value = "pair", value_name = "WORKLOAD", help_heading = "Load")]
    workload: Workload,
    /// Number of messages that each call carries, 1 to 1000: more than one by `BatchClaim` and `BatchSettle`
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000), value_name = "N", help_heading = "Load")]
    batch: u32,
    /// Number of concurrent calls, 1 to 20000
    #[arg(long, default_value_t = 64, value_parser = value_parser!(u32).range(1..=20_000), value_name = "N", help_heading = "Load")]
    in_flight: u32,
    /// Number of connections, 1 to 1000 [default: 4, or more where 256 calls each are not enough]
    #[arg(long, value_parser = value_parser!(u32).range(1..=1_000), value_name = "N", help_heading = "Load")]
    connections: Option<u32>,
    /// Begin this many messages a second, 1 to 1000000, however fast the answers arrive; latencies then count from the
    /// instant at which each call should have begun [default: each call begins when the previous one is answered]
    #[arg(long, value_parser = value_parser!(u32).range(1..=1_000_000), value_name = "N", conflicts_with = "steps", help_heading = "Load")]
    rate: Option<u32>,
    /// Size of the result of each completed message, in bytes, at most 1048576
    #[arg(long, default_value_t = 0, value_parser = value_parser!(u32).range(0..=1_048_576), value_name = "N", help_heading = "Load")]
    result_bytes: u32,
    /// Number of consumers, 1 to 1000: they are called bench-1, bench-2, …
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000), value_name = "N", help_heading = "Load")]
    consumers: u32,
    /// Number of the first consumer, 1 to 1000000: two concurrent runs can have separate consumers
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000_000), value_name = "N", help_heading = "Load")]
    first_consumer: u32,
    /// Form of the messages' ids
    #[arg(long, value_enum, default_value = "random", value_name = "IDS", help_heading = "Load")]
    ids: Ids,
    /// Number of threads of the client, 1 to 256 [default: one for every processor]
    #[arg(long, value_parser = value_parser!(u16).range(1..=256), value_name = "N", help_heading = "Load")]
    threads: Option<u16>,
    /// Duration of the measurement, 100ms to 1d [default: 10s; with --steps 3s for each]
    #[arg(long = "for", value_name = "DURATION", help_heading = "Measurement")]
    duration: Option<DurationArg>,
    /// Duration of the load before it, unmeasured, at most 10m [default: 1s]
    #[arg(long, value_name = "DURATION", help_heading = "Measurement")]
    warm_up: Option<DurationArg>,
    /// Measure with 1, 2, 4 … 1,024 concurrent calls, one step after the other, and name the saturation point
    #[arg(long, conflicts_with = "in_flight", help_heading = "Measurement")]
    pub(super) steps: bool,
    /// Exit with 1 if the 99th percentile of the latencies is above this, 10us to 10m. With --steps: if it is above it in
    /// each step; only steps where it is not are considered to size by
    #[arg(long, value_name = "DURATION", help_heading = "Measurement")]
    max_p99: Option<DurationArg>,
    /// Print the whole distribution of the latencies
    #[arg(long, help_heading = "Measurement")]
    histogram: bool,
    /// Skip the check after the load that no message is granted twice: the server then gets only the load
    #[arg(long, help_heading = "Measurement")]
    pub(super) no_check: bool,
    /// Skip the confirmation prompt for a server that is not on this machine
    #[arg(long, short)]
    pub(super) yes: bool,
}

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) workload: Workload,
    pub(super) batch: u32,
    pub(super) in_flight: u32,
    pub(super) connections: u32,
    pub(super) rate: Option<u32>,
    pub(super) result_bytes: u32,
    pub(super) consumers: u32,
    pub(super) first_consumer: u32,
    pub(super) ids: Ids,
    pub(super) duration: Duration,
    pub(super) warm_up: Duration,
    pub(super) max_p99: Option<Duration>,
    pub(super) histogram: bool,
}

impl Measurement {
    /// The number of threads of the client.
    pub(crate) fn threads(&self) -> usize {
        let usual = || std::thread::available_parallelism().map_or(1, usize::from).min(256);
        self.threads.map_or_else(usual, usize::from)
    }

    /// The measurements, one after the other.
    ///
    /// # Errors
    /// Values that are out of bounds, alone or together.
    pub(super) fn plans(&self) -> Result<Vec<Plan>, Problem> {
        let usual = Duration::from_secs(if self.steps { 3 } else { 10 });
        let duration =
            within("--for", self.duration, usual, Duration::from_millis(100), Duration::from_hours(24))?;
        let warm_up = within("--warm-up", self.warm_up, SECOND, Duration::ZERO, Duration::from_mins(10))?;
        let max_p99 = self.max_p99.map(|max| {
            within("--max-p99", Some(max), SECOND, Duration::from_micros(10), Duration::from_mins(10))
        });
        let max_p99 = max_p99.transpose()?;
        let most = if self.steps { STEPS_MAX } else { self.in_flight };
        let needed = most.div_ceil(CALLS_OF_A_CONNECTION);
        let connections = self.connections.unwrap_or(needed.max(CONNECTIONS));
        if connections < needed {
            return Err(Problem::usage(format!(
                "--connections: {connections} carry at most {} concurrent calls, of {most}: name at least {needed}",
                connections * CALLS_OF_A_CONNECTION
            )));
        }
        if most.saturating_mul(self.batch) > ITEMS_IN_FLIGHT_MAX {
            return Err(Problem::usage(format!(
                "--batch: {most} calls of {} messages are more than {ITEMS_IN_FLIGHT_MAX} concurrent messages",
                self.batch
            )));
        }
        let plan = Plan {
            workload: self.workload,
            batch: self.batch,
            in_flight: self.in_flight,
            connections,
            rate: self.rate,
            result_bytes: self.result_bytes,
            consumers: self.consumers,
            first_consumer: self.first_consumer,
            ids: self.ids,
            duration,
            warm_up,
            max_p99,
            histogram: self.histogram,
        };
        if !self.steps {
            return Ok(vec![plan]);
        }
        let steps = (0..=STEPS_MAX.ilog2()).map(|step| Plan { in_flight: 1 << step, ..plan });
        Ok(steps.collect())
    }
}

/// A duration within its bounds.
fn within(
    flag: &str,
    given: Option<DurationArg>,
    usual: Duration,
    min: Duration,
    max: Duration,
) -> Result<Duration, Problem> {
    let value = given.map_or(usual, Duration::from);
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    let [value, min, max] = [value, min, max].map(DurationArg::from);
    Err(Problem::usage(format!("{flag}: is {value}, must be {min} to {max}")))
}
