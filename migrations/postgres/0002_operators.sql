-- What operators ask for: what is not completed is found and counted by its index, the audit by
-- consumer and by entry; the purge goes by the policies in force, and tells what it did.

-- Counts the changes of what is in force: the purge takes nothing by older rules.
ALTER TABLE ledger.meta ADD COLUMN rules bigint NOT NULL DEFAULT 0;

-- `attention` is the state of an entry, where it is not COMPLETED. The one exception keeps completions
-- heap-only updates: a first claim has none until it is a minute old, or changed. Up to the consumer's
-- mark, which follows a minute behind, every claim that is still open has it.
ALTER TABLE ledger.consumers
    ADD COLUMN marked_at  bigint NOT NULL DEFAULT 0,
    ADD COLUMN marked_key uuid   NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000';
DROP INDEX ledger.entries_attention;
CREATE INDEX entries_attention ON ledger.entries (consumer, attention, created_at, key)
    INCLUDE (cause, attempts) WHERE attention IS NOT NULL;

-- What the purge of each server did.
CREATE TABLE ledger.purges (
    replica           uuid PRIMARY KEY,
    last_run_at       bigint NOT NULL,
    purged_total      bigint NOT NULL,
    purged_per_second double precision NOT NULL,
    last_error        text,
    last_error_at     bigint
);

DROP INDEX ledger.audit_by_time;
CREATE INDEX audit_by_time ON ledger.audit (at, request_id);
CREATE INDEX audit_by_consumer ON ledger.audit (consumer, at, request_id);
CREATE INDEX audit_by_key ON ledger.audit (key, at, request_id);
