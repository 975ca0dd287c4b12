-- Replay runs: named namespaces of one consumer. A name is never used twice, so that no row goes. `mode` is a number
-- of ReplayMode. `ends_at` only ever comes nearer. The purge has taken every entry of a run that has `swept_at`.
CREATE TABLE replay_runs (
    consumer   text NOT NULL,
    name       text NOT NULL,
    mode       integer NOT NULL,
    created_at integer NOT NULL,
    ends_at    integer NOT NULL,
    closed_at  integer, -- empty: nobody has closed it
    swept_at   integer,
    actor      text NOT NULL,
    reason     text NOT NULL,
    PRIMARY KEY (consumer, name)
);
