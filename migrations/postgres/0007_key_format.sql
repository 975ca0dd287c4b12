-- How keys are made, KEY_FORMAT of src/domain/key.rs: a binary of another format does not find the entries. So binaries from
-- before this schema are served no more, and a ledger that has entries of theirs is refused: `finds` in src/store/schema.rs says
-- so in advance. An insert of such a binary that has begun is waited for; one that comes later sees serves_from.
DO $$
BEGIN
    LOCK TABLE ledger.entries IN SHARE MODE;
    IF EXISTS (SELECT FROM ledger.entries) THEN
        RAISE EXCEPTION 'the ledger has entries under keys of format 1';
    END IF;
    ALTER TABLE ledger.meta ADD COLUMN key_format integer NOT NULL DEFAULT 2;
    UPDATE ledger.meta SET serves_from = 7;
END
$$;
