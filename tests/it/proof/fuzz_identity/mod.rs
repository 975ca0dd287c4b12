//! Mangled credentials and the files that say who is known, as much as fits into the time (the size is seconds).
//! Nothing may panic or take long, every refusal says why, and nobody is known by another name than the one that a
//! naive reading gives: it is in `naive`.

mod certificates;
mod files;
mod headers;
mod naive;
mod tokens;

use std::time::{Duration, Instant};

use super::run::Run;

/// Each of these makes thousands of inputs a second.
const SECONDS: u64 = 3;
/// Nothing that is read here may take longer, on a machine that does other things too.
const LONGEST: Duration = Duration::from_secs(5);

/// What it gives; a failure of the run if it takes long.
fn bounded<T>(run: &Run, what: &str, input: &[u8], work: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let done = work();
    if began.elapsed() > LONGEST {
        run.fail(format!("{what} took {:?}", began.elapsed()), &[("input", text(input))]);
    }
    done
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A refusal without a reason is a failure of the run.
fn reasoned(run: &Run, what: &str, input: &[u8], problems: &[String]) {
    if problems.is_empty() || problems.iter().any(String::is_empty) {
        run.fail(format!("{what}: refused without a reason"), &[("input", text(input))]);
    }
}
