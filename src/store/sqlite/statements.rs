//! Every statement that is sent to `SQLite`.

use super::super::row::columns;

pub(super) const MIGRATED: &str = "\
-- ledger.migrated
SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'";

pub(super) const SCHEMA: &str = "\
-- ledger.schema
SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success";

pub(super) const META: &str = "\
-- ledger.meta
SELECT token_offset, clock_mark FROM meta";

pub(super) const LOAD: &str = concat!(
    "-- ledger.load
SELECT ",
    columns!(),
    "
FROM entries e JOIN consumers n ON n.no = e.consumer JOIN sources s ON s.no = e.source
WHERE e.key = ?1"
);

pub(super) const INSERT: &str = "\
-- ledger.insert
INSERT INTO entries (
    key, version, token, granted_at, lease_until, grace, hold_until, retention, not_before, sweep_at,
    created_at, updated_at, retain_until, claim_id, consumer, source, policy_version, attempts,
    state, attention, cause, closed_by, on_expiry, rearmed, effect_started, prior_effect_started,
    effect_unknown, id, principal, owner, traceparent, fingerprint)
VALUES (?1, ?20, ?2, ?3, ?4, ?5, ?6, ?7, ?3, ?8, ?3 - ?3 % 1000, ?3, ?9, ?10, ?11, ?12, ?13, 1, 2, 2, 0, 0, ?14,
        0, 0, 0, 0, ?15, ?16, ?17, ?18, ?19)
ON CONFLICT (key) DO NOTHING";

pub(super) const COMPLETE: &str = "\
-- ledger.complete
UPDATE entries
SET version = version + 1, state = 4, closed_by = 1, attention = NULL, closed_at = ?3, updated_at = ?3,
    retain_until = ?3 + max(retention, ?4), effect_unknown = 0, result = ?5
WHERE key = ?1 AND token = ?2 AND state = 2
RETURNING lease_until <= ?3 AS late";

pub(super) const REPLACE: &str = "\
-- ledger.replace
UPDATE entries
SET version = version + 1, token = ?3, granted_at = ?4, lease_until = ?5, grace = ?6, hold_until = ?7,
    retention = ?8, not_before = ?9, sweep_at = ?10, updated_at = ?11, closed_at = ?12, parked_at = ?13,
    retain_until = ?14, claim_id = ?15, policy_version = ?16, attempts = ?17, state = ?18, cause = ?19,
    closed_by = ?20, on_expiry = ?21, attention = ?22, rearmed = ?23, effect_started = ?24,
    prior_effect_started = ?25, effect_unknown = ?26, principal = ?27, owner = ?28, last_error = ?29,
    history = ?30, fingerprint = ?31, result = ?32, checkpoint = ?33
WHERE key = ?1 AND version = ?2 - 1";

pub(super) const DUE: &str = concat!(
    "-- ledger.due
SELECT ",
    columns!(),
    "
FROM entries e JOIN consumers n ON n.no = e.consumer JOIN sources s ON s.no = e.source
WHERE e.sweep_at <= ?1
ORDER BY e.sweep_at LIMIT ?2"
);

pub(super) const LOOK_AGAIN: &str = "\
-- ledger.look_again
UPDATE entries SET sweep_at = ?3 WHERE key = ?1 AND version = ?2";

pub(super) const CONSUMER_ADD: &str = "\
-- ledger.consumer_add
INSERT INTO consumers (name) VALUES (?1) ON CONFLICT DO NOTHING";

pub(super) const CONSUMER_FIND: &str = "\
-- ledger.consumer_find
SELECT no FROM consumers WHERE name = ?1";

pub(super) const SOURCE_ADD: &str = "\
-- ledger.source_add
INSERT INTO sources (name) VALUES (?1) ON CONFLICT DO NOTHING";

pub(super) const SOURCE_FIND: &str = "\
-- ledger.source_find
SELECT no FROM sources WHERE name = ?1";

pub(super) const EFFECTIVE_RETENTIONS: &str = "\
-- ledger.effective_retentions
SELECT name, retention, window_floor FROM consumers WHERE retention IS NOT NULL OR window_floor > 0";

pub(super) const PUT_IN_FORCE: &str = "\
-- ledger.put_in_force
UPDATE consumers SET retention = ?2, window_floor = max(window_floor, ?3)
WHERE name = ?1 AND (?6 OR (retention IS ?4 AND window_floor = ?5))
  AND (retention IS NOT ?2 OR window_floor < ?3)";

pub(super) const OFFSET_RAISE: &str = "\
-- ledger.offset_raise
UPDATE meta SET token_offset = ?2 WHERE token_offset = ?1 AND ?2 > ?1";

pub(super) const AUDIT_ADD: &str = "\
-- ledger.audit_add
INSERT INTO audit (request_id, at, actor, action, consumer, key, reason, before, after)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT (request_id) DO NOTHING";

pub(super) const AUDITED: &str = "\
-- ledger.audited
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM audit WHERE request_id = ?1";

/// What follows the prefix in the ids of an operation's entries are the 32 digits of a hash: all below the tilde.
pub(super) const COUNT_REDRIVEN: &str = "\
-- ledger.count_redriven
SELECT count(*) FROM audit
WHERE request_id > ?1 AND request_id < ?1 || '~'
  AND action = 'REDRIVE' AND length(request_id) = length(?1) + 32";

pub(super) const AUDIT: &str = "\
-- ledger.audit
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM audit WHERE (at, request_id) < (?1, ?2)
ORDER BY at DESC, request_id DESC LIMIT ?3";

pub(super) const AUDIT_OF_CONSUMER: &str = "\
-- ledger.audit_of_consumer
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM audit WHERE consumer = ?4 AND (at, request_id) < (?1, ?2)
ORDER BY at DESC, request_id DESC LIMIT ?3";

pub(super) const AUDIT_OF_ENTRY: &str = "\
-- ledger.audit_of_entry
SELECT request_id, at, actor, action, consumer, key, reason, before, after
FROM audit WHERE key = ?4 AND (at, request_id) < (?1, ?2)
ORDER BY at DESC, request_id DESC LIMIT ?3";

pub(super) const AUDIT_PURGE: &str = "\
-- ledger.audit_purge
DELETE FROM audit
WHERE request_id IN (SELECT request_id FROM audit WHERE at < ?1 ORDER BY at, request_id LIMIT ?2)";

pub(super) const POLICY_ADD: &str = "\
-- ledger.policy_add
INSERT INTO policies (consumer, version, policy, deleted, created_at, actor, reason)
SELECT n.no, ?2, ?3, ?4, ?5, ?6, ?7
FROM consumers n
WHERE n.name = ?1
  AND ?2 = 1 + coalesce((SELECT max(p.version) FROM policies p WHERE p.consumer = n.no), 0)
ON CONFLICT DO NOTHING";

pub(super) const POLICIES: &str = "\
-- ledger.policies
SELECT n.name AS consumer, p.version, p.policy, p.deleted, p.created_at, p.actor, p.reason
FROM policies p JOIN consumers n ON n.no = p.consumer
WHERE p.version = (SELECT max(q.version) FROM policies q WHERE q.consumer = p.consumer)
ORDER BY n.name";

pub(super) const POLICY_VERSIONS: &str = "\
-- ledger.policy_versions
SELECT n.name AS consumer, p.version, p.policy, p.deleted, p.created_at, p.actor, p.reason
FROM policies p JOIN consumers n ON n.no = p.consumer
WHERE n.name = ?1 AND p.version < ?2
ORDER BY p.version DESC LIMIT ?3";
