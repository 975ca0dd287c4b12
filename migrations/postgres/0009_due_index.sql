-- no-transaction
CREATE INDEX CONCURRENTLY entries_due ON ledger.entries (consumer, next_at, key) WHERE next_at IS NOT NULL;
