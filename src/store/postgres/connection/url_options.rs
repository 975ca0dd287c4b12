//! How an option of a URL is handled: it is passed to the driver, or has no effect because the ledger behaves so anyway, or is
//! refused.
//!
//! The driver ignores options that it does not know. If an ignored option asks for safety, the connection is less safe than
//! its URL says: such an option is refused, in the URL and in the environment.

/// The options that the driver knows. The driver would log any other with its value, which may be a secret.
const DRIVER: [&str; 11] = [
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
    "application_name",
];

/// Options that set the TLS mode.
pub(in crate::store::postgres) const MODES: [&str; 2] = ["sslmode", "ssl-mode"];

/// Options that name the certificate authority of the server.
pub(in crate::store::postgres) const ROOTS: [&str; 3] = ["sslrootcert", "ssl-root-cert", "ssl-ca"];

/// Options that name the client's certificate; [`KEYS`] name its key.
pub(in crate::store::postgres) const CERTIFICATES: [&str; 2] = ["sslcert", "ssl-cert"];
pub(in crate::store::postgres) const KEYS: [&str; 2] = ["sslkey", "ssl-key"];

/// The option whose value `disable` keeps libpq from sending a client's certificate.
pub(in crate::store::postgres) const CERTIFICATE_MODE: &str = "sslcertmode";

/// The option for which the driver's error describes the wrong number, but does not name the option.
pub(in crate::store::postgres) const CACHE: &str = "statement-cache-capacity";

/// The other options of libpq, which the ledger reads itself or ignores.
const LIBPQ: [&str; 30] = [
    "host",
    "hostaddr",
    "port",
    "dbname",
    "user",
    "password",
    "ssl",
    "target_session_attrs",
    "options",
    "client_encoding",
    "connect_timeout",
    "fallback_application_name",
    "gssdelegation",
    "gsslib",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "krbsrvname",
    "load_balance_hosts",
    "max_protocol_version",
    "oauth_client_id",
    "oauth_client_secret",
    "oauth_scope",
    "ssl_max_protocol_version",
    "sslcompression",
    "sslkeylogfile",
    "tcp_user_timeout",
    "authtype",
    "tty",
];

/// Prefixes, in lower case, of unknown options that probably ask for safety: `sslMode` and `sslaccept` of other drivers, a
/// misspelt `sslmdoe`.
const SAFETY: [&str; 8] = ["auth", "channel", "gss", "oauth", "require", "scram", "ssl", "tls"];

/// An option of libpq that the driver does not support, and that must not be ignored.
struct RefusedOption {
    name: &'static str,
    /// The environment variable of libpq for the option; empty if libpq does not have one.
    variable: &'static str,
    /// Values that ask for what the ledger does anyway. An empty value is libpq's default.
    same: &'static [&'static str],
    /// Why any other value is refused, and what to write.
    why: &'static str,
}

const fn refused(
    name: &'static str,
    variable: &'static str,
    same: &'static [&'static str],
    why: &'static str,
) -> RefusedOption {
    RefusedOption { name, variable, same, why }
}

const REFUSED: [RefusedOption; 20] = [
    refused(
        "channel_binding",
        "PGCHANNELBINDING",
        &["prefer", "disable"],
        "passwords are not bound to the TLS channel: leave it out; sslmode=verify-full verifies the server",
    ),
    refused(
        "require_auth",
        "PGREQUIREAUTH",
        &[],
        "the method of authentication is the server's choice: leave it out; sslmode=verify-full verifies the server",
    ),
    refused(
        "sslcertmode",
        "PGSSLCERTMODE",
        // `disable` is refused where a certificate is named: see `url_tls.rs`.
        &["allow", "disable"],
        "a certificate is sent where sslcert and sslkey name one and the server asks for it: leave it out, and ask \
         for certificates in pg_hba.conf",
    ),
    refused(
        "sslnegotiation",
        "PGSSLNEGOTIATION",
        &["postgres"],
        "TLS begins after a request in Postgres' own protocol: leave it out",
    ),
    refused(
        "sslcrl",
        "PGSSLCRL",
        &[],
        "revocation lists are not read: leave it out, and rotate the authority",
    ),
    refused(
        "sslcrldir",
        "PGSSLCRLDIR",
        &[],
        "revocation lists are not read: leave it out, and rotate the authority",
    ),
    refused(
        "sslpassword",
        "",
        &[],
        "an encrypted key is not read: decrypt it into a file that only the server can read \
         (openssl pkey -in ENCRYPTED -out KEY), and leave it out",
    ),
    refused(
        "ssl_min_protocol_version",
        "PGSSLMINPROTOCOLVERSION",
        &["TLSv1", "TLSv1.1", "TLSv1.2"],
        "TLS 1.2 and 1.3 are spoken: leave it out, and set ssl_min_protocol_version of the Postgres server",
    ),
    refused(
        "gssencmode",
        "PGGSSENCMODE",
        &["prefer", "disable"],
        "GSSAPI is not spoken: use sslmode=verify-full",
    ),
    refused("requirepeer", "PGREQUIREPEER", &[], "the owner of a socket is not asked for: leave it out"),
    refused("requiressl", "PGREQUIRESSL", &["0"], "write sslmode=verify-full, or sslmode=require"),
    refused("sslsni", "PGSSLSNI", &["1"], "the server's name is sent in the handshake: leave it out"),
    refused("replication", "", &["0", "false", "off", "no"], "the ledger is not a standby: leave it out"),
    refused(
        "service",
        "PGSERVICE",
        &[],
        "pg_service.conf is not read: write what the service says into the URL",
    ),
    refused("servicefile", "", &[], "pg_service.conf is not read: write what the service says into the URL"),
    refused(
        "passfile",
        "",
        &[],
        "use database_password_file, or name the file in the environment variable PGPASSFILE",
    ),
    refused("min_protocol_version", "PGMINPROTOCOLVERSION", &["3.0"], "protocol 3.0 is spoken: leave it out"),
    refused(
        "scram_client_key",
        "",
        &[],
        "keys of SCRAM are not used: use a password or a client certificate",
    ),
    refused(
        "scram_server_key",
        "",
        &[],
        "keys of SCRAM are not used: use a password or a client certificate",
    ),
    refused("oauth_issuer", "", &[], "OAuth is not spoken: use a password or a client certificate"),
];

/// Whether libpq or the driver has an option with this name. Any other name may be the rest of a password.
pub(in crate::store::postgres) fn is_known(name: &str) -> bool {
    let is_refused = || REFUSED.iter().any(|option| option.name == name);
    LIBPQ.contains(&name) || DRIVER.contains(&name) || is_refused()
}

/// How an option that is not refused is handled.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::store::postgres) enum Becomes {
    /// It is passed to the driver.
    Driver,
    /// It asks for what the ledger does anyway.
    Nothing,
    /// It is unknown, or the ledger does not leave this choice to the URL: a warning names it.
    Warning,
}

/// # Errors
/// The name of the option and the reason for its refusal, without its value.
pub(in crate::store::postgres) fn becomes(name: &str, value: &str) -> Result<Becomes, String> {
    if let Some(option) = REFUSED.iter().find(|option| option.name == name) {
        if value.is_empty() || option.same.contains(&value) {
            return Ok(Becomes::Nothing);
        }
        return Err(format!("{name} asks for what the ledger does not do: {}", option.why));
    }
    if DRIVER.contains(&name) || name == "options" || name.starts_with("options[") {
        return Ok(Becomes::Driver);
    }
    let is_libpqs =
        ["sslcompression", "sslkeylogfile", "ssl_max_protocol_version", "gsslib", "gssdelegation"];
    let lower = name.to_ascii_lowercase();
    if !is_libpqs.contains(&name) && SAFETY.iter().any(|word| lower.starts_with(word)) {
        return Err(format!(
            "{name} is not an option of libpq, and may ask for safety: sslmode=verify-full and sslrootcert=FILE \
             (the authority of the server's certificate) do"
        ));
    }
    Ok(Becomes::Warning)
}

/// Checks libpq's environment variables by the same table.
///
/// # Errors
/// The first variable whose request is refused, without its value.
pub(in crate::store::postgres) fn check_environment(
    get: impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    for option in REFUSED.iter().filter(|option| !option.variable.is_empty()) {
        let value = get(option.variable).unwrap_or_default();
        if !value.is_empty() && !option.same.contains(&value.as_str()) {
            return Err(format!(
                "the environment variable {} asks for what the ledger does not do: {}",
                option.variable, option.why
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_safety_option_is_refused() {
        for (name, value, refused) in [
            ("channel_binding", "require", true),
            ("channel_binding", "prefer", false),
            ("require_auth", "scram-sha-256", true),
            ("require_auth", "", false),
            ("sslcertmode", "require", true),
            ("sslcertmode", "disable", false),
            ("sslnegotiation", "direct", true),
            ("sslnegotiation", "postgres", false),
            ("sslcrl", "/crl.pem", true),
            ("sslpassword", "x", true),
            ("ssl_min_protocol_version", "TLSv1.2", false),
            ("ssl_min_protocol_version", "TLSv1.3", true),
            ("gssencmode", "require", true),
            ("requirepeer", "postgres", true),
            ("requiressl", "1", true),
            ("service", "x", true),
            ("passfile", "/x", true),
            ("sslMode", "VERIFY_IDENTITY", true),
            ("sslaccept", "strict", true),
            ("sslmdoe", "verify-full", true),
            ("tls", "true", true),
            ("oauth_client_secret", "x", true),
            ("sslcompression", "1", false),
            ("connect_timeout", "10", false),
            ("pgbouncer", "true", false),
        ] {
            let found = becomes(name, value);
            assert_eq!(found.is_err(), refused, "{name}={value}: {found:?}");
            if let Err(text) = found {
                assert!(text.starts_with(name), "{name}: {text}");
            }
        }
        assert_eq!(becomes("sslmode", "require"), Ok(Becomes::Driver));
        assert_eq!(becomes("options[a]", "b"), Ok(Becomes::Driver));
        assert_eq!(becomes("connect_timeout", "10"), Ok(Becomes::Warning));
    }

    #[test]
    fn options_of_libpq_and_of_the_driver_are_known() {
        for name in ["connect_timeout", "channel_binding", "sslmode", "ssl-ca", "oauth_issuer", "user"] {
            assert!(is_known(name), "{name}");
        }
        for name in ["sslmdoe", "passwrod", "secret", "options[a]", ""] {
            assert!(!is_known(name), "{name}");
        }
    }

    #[test]
    fn unsupported_safety_variable_is_refused() {
        for (name, value, refused) in [
            ("PGCHANNELBINDING", "require", true),
            ("PGCHANNELBINDING", "", false),
            ("PGSSLNEGOTIATION", "postgres", false),
            ("PGREQUIREAUTH", "scram-sha-256", true),
            ("PGSERVICE", "x", true),
            ("PGUSER", "x", false),
        ] {
            let found = check_environment(|asked| (asked == name).then(|| value.to_owned()));
            assert_eq!(found.is_err(), refused, "{name}={value}: {found:?}");
        }
    }
}
