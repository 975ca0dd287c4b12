//! Filters of entries. Catalogue: the fields of `EntryFilter`.

use std::ops::RangeInclusive;

use idempotency_ledger::proto::{EntryFilter, EntryState, MessageState};
use prost::Message as _;
use prost_types::Duration;

use super::expected::{CAUSES, STATES};
use super::walk::{ERROR_PARTS, NAMESPACES, PREFIXES, SOURCES, Walk};
use crate::harness::dynamic;
use crate::harness::random::Random;
use crate::proof::steps::{OWNERS, pick};

/// The number of filters that are tried after each step.
pub(super) const FILTERS: usize = 7;
/// The states of a stored message, by their numbers in the protobuf files.
const MESSAGES: [i32; 2] = [MessageState::Kept as i32, MessageState::Erased as i32];

/// The filter of this number. Of the namespace that was changed: its entries as a whole, and those by one field. Then random
/// filters of all namespaces.
pub(super) fn numbered(walk: &mut Walk, number: usize) -> EntryFilter {
    let (random, all) = (&mut walk.random, whole(NAMESPACES[walk.last]));
    let filter = match (number, random.below(3)) {
        (0, _) => all,
        (1, _) => EntryFilter { expired: true, ..all },
        (2, _) => EntryFilter { doubled: true, ..all },
        (3, 0) => EntryFilter { owner: one_of(random, &OWNERS), ..all },
        (3, 1) => EntryFilter { error_contains: one_of(random, &ERROR_PARTS), ..all },
        (3, _) => EntryFilter { parked_max_age: Some(age(random)), ..all },
        _ => {
            let namespace = *pick(random, &NAMESPACES);
            drawn(random, namespace)
        }
    };
    walk.fields_set.extend(dynamic::fields_set("EntryFilter", &filter.encode_to_vec()));
    filter
}

/// All entries of a namespace.
pub(super) fn whole((consumer, replay_run): (&str, &str)) -> EntryFilter {
    EntryFilter { consumer: consumer.into(), replay_run: replay_run.into(), ..Default::default() }
}

/// A filter of a namespace, in which each field may be set.
pub(super) fn drawn(random: &mut Random, (consumer, replay_run): (&str, &str)) -> EntryFilter {
    let owner = if random.percent(20) { one_of(random, &OWNERS) } else { String::new() };
    let error_contains = if random.percent(20) { one_of(random, &ERROR_PARTS) } else { String::new() };
    let parked_max_age = random.percent(15).then(|| age(random));
    let mut states = some(random, STATES, 60);
    // These three look at open entries alone: with COMPLETED they are refused.
    if !owner.is_empty() || !error_contains.is_empty() || parked_max_age.is_some() {
        states.retain(|state| *state != i32::from(EntryState::Completed));
    }
    let min_age = random.percent(15).then(|| age(random));
    EntryFilter {
        consumer: consumer.into(),
        source: if random.percent(20) { one_of(random, &SOURCES) } else { String::new() },
        id_prefix: if random.percent(30) { one_of(random, &PREFIXES) } else { String::new() },
        states,
        causes: some(random, CAUSES, 25),
        expired: random.percent(20),
        // Ages that exclude each other are refused.
        max_age: (min_age.is_none() && random.percent(15)).then(|| age(random)),
        min_age,
        replay_run: replay_run.into(),
        doubled: random.percent(15),
        owner,
        error_contains,
        parked_max_age,
        inbox: if random.percent(25) { *pick(random, &MESSAGES) } else { 0 },
    }
}

fn one_of(random: &mut Random, texts: &[&str]) -> String {
    (*pick(random, texts)).to_owned()
}

/// In `percent` of a hundred cases some of these numbers; otherwise none of them.
fn some(random: &mut Random, of: RangeInclusive<i32>, percent: u64) -> Vec<i32> {
    if random.percent(percent) { of.filter(|_| random.percent(40)).collect() } else { Vec::new() }
}

fn age(random: &mut Random) -> Duration {
    match random.below(6) {
        0 => Duration::default(),
        1 => Duration { seconds: 0, nanos: 1_000_000 },
        _ => Duration { seconds: *pick(random, &[1, 5, 7, 130]), nanos: 0 },
    }
}
