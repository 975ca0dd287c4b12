//! Beside a consumer that floods, those who have few commands have batches of their own, and one worker of three or more is
//! kept for them while they come. Neither waits for long: where no batch of all is at the store, the next one is of all.

use std::time::Duration;

use super::away::{Away, Whose};
use crate::ledger::runtime::Instant;

/// A consumer that has more commands waiting than four batches take floods the others. With less, all that several busy
/// consumers have is gone so soon that a batch of its own for one of them costs more than it brings. In the suite of
/// interleavings few wait at a time.
const FLOOD: usize = if cfg!(all(test, feature = "shuttle")) { 2 } else { 512 };
/// For so long after its consumer came, a flood is taken to be there.
const FOR: Duration = Duration::from_secs(1);
/// For so long a worker is kept after a batch of those who have few. A batch that is away for longer hangs, and is not counted.
const RECENT: Duration = Duration::from_millis(100);
/// Of so many workers at work one may be kept.
const WORKERS: usize = 3;

/// Whether somebody floods, and when those who have few were served.
#[derive(Debug, Default)]
pub(super) struct Flood {
    came: Option<Instant>,
    few_left: Option<Instant>,
    /// Whether the last batch that left was one of those who have few.
    few_last: bool,
}

impl Flood {
    /// So many commands of one consumer wait, now that it has come.
    pub(super) fn waits(&mut self, commands: usize, now: Instant) {
        if commands > FLOOD {
            self.came = Some(now);
        }
    }

    pub(super) fn is_there(&self, now: Instant) -> bool {
        self.came.is_some_and(|at| now.saturating_duration_since(at) < FOR)
    }

    /// A batch leaves for the store.
    pub(super) fn leaves(&mut self, whose: Whose, now: Instant) {
        self.few_last = whose == Whose::Few;
        if self.few_last {
            self.few_left = Some(now);
        }
    }

    /// Whether a batch of those who have few may leave, of so many workers: one of all is at the store, or was the last to leave.
    /// They have a third of the workers, and two of a few.
    pub(super) fn few_may_leave(&self, away: &Away, workers: usize, now: Instant) -> bool {
        workers >= WORKERS
            && away.of(Whose::Few).count() < (workers / 3).max(2)
            && (!self.few_last || away.of(Whose::All).any(|left| is_recent(Some(left), now)))
    }

    /// For how long a batch of all waits, since the last free one of so many workers is kept for those who have few.
    pub(super) fn wait(&self, away: &Away, workers: usize, now: Instant) -> Duration {
        let all = || away.of(Whose::All).filter(|left| is_recent(Some(*left), now));
        if workers < WORKERS || !is_recent(self.few_left, now) || all().count() + 1 < workers {
            return Duration::ZERO;
        }
        let waits = all().map(|left| RECENT.saturating_sub(now.saturating_duration_since(left)));
        waits.min().unwrap_or_default()
    }
}

fn is_recent(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| now.saturating_duration_since(at) < RECENT)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use Whose::{All, Few};

    use super::*;

    /// Batches that have been away for so many milliseconds, and a flood whose last batch was of these.
    fn flood(away: &[(u64, Whose)], few_left: Option<u64>, last: Whose) -> (Flood, Away, Instant) {
        let now = Instant::now();
        let ago = |ms| now.checked_sub(Duration::from_millis(ms)).unwrap_or(now);
        let mut all = Away::default();
        for (ms, whose) in away {
            all.leave_at(*whose, ago(*ms));
        }
        (Flood { came: None, few_left: few_left.map(ago), few_last: last == Few }, all, now)
    }

    #[test]
    fn a_flood_is_more_than_four_batches() {
        for (commands, milliseconds_ago, expected) in
            [(512, 0, false), (513, 0, true), (513, 999, true), (513, 1_000, false)]
        {
            let (mut flood, now) = (Flood::default(), Instant::now());
            flood.waits(commands, now.checked_sub(Duration::from_millis(milliseconds_ago)).unwrap());
            flood.waits(1, now);
            assert_eq!(flood.is_there(now), expected, "{commands} {milliseconds_ago}");
        }
    }

    #[test]
    fn one_worker_of_three_is_kept_for_those_who_have_few() {
        // How many milliseconds ago those who have few were served, which batches have been away for how long, how many workers
        // there are, and for how long a batch of all waits.
        for (few_left, away, workers, wait) in [
            (None, &[][..], 3, 0),
            (None, &[(0, All), (0, All)], 3, 0),
            (Some(0), &[(0, All)], 3, 0),
            (Some(0), &[(10, All), (30, All)], 3, 70),
            (Some(99), &[(10, All), (30, All)], 3, 70),
            (Some(0), &[(0, All), (0, Few)], 3, 0),
            (Some(0), &[(0, All), (0, All)], 4, 0),
            // Where there are two, none is kept.
            (Some(0), &[(0, All)], 2, 0),
            // They have not come for a while.
            (Some(100), &[(0, All), (0, All)], 3, 0),
            // One that hangs holds up nobody.
            (Some(0), &[(100, All), (0, All)], 3, 0),
            (Some(0), &[(100, All), (10, All), (0, All)], 3, 90),
        ] {
            let (flood, away, now) = flood(away, few_left, All);
            assert_eq!(flood.wait(&away, workers, now), Duration::from_millis(wait), "{few_left:?} {away:?}");
        }
    }

    #[test]
    fn those_who_have_few_and_all_take_turns() {
        // Whose batch was the last to leave, which are away for how many milliseconds, of how many workers, and whether one of those
        // who have few may leave.
        for (last, away, workers, may_leave) in [
            (All, &[][..], 3, true),
            (All, &[][..], 2, false),
            (All, &[(0, All)], 3, true),
            (Few, &[(0, All)], 3, true),
            (Few, &[(0, All), (0, Few)], 3, true),
            (Few, &[(0, All), (0, Few), (0, Few)], 3, false),
            (Few, &[(0, All), (0, Few), (0, Few)], 8, false),
            (Few, &[(0, All), (0, Few), (0, Few)], 9, true),
            (Few, &[], 3, false),
            (Few, &[(0, Few)], 3, false),
            // One of all that hangs serves nobody; one of those who have few keeps its worker.
            (Few, &[(100, All)], 3, false),
            (Few, &[(0, All), (100, Few), (100, Few)], 3, false),
        ] {
            let (flood, away, now) = flood(away, None, last);
            assert_eq!(flood.few_may_leave(&away, workers, now), may_leave, "{last:?} {away:?} {workers}");
        }
    }
}
