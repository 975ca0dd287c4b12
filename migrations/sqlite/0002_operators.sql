-- What operators ask for: what is not completed is found and counted by its index, the audit by
-- consumer and by entry; the purge goes by the policies in force, and tells what it did.

-- Counts the changes of what is in force: the purge takes nothing by older rules.
ALTER TABLE meta ADD COLUMN rules integer NOT NULL DEFAULT 0;

-- `attention` is the state of an entry, where it is not COMPLETED.
UPDATE entries SET attention = state WHERE state = 2;

-- What the purge of each server did.
CREATE TABLE purges (
    replica           blob PRIMARY KEY,
    last_run_at       integer NOT NULL,
    purged_total      integer NOT NULL,
    purged_per_second real NOT NULL,
    last_error        text,
    last_error_at     integer
);

DROP INDEX audit_by_time;
CREATE INDEX audit_by_time ON audit (at, request_id);
CREATE INDEX audit_by_consumer ON audit (consumer, at, request_id);
CREATE INDEX audit_by_key ON audit (key, at, request_id);
