//! A consumer's turn of the purge: which entries it checks, and when the next turn is due.

use std::time::Duration;

use crate::domain::{Reading, Span, StoreTime};
use crate::ledger::runtime::Instant;
use crate::store::{PurgePlace, PurgeTurn, TURN_MAX};

/// A turn ends after this time, so that other consumers have theirs.
const TURN: Duration = Duration::from_secs(5);
/// A consumer's next turn is due after this time at the latest, whatever the clock does.
const IDLE: Span = Span::from_days(1);
/// Pause between two passes over the entries that earlier passes did not delete.
const START_AGAIN_AFTER: Span = Span::from_secs(3_600);
/// Pause before the next batch of entries that earlier passes did not delete, as a multiple of the last batch's duration.
const AGAIN_FACTOR: u32 = 10;

/// An instant before the creation of every entry.
const BEGINNING: StoreTime = StoreTime(0);

/// The entries that a turn checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Those that have become old enough since the last turn.
    First,
    /// Those that it had left.
    Again,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) stage: Stage,
    place: PurgePlace,
    taken: Reading,
    began: Instant,
    /// Whether an entry that was over could not be deleted.
    left: bool,
}

/// The result of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batch {
    /// When its last entry was created, if there may be more.
    pub(super) last: Option<StoreTime>,
    /// Whether some entries were not deleted.
    pub(super) kept: bool,
    /// Whether an entry that was over could not be deleted.
    pub(super) left: bool,
    pub(super) took: Duration,
    pub(super) now: StoreTime,
}

/// What follows a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another batch.
    Batch,
    /// The end of the turn, and another turn as soon as the others had theirs.
    EndInTheMiddle,
    /// The end of the turn.
    End,
}

impl Turn {
    pub(super) fn begin(turn: &PurgeTurn) -> Turn {
        Turn { stage: Stage::First, place: turn.place, taken: turn.taken, began: Instant::now(), left: false }
    }

    /// The position of the turn.
    pub(super) fn place(&self) -> PurgePlace {
        self.place
    }

    /// The range of creation times that it checks: after the first instant, until the second. Entries are not checked for
    /// `left_alone` after their creation.
    pub(super) fn range(&mut self, left_alone: Span) -> (StoreTime, StoreTime) {
        let old_enough = self.taken.now - left_alone;
        // Where a clock had run ahead, or the retention is longer now, it has passed too many.
        self.place.passed = self.place.passed.min(old_enough);
        match self.stage {
            Stage::First => (self.place.passed, old_enough),
            Stage::Again => (self.place.again, self.place.passed),
        }
    }

    /// Moves on after a batch of this range.
    pub(super) fn pass(&mut self, until: StoreTime, batch: Batch, every: Span) -> Next {
        match self.stage {
            Stage::First => {
                self.left |= batch.left;
                self.place.passed = batch.last.unwrap_or(until);
                if batch.kept {
                    self.place.again_due = self.place.again_due.min(batch.now + START_AGAIN_AFTER);
                }
                if batch.last.is_some() {
                    return if self.began.elapsed() < TURN { Next::Batch } else { Next::EndInTheMiddle };
                }
                let due = self.place.again_due;
                if due <= batch.now || due > batch.now + TURN_MAX {
                    self.stage = Stage::Again;
                    return Next::Batch;
                }
            }
            Stage::Again => {
                // It started at the first one, and there was none: it has left nothing.
                let nothing = self.place.again == BEGINNING && !batch.kept;
                self.place.again = batch.last.unwrap_or(BEGINNING);
                let rest = match batch.last {
                    Some(_) => Span::from_std(batch.took * AGAIN_FACTOR),
                    None if nothing => IDLE,
                    None => START_AGAIN_AFTER,
                };
                self.place.again_due = batch.now + rest;
            }
        }
        if self.left {
            self.place.again = BEGINNING;
            self.place.again_due = batch.now + every;
        }
        Next::End
    }

    /// When the next turn is due, if the next entry was created at `next`.
    pub(super) fn due(&self, next: Option<StoreTime>, left_alone: Span, every: Span) -> StoreTime {
        // Entries that became old enough since the turn was taken were not checked.
        let now = self.taken.now;
        // Entries that are created from now on are not checked for as long.
        let old_enough = next.unwrap_or(now) + left_alone;
        old_enough.min(self.place.again_due).clamp(now + every, now + IDLE.max(every))
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::domain::ClockLimits;

    const NOW: StoreTime = StoreTime(1_780_000_000_000_000);
    const DAY: Span = Span::from_days(1);
    const EVERY: Span = Span::from_secs(10);

    fn ago(seconds: i64) -> StoreTime {
        NOW - Span::from_secs(seconds)
    }

    fn turn(passed: StoreTime, again: StoreTime, again_due: StoreTime) -> Turn {
        Turn {
            stage: Stage::First,
            place: PurgePlace { passed, again, again_due },
            taken: Reading { now: NOW, token_offset: 0, mark: 0, limits: ClockLimits::NONE },
            began: Instant::now(),
            left: false,
        }
    }

    fn batch(last: Option<StoreTime>) -> Batch {
        Batch { last, kept: true, left: false, took: Duration::from_millis(200), now: NOW }
    }

    #[test]
    fn it_looks_at_what_has_become_old_enough_and_never_passes_more() {
        let old_enough = NOW - DAY;
        for (what, passed, after) in [
            ("the first turn", BEGINNING, BEGINNING),
            ("the next one", ago(100_000), ago(100_000)),
            ("passed while a clock ran ahead, or while entries were kept for less", ago(7), old_enough),
        ] {
            let mut turn = turn(passed, BEGINNING, NOW + START_AGAIN_AFTER);
            assert_eq!(turn.range(DAY), (after, old_enough), "{what}");
            assert_eq!(turn.pass(old_enough, batch(None), EVERY), Next::End, "{what}");
            assert_eq!(turn.place().passed, old_enough, "{what}");
        }
    }

    #[test]
    fn a_full_batch_is_followed_by_another_until_the_turn_is_over() {
        let mut turn = turn(BEGINNING, BEGINNING, NOW);
        assert_eq!(turn.pass(NOW - DAY, batch(Some(ago(90_000))), EVERY), Next::Batch);
        assert_eq!(turn.range(DAY), (ago(90_000), NOW - DAY));
        turn.began = Instant::now().checked_sub(TURN).expect("the machine runs for longer");
        assert_eq!(turn.pass(NOW - DAY, batch(Some(ago(89_000))), EVERY), Next::EndInTheMiddle);
        assert_eq!((turn.place().passed, turn.stage), (ago(89_000), Stage::First));
    }

    #[test]
    fn what_it_left_is_looked_at_again_batch_by_batch_from_the_first_one_on() {
        let again = |again_due| {
            let mut turn = turn(NOW - DAY, ago(200_000), again_due);
            let none = Batch { kept: false, ..batch(None) };
            (turn.pass(NOW - DAY, none, EVERY), turn)
        };
        for (what, due, next) in [
            ("it is due", NOW, Next::Batch),
            ("it is not", NOW + Span(1), Next::End),
            ("a wrong clock has set it", NOW + TURN_MAX + Span(1), Next::Batch),
        ] {
            assert_eq!(again(due).0, next, "{what}");
        }
        let (_, mut turn) = again(NOW);
        assert_eq!(turn.range(DAY), (ago(200_000), NOW - DAY));
        assert_eq!(turn.pass(NOW - DAY, batch(Some(ago(150_000))), EVERY), Next::End);
        let rest = Span::from_secs(2);
        assert_eq!((turn.place().again, turn.place().again_due), (ago(150_000), NOW + rest));
        let (_, mut turn) = again(NOW);
        assert_eq!(turn.pass(NOW - DAY, batch(None), EVERY), Next::End);
        assert_eq!((turn.place().again, turn.place().again_due), (BEGINNING, NOW + START_AGAIN_AFTER));
    }

    #[test]
    fn it_comes_back_in_an_hour_where_it_has_left_something_and_in_a_day_where_it_has_not() {
        for (what, kept, again, due) in [
            ("something is left", true, BEGINNING, START_AGAIN_AFTER),
            ("something may be left before", false, ago(200_000), START_AGAIN_AFTER),
            ("nothing is left", false, BEGINNING, IDLE),
        ] {
            let mut turn = turn(NOW - DAY, again, NOW);
            turn.stage = Stage::Again;
            assert_eq!(turn.pass(NOW - DAY, Batch { kept, ..batch(None) }, EVERY), Next::End, "{what}");
            assert_eq!(turn.place().again_due, NOW + due, "{what}");
        }
        for (what, kept, due) in
            [("it leaves something", true, START_AGAIN_AFTER), ("it does not", false, IDLE)]
        {
            let mut turn = turn(BEGINNING, BEGINNING, NOW + IDLE);
            assert_eq!(turn.pass(NOW - DAY, Batch { kept, ..batch(None) }, EVERY), Next::End, "{what}");
            assert_eq!(turn.place().again_due, NOW + due, "{what}");
        }
    }

    #[test]
    fn what_could_not_be_deleted_is_looked_at_again_soon() {
        let mut turn = turn(BEGINNING, ago(200_000), NOW + START_AGAIN_AFTER);
        let left = Batch { left: true, ..batch(Some(ago(90_000))) };
        assert_eq!(turn.pass(NOW - DAY, left, EVERY), Next::Batch);
        assert_eq!(turn.pass(NOW - DAY, batch(None), EVERY), Next::End);
        assert_eq!((turn.place().again, turn.place().again_due), (BEGINNING, NOW + EVERY));
    }

    #[test]
    fn the_next_turn_is_due_when_the_next_entry_is_old_enough() {
        let turn = turn(NOW - DAY, BEGINNING, NOW + Span::from_secs(300));
        for (what, next, due) in [
            ("immediately", Some(NOW - DAY), EVERY),
            ("in a minute", Some(NOW - DAY + Span::from_secs(60)), Span::from_secs(60)),
            ("when it looks again", Some(NOW), Span::from_secs(300)),
            ("there is none, but it looks again", None, Span::from_secs(300)),
        ] {
            assert_eq!(turn.due(next, DAY, EVERY), NOW + due, "{what}");
        }
        let hour = Span::from_secs(3_600);
        assert_eq!(turn.due(Some(NOW - DAY), DAY, hour), NOW + hour, "as often as is asked, and no oftener");
        let idle = Turn { place: PurgePlace { again_due: NOW + TURN_MAX, ..turn.place }, ..turn };
        assert_eq!(idle.due(None, hour, EVERY), NOW + hour);
        assert_eq!(idle.due(None, Span::from_days(30), EVERY), NOW + IDLE);
    }
}
