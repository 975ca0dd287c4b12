//! The sources of the URL, the user and the password. Each may be a file.

use std::fmt;
use std::path::PathBuf;

use crate::common::secret_file;
use crate::store::postgres::connection::url::PgUrl;

/// The setting that holds a URL.
const URL: &str = "database_url";
/// The setting that names a file with a URL.
const URL_FILE: &str = "database_url_file";

/// The sources of the connection parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PostgresSource {
    /// The URL, or the file that holds it.
    pub url: UrlSource,
    /// The file with the user, if the URL does not name one.
    pub user_file: Option<PathBuf>,
    /// The file with the password, if the URL does not have one.
    pub password_file: Option<PathBuf>,
}

/// A URL, or the file that holds it:
/// `postgres://user:password@host:port/database?sslmode=verify-full&sslrootcert=…`; several servers as
/// `host:port,host:port`.
#[derive(Clone, PartialEq, Eq)]
pub enum UrlSource {
    /// The URL itself.
    Text(String),
    /// The file that holds the URL.
    File(PathBuf),
}

/// Hides the text of a URL, which may hold a password.
impl fmt::Debug for UrlSource {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UrlSource::Text(_) => to.write_str("Text(…)"),
            UrlSource::File(path) => to.debug_tuple("File").field(path).finish(),
        }
    }
}

/// The fault of a source, without a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {text}")]
pub struct WrongSource {
    /// The setting that is at fault.
    pub setting: &'static str,
    /// The error.
    pub text: String,
}

impl PostgresSource {
    /// A source without files.
    #[must_use]
    pub fn of_url(url: &str) -> PostgresSource {
        PostgresSource { url: UrlSource::Text(url.to_owned()), user_file: None, password_file: None }
    }

    /// Whether a part is read from a file, and so can change.
    pub(in crate::store::postgres) fn has_files(&self) -> bool {
        matches!(self.url, UrlSource::File(_)) || self.user_file.is_some() || self.password_file.is_some()
    }

    /// Whether the user's name is read from a file, and is therefore treated as a secret.
    pub(in crate::store::postgres) fn hides_user(&self) -> bool {
        matches!(self.url, UrlSource::File(_)) || self.user_file.is_some()
    }

    /// An error of the URL itself, under the setting that holds it.
    pub(in crate::store::postgres) fn wrong_url(&self, text: String) -> WrongSource {
        match &self.url {
            UrlSource::Text(_) => WrongSource { setting: URL, text },
            UrlSource::File(path) => {
                WrongSource { setting: URL_FILE, text: format!("{}: {text}", path.display()) }
            }
        }
    }

    /// Reads the URL and the files.
    ///
    /// # Errors
    /// A file cannot be read, or does not fit the URL.
    pub(in crate::store::postgres) fn read(&self) -> Result<PgUrl, WrongSource> {
        let text = match &self.url {
            UrlSource::Text(text) => text.clone(),
            UrlSource::File(path) => {
                secret_file::read(path).map_err(|text| WrongSource { setting: URL_FILE, text })?
            }
        };
        let environment = |name: &str| std::env::var(name).ok();
        let mut url = PgUrl::parse(&text, environment).map_err(|text| self.wrong_url(text))?;
        let files = [
            ("database_user_file", "a user", &self.user_file, &mut url.login.user),
            ("database_password_file", "a password", &self.password_file, &mut url.login.password),
        ];
        for (setting, what, path, field) in files {
            let Some(path) = path else { continue };
            let text = secret_file::read(path).map_err(|text| WrongSource { setting, text })?;
            if field.replace(text).is_some() {
                let text = format!("the URL has {what}, too: leave one of them out");
                return Err(WrongSource { setting, text });
            }
        }
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_fill_in_what_the_url_leaves_out() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            Some(folder.path().join(name))
        };
        let (user, password) = (write("user", "me@home\n"), write("password", "p:/\n"));
        let (none, gone) = (None, Some(folder.path().join("gone")));
        for (url, user_file, password_file, expected) in [
            ("postgres://u:p@a/x", &none, &none, Ok("postgres:///?host=a&dbname=x&user=u&password=p")),
            (
                "postgres://a/x",
                &user,
                &password,
                Ok("postgres:///?host=a&dbname=x&user=me%40home&password=p%3A%2F"),
            ),
            (
                "postgres://u@a/x",
                &none,
                &password,
                Ok("postgres:///?host=a&dbname=x&user=u&password=p%3A%2F"),
            ),
            ("postgres://u:p@a/x", &none, &password, Err("database_password_file: the URL has a password")),
            ("postgres://a/x?password=p", &none, &password, Err("database_password_file: the URL has a")),
            ("postgres://u@a/x", &user, &none, Err("database_user_file: the URL has a user")),
            ("postgres://a/x", &gone, &none, Err("database_user_file: ")),
        ] {
            for in_file in [false, true] {
                let url = if in_file {
                    UrlSource::File(write("url", &format!("{url}\n")).unwrap())
                } else {
                    UrlSource::Text(url.to_owned())
                };
                let source = PostgresSource {
                    url,
                    user_file: user_file.clone(),
                    password_file: password_file.clone(),
                };
                let read = source.read().map(|url| url.target.urls(&url.login).concat());
                match (read, expected) {
                    (Ok(read), Ok(expected)) => assert_eq!(read, expected),
                    (Err(wrong), Err(says)) => assert!(wrong.to_string().starts_with(says), "{wrong}"),
                    (read, expected) => panic!("{read:?}, not {expected:?}"),
                }
            }
        }
        let url = UrlSource::File(write("url", "mysql://s3cret").unwrap());
        let source = PostgresSource { url, user_file: None, password_file: None };
        let said = source.read().err().map(|wrong| wrong.to_string()).unwrap_or_default();
        assert!(said.starts_with("database_url_file: /") && !said.contains("s3cret"), "{said}");
        let shown = format!("{:?}", PostgresSource::of_url("postgres://u:s3cret@a/x"));
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
