//! Two calls for the key that a server carries out together, as in `ledger::claims::round::decide`: one load, two decisions, the
//! second one on what the first one left, and one write.
//!
//! Only where the first one changes a row is this another step than two loads at the same moment. (Whoever comes behind
//! the first grant of an absent key and only reads is as good as loaded right after the insert.)

use std::sync::Arc;

use idempotency_ledger::domain::{Decision, Entry, Fold};

use super::events::Event;
use super::one_key::OneKey;
use super::rules::Folding;
use super::server::trimmed;
use super::world::{Action, Call, Decided, Said, Second, World};

impl OneKey {
    pub(super) fn fold_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let Some(row) = world.row.as_deref() else { return };
        if world.spent.folds == self.bounds.folds {
            return;
        }
        let waits = |call: &Call| call.decided.is_none() && call.behind.is_none();
        let waiting: Vec<(usize, usize)> = (0..self.bounds.deliveries)
            .flat_map(|number| (0..world.deliveries[number].calls.len()).map(move |place| (number, place)))
            .filter(|&(number, place)| waits(&world.deliveries[number].calls[place]))
            .collect();
        for &first in &waiting {
            if self.decision(world, Some(row), first).write.is_none() {
                continue;
            }
            let others = waiting.iter().filter(|&&second| second != first);
            actions.extend(others.map(|&second| Action::Fold(first, second)));
        }
    }

    fn decision(&self, world: &World, row: Option<&Entry>, (number, place): (usize, usize)) -> Decision {
        let call = &world.deliveries[number].calls[place];
        self.decide(row, &self.command(number, call), world.now)
    }

    pub(super) fn fold(&self, world: &mut World, first: (usize, usize), second: (usize, usize)) {
        let Some(read) = world.row.clone() else { return };
        world.spent.folds += 1;
        let number = world.spent.folds;
        let mut fold = Fold::new(&self.key, Some(&*read));
        let decision = self.decision(world, fold.entry(), first);
        world.memory.decided(first.0, &world.deliveries[first.0].calls[first.1], Some(&read), &decision);
        let said = Said::of(&fold.keep(decision).answer);
        let between = Arc::new(trimmed(fold.entry().expect("it was changed").clone()));
        let seen = if self.rules.folding == Folding::OnWhatWasRead { Some(&*read) } else { fold.entry() };
        let decision = self.decision(world, seen, second);
        let kept = fold.keep(decision);
        let second_said = Said::of(&kept.answer);
        let (mut next, _) = fold.into_write().expect("it was changed");
        if kept.wrote && self.rules.folding == Folding::TwoSteps {
            next.version += 1;
        }
        let behind = Second { fold: number, between, wrote: kept.wrote, said: second_said };
        let next = Arc::new(trimmed(next));
        let decided = Decided { base: Some(read.version), next, said, second: Some(behind) };
        world.deliveries[first.0].calls[first.1].decided = Some(decided);
        world.deliveries[second.0].calls[second.1].behind = Some(number);
    }

    /// The second call of a fold.
    fn second(&self, world: &World, fold: u8) -> (usize, usize) {
        let all = world.deliveries.iter().enumerate();
        let mut calls = all.flat_map(|(number, delivery)| {
            delivery.calls.iter().enumerate().map(move |(place, call)| ((number, place), call))
        });
        calls.find(|(_, call)| call.behind == Some(fold)).expect("it waits for the write").0
    }

    /// Both are decided again.
    pub(super) fn fold_lost(&self, world: &mut World, decided: Decided) {
        let Some(second) = decided.second else { return };
        self.note(Event::FoldLost);
        let (number, place) = self.second(world, second.fold);
        let call = &mut world.deliveries[number].calls[place];
        call.behind = None;
        if self.rules.folding == Folding::AnswersTheLost {
            let call = call.clone();
            let row = world.row.clone().unwrap_or(second.between);
            world.memory.followed(number, &call, &row, second.said);
            self.answer(world, number, place, second.said);
        }
    }

    /// One write for both: nobody sees what lies between.
    pub(super) fn write_both(
        &self,
        world: &mut World,
        first: (usize, usize),
        (next, said): (Arc<Entry>, Said),
        second: &Second,
        known: bool,
    ) {
        let behind = self.second(world, second.fold);
        world.deliveries[behind.0].calls[behind.1].behind = None;
        let read = world.row.as_deref().map_or(0, |row| row.version);
        world.memory.replaces(read, next.version);
        self.commit(world, first.0, first.1, Arc::clone(&second.between), said);
        if second.wrote {
            self.note(Event::Folded);
            self.commit(world, behind.0, behind.1, next, second.said);
        } else if known {
            let call = world.deliveries[behind.0].calls[behind.1].clone();
            world.memory.followed(behind.0, &call, &next, second.said);
        }
        if !known {
            self.note(Event::FoldUnknown);
        }
        // From the back, so that the places in front of it stay.
        let mut both = [(first, said, true), (behind, second.said, second.wrote)];
        both.sort_by_key(|((_, place), ..)| std::cmp::Reverse(*place));
        for ((number, place), said, wrote) in both {
            if known || wrote {
                self.written(world, number, place, said, known);
            }
        }
    }
}
