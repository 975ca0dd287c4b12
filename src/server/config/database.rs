//! `database_url`.

use std::path::PathBuf;

/// Where the ledger lives when nothing else is said.
const DATABASE_URL_DEFAULT: &str = "sqlite://data/ledger.db";

/// Where the ledger lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// One file, owned by one process.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Nobody chose it: its folder may be created.
        by_default: bool,
    },
    /// A server.
    Postgres {
        /// Its URL.
        url: String,
    },
}

/// Reads `database_url`.
///
/// # Errors
/// What is wrong with it, without the password that it may contain.
pub(super) fn database(url: Option<&str>) -> Result<Database, String> {
    let given = url.unwrap_or(DATABASE_URL_DEFAULT);
    if given.starts_with("postgres://") || given.starts_with("postgresql://") {
        return Ok(Database::Postgres { url: given.to_owned() });
    }
    match given.strip_prefix("sqlite://") {
        Some(path) if !path.is_empty() && !path.contains('?') && !path.contains(":memory:") => {
            Ok(Database::Sqlite { path: PathBuf::from(path), by_default: url.is_none() })
        }
        Some(_) => Err("sqlite:// must be followed by the path of a file, without options".into()),
        None => Err("must start with sqlite:// or postgres://".into()),
    }
}
