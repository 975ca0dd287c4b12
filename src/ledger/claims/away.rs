//! Which batches are at the store, and whether another worker should take one meanwhile. A statement costs the store
//! as much as many rows: what comes while one is under way is better sent with the next one than by a second session
//! with a few rows of its own.

use std::time::Duration;

use crate::ledger::runtime::Instant;

/// So many commands are worth a statement beside those that are under way. What begins and ends a statement costs Postgres as
/// much as some thirty rows of it: with 200 each row of a batch costs it a twentieth more, and with 400 the processors wait
/// for flushes.
pub(super) const WORTH: usize = 250;
/// For so long commands wait for the batch that is at the store to come back. Beyond it the store is slow, or a
/// session hangs: then others must not wait for it.
pub(super) const PATIENCE: Duration = Duration::from_millis(5);

/// For so long after a batch of those who have few, a worker is kept for the next one.
const KEPT_FOR: Duration = Duration::from_millis(100);

/// Whose commands a batch has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whose {
    /// Of all that wait, in turns.
    All,
    /// Only of consumers that have few, while another one floods.
    Few,
}

#[derive(Debug)]
struct Batch {
    number: u64,
    left: Instant,
    whose: Whose,
}

impl Batch {
    /// For how much longer others wait for it.
    fn patience(&self, now: Instant) -> Duration {
        PATIENCE.saturating_sub(now.saturating_duration_since(self.left))
    }
}

/// The batches that are at the store.
#[derive(Debug, Default)]
pub(super) struct Away {
    batches: Vec<Batch>,
    last: u64,
    /// When the last batch of those who have few has left.
    few_left: Option<Instant>,
    /// Whether that was the last batch of all.
    few_last: bool,
}

impl Away {
    /// A batch leaves for the store.
    pub(super) fn leave(&mut self, whose: Whose) -> u64 {
        let left = Instant::now();
        self.few_last = whose == Whose::Few;
        if self.few_last {
            self.few_left = Some(left);
        }
        self.last += 1;
        self.batches.push(Batch { number: self.last, left, whose });
        self.last
    }

    /// It has come back, or its worker is gone.
    pub(super) fn back(&mut self, batch: u64) {
        self.batches.retain(|away| away.number != batch);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// For how long so many commands should wait for a batch to come back; zero: another one may leave at once.
    pub(super) fn wait(&self, commands: usize, worth: usize) -> Duration {
        if commands >= worth || self.batches.is_empty() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        self.batches.iter().map(|batch| batch.patience(now)).max().unwrap_or_default()
    }

    /// While one consumer floods, whether a batch of those who have few may leave: one of all is at the store, or was the last to
    /// leave. So neither waits for more than a batch of the other, however many workers there are.
    pub(super) fn few_may_leave(&self) -> bool {
        let now = Instant::now();
        !self.few_last || self.of_all(now).next().is_some()
    }

    /// Of so many workers one is kept for those who have few, while they come: for how long a batch of all should wait.
    pub(super) fn wait_for_few(&self, workers: usize) -> Duration {
        let now = Instant::now();
        let kept = self.few_left.is_some_and(|left| now.saturating_duration_since(left) < KEPT_FOR);
        if !kept || self.of_all(now).count() + 1 < workers {
            return Duration::ZERO;
        }
        self.of_all(now).min().unwrap_or_default()
    }

    /// For how much longer others wait for each batch of all.
    fn of_all(&self, now: Instant) -> impl Iterator<Item = Duration> {
        let all = self.batches.iter().filter(|batch| batch.whose == Whose::All);
        all.map(move |batch| batch.patience(now)).filter(|wait| *wait > Duration::ZERO)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    /// Batches that have been away for so long.
    fn batches(away: impl Iterator<Item = (Duration, Whose)>) -> Away {
        let now = Instant::now();
        let batch =
            |((away, whose), number)| Batch { number, left: now.checked_sub(away).unwrap_or(now), whose };
        let batches: Vec<Batch> = away.zip(1..).map(batch).collect();
        Away { last: batches.len() as u64, batches, few_left: None, few_last: false }
    }

    #[test]
    fn another_batch_leaves_where_it_is_worth_it_or_the_first_stays_out() {
        let second = Duration::from_secs(1);
        // For how long the batches have been away, how many commands wait, and whether they wait on.
        for (away, commands, waits) in [
            (&[][..], 1, false),
            (&[Duration::ZERO], 1, true),
            (&[Duration::ZERO], WORTH - 1, true),
            (&[Duration::ZERO], WORTH, false),
            // One that hangs holds up nobody.
            (&[second], 1, false),
            (&[second, Duration::ZERO], 1, true),
            (&[second, second], 1, false),
        ] {
            let mut all = batches(away.iter().map(|away| (*away, Whose::All)));
            assert_eq!(all.wait(commands, WORTH) > Duration::ZERO, waits, "{away:?} {commands}");
            // Whoever comes back is waited for no more.
            for batch in 1..=away.len() as u64 {
                all.back(batch);
            }
            assert!(all.is_empty() && all.wait(1, WORTH) == Duration::ZERO);
        }
    }

    #[test]
    fn beside_a_flood_one_worker_of_three_is_kept_for_those_who_have_few() {
        use Whose::{All, Few};
        let (zero, second) = (Duration::ZERO, Duration::from_secs(1));
        // How long ago those who have few were served, which batches have been away for how long, and whether one of all waits.
        for (few_left, away, waits) in [
            (None, &[][..], false),
            (None, &[(zero, All), (zero, All)], false),
            (Some(zero), &[(zero, All)], false),
            (Some(zero), &[(zero, All), (zero, All)], true),
            (Some(zero), &[(zero, All), (zero, Few)], false),
            // They have not come for a while.
            (Some(second), &[(zero, All), (zero, All)], false),
            // One that hangs holds up nobody.
            (Some(zero), &[(second, All), (zero, All)], false),
            (Some(zero), &[(second, All), (zero, All), (zero, All)], true),
        ] {
            let mut all = batches(away.iter().copied());
            all.few_left = few_left.and_then(|ago| Instant::now().checked_sub(ago));
            assert_eq!(all.wait_for_few(3) > zero, waits, "{few_left:?} {away:?}");
        }
    }

    #[test]
    fn those_who_have_few_and_all_take_turns() {
        use Whose::{All, Few};
        let (zero, second) = (Duration::ZERO, Duration::from_secs(1));
        // Whose batch was the last to leave, which are away for how long, and whether one of those who have few may leave.
        for (last, away, may_leave) in [
            (All, &[][..], true),
            (All, &[(zero, All)], true),
            (Few, &[(zero, All)], true),
            (Few, &[(zero, All), (zero, Few), (zero, Few)], true),
            (Few, &[], false),
            (Few, &[(zero, Few)], false),
            // One that hangs serves nobody.
            (Few, &[(second, All)], false),
        ] {
            let mut all = batches(away.iter().copied());
            let batch = all.leave(last);
            all.back(batch);
            assert_eq!(all.few_may_leave(), may_leave, "{last:?} {away:?}");
        }
    }
}
