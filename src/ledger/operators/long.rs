//! Imports and bulk redrives: how many streams a principal has open, and the places for what they do. A stream has a
//! place only while it reads or changes entries for one message, one page or one entry, never while it waits for its
//! client or its rate. So a client that opens streams and sends or reads nothing does not take a place from others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::places::{Bounds, Permit, Places};
use crate::domain::{Reason, Rejection};

/// How many imports and bulk redrives one principal may have open on a server, and so how many of its requests wait for a
/// place: an operation asks for one at a time. All principals together are bounded by the connections and their streams.
const OPEN_MAX: usize = 64;

/// What changes entries. Five keep the operators' one session for changes busy.
const WORK: Bounds = Bounds {
    what: "pieces of work of imports and bulk redrives",
    places: 5,
    waiting: 256,
    wait: Duration::from_secs(10),
};

/// What a dry run reads: apart, since it changes nothing and must not wait for what does.
const DRY_RUNS: Bounds = Bounds { what: "pages of dry runs", places: 2, ..WORK };

/// See the module. Cheap to clone.
#[derive(Clone)]
pub(super) struct LongOperations {
    /// One name for each stream that is open.
    open: Arc<Mutex<Vec<Box<str>>>>,
    work: Places,
    dry_runs: Places,
}

impl Default for LongOperations {
    fn default() -> LongOperations {
        LongOperations { open: Arc::default(), work: Places::new(WORK), dry_runs: Places::new(DRY_RUNS) }
    }
}

/// An import or a bulk redrive that is open, until it is dropped.
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
}

impl OpenOperation {
    /// A place for one piece of work; waits for one, for a bounded time.
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

    /// However much is open and at work, dry runs have places of their own, and a principal that comes has one soon.
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
