CREATE INDEX entries_erasable ON entries (erase_at, key) WHERE erase_at IS NOT NULL;
