-- Holds: no new grants for the consumers whose names begin with `prefix`; the empty one stands for all consumers. A row
-- goes when its hold ends: the audit keeps both.
CREATE TABLE holds (
    prefix     text NOT NULL PRIMARY KEY,
    created_at integer NOT NULL,
    actor      text NOT NULL,
    reason     text NOT NULL
);
