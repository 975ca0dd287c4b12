//! The schema that holds a ledger's tables, and the rendering of statements and migrations for it.
//!
//! Statements and migrations are templates for the schema `ledger`. All names in them are qualified, so that they do not depend
//! on `search_path`, which other roles of the database may change.

use std::borrow::Cow;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use sqlx::error::BoxDynError;
use sqlx::migrate::{Migration, Migrator};
use sqlx::postgres::{PgArguments, PgStatement};
use sqlx::{AssertSqlSafe, Execute, Postgres, SqlSafeStr as _, SqlStr};

use crate::store::migrations;

/// The schema name in the templates.
const TEMPLATE: &str = "ledger";
/// Postgres truncates longer names.
const BYTES_MAX: usize = 63;

/// The key words of Postgres 14 to 18 that must be quoted as the name of a schema: those whose `catcode` is R or T in
/// `pg_get_keywords()`. The statements do not quote names.
const RESERVED: [&str; 101] = [
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "binary",
    "both",
    "case",
    "cast",
    "check",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "false",
    "fetch",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "group",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "intersect",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "natural",
    "not",
    "notnull",
    "null",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "outer",
    "overlaps",
    "placing",
    "primary",
    "references",
    "returning",
    "right",
    "select",
    "session_user",
    "similar",
    "some",
    "symmetric",
    "system_user",
    "table",
    "tablesample",
    "then",
    "to",
    "trailing",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
];

/// The name of a schema: `[a-z_][a-z0-9_]{0,62}` and not a reserved word, so that it needs no quotes. By default
/// `ledger`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaName(Arc<str>);

impl Default for SchemaName {
    fn default() -> SchemaName {
        SchemaName(TEMPLATE.into())
    }
}

impl std::fmt::Display for SchemaName {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.write_str(&self.0)
    }
}

impl FromStr for SchemaName {
    type Err = String;

    fn from_str(name: &str) -> Result<SchemaName, String> {
        let starts = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        let is_plain = name.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_');
        if !starts || !is_plain || name.len() > BYTES_MAX {
            return Err(format!(
                "must be a lower-case letter or `_`, and then up to {} lower-case letters, digits and `_`",
                BYTES_MAX - 1
            ));
        }
        if name == "public" || name == "information_schema" || name.starts_with("pg_") {
            return Err(format!("`{name}` belongs to all users of the database: choose another name"));
        }
        if RESERVED.contains(&name) {
            return Err(format!(
                "`{name}` is a reserved word of Postgres, which cannot name a schema without quotes: choose another name"
            ));
        }
        Ok(SchemaName(name.into()))
    }
}

/// In a configuration file, a wrong name is reported with its line.
impl<'de> Deserialize<'de> for SchemaName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<SchemaName, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl SchemaName {
    /// Renders a template for this schema.
    pub(super) fn render<'t>(&self, template: &'t str) -> Cow<'t, str> {
        if &*self.0 == TEMPLATE {
            return Cow::Borrowed(template);
        }
        let mut rendered = String::with_capacity(template.len() + 64);
        for line in template.split_inclusive('\n') {
            // The name of a statement, which `pg_stat_statements` shows, and comments stay as they are.
            if line.starts_with("--") {
                rendered.push_str(line);
            } else {
                self.render_line(line, &mut rendered);
            }
        }
        Cow::Owned(rendered)
    }

    fn render_line(&self, line: &str, to: &mut String) {
        let mut done = 0;
        for (at, _) in line.match_indices(TEMPLATE) {
            let (before, behind) = (&line[..at], &line[at + TEMPLATE.len()..]);
            let is_inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
            let is_qualifier = behind.starts_with('.') && !before.ends_with(is_inside);
            let is_quoted = before.ends_with('\'') && behind.starts_with('\'');
            let is_named = before.ends_with("SCHEMA ") && !behind.starts_with(is_inside);
            if is_qualifier || is_quoted || is_named {
                to.push_str(&line[done..at]);
                to.push_str(&self.0);
                done = at + TEMPLATE.len();
            }
        }
        to.push_str(&line[done..]);
    }

    /// Renders migrations for this schema. Their checksums are those of the templates, so that they do not depend on the name.
    pub(super) fn migrations(&self, templates: &Migrator) -> Migrator {
        let rendered = templates.iter().map(|template| Migration {
            sql: AssertSqlSafe(self.render(template.sql.as_str()).into_owned()).into_sql_str(),
            ..template.clone()
        });
        migrations::in_table(rendered.collect(), self.render(migrations::POSTGRES_TABLE).into_owned())
    }

    /// Renders a statement for this schema.
    pub(super) fn statement<'q>(&self, query: impl Execute<'q, Postgres>) -> Result<Rendered, sqlx::Error> {
        let mut query = query;
        let arguments = query.take_arguments().map_err(sqlx::Error::Encode)?;
        let (persistent, template) = (query.persistent(), query.sql());
        let sql = match self.render(template.as_str()) {
            Cow::Owned(rendered) => AssertSqlSafe(rendered).into_sql_str(),
            Cow::Borrowed(_) => template,
        };
        Ok(Rendered { sql, arguments, persistent })
    }
}

/// A statement that is rendered for a schema.
pub(super) struct Rendered {
    sql: SqlStr,
    /// `None` if the statement is sent as text.
    arguments: Option<PgArguments>,
    persistent: bool,
}

impl Execute<'_, Postgres> for Rendered {
    fn sql(self) -> SqlStr {
        self.sql
    }

    fn statement(&self) -> Option<&PgStatement> {
        None
    }

    fn take_arguments(&mut self) -> Result<Option<PgArguments>, BoxDynError> {
        Ok(self.arguments.take())
    }

    fn persistent(&self) -> bool {
        self.persistent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::postgres::statement_list;

    #[test]
    fn from_str_quoted_or_long_name_is_refused() {
        let longest = "a".repeat(63);
        for (name, is_well) in [
            ("ledger", true),
            ("_1", true),
            (&*longest, true),
            (&*format!("{longest}a"), false),
            ("", false),
            ("1a", false),
            ("Ledger", false),
            ("led-ger", false),
            ("a\"; DROP TABLE x", false),
            ("lédger", false),
            ("public", false),
            ("pg_ledger", false),
            ("information_schema", false),
            ("order", false),
            ("user", false),
            ("system_user", false),
            ("verbose", false),
            ("orders", true),
            ("values", true),
        ] {
            assert_eq!(name.parse::<SchemaName>().is_ok(), is_well, "{name}");
        }
    }

    #[test]
    fn render_replaces_the_schema_of_templates() {
        let other: SchemaName = "a_b1".parse().expect("a name");
        for (template, rendered) in [
            ("SELECT ledger.clock() FROM ledger.meta", "SELECT a_b1.clock() FROM a_b1.meta"),
            ("-- ledger.load\nSELECT 1", "-- ledger.load\nSELECT 1"),
            ("to_regclass('ledger.meta')", "to_regclass('a_b1.meta')"),
            ("to_regnamespace('ledger')", "to_regnamespace('a_b1')"),
            ("CREATE SCHEMA ledger", "CREATE SCHEMA a_b1"),
            ("IN SCHEMA ledger FROM x", "IN SCHEMA a_b1 FROM x"),
            ("SCHEMA ledger_before", "SCHEMA ledger_before"),
            (
                "ledger_before.meta, other.ledger.x, 'idempotency-ledger.x'",
                "ledger_before.meta, other.ledger.x, 'idempotency-ledger.x'",
            ),
            ("the ledger is", "the ledger is"),
        ] {
            assert_eq!(other.render(template), rendered);
            assert_eq!(SchemaName::default().render(template), template);
        }
    }

    /// No statement and no migration names the schema of the templates once it is rendered.
    #[test]
    fn render_leaves_no_template_schema() {
        let other: SchemaName = "elsewhere".parse().expect("a name");
        let migrations = other.migrations(&migrations::POSTGRES);
        let all = statement_list::ALL.iter().map(|statement| other.render(statement).into_owned());
        let all = all.chain(migrations.iter().map(|migration| migration.sql.as_str().to_owned()));
        for statement in all {
            let code = statement.lines().filter(|line| !line.trim_start().starts_with("--"));
            let left: Vec<&str> = code.filter(|line| line.contains("ledger.")).collect();
            assert!(left.is_empty(), "{left:?}");
        }
        let checksums = |all: &Migrator| all.iter().map(|one| one.checksum.to_vec()).collect::<Vec<_>>();
        assert_eq!(checksums(&migrations), checksums(&migrations::POSTGRES));
        assert_eq!(migrations.table_name, "elsewhere.migrations");
    }
}
