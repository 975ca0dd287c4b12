//! Who counts the sessions that are replaced: a store has no metrics of its own.

use std::fmt;
use std::sync::OnceLock;

use crate::store::Purpose;

type Told = Box<dyn Fn(Purpose, bool) + Send + Sync>;

/// Who is told of each session that was to be replaced, and whether it was.
#[derive(Default)]
pub(in crate::store::postgres) struct Replaced(OnceLock<Told>);

impl fmt::Debug for Replaced {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Replaced").finish_non_exhaustive()
    }
}

impl Replaced {
    /// The first one that is named stays.
    pub(in crate::store::postgres) fn tell(&self, told: Told) {
        self.0.get_or_init(|| told);
    }

    /// A session was to be replaced.
    pub(in crate::store::postgres) fn note(&self, purpose: Purpose, done: bool) {
        if let Some(told) = self.0.get() {
            told(purpose, done);
        }
    }
}
