-- The entries of which two claims have reported the effect as done: few, so that the index is nearly empty.
CREATE INDEX entries_doubled ON entries (consumer, created_at, key) WHERE doubled IS NOT NULL;
