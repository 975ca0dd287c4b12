//! Operators' changes, each in one transaction with its audit event.

use sqlx::{Executor as _, Row as _};

use super::PgSession;
use super::errors::of_sqlx;
use super::statements as sql;
use crate::domain::{AuditEvent, AuditListing, AuditOf, Entry, ImportedEntry, PolicyVersion, StoreTime};
use crate::store::row::{AuditRow, PolicyRow};
use crate::store::{EffectiveRetention, OffsetRaise, Session as _, StoreError, Write, WriteResult};

impl PgSession {
    pub(super) async fn change_in_one(
        &mut self,
        write: &Write,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        // Outside: what is learnt in a transaction that is rolled back would be wrong.
        if let Write::Insert(entry) = write {
            self.learn_names(std::slice::from_ref(entry)).await?;
        }
        self.plain("BEGIN").await?;
        let outcome = self.within_transaction(write, event).await;
        self.end(outcome).await
    }

    /// Ends the transaction. What was refused in it is undone here, so that the session can go on.
    async fn end(&mut self, outcome: Result<WriteResult, StoreError>) -> Result<WriteResult, StoreError> {
        match outcome {
            Ok(WriteResult::Done) => self.plain("COMMIT").await?,
            Ok(WriteResult::Lost | WriteResult::Repeated) | Err(StoreError::NotApplied(_)) => {
                self.plain("ROLLBACK").await?;
            }
            Err(StoreError::Unknown(_)) => {}
        }
        outcome
    }

    /// Says whether the request is new. First of all, so that a repeat waits here for the request that it
    /// repeats.
    async fn add_event(&mut self, event: &AuditEvent) -> Result<bool, StoreError> {
        let query = self
            .query(sql::AUDIT_ADD)
            .bind(event.request_id.clone())
            .bind(event.at.micros())
            .bind(event.actor.clone())
            .bind(event.action.clone())
            .bind(event.consumer.clone())
            .bind(event.key)
            .bind(event.reason.clone())
            .bind(event.before.clone())
            .bind(event.after.clone());
        Ok(query.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected() == 1)
    }

    async fn within_transaction(
        &mut self,
        write: &Write,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        let written = match write {
            Write::Replace(entry) => self.replace(std::slice::from_ref(entry)).await? == [true],
            Write::Nothing => true,
            Write::Delete(key, version) => self.delete(*key, *version).await?,
            Write::Insert(entry) => {
                // The insert knows only first grants; the rest of the row follows.
                let inserted = self.insert(std::slice::from_ref(entry), StoreTime::MAX).await?;
                match inserted.tokens.first() {
                    Some(Some(token)) => {
                        let token_clock = token.saturating_sub(entry.token);
                        let mut entry = entry.as_ref().clone().stamped(inserted.reading.now, token_clock);
                        entry.version += 1;
                        self.replace(&[entry]).await? == [true]
                    }
                    Some(None) | None => false,
                }
            }
        };
        Ok(if written { WriteResult::Done } else { WriteResult::Lost })
    }

    pub(super) async fn import_in_one(
        &mut self,
        entries: &[ImportedEntry],
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        let fresh: Vec<Entry> = entries.iter().map(|entry| entry.entry().clone()).collect();
        self.learn_names(&fresh).await?;
        self.plain("BEGIN").await?;
        let outcome = self.import_within_transaction(entries, &fresh, event).await;
        self.end(outcome).await
    }

    async fn import_within_transaction(
        &mut self,
        entries: &[ImportedEntry],
        fresh: &[Entry],
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        // The insert knows only first grants; the rest of the rows follows.
        let inserted = self.insert(fresh, StoreTime::MAX).await?;
        let mut whole = Vec::with_capacity(entries.len());
        for (entry, token) in entries.iter().zip(inserted.tokens) {
            let Some(token) = token else { return Ok(WriteResult::Lost) };
            let token_clock = token.saturating_sub(entry.entry().token);
            let mut entry = entry.clone().stamped(inserted.reading.now, token_clock);
            entry.version += 1;
            whole.push(entry);
        }
        let replaced = self.replace(&whole).await?;
        Ok(if replaced.iter().all(|done| *done) { WriteResult::Done } else { WriteResult::Lost })
    }

    /// Nobody writes entries while it is raised. A statement takes its locks before its view of the store: what
    /// waits sees the new offset, and what ran with the old one has ended.
    pub(super) async fn raise_offset_in_one(
        &mut self,
        raise: OffsetRaise,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        self.plain("BEGIN").await?;
        let outcome = self.raise_within_transaction(raise, event).await;
        self.end(outcome).await
    }

    async fn raise_within_transaction(
        &mut self,
        raise: OffsetRaise,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        self.plain(sql::OFFSET_WAIT).await?;
        self.plain(sql::OFFSET_LOCK).await?;
        let query = self.query(sql::OFFSET_RAISE).bind(raise.from).bind(raise.to);
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(if done.rows_affected() == 1 { WriteResult::Done } else { WriteResult::Lost })
    }

    pub(super) async fn count_audited(&mut self, prefix: &str) -> Result<i64, StoreError> {
        let query = self.query(sql::COUNT_REDRIVEN).bind(prefix.to_owned());
        let row = query.fetch_one(&mut self.connection).await.map_err(of_sqlx)?;
        row.try_get(0).map_err(of_sqlx)
    }

    pub(super) async fn add_policy_in_one(
        &mut self,
        policy: &PolicyVersion,
        in_force: &EffectiveRetention,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        self.learn_consumers(std::iter::once(policy.consumer.as_str())).await?;
        self.plain("BEGIN").await?;
        let outcome = self.policy_within_transaction(policy, in_force, event).await;
        self.end(outcome).await
    }

    async fn policy_within_transaction(
        &mut self,
        policy: &PolicyVersion,
        in_force: &EffectiveRetention,
        event: &AuditEvent,
    ) -> Result<WriteResult, StoreError> {
        if !self.add_event(event).await? {
            return Ok(WriteResult::Repeated);
        }
        let query = self
            .query(sql::POLICY_ADD)
            .bind(policy.consumer.clone())
            .bind(policy.version)
            .bind(policy.policy.clone())
            .bind(policy.policy.is_none())
            .bind(policy.created_at.micros())
            .bind(policy.actor.clone())
            .bind(policy.reason.clone());
        if query.execute(&mut self.connection).await.map_err(of_sqlx)?.rows_affected() == 0 {
            return Ok(WriteResult::Lost);
        }
        self.put_in_force(std::slice::from_ref(in_force), None).await?;
        self.raise_policy_epoch().await?;
        Ok(WriteResult::Done)
    }

    pub(super) async fn newest_policies(&mut self) -> Result<Vec<PolicyVersion>, StoreError> {
        let query = sqlx::query_as::<_, PolicyRow>(sql::POLICIES).persistent(self.persistent);
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(rows.into_iter().map(PolicyVersion::from).collect())
    }

    pub(super) async fn versions_of_policy(
        &mut self,
        consumer: &str,
        before: i32,
        limit: usize,
    ) -> Result<Vec<PolicyVersion>, StoreError> {
        let query = sqlx::query_as::<_, PolicyRow>(sql::POLICY_VERSIONS)
            .persistent(self.persistent)
            .bind(consumer.to_owned())
            .bind(before)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(rows.into_iter().map(PolicyVersion::from).collect())
    }

    async fn plain(&mut self, statement: &'static str) -> Result<(), StoreError> {
        self.connection.execute(statement).await.map_err(of_sqlx)?;
        Ok(())
    }

    pub(super) async fn find_audited(&mut self, request_id: &str) -> Result<Option<AuditEvent>, StoreError> {
        let query = sqlx::query_as::<_, AuditRow>(sql::AUDITED).persistent(self.persistent);
        let row = query.bind(request_id.to_owned()).fetch_optional(&mut self.connection).await;
        Ok(row.map_err(of_sqlx)?.map(AuditEvent::from))
    }

    pub(super) async fn list_audit(&mut self, listing: &AuditListing) -> Result<Vec<AuditEvent>, StoreError> {
        let (at, request_id) = listing.before.clone().unwrap_or((StoreTime::MAX, String::new()));
        let statement = match &listing.of {
            AuditOf::All => sql::AUDIT,
            AuditOf::Consumer(_) => sql::AUDIT_OF_CONSUMER,
            AuditOf::Entry(_) => sql::AUDIT_OF_ENTRY,
        };
        let query = sqlx::query_as::<_, AuditRow>(statement)
            .persistent(self.persistent)
            .bind(at.micros())
            .bind(request_id)
            .bind(i64::try_from(listing.limit).unwrap_or(i64::MAX));
        let query = match &listing.of {
            AuditOf::All => query,
            AuditOf::Consumer(consumer) => query.bind(consumer.clone()),
            AuditOf::Entry(key) => query.bind(*key),
        };
        let rows = query.fetch_all(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(rows.into_iter().map(AuditEvent::from).collect())
    }

    pub(super) async fn forget_audit(
        &mut self,
        before: StoreTime,
        limit: usize,
    ) -> Result<usize, StoreError> {
        let query =
            self.query(sql::AUDIT_PURGE).bind(before.micros()).bind(i64::try_from(limit).unwrap_or(i64::MAX));
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }
}
