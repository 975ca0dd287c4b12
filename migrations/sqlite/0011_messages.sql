-- The messages, as their producers sent them. Each row is written as a whole. `generation` is the version that the entry had when
-- the message was stored: an erasure names it, and so never takes the message of a later life of the key.
CREATE TABLE messages (
    key        blob PRIMARY KEY,
    generation integer NOT NULL,
    stored_at  integer NOT NULL,
    bytes      integer NOT NULL,
    message    blob NOT NULL
);
CREATE INDEX messages_stored ON messages (stored_at, key, bytes);

-- What each ClaimNext handed out, for an hour: a repeat of the call is answered the same messages. `keys` are hashes of 16 bytes,
-- one after the other.
CREATE TABLE handouts (
    claim_id  blob PRIMARY KEY,
    consumer  text NOT NULL,
    principal text NOT NULL,
    owner     text NOT NULL,
    at        integer NOT NULL,
    keys      blob NOT NULL
);
CREATE INDEX handouts_by_time ON handouts (at);
