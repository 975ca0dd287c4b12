-- Replay runs: named namespaces of one consumer. A name is never used twice, so that no row goes. `mode` is a number
-- of ReplayMode. `ends_at` only ever comes nearer. The purge has taken every entry of a run that has `swept_at`.
CREATE TABLE ledger.replay_runs (
    consumer   text COLLATE "C" NOT NULL,
    name       text COLLATE "C" NOT NULL,
    mode       smallint NOT NULL,
    created_at bigint NOT NULL,
    ends_at    bigint NOT NULL,
    closed_at  bigint, -- empty: nobody has closed it
    swept_at   bigint,
    actor      text NOT NULL,
    reason     text NOT NULL,
    PRIMARY KEY (consumer, name)
);
