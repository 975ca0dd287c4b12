//! The suites that look for what nobody thought of: models, random steps, histories, faults by
//! real means. Each has a small size for every test run, and a large one by `tests/prove`.

mod by_core;
mod counted;
mod differential;
mod direct;
mod fuzz;
mod fuzz_identity;
mod guard;
mod history;
mod in_python;
mod live;
mod lockstep;
mod model;
mod poison;
mod reconciled;
mod recounted;
mod reported;
mod rows;
pub(crate) mod run;
mod spec;
mod steps;
mod wire;
