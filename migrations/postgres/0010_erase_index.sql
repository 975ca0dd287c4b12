-- no-transaction
CREATE INDEX CONCURRENTLY entries_erasable ON ledger.entries (erase_at, key) WHERE erase_at IS NOT NULL;
