-- How keys are made, KEY_FORMAT of src/domain/key.rs: a binary of another format does not find the entries. So binaries from
-- before this schema are served no more, and a ledger that has entries of theirs is refused: see `finds` in src/store/schema.rs.
ALTER TABLE meta ADD COLUMN key_format integer NOT NULL DEFAULT 2;
UPDATE meta SET serves_from = 7;
