//! The Postgres servers of one database. If the URL names several, the first that accepts writes is the primary.

use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sqlx::ConnectOptions as _;
use sqlx::postgres::PgConnectOptions;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::common::log_limit::warn_once_a_second;
use crate::store::postgres::connection::source::{PostgresSource, WrongSource};
use crate::store::postgres::connection::target::Target;
use crate::store::postgres::connection::transport;
use crate::store::postgres::connection::url::PgUrl;
use crate::store::postgres::connection::url_options::check_environment;
use crate::store::{Fault, StoreError};

/// Bounds the time to read the files of the source.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// The number of threads that may read those files concurrently: a file system that hangs blocks each of them for ever.
const READERS_MAX: usize = 4;

/// See the module.
#[derive(Clone)]
pub(in crate::store::postgres) struct Servers {
    source: PostgresSource,
    /// The servers and options, as of the start of the process. All sessions of a process must use the same ones.
    target: Target,
    /// The database, as of the start. If the URL names none, it is the one named after the user.
    database: String,
    /// The connect options of each server, as of the start.
    all: Vec<PgConnectOptions>,
    /// The index of the server that the next attempt tries first: the one that accepted writes last.
    first: Arc<AtomicUsize>,
    readers: Arc<Semaphore>,
}

/// Leaves out the connect options, which hold a password.
impl std::fmt::Debug for Servers {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        to.debug_struct("Servers").field("source", &self.source).finish_non_exhaustive()
    }
}

impl Servers {
    /// Reads a source and its files.
    ///
    /// # Errors
    /// Its fault, without its password.
    pub(in crate::store::postgres) fn read(source: &PostgresSource) -> Result<Servers, WrongSource> {
        let url = source.read()?;
        check_environment(|name| std::env::var(name).ok()).map_err(|text| source.wrong_url(text))?;
        for option in &url.ignored {
            tracing::warn!(
                option,
                "the URL of the database has an option that the ledger does not use; it is left out"
            );
        }
        let all = options(&url.target, &url, None).map_err(|text| source.wrong_url(text))?;
        transport::check(&all, url.target.has_mode()).map_err(|text| source.wrong_url(text))?;
        let database =
            all.first().map(|options| options.get_database().unwrap_or_else(|| options.get_username()));
        Ok(Servers {
            source: source.clone(),
            database: database.unwrap_or_default().to_owned(),
            all,
            target: url.target,
            first: Arc::default(),
            readers: Arc::new(Semaphore::new(READERS_MAX)),
        })
    }

    /// The current connect options. The files are read again, so that the next connection uses a new password.
    async fn current(&self) -> Result<Vec<PgConnectOptions>, StoreError> {
        if !self.source.has_files() {
            return Ok(self.all.clone());
        }
        let reading = async {
            let reader = Arc::clone(&self.readers).acquire_owned().await;
            let servers = self.clone();
            let read = move || {
                let _reader = reader;
                servers.read_again()
            };
            spawn_blocking(read).await
        };
        let problem = match timeout(READ_WITHIN, reading).await {
            Ok(Ok(Ok(options))) => return Ok(options),
            Ok(Ok(Err(wrong))) => wrong.to_string(),
            Ok(Err(_)) => "the files with the secrets of the database cannot be read".into(),
            Err(_) => {
                format!("the files with the secrets of the database are not read within {READ_WITHIN:?}")
            }
        };
        warn_once_a_second!(
            problem,
            "no connection to the database can be opened; those that are open go on"
        );
        Err(StoreError::NotApplied(Fault::Unavailable(problem)))
    }

    fn read_again(&self) -> Result<Vec<PgConnectOptions>, WrongSource> {
        let url = self.source.read()?;
        if url.target != self.target {
            warn_once_a_second!(
                "database_url_file names other servers, another database or other options than at the start: \
                 only its user and password are in force before a restart"
            );
        }
        options(&self.target, &url, Some(&self.database)).map_err(|text| self.source.wrong_url(text))
    }

    /// Warns if the connection to another machine does not verify the server's identity.
    pub(in crate::store::postgres) fn warn_of_unverified(&self) {
        transport::warn(&self.all);
    }

    /// The number of servers, at least 1: all of them share the timeout of a connection attempt.
    pub(in crate::store::postgres) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(1).max(1)
    }

    /// A description for logs, without secrets.
    pub(in crate::store::postgres) fn describe(&self) -> String {
        let places: Vec<String> = self.all.iter().map(address).collect();
        let places = places.join(", ");
        let Some(options) = self.all.first() else { return places };
        let tls = transport::word(options.get_ssl_mode());
        let database = match options.get_database() {
            Some(database) => database,
            None if self.source.hides_user() => "(named after its user)",
            None => options.get_username(),
        };
        format!("Postgres database {database} on {places} (sslmode={tls})")
    }

    /// Tries one server after the other until an attempt succeeds, beginning with the server that succeeded last.
    pub(in crate::store::postgres) async fn first_that<T, F>(
        &self,
        attempt: impl Fn(PgConnectOptions) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let all = self.current().await?;
        let begin = self.first.load(Ordering::SeqCst);
        let mut failed = Vec::new();
        for number in 0..all.len() {
            let position = (begin + number) % all.len();
            let Some(options) = all.get(position) else { continue };
            let mut attempted = ConnectAttempt { first: &self.first, then: (position + 1) % all.len() };
            let done = attempt(options.clone()).await;
            attempted.then = if done.is_ok() { position } else { begin };
            match done {
                Ok(done) => return Ok(done),
                Err(error) => {
                    let hidden = if self.source.hides_user() { options.get_username() } else { "" };
                    let error = match self.target.unreadable() {
                        Some(text) => StoreError::NotApplied(Fault::Unavailable(text)),
                        None => without_user(error, hidden),
                    };
                    failed.push((address(options), error));
                }
            }
        }
        Err(combined(failed))
    }
}

/// Drop guard of one attempt. If the attempt is cancelled, the next one begins at the following server.
struct ConnectAttempt<'a> {
    first: &'a AtomicUsize,
    then: usize,
}

impl Drop for ConnectAttempt<'_> {
    fn drop(&mut self) {
        self.first.store(self.then, Ordering::SeqCst);
    }
}

/// The error if no server succeeds: a permanent refusal of one of them, else the errors of all of them.
fn combined(mut failed: Vec<(String, StoreError)>) -> StoreError {
    let for_good = |error: &StoreError| {
        !matches!(error, StoreError::Unknown(_) | StoreError::NotApplied(Fault::Unavailable(_)))
    };
    if failed.len() == 1 || failed.iter().any(|(_, error)| for_good(error)) {
        let position = failed.iter().position(|(_, error)| for_good(error)).unwrap_or(0);
        return failed.swap_remove(position).1;
    }
    let texts: Vec<String> = failed.iter().map(|(at, error)| format!("{at}: {error}")).collect();
    let text = texts.join("; ");
    if failed.iter().any(|(_, error)| matches!(error, StoreError::Unknown(_))) {
        return StoreError::Unknown(text);
    }
    StoreError::NotApplied(Fault::Unavailable(text))
}

/// The connect options of each server: servers and options from `target`, user and password from `url`.
fn options(target: &Target, url: &PgUrl, database: Option<&str>) -> Result<Vec<PgConnectOptions>, String> {
    let each = target.urls(&url.login).into_iter().map(|url| {
        let options = PgConnectOptions::from_str(&url).map_err(|error| error.to_string())?;
        let options = database.map_or_else(|| options.clone(), |database| options.clone().database(database));
        Ok(transport::as_libpq(options, target.has_root()).disable_statement_logging())
    });
    each.collect()
}

/// The address of a server for messages: `host:port`, `[address]:port` or `folder:port`.
fn address(options: &PgConnectOptions) -> String {
    let (host, port) = (options.get_host(), options.get_port());
    match options.get_socket() {
        Some(folder) => format!("{}:{port}", folder.display()),
        None if host.contains(':') => format!("[{host}]:{port}"),
        None => format!("{host}:{port}"),
    }
}

/// Removes the user's name from a server's error, if the name was read from a file.
fn without_user(error: StoreError, user: &str) -> StoreError {
    if user.is_empty() {
        return error;
    }
    // Servers quote names by the rules of their language.
    let hide = |text: String| {
        let quotes = ['"', '\'', '`', '«', '„', '“', '»', '「'].into_iter();
        quotes.fold(text, |text, quote| text.replace(&format!("{quote}{user}"), &format!("{quote}…")))
    };
    match error {
        StoreError::Unknown(text) => StoreError::Unknown(hide(text)),
        StoreError::NotApplied(Fault::Unavailable(text)) => {
            StoreError::NotApplied(Fault::Unavailable(hide(text)))
        }
        StoreError::NotApplied(Fault::Schema(text)) => StoreError::NotApplied(Fault::Schema(hide(text))),
        StoreError::NotApplied(Fault::Permanent(text)) => {
            StoreError::NotApplied(Fault::Permanent(hide(text)))
        }
        error @ StoreError::NotApplied(
            Fault::TimedOut(_)
            | Fault::Conflict(_)
            | Fault::Locked(_)
            | Fault::Stale(_)
            | Fault::ClockBehind
            | Fault::Outdated(_),
        ) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::store::postgres::connection::source::UrlSource;

    fn of_url(url: &str) -> Result<Servers, WrongSource> {
        Servers::read(&PostgresSource::of_url(url))
    }

    /// No message contains the password.
    #[test]
    fn describe_and_errors_hide_secrets() {
        for (url, described) in [
            ("postgres://u:secret@a:1,b/x?sslmode=require", "x on a:1, b:5432 (sslmode=require)"),
            ("postgres://u:secret@[::1]:7/x?sslmode=disable", "x on [::1]:7 (sslmode=disable)"),
            ("postgres://u:secret@/x?host=/run/pg&sslmode=disable", "x on /run/pg:5432 (sslmode=disable)"),
            ("postgres://u:secret@a?sslmode=require", "u on a:5432 (sslmode=require)"),
        ] {
            let servers = of_url(url).expect("servers");
            assert_eq!(servers.describe(), format!("Postgres database {described}"));
            assert!(!format!("{servers:?}").contains("secret"));
        }
        for wrong in ["postgres://u:secret@a:x,b/x", "postgres://u:secret@a,b/x?sslmode=secret!"] {
            let said = of_url(wrong).expect_err("it is wrong").to_string();
            assert!(!said.contains("secret@"), "{said}");
        }
    }

    #[tokio::test]
    async fn first_that_begins_at_the_server_that_succeeded_last() {
        let servers = of_url("postgres://a,b,c/x?sslmode=disable").expect("servers");
        let asked = |well: &'static str| {
            let servers = servers.clone();
            async move {
                let seen = std::sync::Mutex::new(String::new());
                let done = servers
                    .first_that(|options| {
                        seen.lock().expect("one thread").push_str(options.get_host());
                        let refused = StoreError::NotApplied(Fault::Unavailable("not now".into()));
                        std::future::ready(if well.contains(options.get_host()) {
                            Ok(())
                        } else {
                            Err(refused)
                        })
                    })
                    .await;
                let seen = seen.into_inner().expect("one thread");
                (seen, done.err().map(|error| error.to_string()).unwrap_or_default())
            }
        };
        for (well, expected) in [("a", "a"), ("c", "abc"), ("c", "c"), ("b", "cab"), ("", "bca"), ("bc", "b")]
        {
            let (seen, said) = asked(well).await;
            assert_eq!(seen, expected, "{well}");
            assert_eq!(said.matches("not now").count(), if well.is_empty() { 3 } else { 0 }, "{said}");
        }
    }

    /// User and password are read again; servers and options are not: all sessions of a process use the same ones.
    #[tokio::test]
    async fn current_after_rotation_changes_only_user_and_password() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        let url = |text: &str| std::fs::write(&path, text).unwrap();
        url("postgres://one:p@a:1,b:2?sslmode=require\n");
        let source =
            PostgresSource { url: UrlSource::File(path.clone()), user_file: None, password_file: None };
        let servers = Servers::read(&source).expect("servers");
        let now = async || {
            let all = servers.current().await.map_err(|error| error.to_string())?;
            let url = all.first().map(sqlx::ConnectOptions::to_url_lossy);
            let url = url.ok_or("none")?;
            let (user, password) = (url.username().to_owned(), url.password().unwrap_or_default().to_owned());
            Ok::<_, String>((all.len(), user, password, url.port(), url.path().to_owned()))
        };
        let expected = |user: &str, password: &str| {
            Ok((2, user.to_owned(), password.to_owned(), Some(1), "/one".to_owned()))
        };
        assert_eq!(now().await, expected("one", "p"));
        let described = servers.describe();
        assert_eq!(described, "Postgres database (named after its user) on a:1, b:2 (sslmode=require)");
        url("postgres://two:q@a:1,b:2?sslmode=require\n");
        assert_eq!(now().await, expected("two", "q"));
        url("postgres://three:r@c:3/other");
        assert_eq!(now().await, expected("three", "r"));
        url("");
        let said = now().await.expect_err("it is empty");
        assert!(said.contains("unavailable: database_url_file: /") && said.contains("is empty"), "{said}");
        url("postgres://one:p@a:1,b:2?sslmode=require\n");
        assert_eq!(now().await, expected("one", "p"));
    }

    #[test]
    fn errors_do_not_quote_a_user_read_from_a_file() {
        let text = "password authentication failed for user \"m\"";
        let hidden = "password authentication failed for user \"…\"";
        for error in [
            |text: &str| StoreError::NotApplied(Fault::Schema(text.to_owned())),
            |text: &str| StoreError::NotApplied(Fault::Unavailable(text.to_owned())),
            |text: &str| StoreError::NotApplied(Fault::Permanent(text.to_owned())),
            |text: &str| StoreError::Unknown(text.to_owned()),
        ] {
            assert_eq!(without_user(error(text), "m").to_string(), error(hidden).to_string());
            assert_eq!(without_user(error(text), "").to_string(), error(text).to_string());
        }
        let timed_out = without_user(StoreError::NotApplied(Fault::TimedOut("5s".into())), "m");
        assert_eq!(timed_out.to_string(), StoreError::NotApplied(Fault::TimedOut("5s".into())).to_string());
    }

    /// What a caller may conclude must hold for each of the servers.
    #[test]
    fn combined_claims_no_more_than_each_server_did() {
        let unavailable = || StoreError::NotApplied(Fault::Unavailable("away".into()));
        let schema = || StoreError::NotApplied(Fault::Schema("too old".into()));
        let unknown = || StoreError::Unknown("cut".into());
        for (failed, expected) in [
            (vec![unknown()], unknown()),
            (vec![unavailable(), schema(), unknown()], schema()),
            (
                vec![unavailable(), unknown()],
                StoreError::Unknown(format!("s0: {}; s1: {}", unavailable(), unknown())),
            ),
            (
                vec![unavailable(), unavailable()],
                StoreError::NotApplied(Fault::Unavailable(format!("s0: {0}; s1: {0}", unavailable()))),
            ),
        ] {
            let at = failed.into_iter().enumerate().map(|(number, error)| (format!("s{number}"), error));
            assert_eq!(format!("{:?}", combined(at.collect())), format!("{expected:?}"));
        }
    }
}
