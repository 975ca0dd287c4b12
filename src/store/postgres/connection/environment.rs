//! Fills in what a URL leaves out from the environment variables of libpq, by the rules of libpq.
//!
//! The driver reads these variables too, but ignores values that it does not understand: with `PGPORT=5432,5433` or
//! `PGPORT=543x` it would connect to port 5432, which may be another database. So every value that the driver would read is
//! filled in here, before [`PgUrl`] is checked as a whole.

use crate::store::postgres::connection::target::ROOT_VARIABLE;
use crate::store::postgres::connection::url::PgUrl;
use crate::store::postgres::connection::url_options::{CERTIFICATES, KEYS, MODES, ROOTS};

/// The port that libpq uses for an empty entry in a list of ports.
const PORT_DEFAULT: &str = "5432";

/// The variables that name files, each with the options that override it.
const FILES: [(&str, &[&str]); 3] =
    [(ROOT_VARIABLE, &ROOTS), ("PGSSLCERT", &CERTIFICATES), ("PGSSLKEY", &KEYS)];

impl PgUrl {
    /// # Errors
    /// Names the first variable that cannot be used, without its value.
    pub(in crate::store::postgres) fn fill_in(
        &mut self,
        get: impl Fn(&str) -> Option<String>,
    ) -> Result<(), String> {
        self.hosts(&get)?;
        if let Some(ports) = get("PGPORT").filter(|ports| !ports.is_empty()) {
            let empty = self.target.ports.iter_mut().filter(|port| port.is_empty());
            if self.has_ports {
                empty.for_each(|port| PORT_DEFAULT.clone_into(port));
            } else {
                self.target.ports = list(&ports);
                self.stands.port = "the environment variable PGPORT";
            }
        }
        let has_mode = self.says_ssl || self.target.options.iter().any(|(name, _)| MODES.contains(&&**name));
        if let Some(mode) = get("PGSSLMODE").filter(|_| !has_mode) {
            self.target.options.push(("sslmode".into(), mode));
            self.stands.mode = "the environment variable PGSSLMODE";
        }
        if let Some(mode) = get("PGSSLCERTMODE").filter(|_| self.certificate_mode.is_none()) {
            self.certificate_mode = Some(mode);
            self.stands.certificate_mode = "the environment variable PGSSLCERTMODE";
        }
        FILES.iter().try_for_each(|(variable, options)| self.file(variable, options, get(variable)))
    }

    fn hosts(&mut self, get: impl Fn(&str) -> Option<String>) -> Result<(), String> {
        let [host, address] = ["PGHOST", "PGHOSTADDR"].map(&get);
        let has_host = self.target.hosts.iter().any(|host| !host.is_empty());
        if let Some(addresses) = address.as_ref().filter(|text| !text.is_empty() && self.addresses.is_empty())
        {
            // libpq would connect to this address, whatever host the URL names.
            if has_host {
                return Err(
                    "the environment variable PGHOSTADDR names an address, and the URL a host: remove the variable, or \
                     write hostaddr into the URL"
                        .into(),
                );
            }
            self.addresses = list(addresses);
            self.stands.address = "the environment variable PGHOSTADDR";
        }
        if let Some(hosts) = host.as_ref().filter(|text| !text.is_empty() && !has_host) {
            if hosts.contains(char::is_control) {
                return Err("the environment variable PGHOST: has a control character".into());
            }
            self.target.hosts = list(hosts);
            self.stands.host = "the environment variable PGHOST";
        } else if !has_host && self.addresses.is_empty() {
            // The driver would use the empty text as a host.
            for (variable, value) in [("PGHOSTADDR", address), ("PGHOST", host)] {
                not_empty(variable, value.as_deref())?;
            }
        }
        Ok(())
    }

    /// Fills in a file of certificates or a key. An option of the URL overrides the variable.
    fn file(
        &mut self,
        variable: &'static str,
        options: &[&str],
        value: Option<String>,
    ) -> Result<(), String> {
        let Some(value) = value else { return Ok(()) };
        let of_system = |(name, value): &(String, String)| options.contains(&&**name) && value == "system";
        let is_system = variable == ROOT_VARIABLE && self.target.options.iter().any(of_system);
        if self.target.has(options) && !is_system {
            return Ok(());
        }
        // The driver would use the empty text as the name of a file.
        not_empty(variable, Some(&value))?;
        if variable == ROOT_VARIABLE && (is_system || value == "system") {
            return Err(format!(
                "the environment variable {variable} would come before sslrootcert=system, and is read as the name of a \
                 file: remove it, and write sslrootcert=system into the URL"
            ));
        }
        self.target.variables.push((variable, value));
        Ok(())
    }
}

fn not_empty(variable: &str, value: Option<&str>) -> Result<(), String> {
    if value == Some("") {
        return Err(format!("the environment variable {variable} is empty: remove it"));
    }
    Ok(())
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_fill_in_what_the_url_leaves_out() {
        for (url, variables, expected) in [
            ("postgres://a/x", &[("PGPORT", "7")][..], Ok("host=a&port=7&dbname=x")),
            ("postgres://a:1/x", &[("PGPORT", "7x")], Ok("host=a&port=1&dbname=x")),
            ("postgres://a/x", &[("PGPORT", "")], Ok("host=a&dbname=x")),
            ("postgres://a/x", &[("PGPORT", "7x")], Err("PGPORT: must be a number")),
            ("postgres://a/x", &[("PGPORT", "7,7")], Err("PGPORT: names 2 ports for 1 servers")),
            (
                "postgres:///x?host=a,b",
                &[("PGPORT", "7,8")],
                Ok("host=a&port=7&dbname=x|host=b&port=8&dbname=x"),
            ),
            // The URL has ports for several servers, though each of them is empty.
            (
                "postgres://a,b/x",
                &[("PGPORT", "7")],
                Ok("host=a&port=5432&dbname=x|host=b&port=5432&dbname=x"),
            ),
            ("postgres:///x", &[("PGHOST", "a,b")], Ok("host=a&dbname=x|host=b&dbname=x")),
            ("postgres://:7/x", &[("PGHOST", "a")], Ok("host=a&port=7&dbname=x")),
            ("postgres://a/x", &[("PGHOST", "b,c")], Ok("host=a&dbname=x")),
            ("postgres:///x", &[("PGHOST", "@a")], Err("PGHOST: a socket without a file")),
            ("postgres:///x", &[("PGHOST", "a\n")], Err("PGHOST: has a control character")),
            ("postgres:///x", &[("PGHOST", "")], Err("PGHOST is empty")),
            ("postgres:///x", &[("PGHOSTADDR", "")], Err("PGHOSTADDR is empty")),
            ("postgres:///x", &[("PGHOSTADDR", ""), ("PGHOST", "a")], Ok("host=a&dbname=x")),
            ("postgres:///x", &[("PGHOSTADDR", "::1")], Ok("host=%3A%3A1&dbname=x")),
            ("postgres:///x", &[("PGHOSTADDR", "a")], Err("PGHOSTADDR: is not an address")),
            (
                "postgres:///x",
                &[("PGHOSTADDR", "::1,::2"), ("PGHOST", "a")],
                Err("PGHOSTADDR: must have an address for each host"),
            ),
            (
                "postgres:///x",
                &[("PGHOSTADDR", "::1,"), ("PGHOST", "a,b")],
                Ok("host=%3A%3A1&dbname=x|host=b&dbname=x"),
            ),
            ("postgres://a/x", &[("PGHOSTADDR", "")], Ok("host=a&dbname=x")),
            (
                "postgres://a/x",
                &[("PGHOSTADDR", "::1")],
                Err("PGHOSTADDR names an address, and the URL a host"),
            ),
            (
                "postgres:///x?sslmode=verify-full",
                &[("PGHOSTADDR", "::1"), ("PGHOST", "a")],
                Err("PGHOSTADDR: with sslmode=verify-full"),
            ),
            ("postgres://a/x", &[("PGSSLMODE", "require")], Ok("host=a&dbname=x&sslmode=require")),
            (
                "postgres://a/x?sslmode=disable",
                &[("PGSSLMODE", "require")],
                Ok("host=a&dbname=x&sslmode=disable"),
            ),
            ("postgres://a/x", &[("PGSSLMODE", "sometimes")], Err("PGSSLMODE: must be one of")),
            ("postgres://a/x", &[("PGSSLMODE", "")], Err("PGSSLMODE: must be one of")),
            (
                "postgres://a/x?sslrootcert=system",
                &[("PGSSLMODE", "require")],
                Err("needs sslmode=verify-full"),
            ),
            ("postgres://a/x", &[("PGSSLROOTCERT", "")], Err("PGSSLROOTCERT is empty")),
            ("postgres://a/x", &[("PGSSLROOTCERT", "system")], Err("write sslrootcert=system into the URL")),
            (
                "postgres://a/x?sslrootcert=system",
                &[("PGSSLROOTCERT", "/b")],
                Err("PGSSLROOTCERT would come"),
            ),
            (
                "postgres://a/x?sslrootcert=/a",
                &[("PGSSLROOTCERT", "")],
                Ok("host=a&dbname=x&sslrootcert=%2Fa"),
            ),
            ("postgres://a/x", &[("PGSSLKEY", "")], Err("PGSSLKEY is empty")),
            ("postgres://a/x", &[("PGSSLCERTMODE", "disable")], Ok("host=a&dbname=x")),
            (
                "postgres://a/x",
                &[("PGSSLCERTMODE", "disable"), ("PGSSLCERT", "/c")],
                Err("PGSSLCERTMODE=disable asks for no client certificate"),
            ),
        ] {
            let get = |asked: &str| {
                variables.iter().find(|(name, _)| *name == asked).map(|(_, value)| (*value).to_owned())
            };
            let found = PgUrl::parse(url, get).map(|parsed| parsed.target.urls(&parsed.login).join("|"));
            let found = found.map(|urls| urls.replace("postgres:///?", ""));
            match (&found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{url} {variables:?}"),
                (Err(said), Err(says)) => assert!(said.contains(says), "{url} {variables:?}: {said}"),
                _ => panic!("{url} {variables:?}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn unreadable_file_is_reported_with_its_variable() {
        let get = |asked: &str| (asked == ROOT_VARIABLE).then(|| "/none/root.crt".to_owned());
        let target = PgUrl::parse("postgres://a/x", get).map(|parsed| parsed.target).ok().unwrap_or_default();
        let said = target.unreadable().unwrap_or_default();
        assert!(said.starts_with("the environment variable PGSSLROOTCERT: /none/root.crt: "), "{said}");
        assert!(target.has_root(), "it is the authority that sslmode=require verifies");
    }
}
