-- The replicas that were heard of, and the newest format of stored policies that each can read: a policy
-- that one of them could not read is not written while it is at work. Each replica writes its own row with
-- every heartbeat, and waits for nobody there.
CREATE TABLE ledger.replicas (
    replica  uuid PRIMARY KEY,
    heard_at bigint NOT NULL,
    speaks   integer NOT NULL,
    version  text NOT NULL
) WITH (fillfactor = 50);
