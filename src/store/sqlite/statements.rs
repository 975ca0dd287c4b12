//! Every statement that is sent to `SQLite`.

pub(super) const MIGRATED: &str = "\
-- ledger.migrated
SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = 'migrations'";

pub(super) const SCHEMA: &str = "\
-- ledger.schema
SELECT serves_from, level, (SELECT coalesce(max(version), 0) FROM migrations WHERE success) FROM meta";

pub(super) const META: &str = "\
-- ledger.meta
SELECT token_offset, clock_mark, serves_from, level FROM meta";
