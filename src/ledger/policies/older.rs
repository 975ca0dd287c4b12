//! The live servers that do not know a feature yet. See docs/changing.md, "A feature that older binaries must not meet".

use super::set::AT_WORK;
use crate::domain::StoreTime;
use crate::store::{Session, StoreError};

/// Number of servers that a refusal names.
const NAMED_MAX: usize = 3;

/// The servers that reported within five minutes and do not know this level, for people; `None` if all of them know it.
pub(super) async fn servers(
    session: &mut dyn Session,
    level: i32,
    now: StoreTime,
) -> Result<Option<String>, StoreError> {
    let behind = session.policy_book().replicas_below(level, now - AT_WORK, NAMED_MAX).await;
    let behind = behind.map_err(StoreError::nothing_sent)?;
    let named: Vec<_> = behind.iter().map(|one| format!("{} (version {})", one.id, one.version)).collect();
    Ok((!named.is_empty()).then(|| named.join(", ")))
}
