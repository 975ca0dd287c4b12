//! The replicas of the ledger, as they tell of themselves with every heartbeat.

use uuid::Uuid;

/// How many replicas that were not heard of for a day one heartbeat forgets, at the most.
pub(super) const FORGOTTEN_MAX: i64 = 100;

/// What a replica tells of itself.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Replica {
    /// Its id, made anew at each start.
    #[sqlx(rename = "replica")]
    pub id: Uuid,
    /// The newest format of stored policies that it can read.
    pub speaks: i32,
    /// The version of its binary, for people.
    pub version: String,
}
