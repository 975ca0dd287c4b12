-- Brings the rows of the schema before the baseline, which was never released, into the baseline. That schema stands
-- aside as `ledger_before`.

UPDATE ledger.meta m SET token_offset = b.token_offset, clock_mark = b.clock_mark, policy_epoch = b.rules
FROM ledger_before.meta b;

-- Keys change, so that each consumer's mark begins anew.
INSERT INTO ledger.consumers (no, name, retention, window_floor)
SELECT no, name, retention, window_floor FROM ledger_before.consumers;
INSERT INTO ledger.sources (no, name) SELECT no, name FROM ledger_before.sources;
INSERT INTO ledger.principals (no, name)
SELECT row_number() OVER (ORDER BY p.principal COLLATE "C"), p.principal
FROM (SELECT DISTINCT principal FROM ledger_before.entries WHERE principal IS NOT NULL) p;

-- An entry kept one retention of its grant, for whatever became of it.
INSERT INTO ledger.terms (
    no, policy_version, grace, max_hold, on_expiry, retention, failed_retention, abandoned_retention)
SELECT row_number() OVER (), t.policy_version, t.grace, t.max_hold, t.on_expiry, t.retention, t.retention, t.retention
FROM (SELECT DISTINCT policy_version, grace, hold_until - granted_at AS max_hold, on_expiry, retention
      FROM ledger_before.entries) t;

INSERT INTO ledger.entries (
    key, claim_id, created_at, token, lease_until, granted_at, not_before, consumer, source, principal,
    terms, attempts, rearmed, effect_started, prior_effect_started, version, state, closed_by, cause, attention,
    effect_unknown, updated_at, closed_at, parked_at, retain_until, result, id, owner, fingerprint, traceparent,
    last_error, history, checkpoint)
SELECT b.key, b.claim_id, b.created_at, b.token, b.lease_until, nullif(b.granted_at, b.created_at),
       nullif(b.not_before, b.granted_at), b.consumer, b.source, p.no, t.no, b.attempts, nullif(b.rearmed, false),
       nullif(b.effect_started, false), nullif(b.prior_effect_started, false), b.version, b.state, b.closed_by,
       nullif(b.cause, 0), CASE WHEN b.attention IS NOT NULL THEN b.state END, nullif(b.effect_unknown, false),
       nullif(b.updated_at, b.granted_at), nullif(b.closed_at, b.updated_at), nullif(b.parked_at, b.updated_at),
       coalesce(b.retain_until, 9223372036854775807), b.result, b.id, b.owner, b.fingerprint,
       CASE WHEN b.traceparent ~ '^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$'
            THEN decode(replace(substr(b.traceparent, 4), '-', ''), 'hex')
            WHEN octet_length(b.traceparent) <> 25 THEN convert_to(b.traceparent, 'UTF8') END,
       b.last_error, b.history, b.checkpoint
FROM ledger_before.entries b
JOIN ledger.terms t ON t.policy_version = b.policy_version AND t.grace = b.grace
    AND t.max_hold = b.hold_until - b.granted_at AND t.on_expiry = b.on_expiry AND t.retention = b.retention
LEFT JOIN ledger.principals p ON p.name = b.principal;

INSERT INTO ledger.policies (consumer, version, policy, deleted, created_at, actor, reason)
SELECT consumer, version, policy, deleted, created_at, actor, reason FROM ledger_before.policies;
INSERT INTO ledger.audit (request_id, at, actor, action, consumer, key, reason, before, after)
SELECT request_id, at, actor, action, consumer, key, reason, before, after FROM ledger_before.audit;
INSERT INTO ledger.purges (replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at)
SELECT replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at FROM ledger_before.purges;
INSERT INTO ledger.replicas (replica, heard_at, speaks, version)
SELECT replica, heard_at, speaks, version FROM ledger_before.replicas;

DROP SCHEMA ledger_before CASCADE;
