-- no-transaction
CREATE INDEX CONCURRENTLY entries_doubled ON ledger.entries (consumer, created_at, key) WHERE doubled;
