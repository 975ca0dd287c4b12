//! The saturation point: the number of calls in flight beyond which more calls only add latency. People size
//! by it.

use std::time::Duration;

use super::measured::Measured;
use super::report::latency;

/// The share of the best rate beyond which more calls gain little.
const ENOUGH: f64 = 0.9;

/// The step to size by: the first one with nearly the best rate, among the steps whose 99th percentile is
/// within `max_p99`.
pub(super) fn of(all: &[Measured], max_p99: Option<Duration>) -> Option<&Measured> {
    let steps: Vec<(f64, Duration)> = all.iter().map(|one| (one.rate(), one.p99())).collect();
    all.get(place(&steps, max_p99)?)
}

fn place(steps: &[(f64, Duration)], max_p99: Option<Duration>) -> Option<usize> {
    let allowed = |p99: &Duration| max_p99.is_none_or(|max| *p99 <= max);
    let best = steps.iter().filter(|(_, p99)| allowed(p99)).map(|(rate, _)| *rate).fold(0.0, f64::max);
    steps.iter().position(|(rate, p99)| allowed(p99) && *rate >= ENOUGH * best)
}

pub(super) fn describe(step: &Measured) -> String {
    let (_, units) = step.plan.workload.unit();
    let p99 = latency(u64::try_from(step.p99().as_micros()).unwrap_or(u64::MAX));
    format!(
        "size by {} under way: {:.0} {units} a second, p99 {p99}; more calls bring at most a tenth more",
        step.plan.in_flight,
        step.rate()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saturation_point_is_where_more_calls_bring_little() {
        let steps = |all: &[(u32, u64)]| -> Vec<(f64, Duration)> {
            all.iter().map(|(rate, p99)| (f64::from(*rate), Duration::from_millis(*p99))).collect()
        };
        let usual = [(100, 1), (200, 1), (380, 2), (600, 3), (640, 6), (650, 12), (500, 30)];
        for (all, max, place_of) in [
            (&usual[..], None, Some(3)),
            (&usual, Some(2), Some(2)),
            (&usual, Some(40), Some(3)),
            (&[(100, 5), (90, 9)], Some(4), None),
            (&[(100, 5)], None, Some(0)),
            (&[(100, 5), (105, 9), (109, 20)], None, Some(0)),
        ] {
            assert_eq!(place(&steps(all), max.map(Duration::from_millis)), place_of, "{all:?} {max:?}");
        }
    }
}
