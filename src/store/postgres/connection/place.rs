//! Whereto a connection goes, and who connects, as the driver takes it.

use std::fs::File;

use crate::store::postgres::connection::url_options::{CERTIFICATES, KEYS, MODES, ROOTS};

/// Where the driver reads the authority that the URL does not name.
pub(in crate::store::postgres) const ROOT_VARIABLE: &str = "PGSSLROOTCERT";

/// Who connects.
#[derive(Clone, Default, PartialEq, Eq)]
pub(in crate::store::postgres) struct Login {
    pub(in crate::store::postgres) user: Option<String>,
    pub(in crate::store::postgres) password: Option<String>,
}

/// Whereto, and how.
#[derive(Clone, Default, PartialEq, Eq)]
pub(in crate::store::postgres) struct Place {
    /// Names, addresses and folders of sockets; empty where the driver's default is meant.
    pub(in crate::store::postgres) hosts: Vec<String>,
    /// One for each host, or one for all; empty where the driver's default is meant.
    pub(in crate::store::postgres) ports: Vec<String>,
    pub(in crate::store::postgres) database: Option<String>,
    /// Options of the driver, with their values.
    pub(in crate::store::postgres) options: Vec<(String, String)>,
    /// Variables that the driver reads, since no option names such a file: each with its value.
    pub(in crate::store::postgres) variables: Vec<(&'static str, String)>,
}

/// Whether an option names a file.
pub(in crate::store::postgres) fn is_file(option: &str) -> bool {
    [&ROOTS[..], &CERTIFICATES, &KEYS].iter().any(|names| names.contains(&option))
}

/// Whether a text is taken for a certificate or a key itself, and not for the name of its file. The driver does so with
/// variables alone: by the same two words.
pub(in crate::store::postgres) fn is_inline(text: &str) -> bool {
    let text = text.trim();
    text.starts_with("-----BEGIN") && text.ends_with("-----")
}

impl Place {
    /// The first file of certificates and keys that cannot be read, by its option or its variable: the driver does not
    /// name it.
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

    /// Whether an option says how much of TLS is asked for.
    pub(in crate::store::postgres) fn has_mode(&self) -> bool {
        self.has(&MODES)
    }

    /// Whether an option or a variable names the authority of the server's certificate.
    pub(in crate::store::postgres) fn has_root(&self) -> bool {
        self.has(&ROOTS) || self.variables.iter().any(|(name, _)| *name == ROOT_VARIABLE)
    }

    /// Whether an option with one of these names has a value: without one the driver is not given it.
    pub(in crate::store::postgres) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|(name, value)| names.contains(&&**name) && !value.is_empty())
    }

    /// One URL for each server, in which all is an option.
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

/// A text as a URL holds it.
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
    fn any_text_can_stand_in_a_url() {
        assert_eq!(encoded("aZ0:/@?#%é "), "aZ0%3A%2F%40%3F%23%25%C3%A9%20");
    }
}
