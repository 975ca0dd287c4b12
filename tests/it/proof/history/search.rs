//! Linearizability, after Wing and Gong, with the memory of states that Lowe added: is there an order
//! of the calls that respects real time and that the model can follow?

use std::collections::HashSet;

use super::model::State;
use super::{Call, Event, Facts, InForce, Loss, Outcome};

/// A history longer than this is a mistake of the suite.
pub(crate) const EVENTS_MAX: usize = 128;
/// A search that needs more is given up, loudly.
const VISITS_MAX: usize = 3_000_000;

/// `events` are sorted by invocation. What may have been undone has a loss in `undone`: it took effect in the order of
/// the others, or never.
pub(crate) fn check_linearizable(
    events: &[Event],
    undone: &[Option<Loss>],
    in_force: &InForce,
) -> Result<(), String> {
    assert!(events.len() <= EVENTS_MAX, "{} events on one key", events.len());
    // As the store's clock showed it: that of the model.
    let by_store = |event: &Event| {
        let (invoked, returned) = in_force.store_clock(event.invoked, event.returned);
        Event { invoked, returned, ..*event }
    };
    let by_store: Vec<Event> = events.iter().map(by_store).collect();
    let facts: Vec<Facts> = events.iter().map(|event| in_force.during(event)).collect();
    let known = |index: usize| events[index].outcome != Outcome::Unknown;
    let surely = |index: usize| known(index) && undone[index].is_none();
    let mask = |which: &dyn Fn(usize) -> bool| {
        (0..events.len()).filter(|index| which(*index)).fold(0_u128, |set, index| set | 1 << index)
    };
    // What must have come before one that may have been undone, and what must not.
    let (mut before, mut after) = (vec![0; events.len()], vec![0; events.len()]);
    for (index, loss) in undone.iter().enumerate().filter_map(|(index, loss)| Some((index, (*loss)?))) {
        let event = &events[index];
        let earlier = |other: usize| undone[other] == Some(loss) && events[other].returned < event.invoked;
        // What the next database may have carried out says nothing of what the first one has lost.
        before[index] = if loss.spans(event) { 0 } else { mask(&earlier) };
        let latest = loss.until.max(event.returned);
        after[index] = mask(&|other| events[other].invoked > latest);
    }
    let covered: Vec<u128> = (0..events.len()).map(|index| covered(index, events, &facts)).collect();
    let must = mask(&surely);
    let mut visited = HashSet::new();
    let mut stack = vec![(0_u128, State::ABSENT)];
    let mut furthest = (0, 0_u128, State::ABSENT);
    while let Some((done, state)) = stack.pop() {
        if done & must == must {
            return Ok(());
        }
        if too_many_attempts(events, undone, done, &state) {
            continue;
        }
        if visited.len() > VISITS_MAX {
            return Err("the history is too tangled to be judged".into());
        }
        let count = (done & must).count_ones();
        if count >= furthest.0 {
            furthest = (count, done, state);
        }
        // Nothing can take effect after the return of a call that has not yet taken effect.
        let rest = || (0..events.len()).filter(|index| done & (1 << index) == 0);
        let limit = rest().filter(|index| surely(*index)).map(|index| events[index].returned).min();
        let mut candidates: Vec<usize> = rest()
            .filter(|index| events[*index].invoked <= limit.unwrap_or(i64::MAX))
            .filter(|index| covered[*index] & !done == 0)
            .filter(|index| before[*index] & !done == 0 && after[*index] & done == 0)
            .collect();
        // The stack turns it around: known outcomes first, the earliest return before all.
        candidates.sort_by_key(|index| std::cmp::Reverse(events[*index].returned));
        for index in candidates {
            for next in state.after(&by_store[index], &facts[index]) {
                // Of a call of unknown outcome that changes nothing nobody needs to know.
                if next == state && !known(index) {
                    continue;
                }
                let step = (done | 1 << index, next);
                if visited.insert(step) {
                    stack.push(step);
                }
            }
        }
    }
    let (count, done, state) = furthest;
    let stuck: Vec<String> = (0..events.len())
        .filter(|index| done & (1 << index) == 0 && surely(*index))
        .take(4)
        .map(|index| events[index].to_string())
        .collect();
    Err(format!(
        "no order explains the history; after {count} of {} calls in {state:?} none of these is possible:\n  {}",
        must.count_ones(),
        stuck.join("\n  ")
    ))
}

/// The earlier calls that may do whatever this one may, where its outcome is unknown: the same call, repeated. One
/// of them takes effect in its place.
fn covered(index: usize, events: &[Event], facts: &[Facts]) -> u128 {
    let unknown = |index: usize| events[index].outcome == Outcome::Unknown;
    let same = |earlier: &usize| {
        unknown(*earlier)
            && events[*earlier].call == events[index].call
            && facts[*earlier].covers(&facts[index])
    };
    if unknown(index) { (0..index).filter(same).fold(0, |set, earlier| set | 1 << earlier) } else { 0 }
}

/// More attempts were used than a later grant tells of, and no release is left that would give one back.
fn too_many_attempts(events: &[Event], undone: &[Option<Loss>], done: u128, state: &State) -> bool {
    let rest = || (0..events.len()).filter(|index| done & (1 << index) == 0).map(|index| &events[index]);
    if rest().any(|event| matches!(event.call, Call::Order { .. })) {
        return false;
    }
    let given_back = rest().filter(|event| matches!(event.call, Call::Release { .. })).count();
    let surely = (0..events.len()).filter(|index| done & (1 << index) == 0 && undone[*index].is_none());
    let told = surely.map(|index| &events[index]).filter_map(|event| match event.outcome {
        Outcome::Acquired { attempt, .. } if attempt > 0 => Some(attempt),
        _ => None,
    });
    let fewest = told.min().unwrap_or(i32::MAX);
    state.attempts() - i32::try_from(given_back).unwrap_or(i32::MAX) > fewest
}
