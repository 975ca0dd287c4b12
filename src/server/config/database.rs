//! `database_url`, and the files that may replace it or parts of it.

use std::path::PathBuf;

use super::checker::Checker;
use super::settings::Settings;
use crate::common::secret_file;
use crate::store::{PostgresSource, UrlSource};

/// The default database.
const DATABASE_URL_DEFAULT: &str = "sqlite://data/ledger.db";

/// The database of the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Database {
    /// An `SQLite` file, owned by one process.
    Sqlite {
        /// The file.
        path: PathBuf,
        /// Whether it is the default, whose folder may be created.
        by_default: bool,
    },
    /// The memory of the process (`serve --ephemeral`).
    Memory,
    /// A Postgres server.
    Postgres {
        /// The URL, user and password.
        source: PostgresSource,
    },
}

/// Reads `database_url` and its files; problems are added to the checker.
pub(super) fn database(given: &Settings, checker: &mut Checker) -> Database {
    let url_file = checker.file("database_url_file", given.database_url_file.as_ref());
    let user_file = checker.file("database_user_file", given.database_user_file.as_ref());
    let password_file = checker.file("database_password_file", given.database_password_file.as_ref());
    let nowhere = Database::Sqlite { path: PathBuf::new(), by_default: false };
    let setting = if url_file.is_some() { "database_url_file" } else { "database_url" };
    let url = match (&url_file, &given.database_url) {
        (Some(_), Some(_)) => {
            let text = "is given, and database_url too: they say the same, so leave one of them out";
            checker.wrong(setting, text);
            return nowhere;
        }
        (None, url) => url.clone().unwrap_or_else(|| DATABASE_URL_DEFAULT.to_owned()),
        (Some(path), None) => match secret_file::read(path) {
            Ok(url) => url,
            Err(problem) => {
                checker.wrong(setting, &problem);
                return nowhere;
            }
        },
    };
    let by_default = url_file.is_none() && given.database_url.is_none();
    if url.starts_with("postgres://") || url.starts_with("postgresql://") {
        let url = url_file.map_or(UrlSource::Text(url), UrlSource::File);
        return Database::Postgres { source: PostgresSource { url, user_file, password_file } };
    }
    for (setting, file) in [("database_user_file", user_file), ("database_password_file", password_file)] {
        if file.is_some() {
            checker.wrong(setting, "is for Postgres alone, and the database is none");
        }
    }
    match sqlite(&url) {
        Ok(path) => {
            // Shown as a file could state it, unless another setting states it.
            let scheme = if url_file.is_some() { "SQLite file " } else { "sqlite://" };
            checker.shown_from("database_url", format!("{scheme}{}", path.display()), setting);
            Database::Sqlite { path, by_default }
        }
        Err(problem) => {
            let path = url_file.map(|path| format!("{}: ", path.display())).unwrap_or_default();
            checker.wrong(setting, &format!("{path}{problem}"));
            nowhere
        }
    }
}

/// The file of a URL; or what is wrong with it, without the URL itself, which may contain a password.
fn sqlite(url: &str) -> Result<PathBuf, &'static str> {
    match url.strip_prefix("sqlite://") {
        Some(path) if !path.is_empty() && !path.contains('?') && !path.contains(":memory:") => {
            Ok(PathBuf::from(path))
        }
        Some(_) => Err("sqlite:// must be followed by the path of a file, without options"),
        None => Err("must start with sqlite:// or postgres://"),
    }
}
