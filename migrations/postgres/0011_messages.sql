-- Both tables of the inbox: docs/contract.md, section 15.
DO $$
BEGIN
    -- The messages, as their producers sent them. Each row is written as a whole. `generation` is the version that the entry had when
    -- the message was stored: an erasure names it, and so never takes the message of a later life of the key.
    CREATE TABLE ledger.messages (
        key        uuid PRIMARY KEY,
        generation bigint NOT NULL,
        stored_at  bigint NOT NULL,
        bytes      integer NOT NULL,
        message    bytea NOT NULL
    ) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
    CREATE INDEX messages_stored ON ledger.messages (stored_at, key) INCLUDE (bytes);

    -- What each ClaimNext handed out, for an hour: a repeat of the call is answered the same messages.
    CREATE TABLE ledger.handouts (
        claim_id  uuid PRIMARY KEY,
        consumer  text COLLATE "C" NOT NULL,
        principal text NOT NULL,
        owner     text NOT NULL,
        at        bigint NOT NULL,
        keys      uuid[] NOT NULL
    );
    CREATE INDEX handouts_by_time ON ledger.handouts (at);
END
$$;
