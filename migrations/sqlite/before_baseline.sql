-- Brings the rows of the schema before the baseline, which was never released, into the baseline. Its tables stand
-- aside as `before_…`.

UPDATE meta SET (token_offset, clock_mark, policy_epoch) = (SELECT token_offset, clock_mark, rules FROM before_meta);

INSERT INTO consumers (no, name, retention, window_floor)
SELECT no, name, retention, window_floor FROM before_consumers;
INSERT INTO sources (no, name) SELECT no, name FROM before_sources;
INSERT INTO principals (no, name)
SELECT row_number() OVER (ORDER BY p.principal), p.principal
FROM (SELECT DISTINCT principal FROM before_entries WHERE principal IS NOT NULL) p;

-- An entry kept one retention of its grant, for whatever became of it.
INSERT INTO terms (
    no, policy_version, grace, max_hold, on_expiry, retention, failed_retention, abandoned_retention)
SELECT row_number() OVER (), t.policy_version, t.grace, t.max_hold, t.on_expiry, t.retention, t.retention, t.retention
FROM (SELECT DISTINCT policy_version, grace, hold_until - granted_at AS max_hold, on_expiry, retention
      FROM before_entries) t;

INSERT INTO entries (
    key, claim_id, created_at, token, lease_until, granted_at, not_before, consumer, source, principal,
    terms, attempts, rearmed, effect_started, prior_effect_started, version, state, closed_by, cause, attention,
    effect_unknown, updated_at, closed_at, parked_at, retain_until, result, id, owner, fingerprint, traceparent,
    last_error, history, checkpoint)
SELECT b.key, b.claim_id, b.created_at, b.token, b.lease_until, nullif(b.granted_at, b.created_at),
       nullif(b.not_before, b.granted_at), b.consumer, b.source, p.no, t.no, b.attempts, nullif(b.rearmed, 0),
       nullif(b.effect_started, 0), nullif(b.prior_effect_started, 0), b.version, b.state, b.closed_by,
       nullif(b.cause, 0), CASE WHEN b.attention IS NOT NULL THEN b.state END, nullif(b.effect_unknown, 0),
       nullif(b.updated_at, b.granted_at), nullif(b.closed_at, b.updated_at), nullif(b.parked_at, b.updated_at),
       coalesce(b.retain_until, 9223372036854775807), b.result, b.id, b.owner, b.fingerprint,
       CASE WHEN length(b.traceparent) = 55 AND b.traceparent = lower(b.traceparent)
                 AND b.traceparent LIKE '00-________________________________-________________-__'
                 AND length(unhex(replace(substr(b.traceparent, 4), '-', ''))) = 25
            THEN unhex(replace(substr(b.traceparent, 4), '-', ''))
            WHEN octet_length(b.traceparent) <> 25 THEN CAST(b.traceparent AS blob) END,
       b.last_error, b.history, b.checkpoint
FROM before_entries b
JOIN terms t ON t.policy_version = b.policy_version AND t.grace = b.grace
    AND t.max_hold = b.hold_until - b.granted_at AND t.on_expiry = b.on_expiry AND t.retention = b.retention
LEFT JOIN principals p ON p.name = b.principal;

INSERT INTO policies (consumer, version, policy, deleted, created_at, actor, reason)
SELECT consumer, version, policy, deleted, created_at, actor, reason FROM before_policies;
INSERT INTO audit (request_id, at, actor, action, consumer, key, reason, before, after)
SELECT request_id, at, actor, action, consumer, key, reason, before, after FROM before_audit;
INSERT INTO purges (replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at)
SELECT replica, last_run_at, purged_total, purged_per_second, last_error, last_error_at FROM before_purges;
INSERT INTO replicas (replica, heard_at, speaks, version)
SELECT replica, heard_at, speaks, version FROM before_replicas;

DROP TABLE before_meta;
DROP TABLE before_consumers;
DROP TABLE before_sources;
DROP TABLE before_entries;
DROP TABLE before_policies;
DROP TABLE before_audit;
DROP TABLE before_purges;
DROP TABLE before_replicas;
DROP TABLE _sqlx_migrations;
