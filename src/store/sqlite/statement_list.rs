//! Every statement that is sent, for the test that prepares each of them.

use std::sync::LazyLock;

use super::at_once::RowStatement;
use super::statements as sql;
use super::{audit, entry_statements, holds, listing, names, operators, policies, purge, replays, upkeep};

/// See the module.
pub static ALL: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let for_rows = [
        &*entry_statements::LOAD,
        &*entry_statements::INSERT,
        &*entry_statements::COMPLETE,
        &*entry_statements::REPLACE,
    ];
    let for_rows = for_rows.into_iter().flat_map(RowStatement::all);
    for_rows.chain(entry_statements::ADDED.all()).chain(ALONE.iter().copied()).collect()
});

/// Those that carry no rows, or one.
const ALONE: &[&str] = &[
    sql::MIGRATED,
    sql::SCHEMA,
    sql::BEGIN_TO_WRITE,
    sql::BEGIN_TO_LOOK,
    sql::COMMIT,
    sql::ROLLBACK,
    upkeep::BEAT,
    upkeep::REPLICA_TELL,
    upkeep::REPLICAS_FORGET,
    policies::REPLICAS_BELOW,
    listing::LIST_OLDEST,
    listing::LIST_NEWEST,
    listing::LIST_OPEN_OLDEST,
    listing::LIST_OPEN_NEWEST,
    listing::CONSUMERS,
    listing::SUMMARY,
    listing::SIZE,
    listing::COMPLETED,
    listing::SAMPLED,
    purge::PURGE_TAKE,
    purge::PURGE_END,
    purge::CREATED,
    purge::CREATED_FIRST,
    policies::POLICY_EPOCH,
    policies::RAISE_POLICY_EPOCH,
    entry_statements::DELETE,
    entry_statements::DELETE_UNREADABLE,
    upkeep::PURGES_FORGET,
    upkeep::PURGES_REPORT,
    operators::PURGE_PLACES,
    operators::BACKLOG,
    operators::PURGES,
    names::CONSUMERS_ADD,
    names::CONSUMERS_FIND,
    names::CONSUMERS_TELL,
    names::SOURCES_ADD,
    names::SOURCES_FIND,
    names::SOURCES_TELL,
    names::PRINCIPALS_ADD,
    names::PRINCIPALS_FIND,
    names::PRINCIPALS_TELL,
    names::TERMS_ADD,
    names::TERMS_FIND,
    names::TERMS_TELL,
    policies::EFFECTIVE_RETENTIONS,
    policies::PUT_IN_FORCE,
    policies::DUE_BY_DEFAULT,
    policies::DUE_BY_CONSUMER,
    operators::OFFSET_RAISE,
    audit::AUDIT_ADD,
    audit::AUDITED,
    audit::COUNT_REDRIVEN,
    audit::PART_DIGEST,
    audit::AUDIT,
    audit::AUDIT_OF_CONSUMER,
    audit::AUDIT_OF_ENTRY,
    upkeep::AUDIT_PURGE,
    policies::POLICY_ADD,
    policies::POLICIES,
    policies::POLICY_VERSIONS,
    replays::REPLAY_RUNS,
    replays::REPLAY_RUN,
    replays::REPLAY_RUNS_OF,
    replays::REPLAY_BEGIN,
    replays::REPLAY_ADD,
    replays::REPLAY_CLOSE,
    replays::REPLAY_SWEEP,
    replays::REPLAYS_SWEEP_EMPTY,
    policies::REPLAYS_SHORTEN,
    holds::HOLDS,
    holds::HOLD_BEGIN,
    holds::HOLD_ADD,
    holds::HOLD_LIFT,
];
