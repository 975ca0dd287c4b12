//! What the role that serves may do: what a server needs, and nothing else. The role that migrates owns the schema.

use sqlx::Executor as _;
use sqlx::postgres::PgConnection;

use super::errors::of_sqlx;
use super::schema_name::SchemaName;
use crate::store::StoreError;

/// Takes away whatever was given before, and gives what is needed. `@role` stands for the role.
///
/// Nobody changes an event of the audit, or removes a young one: `forget_audit` is the owner's, who has said in
/// `meta` how long events are kept at least. Of `meta` a server changes its clock's mark and what only grows.
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
    "GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA ledger TO @role",
];

/// Gives a role what a server needs, all of it or nothing. To be repeated after each migration.
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
