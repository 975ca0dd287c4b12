//! Operators' reads of stored messages.

use super::Operators;
use crate::common::random;
use crate::domain::{Key, Rejection, RequestDigest};
use crate::ledger::operators::message;
use crate::ledger::operators::read::{self, Backlog};
use crate::store::KeptMessage;

impl Operators {
    /// Counts the stored messages of a consumer, exactly up to `most`.
    ///
    /// # Errors
    /// Those of the store.
    pub(crate) async fn backlog(&self, consumer: &str, most: i64) -> Result<Backlog, Rejection> {
        let asked = (consumer.to_owned(), most);
        let read = self
            .inner
            .reads
            .read(&self.principal, asked, |session, asked| Box::pin(read::backlog(session, asked)));
        read.await
    }

    /// Reads the message of an entry, and records that in the audit first.
    ///
    /// # Errors
    /// `ENTRY_NOT_FOUND`, and those of the store.
    pub async fn message(
        &self,
        key: Key,
        actor: &str,
        reason: String,
        digest: RequestDigest,
    ) -> Result<KeptMessage, Rejection> {
        let asked = message::Sought { key, actor: actor.to_owned(), reason, id: random::id(), digest };
        self.inner
            .change_task
            .change(&self.principal, asked, |session, asked, _| Box::pin(message::read(session, asked)))
            .await
    }
}
