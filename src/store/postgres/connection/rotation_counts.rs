//! Reports session rotations to an observer, which counts them: a store does not depend on the metrics.

use std::fmt;
use std::sync::OnceLock;

use crate::store::Purpose;

type Observer = Box<dyn Fn(Purpose, bool) + Send + Sync>;

/// The observer of session rotations: it is called with the purpose of the session, and whether the rotation succeeded.
#[derive(Default)]
pub(in crate::store::postgres) struct RotationCounts(OnceLock<Observer>);

impl fmt::Debug for RotationCounts {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("RotationCounts").finish_non_exhaustive()
    }
}

impl RotationCounts {
    /// Sets the observer. Only the first call has an effect.
    pub(in crate::store::postgres) fn set_observer(&self, observer: Observer) {
        self.0.get_or_init(|| observer);
    }

    /// Reports an attempt to rotate a session.
    pub(in crate::store::postgres) fn record(&self, purpose: Purpose, done: bool) {
        if let Some(observe) = self.0.get() {
            observe(purpose, done);
        }
    }
}
