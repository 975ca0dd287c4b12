-- The replicas that were heard of, and the newest format of stored policies that each can read: a policy
-- that one of them could not read is not written while it is at work.
CREATE TABLE replicas (
    replica  blob PRIMARY KEY,
    heard_at integer NOT NULL,
    speaks   integer NOT NULL,
    version  text NOT NULL
);
