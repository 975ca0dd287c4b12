//! The tests of the rules that need no server, as a test of their separate crate: a change of a rule is tried in seconds. Run by
//! `tests/prove mutations`; `tests/run` runs the same tests with all others.

#![allow(dead_code, reason = "the suites that need a server use the rest of these modules")]

#[path = "by_core.rs"]
mod by_core;
#[path = "differential.rs"]
mod differential;
#[path = "reconciled.rs"]
mod reconciled;
#[path = "run.rs"]
mod run;
#[path = "spec.rs"]
mod spec;
#[path = "steps.rs"]
mod steps;

#[path = "../harness"]
mod harness {
    pub(crate) mod random;
}
