-- Holds: no new grants for the consumers whose names begin with `prefix`; the empty one stands for all consumers. A row
-- goes when its hold ends: the audit keeps both.
CREATE TABLE ledger.holds (
    prefix     text COLLATE "C" NOT NULL PRIMARY KEY,
    created_at bigint NOT NULL,
    actor      text NOT NULL,
    reason     text NOT NULL
);
