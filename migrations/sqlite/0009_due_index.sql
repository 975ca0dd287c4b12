CREATE INDEX entries_due ON entries (consumer, next_at, key) WHERE next_at IS NOT NULL;
