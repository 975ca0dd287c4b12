//! Rights of the servers' role: what a server needs, and nothing else. The role that migrates owns the schema.

use sqlx::Executor as _;
use sqlx::postgres::PgConnection;

use super::errors::of_sqlx;
use super::schema_name::SchemaName;
use crate::store::StoreError;

/// Revokes all earlier grants, and grants what is needed. `@role` stands for the role.
///
/// The role cannot change an audit event, or remove a recent one: `forget_audit` is a function of the owner, who sets in `meta`
/// how long events are kept at least. In `meta` a server may change only its clock's mark and the columns that only grow.
const GRANTS: &[&str] = &[
    "REVOKE ALL ON SCHEMA ledger FROM @role",
    "REVOKE ALL ON ALL TABLES IN SCHEMA ledger FROM @role",
    "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ledger FROM @role, PUBLIC",
    "GRANT USAGE ON SCHEMA ledger TO @role",
    "GRANT SELECT ON ledger.migrations, ledger.meta TO @role",
    "GRANT UPDATE (token_offset, clock_mark, policy_epoch, level) ON ledger.meta TO @role",
    "GRANT SELECT, INSERT, UPDATE ON ledger.consumers, ledger.replay_runs TO @role",
    "GRANT SELECT, INSERT ON ledger.sources, ledger.principals, ledger.terms, ledger.policies, ledger.audit TO @role",
    "GRANT SELECT, INSERT, DELETE ON ledger.holds TO @role",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ledger.entries, ledger.purges, ledger.replicas TO @role",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ledger.messages, ledger.handouts TO @role",
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ledger TO @role",
];

/// Grants a role what a server needs, all or nothing. Must be repeated after each migration.
pub(super) async fn grant(
    connection: &mut PgConnection,
    name: &SchemaName,
    role: &str,
) -> Result<(), StoreError> {
    let role = format!("\"{}\"", role.replace('"', "\"\""));
    let mut all = vec!["BEGIN".to_owned(), "SET LOCAL lock_timeout = '5s'".to_owned()];
    all.extend(GRANTS.iter().map(|grant| name.render(grant).replace("@role", &role)));
    all.push("COMMIT".to_owned());
    connection.execute(sqlx::raw_sql(sqlx::AssertSqlSafe(all.join(";\n")))).await.map_err(of_sqlx)?;
    Ok(())
}
