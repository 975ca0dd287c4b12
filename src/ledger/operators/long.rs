//! Imports and bulk redrives: how many streams a principal has open, and the places for their work. A stream has a place only
//! while it reads or changes entries for one message, one page or one entry, never while it waits for its client or its
//! rate. So a client that opens streams and sends or reads nothing does not take a place from others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::places::{Bounds, FairPlaces, Permit};
use crate::common::still_counted::StillCounted;
use crate::domain::{Reason, Rejection};

/// Imports and bulk redrives that one principal may have open on a server, and so the number of its requests that wait for a
/// place: an operation asks for one at a time. All principals together are bounded by the connections and their streams.
const OPEN_MAX: usize = 64;

/// Work that changes entries. Five pieces keep the operators' one session for changes busy.
const WORK: Bounds = Bounds {
    what: "pieces of work of imports and bulk redrives",
    places: 5,
    waiting: 256,
    wait: Duration::from_secs(10),
};

/// Pages that dry runs read: separate, since they change nothing and must not wait for what does.
const DRY_RUNS: Bounds = Bounds { what: "pages of dry runs", places: 2, ..WORK };

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct LongOperations {
    /// One name for each open stream.
    open: Arc<Mutex<Vec<Box<str>>>>,
    work: FairPlaces,
    dry_runs: FairPlaces,
}

impl Default for LongOperations {
    fn default() -> LongOperations {
        LongOperations {
            open: Arc::default(),
            work: FairPlaces::new(WORK),
            dry_runs: FairPlaces::new(DRY_RUNS),
        }
    }
}

/// An open import or bulk redrive, until it is dropped.
pub struct OpenOperation {
    of: LongOperations,
    principal: Box<str>,
    dry_run: bool,
}

/// The right to one piece of the operation's work, until it is dropped.
pub struct WorkPermit {
    _place: Permit,
}

impl LongOperations {
    /// Opens an import or a bulk redrive of a principal.
    ///
    /// # Errors
    /// `OVERLOADED`.
    pub(super) fn open(&self, principal: &str, dry_run: bool) -> Result<OpenOperation, Rejection> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.iter().filter(|one| ***one == *principal).count() >= OPEN_MAX {
            let text = format!(
                "{OPEN_MAX} imports and bulk redrives of this principal are open on this server already: end some of \
                 them, or try again later"
            );
            return Err(Rejection::new(Reason::Overloaded, text));
        }
        open.push(principal.into());
        Ok(OpenOperation { of: self.clone(), principal: principal.into(), dry_run })
    }

    /// Notes the operations that are open, and the places that they have.
    pub(super) fn still_counted(&self, left: &mut StillCounted) {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).len();
        left.note("imports and bulk redrives", open);
        self.work.still_counted(left);
        self.dry_runs.still_counted(left);
    }
}

impl OpenOperation {
    /// Takes a place for one piece of work; waits for a bounded time.
    ///
    /// # Errors
    /// `OVERLOADED`.
    pub(super) async fn place(&self) -> Result<WorkPermit, Rejection> {
        let places = if self.dry_run { &self.of.dry_runs } else { &self.of.work };
        Ok(WorkPermit { _place: places.take(&self.principal).await? })
    }
}

impl Drop for OpenOperation {
    fn drop(&mut self) {
        let mut open = self.of.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = open.iter().position(|one| *one == self.principal) {
            open.swap_remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_streams_of_one_principal_are_bounded() {
        let all = LongOperations::default();
        let refused = |principal| all.open(principal, false).err().map(|rejection| rejection.message);
        let mut held: Vec<_> = (0..OPEN_MAX).map(|_| all.open("one", false).unwrap()).collect();
        let said = refused("one").unwrap();
        assert!(said.starts_with("64 imports and bulk redrives of this principal are open"), "{said}");
        assert_eq!(refused("other"), None);
        held.pop();
        assert_eq!(refused("one"), None);
        drop(held);
        assert!(all.open.lock().unwrap().is_empty());
    }

    /// However many operations are open and at work, dry runs have separate places, and a new principal gets one soon.
    #[tokio::test]
    async fn dry_runs_have_their_own_places() {
        let all = LongOperations::default();
        let one = all.open("one", false).unwrap();
        let mut held = Vec::new();
        for _ in 0..WORK.places {
            held.push(one.place().await.unwrap());
        }
        let dry = all.open("one", true).unwrap();
        drop(dry.place().await.unwrap());
        let other = all.open("other", false).unwrap();
        let (place, ()) = tokio::join!(other.place(), async { drop(held.pop()) });
        place.unwrap();
    }
}
