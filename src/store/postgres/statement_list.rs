//! Every statement that is sent, for the test that prepares each of them.

use std::sync::LazyLock;

use super::left_behind;
use super::statements as sql;
use super::{audit, entries, listing, operators, policies, upkeep};

/// See the module.
pub static ALL: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    vec![
        sql::TRUST,
        sql::SCHEMA,
        sql::PROVE,
        left_behind::LEFT_BEHIND,
        entries::LOAD,
        entries::INSERT,
        entries::COMPLETE,
        entries::REPLACE.as_str(),
        entries::LOCKED,
        upkeep::BEAT,
        policies::REPLICAS_BELOW,
        listing::LIST_OLDEST,
        listing::LIST_NEWEST,
        listing::LIST_OPEN_OLDEST,
        listing::LIST_OPEN_NEWEST,
        listing::CONSUMERS,
        listing::SUMMARY,
        listing::SAMPLED,
        upkeep::UNMARK,
        upkeep::UNMARKED,
        upkeep::UNMARKED_OPEN,
        upkeep::MARK,
        upkeep::MARKED,
        upkeep::DUE,
        upkeep::LOOK_AGAIN,
        policies::POLICY_EPOCH,
        policies::RAISE_POLICY_EPOCH,
        upkeep::PURGE,
        entries::DELETE,
        upkeep::PURGES_REPORT,
        operators::BACKLOG,
        operators::PURGES,
        sql::CONSUMERS_ADD,
        sql::CONSUMERS_FIND,
        sql::SOURCES_ADD,
        sql::SOURCES_FIND,
        policies::EFFECTIVE_RETENTIONS,
        policies::PUT_IN_FORCE,
        operators::OFFSET_RAISE,
        audit::AUDIT_ADD,
        audit::AUDITED,
        audit::COUNT_REDRIVEN,
        audit::AUDIT,
        audit::AUDIT_OF_CONSUMER,
        audit::AUDIT_OF_ENTRY,
        upkeep::AUDIT_PURGE,
        policies::POLICY_ADD,
        policies::POLICIES,
        policies::POLICY_VERSIONS,
    ]
});
