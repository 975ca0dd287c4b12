//! A URL of Postgres in its parts: who connects, and whereto.

use std::fs::File;

/// How many servers a URL names, at the most: they share the time that there is for one connection.
const SERVERS_MAX: usize = 5;

/// What a URL may ask for: the ledger works with the server that takes writes, whatever is asked for.
const ATTRIBUTES: [&str; 2] = ["read-write", "primary"];

/// The options that the driver knows. It would log any other with its value, which may be a secret.
const OPTIONS: [&str; 15] = [
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "statement-cache-capacity",
    "host",
    "hostaddr",
    "port",
    "dbname",
    "application_name",
];

/// Those of them that say how much of TLS is asked for.
const MODES: [&str; 2] = ["sslmode", "ssl-mode"];

/// Those of them that name a file.
const FILES: [&str; 7] =
    ["sslrootcert", "ssl-root-cert", "ssl-ca", "sslcert", "ssl-cert", "sslkey", "ssl-key"];

/// Who connects: as it is written in a URL.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
}

/// Whereto, and how.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Place {
    hosts: Vec<String>,
    path: String,
    options: Vec<String>,
}

/// `postgres://user:password@host:port,host:port/database?…`
pub(super) struct PgUrl {
    pub(super) login: Login,
    pub(super) place: Place,
    /// Options that nobody knows, by their names.
    pub(super) ignored: Vec<String>,
}

impl PgUrl {
    /// # Errors
    /// What is wrong with it, without its password.
    pub(super) fn parse(url: &str) -> Result<PgUrl, String> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or("must start with postgres:// or postgresql://")?;
        if rest.contains(char::is_control) {
            return Err("has more than one line, or another control character".into());
        }
        let (address, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (login, hosts) = address.rsplit_once('@').map_or(("", address), |(login, hosts)| (login, hosts));
        if login.is_empty() && hosts.contains(':') && rest.contains('@') {
            // What would be taken for a host and a port is a user and a part of a password.
            return Err(
                "has an @ behind the servers: /, ? and # of a password are written %2F, %3F and %23".into()
            );
        }
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let login = Login { user: some(user), password: some(password) };
        let hosts: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        if hosts.len() > SERVERS_MAX {
            return Err(format!("names {} servers; at most {SERVERS_MAX} may be named", hosts.len()));
        }
        if hosts.len() > 1 && hosts.iter().any(String::is_empty) {
            return Err("has a comma before or behind which no server is named".into());
        }
        let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
        let place = Place { hosts, path: path.to_owned(), options: Vec::new() };
        let mut parsed = PgUrl { login, place, ignored: Vec::new() };
        for option in options.split('&').filter(|option| !option.is_empty()) {
            parsed.option(option)?;
        }
        Ok(parsed)
    }

    /// What only chooses among servers is left out.
    fn option(&mut self, option: &str) -> Result<(), String> {
        match option.split_once('=').unwrap_or((option, "")) {
            ("target_session_attrs", asked) if ATTRIBUTES.contains(&asked) => {}
            ("target_session_attrs", _) => {
                return Err(format!(
                    "target_session_attrs: the ledger writes, so it is {}",
                    ATTRIBUTES.join(" or ")
                ));
            }
            (name @ ("host" | "hostaddr" | "port"), several) if several.contains(',') => {
                return Err(format!(
                    "{name}: several servers are named before the path: postgres://one:5432,other:5432/database"
                ));
            }
            // Options write a space as a plus.
            ("user", user) => self.login.user = Some(user.replace('+', "%20")),
            ("password", password) => self.login.password = Some(password.replace('+', "%20")),
            (name, _) if OPTIONS.contains(&name) || name == "options" || name.starts_with("options[") => {
                self.place.options.push(option.to_owned());
            }
            (name, _) => self.ignored.push(name.to_owned()),
        }
        Ok(())
    }
}

impl Place {
    /// The first file of certificates and keys that cannot be read, by its option: the driver does not name it.
    pub(super) fn unreadable(&self) -> Option<String> {
        self.options.iter().find_map(|option| {
            let (name, path) = option.split_once('=')?;
            // The driver is the one that decodes paths.
            let is_plain = FILES.contains(&name) && !path.contains(['%', '+']);
            let error = File::open(path).err().filter(|_| is_plain)?;
            Some(format!("{name}: {path}: {error}"))
        })
    }

    /// Whether an option says how much of TLS is asked for.
    pub(super) fn has_mode(&self) -> bool {
        self.options.iter().any(|option| MODES.contains(&option.split('=').next().unwrap_or_default()))
    }

    /// One URL for each server.
    pub(super) fn urls(&self, login: &Login) -> Vec<String> {
        let user = login.user.as_deref().unwrap_or_default();
        let login = match &login.password {
            Some(password) => format!("{user}:{password}@"),
            None if user.is_empty() => String::new(),
            None => format!("{user}@"),
        };
        let path = &self.path;
        let options =
            if self.options.is_empty() { String::new() } else { format!("?{}", self.options.join("&")) };
        self.hosts.iter().map(|host| format!("postgres://{login}{host}{path}{options}")).collect()
    }
}

/// A text as a URL holds it.
pub(super) fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            encoded.push_str(&hex::encode_upper([byte]));
        }
    }
    encoded
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
                    "postgres://u:p%40,@a:1/x?sslmode=require",
                    "postgres://u:p%40,@b:2/x?sslmode=require",
                ]),
            ),
            (
                "postgres://u@[::1]:1,[::2]/x?target_session_attrs=primary",
                Ok(vec!["postgres://u@[::1]:1/x", "postgres://u@[::2]/x"]),
            ),
            (
                "postgres://u:p@a/x?user=v+w&password=q&sslmode=require",
                Ok(vec!["postgres://v%20w:q@a/x?sslmode=require"]),
            ),
            ("postgres://:p@a/x", Ok(vec!["postgres://:p@a/x"])),
            ("postgres://u:@a/x?options[a]=b&passwrod=q", Ok(vec!["postgres://u@a/x?options[a]=b"])),
            ("postgres://a,b/x?target_session_attrs=any", Err("read-write or primary")),
            ("postgres://a/x?host=a,b", Err("before the path")),
            ("postgres://a,/x", Err("no server is named")),
            ("postgres://u:12/34@a/x", Err("%2F")),
            ("postgres://a/x\npostgres://b/x", Err("more than one line")),
            ("sqlite://a", Err("postgres://")),
            (many.as_str(), Err("at most 5")),
        ] {
            let parsed = PgUrl::parse(url).map(|parsed| parsed.place.urls(&parsed.login));
            match (parsed, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{url}"),
                (Err(said), Err(expected)) => assert!(said.contains(expected), "{url}: {said}"),
                (found, expected) => panic!("{url}: {found:?}, not {expected:?}"),
            }
        }
        let ignored = PgUrl::parse("postgres://a/x?passwrod=q").map(|parsed| parsed.ignored);
        assert_eq!(ignored.ok(), Some(vec!["passwrod".to_owned()]));
    }

    #[test]
    fn any_text_can_stand_in_a_url() {
        assert_eq!(encoded("aZ0:/@?#%é "), "aZ0%3A%2F%40%3F%23%25%C3%A9%20");
    }
}
