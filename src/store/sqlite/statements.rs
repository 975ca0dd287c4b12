//! Every statement that is sent to `SQLite`.

pub(super) const MIGRATED: &str = "\
-- ledger.migrated
SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = '_sqlx_migrations'";

pub(super) const SCHEMA: &str = "\
-- ledger.schema
SELECT coalesce(max(version), 0) FROM _sqlx_migrations WHERE success";

pub(super) const META: &str = "\
-- ledger.meta
SELECT token_offset, clock_mark FROM meta";
