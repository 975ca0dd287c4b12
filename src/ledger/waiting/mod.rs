//! Calls that wait for another verdict: docs/contract.md, section 4, "Waiting". They wait in memory: without a connection, a
//! place in the queue, or a row lock.
//!
//! `line` decides which calls of a key look when something happens, `places` how many may wait, `polls` when their keys are
//! loaded. The `room` has all three for all keys; the `poller` loads, a `call` waits, and calls that look at the same time
//! are queued `together`.

mod call;
mod line;
mod places;
mod poller;
mod polls;
mod room;
#[cfg(all(test, not(feature = "shuttle")))]
mod tests;
mod together;

pub(crate) use self::call::{LEFT_MIN, WaitEnds, WaitingCaller};
pub(super) use self::call::{Looks, answered_later};
pub use self::places::Bounds;
pub(super) use self::places::WaitPlaces;
pub(super) use self::poller::Poller;
pub(super) use self::room::Room;
pub(super) use self::together::Together;
