//! Every statement that is sent, for the test that prepares each of them.

use super::purge::{BACKLOG, DELETE, POLICY_EPOCH, PURGES, PURGES_FORGET, PURGES_REPORT, RAISE_POLICY_EPOCH};
use super::queries;
use super::replicas::{BEAT, REPLICA_TELL, REPLICAS_BELOW, REPLICAS_FORGET};
use super::statements as sql;

/// See the module.
pub const ALL: &[&str] = &[
    sql::MIGRATED,
    sql::SCHEMA,
    sql::META,
    sql::LOAD,
    sql::INSERT,
    sql::COMPLETE,
    sql::REPLACE,
    BEAT,
    REPLICA_TELL,
    REPLICAS_FORGET,
    REPLICAS_BELOW,
    queries::LIST_OLDEST,
    queries::LIST_NEWEST,
    queries::LIST_OPEN_OLDEST,
    queries::LIST_OPEN_NEWEST,
    queries::CONSUMERS,
    queries::SUMMARY,
    queries::SAMPLED,
    sql::DUE,
    sql::LOOK_AGAIN,
    POLICY_EPOCH,
    RAISE_POLICY_EPOCH,
    DELETE,
    PURGES_FORGET,
    PURGES_REPORT,
    BACKLOG,
    PURGES,
    sql::CONSUMER_ADD,
    sql::CONSUMER_FIND,
    sql::SOURCE_ADD,
    sql::SOURCE_FIND,
    sql::EFFECTIVE_RETENTIONS,
    sql::PUT_IN_FORCE,
    sql::OFFSET_RAISE,
    sql::AUDIT_ADD,
    sql::AUDITED,
    sql::COUNT_REDRIVEN,
    sql::AUDIT,
    sql::AUDIT_OF_CONSUMER,
    sql::AUDIT_OF_ENTRY,
    sql::AUDIT_PURGE,
    sql::POLICY_ADD,
    sql::POLICIES,
    sql::POLICY_VERSIONS,
];
