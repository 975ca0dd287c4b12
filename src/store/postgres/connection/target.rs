//! The target and the login of a connection, in the form that the driver accepts.

use std::fs::File;

use crate::store::postgres::connection::url_options::{CERTIFICATES, KEYS, MODES, ROOTS};

/// The variable from which the driver reads the certificate authority if the URL does not name one.
pub(in crate::store::postgres) const ROOT_VARIABLE: &str = "PGSSLROOTCERT";

/// User and password.
#[derive(Clone, Default, PartialEq, Eq)]
pub(in crate::store::postgres) struct Login {
    pub(in crate::store::postgres) user: Option<String>,
    pub(in crate::store::postgres) password: Option<String>,
}

/// Servers, database and options of a connection.
#[derive(Clone, Default, PartialEq, Eq)]
pub(in crate::store::postgres) struct Target {
    /// Names, addresses and folders of sockets; an empty one is the driver's default.
    pub(in crate::store::postgres) hosts: Vec<String>,
    /// One port for each host, or one for all; an empty one is the driver's default.
    pub(in crate::store::postgres) ports: Vec<String>,
    pub(in crate::store::postgres) database: Option<String>,
    /// Options of the driver, with their values.
    pub(in crate::store::postgres) options: Vec<(String, String)>,
    /// Environment variables that name files for the driver, with their values, where no option does.
    pub(in crate::store::postgres) variables: Vec<(&'static str, String)>,
}

/// Whether an option names a file.
pub(in crate::store::postgres) fn is_file(option: &str) -> bool {
    [&ROOTS[..], &CERTIFICATES, &KEYS].iter().any(|names| names.contains(&option))
}

/// Whether the driver takes a text for a certificate or a key itself, and not for the name of a file. It does so only for
/// variables, by the same two markers.
pub(in crate::store::postgres) fn is_inline(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("-----BEGIN") && text.ends_with("-----")
}

impl Target {
    /// The first file of certificates or keys that cannot be read, with its option or variable: the driver's error does not
    /// name it. `None` if all can be read.
    pub(in crate::store::postgres) fn unreadable(&self) -> Option<String> {
        let options = self.options.iter().filter(|(name, _)| is_file(name));
        let options = options.map(|(name, path)| (name.clone(), path));
        let variables = self.variables.iter().filter(|(_, path)| !is_inline(path));
        let variables = variables.map(|(name, path)| (format!("the environment variable {name}"), path));
        options.chain(variables).find_map(|(name, path)| {
            let error = File::open(path).err()?;
            Some(format!("{name}: {path}: {error}"))
        })
    }

    /// Whether an option sets the TLS mode.
    pub(in crate::store::postgres) fn has_mode(&self) -> bool {
        self.has(&MODES)
    }

    /// Whether an option or a variable names the certificate authority of the server.
    pub(in crate::store::postgres) fn has_root(&self) -> bool {
        self.has(&ROOTS) || self.variables.iter().any(|(name, _)| *name == ROOT_VARIABLE)
    }

    /// Whether one of these options has a value: an option without a value is not passed to the driver.
    pub(in crate::store::postgres) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, value)| names.contains(&&**name) && !value.is_empty())
    }

    /// One URL for each server, with every part as an option.
    pub(in crate::store::postgres) fn urls(&self, login: &Login) -> Vec<String> {
        let of = |(number, host): (usize, &String)| {
            let port = self.ports.get(number).or(self.ports.first().filter(|_| self.ports.len() == 1));
            let parts = [
                ("host", Some(host)),
                ("port", port),
                ("dbname", self.database.as_ref()),
                ("user", login.user.as_ref()),
                ("password", login.password.as_ref()),
            ];
            let parts = parts.into_iter().filter_map(|(name, value)| Some((name, value?)));
            let options = self.options.iter().map(|(name, value)| (name.as_str(), value));
            let all = parts.chain(options).filter(|(_, value)| !value.is_empty());
            let all: Vec<String> =
                all.map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
            format!("postgres:///?{}", all.join("&"))
        };
        self.hosts.iter().enumerate().map(of).collect()
    }
}

/// Percent-encodes a text for a URL.
fn encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._".contains(&byte) {
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
    fn urls_encode_any_text() {
        assert_eq!(encoded("aZ0:/@?#%é "), "aZ0%3A%2F%40%3F%23%25%C3%A9%20");
    }
}
