//! How busy this machine is, and which part of that is this client: whether the client limits the
//! measurement.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;

use super::numbers::approximate;

/// The share of its threads' cores that a client can use while it still begins each call in time.
const CLIENT_MAX: f64 = 0.8;
/// The share of all cores from which the machine is full.
const FULL: f64 = 0.95;
/// The share of all cores that a client must use to count as taking a full machine's time from the server.
const CLIENT_COUNTS: f64 = 0.2;

/// The CPU time used up to an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    at: Instant,
    /// The CPU time of this process.
    own: Duration,
    /// Of the whole machine, in the kernel's ticks: busy and all. Known on Linux alone.
    machine: Option<(u64, u64)>,
}

/// How busy the machine was between two instants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Load {
    /// The CPU time of this process.
    pub(super) own: Duration,
    /// The CPU time of this process, in cores.
    pub(super) client: f64,
    /// The number of cores that this process can use: at most its number of threads.
    pub(super) usable: f64,
    pub(super) cores: f64,
    /// The part of the machine that was busy with anything, from 0 to 1.
    pub(super) busy: Option<f64>,
}

/// What limits the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// Not this client.
    Elsewhere,
    /// The client's CPU time.
    Client,
    /// The CPU time of the machine, part of which the client takes from the server.
    Machine,
}

impl Usage {
    pub(super) fn now() -> Usage {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let own =
            Duration::new(u64::try_from(own.tv_sec).unwrap_or(0), u32::try_from(own.tv_nsec).unwrap_or(0));
        let machine = std::fs::read_to_string("/proc/stat").ok().as_deref().and_then(ticks);
        Usage { at: Instant::now(), own, machine }
    }

    pub(super) fn until_now(self) -> Load {
        let now = Usage::now();
        let own = now.own.saturating_sub(self.own);
        let passed = (now.at - self.at).as_secs_f64().max(f64::MIN_POSITIVE);
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let busy = self.machine.zip(now.machine).map(|(before, after)| {
            let all = after.1.saturating_sub(before.1).max(1);
            approximate(after.0.saturating_sub(before.0)) / approximate(all)
        });
        let threads = Handle::try_current().map_or(cores, |runtime| runtime.metrics().num_workers());
        let [cores, usable] =
            [cores, threads.min(cores)].map(|number| approximate(u64::try_from(number).unwrap_or(1)));
        Load { own, client: own.as_secs_f64() / passed, usable, cores, busy }
    }
}

/// Busy and all ticks of the machine, from the first line of the kernel's statistics.
fn ticks(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Option<Vec<u64>> = line.split_whitespace().map(|tick| tick.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; the later columns are included in these.
    let ticks = ticks?;
    let all: u64 = ticks.iter().take(8).sum();
    let idle: u64 = ticks.iter().skip(3).take(2).sum();
    Some((all.checked_sub(idle)?, all))
}

impl Load {
    pub(super) fn limit(self) -> Limit {
        if self.client >= CLIENT_MAX * self.usable {
            Limit::Client
        } else if self.busy.is_some_and(|busy| busy >= FULL) && self.client >= CLIENT_COUNTS * self.cores {
            Limit::Machine
        } else {
            Limit::Elsewhere
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_the_kernel_are_read() {
        let stat = "cpu  100 5 50 800 40 1 3 1 7 7\ncpu0 1 2 3\n";
        assert_eq!(ticks(stat), Some((160, 1_000)));
        for wrong in ["", "cpu", "intr 1 2", "cpu  1 x 3 4"] {
            assert_eq!(ticks(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn limit_names_a_client_that_is_the_bottleneck() {
        for (client, usable, busy, limit) in [
            (0.3, 2.0, None, Limit::Elsewhere),
            (1.7, 2.0, None, Limit::Client),
            (1.7, 2.0, Some(0.9), Limit::Client),
            (0.9, 2.0, Some(0.99), Limit::Machine),
            (0.3, 2.0, Some(0.99), Limit::Elsewhere),
            (0.9, 2.0, Some(0.7), Limit::Elsewhere),
            (0.9, 1.0, Some(0.7), Limit::Client),
            (0.7, 1.0, Some(0.99), Limit::Machine),
        ] {
            let load = Load { own: Duration::ZERO, client, usable, cores: 2.0, busy };
            assert_eq!(load.limit(), limit, "{load:?}");
        }
    }

    #[test]
    fn usage_counts_work_of_this_process() {
        let before = Usage::now();
        // On a busy machine a process may wait for long until it has worked for a millisecond.
        let until = Instant::now() + Duration::from_mins(1);
        while before.until_now().own < Duration::from_millis(1) {
            assert!(Instant::now() < until, "no work is counted");
            let _sum = (0..10_000_u64).map(std::hint::black_box).sum::<u64>();
        }
    }
}
