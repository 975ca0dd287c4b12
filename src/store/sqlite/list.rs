//! Every statement that is sent, for the test that prepares each of them.

use super::purge::{BACKLOG, DELETE, PURGES, PURGES_FORGET, PURGES_REPORT, RULES, RULES_CHANGED};
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
    RULES,
    RULES_CHANGED,
    DELETE,
    PURGES_FORGET,
    PURGES_REPORT,
    BACKLOG,
    PURGES,
    sql::CONSUMER_ADD,
    sql::CONSUMER_FIND,
    sql::SOURCE_ADD,
    sql::SOURCE_FIND,
    sql::REMEMBERED,
    sql::REMEMBER,
    sql::OFFSET_RAISE,
    sql::AUDIT_ADD,
    sql::AUDITED,
    sql::AUDITED_UNDER,
    sql::AUDIT,
    sql::AUDIT_OF_CONSUMER,
    sql::AUDIT_OF_ENTRY,
    sql::AUDIT_PURGE,
    sql::POLICY_ADD,
    sql::POLICIES,
    sql::POLICY_VERSIONS,
];
