//! What the pure parts of a call cost, each by itself: see docs/performance.md.

use divan::{Bencher, black_box};

mod decide;
mod key;
mod rows;
mod samples;
mod wire;

fn main() {
    divan::main();
}

/// Measures a function of values that are not part of it, and whose end is not either.
fn measure<T, R>(bencher: Bencher<'_, '_>, input: impl Fn() -> T, work: impl Fn(T) -> R + Sync) {
    bencher.with_inputs(input).bench_local_values(|input| work(black_box(input)));
}
