//! The servers of one database: one, or several of which the first that takes writes is the primary.

use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sqlx::ConnectOptions as _;
use sqlx::postgres::{PgConnectOptions, PgSslMode};

use crate::store::{Fault, StoreError};

/// How many servers a URL names, at the most: they share the time that there is for one connection.
const SERVERS_MAX: usize = 5;

/// What a URL may ask for: the ledger works with the server that takes writes, whatever is asked for.
const ATTRIBUTES: [&str; 2] = ["read-write", "primary"];

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Servers {
    all: Vec<PgConnectOptions>,
    /// Where the next one who connects begins: at the server that took writes last.
    first: Arc<AtomicUsize>,
}

impl Servers {
    /// Reads a URL: `postgres://user:password@host:port,host:port/database?…`
    ///
    /// # Errors
    /// What is wrong with it, without its password.
    pub(super) fn parse(url: &str) -> Result<Servers, String> {
        let mut all = Vec::new();
        for url in each(url)? {
            let options = PgConnectOptions::from_str(&url).map_err(|error| error.to_string())?;
            all.push(options.disable_statement_logging());
        }
        Ok(Servers { all, first: Arc::default() })
    }

    /// How many there are: by so many is divided what one of them may take.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.all.len()).unwrap_or(1).max(1)
    }

    /// For people, without secrets.
    pub(super) fn describe(&self) -> String {
        let place = |options: &PgConnectOptions| {
            let socket = options.get_socket().map(|path| path.display().to_string());
            format!("{}:{}", socket.unwrap_or_else(|| options.get_host().to_owned()), options.get_port())
        };
        let places: Vec<String> = self.all.iter().map(place).collect();
        let places = places.join(", ");
        let Some(options) = self.all.first() else { return places };
        let tls = match options.get_ssl_mode() {
            PgSslMode::Disable => "disable",
            PgSslMode::Allow => "allow",
            PgSslMode::Prefer => "prefer",
            PgSslMode::Require => "require",
            PgSslMode::VerifyCa => "verify-ca",
            PgSslMode::VerifyFull => "verify-full",
        };
        let database = options.get_database().unwrap_or_else(|| options.get_username());
        format!("Postgres database {database} on {places} (sslmode={tls})")
    }

    /// Tries one server after the other until one does, beginning with the one that did last.
    pub(super) async fn first_that<T, F>(
        &self,
        attempt: impl Fn(PgConnectOptions) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        let begin = self.first.load(Ordering::SeqCst);
        let mut failed = Vec::new();
        for number in 0..self.all.len() {
            let place = (begin + number) % self.all.len();
            let Some(options) = self.all.get(place) else { continue };
            let mut attempted = Attempt { first: &self.first, then: (place + 1) % self.all.len() };
            let done = attempt(options.clone()).await;
            attempted.then = if done.is_ok() { place } else { begin };
            match done {
                Ok(done) => return Ok(done),
                Err(error) => failed.push((options.get_host().to_owned(), options.get_port(), error)),
            }
        }
        Err(of_all(failed))
    }
}

/// One attempt: whoever is given up while it lasts leaves the next one to begin behind it.
struct Attempt<'a> {
    first: &'a AtomicUsize,
    then: usize,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.first.store(self.then, Ordering::SeqCst);
    }
}

/// What to say where no server does: what one of them refuses for good; else what each of them says.
fn of_all(mut failed: Vec<(String, u16, StoreError)>) -> StoreError {
    let for_good = |error: &StoreError| {
        !matches!(error, StoreError::Unknown(_) | StoreError::NotApplied(Fault::Unavailable(_)))
    };
    if failed.len() == 1 || failed.iter().any(|(.., error)| for_good(error)) {
        let place = failed.iter().position(|(.., error)| for_good(error)).unwrap_or(0);
        return failed.swap_remove(place).2;
    }
    let texts: Vec<String> =
        failed.iter().map(|(host, port, error)| format!("{host}:{port}: {error}")).collect();
    let text = texts.join("; ");
    if failed.iter().any(|(.., error)| matches!(error, StoreError::Unknown(_))) {
        return StoreError::Unknown(text);
    }
    StoreError::NotApplied(Fault::Unavailable(text))
}

/// One URL for each server that a URL names.
fn each(url: &str) -> Result<Vec<String>, String> {
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(vec![url.to_owned()]) };
    let (address, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let (user, hosts) = address.rsplit_once('@').map_or(("", address), |(user, hosts)| (user, hosts));
    let user = if user.is_empty() { String::new() } else { format!("{user}@") };
    let rest = without_attributes(rest)?;
    let hosts: Vec<&str> = hosts.split(',').collect();
    if hosts.len() > SERVERS_MAX {
        return Err(format!("names {} servers; at most {SERVERS_MAX} may be named", hosts.len()));
    }
    if hosts.len() > 1 && hosts.iter().any(|host| host.is_empty()) {
        return Err("has a comma before or behind which no server is named".into());
    }
    Ok(hosts.iter().map(|host| format!("{scheme}://{user}{host}{rest}")).collect())
}

/// The path and the options, without what only chooses among servers.
fn without_attributes(rest: &str) -> Result<String, String> {
    let Some((path, options)) = rest.split_once('?') else { return Ok(rest.to_owned()) };
    let mut kept = Vec::new();
    for option in options.split('&') {
        match option.split_once('=') {
            Some(("target_session_attrs", asked)) if ATTRIBUTES.contains(&asked) => {}
            Some(("target_session_attrs", _)) => {
                return Err(format!(
                    "target_session_attrs: the ledger writes, so it is {}",
                    ATTRIBUTES.join(" or ")
                ));
            }
            Some((name @ ("host" | "hostaddr" | "port"), several)) if several.contains(',') => {
                return Err(format!(
                    "{name}: several servers are named before the path: postgres://one:5432,other:5432/database"
                ));
            }
            _ => kept.push(option),
        }
    }
    Ok(if kept.is_empty() { path.to_owned() } else { format!("{path}?{}", kept.join("&")) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_one_server_or_several() {
        let many = format!("postgres://{}/x", ["h"; 6].join(","));
        for (url, expected) in [
            ("postgres://a/x", Ok(vec!["postgres://a/x"])),
            ("postgres:///x?host=/run/pg", Ok(vec!["postgres:///x?host=/run/pg"])),
            ("postgres://a", Ok(vec!["postgres://a"])),
            ("postgres://a,b/x", Ok(vec!["postgres://a/x", "postgres://b/x"])),
            ("postgres://a,b", Ok(vec!["postgres://a", "postgres://b"])),
            (
                "postgresql://u:p%40,@a:1,b:2/x?target_session_attrs=read-write&sslmode=require",
                Ok(vec![
                    "postgresql://u:p%40,@a:1/x?sslmode=require",
                    "postgresql://u:p%40,@b:2/x?sslmode=require",
                ]),
            ),
            (
                "postgres://u@[::1]:1,[::2]/x?target_session_attrs=primary",
                Ok(vec!["postgres://u@[::1]:1/x", "postgres://u@[::2]/x"]),
            ),
            ("postgres://a,b/x?target_session_attrs=any", Err("read-write or primary")),
            ("postgres://a/x?host=a,b", Err("before the path")),
            ("postgres://a,/x", Err("no server is named")),
            (many.as_str(), Err("at most 5")),
        ] {
            match (each(url), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{url}"),
                (Err(said), Err(expected)) => assert!(said.contains(expected), "{url}: {said}"),
                (found, expected) => panic!("{url}: {found:?}, not {expected:?}"),
            }
        }
    }

    /// A password stays out of every message.
    #[test]
    fn servers_are_told_without_secrets() {
        let servers = Servers::parse("postgres://u:secret@a:1,b/x?sslmode=require").expect("servers");
        assert_eq!(servers.describe(), "Postgres database x on a:1, b:5432 (sslmode=require)");
        for wrong in ["postgres://u:secret@a:x,b/x", "postgres://u:secret@a,b/x?sslmode=secret!"] {
            let said = Servers::parse(wrong).expect_err("it is wrong");
            assert!(!said.contains("secret@"), "{said}");
        }
    }

    #[tokio::test]
    async fn the_server_that_did_last_is_asked_first() {
        let servers = Servers::parse("postgres://a,b,c/x").expect("servers");
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
}
