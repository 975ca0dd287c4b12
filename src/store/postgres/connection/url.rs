//! Parses a Postgres URL into login and target.
//!
//! A URL is parsed here by the rules of libpq, and not by the driver, whose parser refuses or misreads several forms of
//! libpq's manual: a user without a host (`postgres://user@/db?host=/run`), an IPv6 address, a plus in a password. The
//! driver gets one URL for each server, in which each part is an option.

use std::net::IpAddr;

use crate::store::postgres::connection::target::{Login, Target, is_file};
use crate::store::postgres::connection::url_options::{Becomes, CACHE, CERTIFICATE_MODE, becomes, is_known};

/// The number of servers that a URL may name: all of them share the timeout of one connection attempt.
const SERVERS_MAX: usize = 5;

/// The values of `target_session_attrs` that a URL may have: the ledger always uses the server that accepts writes.
const ATTRIBUTES: [&str; 2] = ["read-write", "primary"];

/// A password that contains an unencoded `/?#@&` ends early, and the rest looks like another part of the URL. No
/// error may quote that part.
const UNENCODED: &str = "has a sign that a password must not have as it is, or an @ in the name of a database: \
                         / ? # @ & and % are written %2F %3F %23 %40 %26 and %25";

/// The fault of a URL whose password may contain such a character, or that has another mistake.
const UNKNOWN: &str = "has an option without a value, or one that libpq does not know behind the password or with an @; or \
                       the password has a sign that it must not have as it is: / ? # @ & and % are written %2F %3F \
                       %23 %40 %26 and %25";

/// `postgres://user:password@host:port,host:port/database?…`
pub(in crate::store::postgres) struct PgUrl {
    pub(in crate::store::postgres) login: Login,
    pub(in crate::store::postgres) target: Target,
    /// The names of options that the ledger does not use.
    pub(in crate::store::postgres) ignored: Vec<String>,
    /// Addresses to connect to instead of the hosts (`hostaddr`).
    pub(in crate::store::postgres) addresses: Vec<String>,
    /// Whether the URL has ports, which may be empty: then libpq ignores `PGPORT`.
    pub(in crate::store::postgres) has_ports: bool,
    pub(in crate::store::postgres) says_ssl: bool,
    /// `sslcertmode` of the URL or the environment: whether the client's certificate is sent.
    pub(in crate::store::postgres) certificate_mode: Option<String>,
    /// The option or variable that set the hosts, the addresses, the ports and the mode.
    pub(in crate::store::postgres) stands: Stands,
}

/// The source of each part: the name of an option or of a variable.
pub(in crate::store::postgres) struct Stands {
    pub(in crate::store::postgres) host: &'static str,
    pub(in crate::store::postgres) address: &'static str,
    pub(in crate::store::postgres) port: &'static str,
    pub(in crate::store::postgres) mode: &'static str,
    pub(in crate::store::postgres) certificate_mode: &'static str,
}

impl PgUrl {
    /// Parses a URL. Parts that it leaves out come from the environment, as with libpq.
    ///
    /// # Errors
    /// Its fault, without its password.
    pub(in crate::store::postgres) fn parse(
        url: &str,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<PgUrl, String> {
        let rest = ["postgres://", "postgresql://"].iter().find_map(|scheme| url.strip_prefix(scheme));
        let rest = rest.ok_or("must start with postgres:// or postgresql://")?;
        if rest.contains(char::is_control) {
            return Err("has more than one line, or another control character".into());
        }
        let (address, rest) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let (login, servers) = address.rsplit_once('@').unwrap_or(("", address));
        let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
        // An @ here means that what looks like host and port is a user and a part of a password. In the value of an option
        // of libpq an @ is a plain character.
        let is_odd = |option: &str| {
            option.contains('@') && !option.split_once('=').is_some_and(|(name, _)| is_known(name))
        };
        let is_cut = login.is_empty() && servers.contains(':') && options.split('&').any(is_odd);
        if is_cut || path.contains('@') || path.starts_with('#') {
            return Err(UNENCODED.into());
        }
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        let mut parsed = PgUrl {
            login: Login { user: some(plain("user", user)?), password: some(decoded(password)?) },
            target: Target { database: some(database(path)?), ..Target::default() },
            ignored: Vec::new(),
            addresses: Vec::new(),
            has_ports: servers.contains(','),
            says_ssl: false,
            certificate_mode: None,
            stands: Stands {
                host: "host",
                address: "hostaddr",
                port: "port",
                mode: "sslmode",
                certificate_mode: CERTIFICATE_MODE,
            },
        };
        for server in servers.split(',') {
            let (host, port) = host_and_port(server)?;
            parsed.target.hosts.push(plain("host", host)?);
            parsed.has_ports |= !port.is_empty();
            parsed.target.ports.push(port.to_owned());
        }
        let mut before = "";
        for option in options.split('&').filter(|option| !option.is_empty()) {
            let Some((name, value)) = option.split_once('=') else {
                let is_named = is_known(option) && before != "password";
                return Err(if is_named { format!("{option}: has no value") } else { UNKNOWN.into() });
            };
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_-.[]".contains(c);
            if name.is_empty() || !name.chars().all(is_name) {
                return Err(UNENCODED.into());
            }
            parsed.option(name, value, before)?;
            before = name;
        }
        parsed.fill_in(environment)?;
        parsed.checked()
    }

    /// Reads one option. Options that only select among servers are left out.
    fn option(&mut self, name: &str, encoded: &str, before: &str) -> Result<(), String> {
        let value = decoded(encoded)?;
        let list = |text: &str| text.split(',').map(str::to_owned).collect();
        match name {
            "target_session_attrs" if ATTRIBUTES.contains(&value.as_str()) => {}
            "target_session_attrs" => {
                return Err(format!(
                    "target_session_attrs: the ledger writes, so it is {}",
                    ATTRIBUTES.join(" or ")
                ));
            }
            "host" => self.target.hosts = list(&plain(name, encoded)?),
            "hostaddr" => self.addresses = list(&value),
            "port" => {
                self.has_ports = true;
                self.target.ports = list(&value);
            }
            "dbname" => self.target.database = some(plain(name, encoded)?),
            "user" => self.login.user = some(plain(name, encoded)?),
            "password" => self.login.password = some(value),
            // Written in URLs of JDBC, and accepted by libpq.
            "ssl" if value == "true" => self.says_ssl = true,
            "ssl" => return Err("ssl: must be true; sslmode=disable asks for a connection in clear".into()),
            CACHE if value.parse::<usize>().is_err() => {
                return Err(format!("{CACHE}: must be a number of statements, 0 or more"));
            }
            _ if is_file(name) && value.contains("-----BEGIN") => {
                return Err(format!("{name}: must be the name of a file: its text is not read from a URL"));
            }
            _ => match becomes(name, &value) {
                Ok(Becomes::Driver) => self.target.options.push((name.to_owned(), value)),
                Ok(Becomes::Nothing) if name == CERTIFICATE_MODE => self.certificate_mode = Some(value),
                Ok(Becomes::Nothing) => {}
                // The name may be the rest of a password.
                Ok(Becomes::Warning) | Err(_)
                    if !is_known(name) && (before == "password" || encoded.contains('@')) =>
                {
                    return Err(UNKNOWN.into());
                }
                Ok(Becomes::Warning) => self.ignored.push(name.to_owned()),
                Err(why) => return Err(why),
            },
        }
        Ok(())
    }

    /// Checks the parts together.
    fn checked(mut self) -> Result<PgUrl, String> {
        let (target, stands) = (&mut self.target, &self.stands);
        let named = target.hosts.clone();
        if !self.addresses.is_empty() {
            // libpq connects to the address, and verifies the name; the driver knows only the address.
            if target.hosts.len() != self.addresses.len() && target.hosts.iter().any(|host| !host.is_empty())
            {
                return Err(format!("{}: must have an address for each host", stands.address));
            }
            target.hosts.resize(self.addresses.len(), String::new());
            for (host, address) in target.hosts.iter_mut().zip(&self.addresses) {
                if !address.is_empty() {
                    let wrong = |_| format!("{}: is not an address of IPv4 or IPv6", stands.address);
                    address.parse::<IpAddr>().map_err(wrong)?;
                    host.clone_from(address);
                }
            }
        }
        let servers = target.hosts.len();
        if servers > SERVERS_MAX {
            return Err(format!("names {servers} servers; at most {SERVERS_MAX} may be named"));
        }
        if servers > 1 && target.hosts.iter().any(String::is_empty) {
            return Err("has an empty host name next to a comma".into());
        }
        if target.hosts.iter().any(|host| host.starts_with('@')) {
            return Err(format!(
                "{}: a socket without a file (its name begins with @) is not supported: name a folder",
                stands.host
            ));
        }
        if target.ports.len() != servers && target.ports.len() > 1 {
            return Err(format!("{}: names {} ports for {servers} servers", stands.port, target.ports.len()));
        }
        if target.ports.iter().any(|port| !port.is_empty() && port.parse::<u16>().unwrap_or(0) == 0) {
            return Err(format!("{}: must be a number from 1 to 65535", stands.port));
        }
        let is_renamed = named.iter().zip(&target.hosts).any(|(name, host)| !name.is_empty() && name != host);
        self.tls()?;
        if is_renamed && self.is_full() {
            return Err(format!(
                "{}: with sslmode=verify-full the certificate is verified for the name of the host, and the ledger's \
                 driver would have its address alone: leave the address out, so that the name is looked up",
                self.stands.address
            ));
        }
        Ok(self)
    }
}

/// Percent-decodes a part of a URL. A `%` without two hexadecimal digits after it is kept as it is.
fn decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, others)) = rest.split_first() {
        let digits = others.get(..2).filter(|_| first == b'%').and_then(|two| hex::decode(two).ok());
        if let Some(byte) = digits {
            bytes.extend(byte);
            rest = others.get(2..).unwrap_or_default();
        } else {
            bytes.push(first);
            rest = others;
        }
    }
    if bytes.contains(&0) {
        return Err("has a byte of zero (%00)".into());
    }
    String::from_utf8(bytes).map_err(|_| "has percent-encoded bytes that are not UTF-8".into())
}

/// Percent-decodes a part of a URL that appears in logs: it must not have control characters.
fn plain(name: &str, text: &str) -> Result<String, String> {
    let text = decoded(text)?;
    if text.contains(char::is_control) { Err(format!("{name}: has a control character")) } else { Ok(text) }
}

fn some(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn database(path: &str) -> Result<String, String> {
    plain("the name of the database", path.strip_prefix('/').unwrap_or(path))
}

/// Splits `name:port`, `1.2.3.4:port` or `[::1]:port`; the port may be missing.
fn host_and_port(server: &str) -> Result<(&str, &str), String> {
    let wrong = || "has an IPv6 address that is not written as [ADDRESS] or [ADDRESS]:PORT".to_owned();
    if let Some(bracketed) = server.strip_prefix('[') {
        let (host, port) = bracketed.split_once(']').ok_or_else(wrong)?;
        let port = if port.is_empty() { port } else { port.strip_prefix(':').ok_or_else(wrong)? };
        return if host.is_empty() { Err(wrong()) } else { Ok((host, port)) };
    }
    let (host, port) = server.split_once(':').unwrap_or((server, ""));
    if port.contains(':') { Err(wrong()) } else { Ok((host, port)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses with an empty environment.
    fn parse(url: &str) -> Result<PgUrl, String> {
        PgUrl::parse(url, |_| None)
    }

    #[test]
    fn parse_one_or_several_servers() {
        let many = format!("postgres://{}/x", ["h"; 6].join(","));
        for (url, expected) in [
            ("postgres://a/x", Ok(&["host=a&dbname=x"][..])),
            ("postgres:///x?host=/run/pg", Ok(&["host=%2Frun%2Fpg&dbname=x"])),
            ("postgres://%2Frun%2Fpg:7/x", Ok(&["host=%2Frun%2Fpg&port=7&dbname=x"])),
            ("postgres://u:p@/x?host=/cloud:a:b", Ok(&["host=%2Fcloud%3Aa%3Ab&dbname=x&user=u&password=p"])),
            ("postgres://a", Ok(&["host=a"])),
            ("postgres://", Ok(&[""])),
            ("postgres://:7", Ok(&["port=7"])),
            ("postgres://a,b/x", Ok(&["host=a&dbname=x", "host=b&dbname=x"])),
            (
                "postgresql://u:p%40,@a:1,b:2/x?target_session_attrs=read-write&sslmode=require",
                Ok(&[
                    "host=a&port=1&dbname=x&user=u&password=p%40%2C&sslmode=require",
                    "host=b&port=2&dbname=x&user=u&password=p%40%2C&sslmode=require",
                ]),
            ),
            (
                "postgres://u@[::1]:1,[::2]/x?target_session_attrs=primary",
                Ok(&["host=%3A%3A1&port=1&dbname=x&user=u", "host=%3A%3A2&dbname=x&user=u"]),
            ),
            ("postgres:///x?host=a,b&port=1,2", Ok(&["host=a&port=1&dbname=x", "host=b&port=2&dbname=x"])),
            ("postgres:///x?host=a,b&port=1", Ok(&["host=a&port=1&dbname=x", "host=b&port=1&dbname=x"])),
            ("postgres://a:1/x?host=b&dbname=y", Ok(&["host=b&port=1&dbname=y"])),
            ("postgres://a/x?hostaddr=::1", Ok(&["host=%3A%3A1&dbname=x"])),
            (
                "postgres://u:p@a/x?user=v+w&password=q+&sslmode=require",
                Ok(&["host=a&dbname=x&user=v%2Bw&password=q%2B&sslmode=require"]),
            ),
            ("postgres://:p@a/x", Ok(&["host=a&dbname=x&password=p"])),
            ("postgres://u:p:p@ss@a/x", Ok(&["host=a&dbname=x&user=u&password=p%3Ap%40ss"])),
            ("postgres://u:5%@a/x", Ok(&["host=a&dbname=x&user=u&password=5%25"])),
            ("postgres://u:@a/x?options[a]=b&passwrod=q", Ok(&["host=a&dbname=x&user=u&options%5Ba%5D=b"])),
            ("postgres://a/x#1", Ok(&["host=a&dbname=x%231"])),
            ("postgres://a/x?ssl=true", Ok(&["host=a&dbname=x&sslmode=require"])),
            ("postgres://a/x?sslrootcert=system", Ok(&["host=a&dbname=x&sslmode=verify-full"])),
            ("postgres://a/x?channel_binding=prefer", Ok(&["host=a&dbname=x"])),
            ("postgres://a,b/x?target_session_attrs=any", Err("read-write or primary")),
            ("postgres://a/x?host=a,b&port=1,2,3", Err("3 ports for 2 servers")),
            ("postgres://a/x?sslmode=none", Err("sslmode: must be one of")),
            ("postgres://a/x?ssl=false", Err("ssl: must be true")),
            ("postgres://a/x?ssl=true&sslmode=disable", Err("leave one of")),
            ("postgres://a/x?sslrootcert=system&sslmode=require", Err("needs sslmode=verify-full")),
            ("postgres://a/x?hostaddr=b", Err("hostaddr: is not an address")),
            ("postgres://a/x?hostaddr=::1,::2", Err("hostaddr: must have an address for each host")),
            ("postgres://a/x?hostaddr=::1&sslmode=verify-full", Err("hostaddr: with sslmode=verify-full")),
            ("postgres://a/x?hostaddr=::1&sslrootcert=system", Err("hostaddr: with sslmode=verify-full")),
            (
                "postgres:///x?hostaddr=::1&sslmode=verify-full",
                Ok(&["host=%3A%3A1&dbname=x&sslmode=verify-full"]),
            ),
            (
                "postgres://a/x?hostaddr=::1&sslmode=verify-ca",
                Ok(&["host=%3A%3A1&dbname=x&sslmode=verify-ca"]),
            ),
            // Options of libpq after a password, or with an @.
            ("postgres://a/x?password=p&connect_timeout=10", Ok(&["host=a&dbname=x&password=p"])),
            ("postgres://a/x?password=p&keepalives=1", Ok(&["host=a&dbname=x&password=p"])),
            ("postgres://a:1/x?user=me@corp", Ok(&["host=a&port=1&dbname=x&user=me%40corp"])),
            ("postgres://a:1/x?user=me@corp&secret@b", Err(UNENCODED)),
            ("postgres://a/x?password=p&channel_binding=require", Err("channel_binding asks for")),
            ("postgres://a/x?sslmdoe=require", Err("sslmdoe is not an option of libpq")),
            ("postgres://a/x?connect_timeout", Err("connect_timeout: has no value")),
            ("postgres://a/x?statement-cache-capacity=b", Err("statement-cache-capacity: must be a number")),
            ("postgres://a/x?sslkey=-----BEGIN PRIVATE KEY-----", Err("sslkey: must be the name of a file")),
            ("postgres://a/x?sslcertmode=disable", Ok(&["host=a&dbname=x"])),
            ("postgres://a/x?sslcertmode=disable&sslcert=/c&sslkey=/k", Err("sslcertmode=disable asks")),
            ("postgres://a,/x", Err("empty host name")),
            ("postgres://a:0/x", Err("port: must be")),
            ("postgres://::1/x", Err("[ADDRESS]")),
            ("postgres://[::1/x", Err("[ADDRESS]")),
            ("postgres://@%40abstract/x", Err("name a folder")),
            ("postgres://a/x%00", Err("%00")),
            ("postgres://a/x%0Ay", Err("control character")),
            ("postgres://a/%ff", Err("not UTF-8")),
            ("postgres://a/x\npostgres://b/x", Err("more than one line")),
            ("sqlite://a", Err("postgres://")),
            (many.as_str(), Err("at most 5")),
        ] {
            let parsed = parse(url).map(|parsed| parsed.target.urls(&parsed.login));
            match (parsed, expected) {
                (Ok(found), Ok(expected)) => {
                    let expected: Vec<String> =
                        expected.iter().map(|url| format!("postgres:///?{url}")).collect();
                    assert_eq!(found, expected, "{url}");
                }
                (Err(said), Err(expected)) => assert!(said.contains(expected), "{url}: {said}"),
                (found, expected) => panic!("{url}: {found:?}, not {expected:?}"),
            }
        }
        let ignored = parse("postgres://a/x?passwrod=q").map(|parsed| parsed.ignored);
        assert_eq!(ignored.ok(), Some(vec!["passwrod".to_owned()]));
    }

    /// A password with a character that ends it early: its rest looks like a host, a database or an option.
    #[test]
    fn parse_error_does_not_quote_password() {
        for password in ["12/se", "x?se", "x#se", "x@y/se", "x@y?se=1", "x@y#se", "x@y/a?se=1", "x@y?a=se"] {
            let url = format!("postgres://u:{password}cret@host/x");
            let said = parse(&url).err().expect(&url);
            assert!([UNENCODED, UNKNOWN].contains(&&*said), "{url}: {said}");
        }
        let options = ["x&secret=y", "x&sslsecret=y", "x&secret", "x&user", "x&a secret=y"];
        for (option, expected) in options.into_iter().zip([UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN, UNENCODED]) {
            let url = format!("postgres://u@a/x?password={option}");
            let said = parse(&url).err().expect(&url);
            assert_eq!(said, expected, "{url}");
        }
    }

    #[test]
    fn decode_percent_without_digits_is_literal() {
        assert_eq!(decoded("aZ0%3A%2f%40%3F%23%25%C3%A9%20+%%2").as_deref(), Ok("aZ0:/@?#%é +%%2"));
    }
}
