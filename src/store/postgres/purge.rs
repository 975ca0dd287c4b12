//! The purge: what it goes by, and what it deletes.

use super::errors::of_sqlx;
use super::{PgSession, column};
use crate::domain::KeyHash;
use crate::store::StoreError;

pub(super) const RULES: &str = "\
-- ledger.rules
SELECT rules FROM ledger.meta";

/// After `consumers`, in every transaction: two that came the other way round would wait for each other.
pub(super) const RULES_CHANGED: &str = "\
-- ledger.rules_changed
UPDATE ledger.meta SET rules = rules + 1";

/// It sees the rules as they stood when it began. A change of policy that is committed while it runs is
/// later than the purge: the window floor which that one sets leaves the purge's margin for it, and no
/// statement runs for as long.
pub(super) const PURGE: &str = "\
-- ledger.purge
WITH clock AS MATERIALIZED (
    SELECT ledger.clock() + token_offset AS token_clock, clock_mark FROM ledger.meta WHERE rules = $4
)
DELETE FROM ledger.entries e
USING clock c CROSS JOIN unnest($1::uuid[], $2::bigint[]) AS r(key, version)
WHERE e.key = r.key AND e.version = r.version AND greatest(e.version, e.token) + 60000000 < c.token_clock
  AND c.token_clock >= greatest(c.clock_mark, $3)";

/// An operator's, whatever the rules.
pub(super) const DELETE: &str = "\
-- ledger.delete
WITH clock AS MATERIALIZED (SELECT ledger.clock() + token_offset AS token_clock, clock_mark FROM ledger.meta)
DELETE FROM ledger.entries e
USING clock c
WHERE e.key = $1 AND e.version = $2 AND greatest(e.version, e.token) + 60000000 < c.token_clock
  AND c.token_clock >= greatest(c.clock_mark, $3)";

impl PgSession {
    pub(super) async fn rules_number(&mut self) -> Result<i64, StoreError> {
        let query = sqlx::query_scalar::<_, i64>(RULES).persistent(self.persistent);
        query.fetch_one(&mut self.connection).await.map_err(of_sqlx)
    }

    pub(super) async fn rules_changed(&mut self) -> Result<(), StoreError> {
        self.query(RULES_CHANGED).execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(())
    }

    pub(super) async fn purge_by(
        &mut self,
        entries: &[(KeyHash, i64)],
        rules: i64,
    ) -> Result<usize, StoreError> {
        let query = self
            .query(PURGE)
            .bind(column(entries, |one| one.0))
            .bind(column(entries, |one| one.1))
            .bind(self.mark.get())
            .bind(rules);
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(usize::try_from(done.rows_affected()).unwrap_or(usize::MAX))
    }

    pub(super) async fn delete(&mut self, key: KeyHash, version: i64) -> Result<bool, StoreError> {
        let query = self.query(DELETE).bind(key).bind(version).bind(self.mark.get());
        let done = query.execute(&mut self.connection).await.map_err(of_sqlx)?;
        Ok(done.rows_affected() == 1)
    }
}
