//! A list in other orders, and without one of its items: what it means stays the same, or not.

use std::fmt::Debug;

use crate::harness::random::Random;

/// The list backwards, rotated, and shuffled.
fn orders<T: Clone>(items: &[T], random: &mut Random) -> Vec<Vec<T>> {
    let mut backwards = items.to_vec();
    backwards.reverse();
    let mut rotated = items.to_vec();
    rotated.rotate_left(items.len() / 2);
    let mut all = vec![backwards, rotated];
    for _ in 0..2 {
        let mut shuffled = items.to_vec();
        for at in (1..shuffled.len()).rev() {
            let other = random.below(at as u64 + 1) as usize;
            shuffled.swap(at, other);
        }
        all.push(shuffled);
    }
    all
}

/// In every order the list has the same meaning, and each item counts, wherever it stands: without it the meaning is another.
pub(crate) fn each_counts_in_any_order<T: Clone, M: PartialEq + Debug>(
    what: &str,
    items: &[T],
    meaning: impl Fn(&[T]) -> M,
) {
    let run = crate::proof::run::Run::new("any order", 1);
    let mut random = Random::new(run.seed);
    let whole = meaning(items);
    for (number, order) in orders(items, &mut random).iter().enumerate() {
        assert_eq!(meaning(order), whole, "{what}: in order {number} of seed {}", run.seed);
    }
    let last = items.len() - 1;
    for at in [0, 1, last / 2, last - 1, last, random.below(last as u64) as usize] {
        let mut left = items.to_vec();
        left.remove(at);
        assert_ne!(meaning(&left), whole, "{what}: item {at} of {} does not count", items.len());
    }
}
