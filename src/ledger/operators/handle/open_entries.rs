//! The operators' reads of open entries.

use super::Operators;
use crate::domain::{EntryFilter, Listing, Rejection};
use crate::ledger::operators::open_entries::{self, EntryGroups, OpenPage, OpenPosition};
use crate::ledger::operators::read::Ages;

impl Operators {
    /// Reads a page of the open entries of all consumers.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn list_open(
        &self,
        listing: Listing,
        from: OpenPosition,
        ages: Ages,
    ) -> Result<OpenPage, Rejection> {
        let asked = (listing, from, ages);
        let list = self.inner.reads.read(&self.principal, asked, |session, (listing, from, ages)| {
            Box::pin(open_entries::list(session, listing, from, *ages))
        });
        list.await
    }

    /// Counts open entries by consumer, state, cause and error.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn group(&self, filter: EntryFilter, ages: Ages) -> Result<EntryGroups, Rejection> {
        let group = self.inner.reads.read(&self.principal, (filter, ages), |session, (filter, ages)| {
            Box::pin(open_entries::group(session, filter, *ages))
        });
        group.await
    }
}
