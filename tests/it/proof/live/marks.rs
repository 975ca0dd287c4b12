//! The marks that superseded Completes have left, once all calls are over.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;
use sqlx::Row as _;

use super::world::KeyLog;
use crate::harness::postgres::Cluster;
use crate::proof::history::{Call, Outcome, Refusal};

const BY_COMPLETE: i64 = 1;

/// What was found.
pub(super) struct Marks {
    /// How many attempts are marked.
    pub(super) marked: u64,
    /// How many Completes were refused with `LEASE_LOST` and have left no mark on an attempt that is remembered: their mark
    /// was lost, or an older version has refused them.
    pub(super) missing: u64,
}

/// No attempt is marked whose token no Complete has brought, or that ended by COMPLETE; and as many marks are counted as
/// there are, at least.
pub(super) async fn judge(cluster: &Cluster, keys: &[Arc<KeyLog>]) -> Result<Marks, String> {
    let mut connection = cluster.connect("postgres").await;
    let query = "SELECT n.name, coalesce(e.id, e.id_uuid::text) AS id, e.history, coalesce(e.superseded_completes, 0) AS marks,
                        coalesce(e.doubled, false) AS doubled, e.closed_by::bigint AS closed_by
                 FROM ledger.entries e JOIN ledger.consumers n ON n.no = e.consumer WHERE e.history IS NOT NULL";
    let rows = sqlx::query(query).fetch_all(&mut connection).await.unwrap();
    let rows: HashMap<(String, String), _> =
        rows.iter().map(|row| ((row.get("name"), row.get("id")), row)).collect();
    let mut found = Marks { marked: 0, missing: 0 };
    for key in keys {
        let name = if key.run.is_empty() {
            key.consumer.to_owned()
        } else {
            format!("{}\u{1f}{}", key.consumer, key.run)
        };
        let Some(row) = rows.get(&(name, key.id.clone())) else { continue };
        let history: Vec<Value> = serde_json::from_str(row.get("history")).unwrap();
        let events = key.events.lock().unwrap();
        let reports = |token: i64| {
            let of = events
                .iter()
                .filter(move |event| matches!(event.call, Call::Complete { token: one } if one == token));
            of.map(|event| event.outcome)
        };
        let (mut marks, mut completed) = (0, row.get::<i64, _>("closed_by") == BY_COMPLETE);
        for past in &history {
            let Some(token) = past["t"].as_i64() else { continue };
            let (by_complete, marked) = (past["by"] == BY_COMPLETE, past["done"] == true);
            completed |= by_complete;
            marks += i32::from(marked);
            if marked && (by_complete || reports(token).next().is_none()) {
                return Err(format!(
                    "{}: {token} is marked, and no Complete has reported it: {history:?}",
                    key.id
                ));
            }
            let lost = reports(token).any(|outcome| outcome == Outcome::Refused(Refusal::LeaseLost));
            found.missing += u64::from(lost && !marked && !by_complete);
            found.marked += u64::from(marked);
        }
        let counted: i32 = row.get("marks");
        let doubled = counted >= 2 || (counted >= 1 && completed);
        if counted < marks || (doubled && !row.get::<bool, _>("doubled")) {
            return Err(format!("{}: {counted} marks are counted, of {marks}: {history:?}", key.id));
        }
    }
    Ok(found)
}
