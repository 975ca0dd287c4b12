//! TLS of connections to Postgres. The driver's default, `prefer`, falls back to plain text if the server, or a machine in
//! between, does not offer TLS. So a connection to another machine needs an explicit mode.

use std::net::IpAddr;

use sqlx::postgres::{PgConnectOptions, PgSslMode};

/// A mode, as written in URLs.
pub(in crate::store::postgres) fn word(mode: PgSslMode) -> &'static str {
    match mode {
        PgSslMode::Disable => "disable",
        PgSslMode::Allow => "allow",
        PgSslMode::Prefer => "prefer",
        PgSslMode::Require => "require",
        PgSslMode::VerifyCa => "verify-ca",
        PgSslMode::VerifyFull => "verify-full",
    }
}

/// Applies libpq's meaning of the mode: no TLS over a Unix socket, and `require` verifies the certificate authority if one is
/// named. The driver would ask for TLS on the socket, in vain, and would not verify the authority.
pub(in crate::store::postgres) fn as_libpq(options: PgConnectOptions, names_root: bool) -> PgConnectOptions {
    let is_required = matches!(options.get_ssl_mode(), PgSslMode::Require);
    if options.get_socket().is_some() || options.get_host().starts_with('/') {
        return options.ssl_mode(PgSslMode::Disable);
    }
    if is_required && names_root { options.ssl_mode(PgSslMode::VerifyCa) } else { options }
}

/// Refuses servers on other machines if no mode is set.
///
/// # Errors
/// Names the first such server, and what to write.
pub(in crate::store::postgres) fn check(
    servers: &[PgConnectOptions],
    is_written: bool,
) -> Result<(), String> {
    match servers.iter().find(|server| !is_local(server)) {
        Some(server) if !is_written => Err(format!(
            "names the server {} on another machine and no sslmode, so that passwords and rows could be sent in clear: \
             append ?sslmode=verify-full&sslrootcert=FILE (the authority of the server's certificate), or \
             ?sslmode=disable if all of the network in between is trusted",
            server.get_host()
        )),
        Some(_) | None => Ok(()),
    }
}

/// Warns of a mode that does not verify the server's identity.
pub(in crate::store::postgres) fn warn(servers: &[PgConnectOptions]) {
    for (host, sslmode) in unverified(servers) {
        tracing::warn!(
            host,
            sslmode,
            "the certificate of the database is not verified: a machine in between could read and change everything; \
             sslmode=verify-full verifies it"
        );
    }
}

/// The servers on other machines whose certificate and name are not both verified, each with its mode.
fn unverified(servers: &[PgConnectOptions]) -> impl Iterator<Item = (&str, &'static str)> {
    servers
        .iter()
        .filter(|server| !is_local(server))
        .map(|server| (server.get_host(), word(server.get_ssl_mode())))
        .filter(|(_, mode)| *mode != word(PgSslMode::VerifyFull))
}

/// Whether a server is on this machine: behind a Unix socket, or at a loopback address.
fn is_local(server: &PgConnectOptions) -> bool {
    let host = server.get_host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    server.get_socket().is_some()
        || host.starts_with('/')
        || host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use std::str::FromStr as _;

    use super::*;

    fn servers(urls: &[&str]) -> Vec<PgConnectOptions> {
        urls.iter().map(|url| PgConnectOptions::from_str(url).expect(url)).collect()
    }

    #[test]
    fn check_remote_server_without_mode_is_refused() {
        for (urls, refused) in [
            (&["postgres://127.0.0.1/x"][..], None),
            (&["postgres://127.8.8.8:1/x"], None),
            (&["postgres://[::1]/x"], None),
            (&["postgres://[::ffff:127.0.0.1]/x"], None),
            (&["postgres://LocalHost/x"], None),
            (&["postgres://%2Frun%2Fpostgresql/x"], None),
            (&["postgres:///x?host=/run/postgresql"], None),
            (&["postgres://db.internal/x"], Some("db.internal")),
            (&["postgres://localhost.evil/x"], Some("localhost.evil")),
            (&["postgres://127.0.0.1.evil/x"], Some("127.0.0.1.evil")),
            (&["postgres://10.0.0.7/x"], Some("10.0.0.7")),
            (&["postgres://[2001:db8::1]/x"], Some("2001:db8::1")),
            (&["postgres://localhost/x?host=db"], Some("db")),
            (&["postgres://localhost/x?hostaddr=192.0.2.7"], Some("192.0.2.7")),
            (&["postgres://localhost/x", "postgres://127.0.0.1/x", "postgres://db/x"], Some("db")),
        ] {
            let servers = servers(urls);
            assert!(check(&servers, true).is_ok(), "{urls:?}");
            match (check(&servers, false), refused) {
                (Ok(()), None) => {}
                (Err(text), Some(host)) => {
                    assert!(text.contains(host) && text.contains("sslmode=verify-full"), "{urls:?}: {text}");
                }
                (found, _) => panic!("{urls:?}: {found:?}, not {refused:?}"),
            }
        }
    }

    #[test]
    fn as_libpq_follows_libpq() {
        for (url, names_root, mode) in [
            ("postgres://db/x?sslmode=require", false, "require"),
            ("postgres://db/x?sslmode=require", true, "verify-ca"),
            ("postgres://db/x?sslmode=prefer", true, "prefer"),
            ("postgres://db/x?sslmode=verify-full", true, "verify-full"),
            ("postgres:///x?host=/run/postgresql&sslmode=require", false, "disable"),
            ("postgres://%2Frun%2Fpostgresql/x?sslmode=verify-full", true, "disable"),
        ] {
            let options = PgConnectOptions::from_str(url).expect(url);
            assert_eq!(word(as_libpq(options, names_root).get_ssl_mode()), mode, "{url} {names_root}");
        }
    }

    #[test]
    fn unverified_lists_modes_without_name_check() {
        for (mode, warned) in [
            ("disable", true),
            ("allow", true),
            ("prefer", true),
            ("require", true),
            ("verify-ca", true),
            ("verify-full", false),
        ] {
            let away = servers(&[&format!("postgres://db/x?sslmode={mode}")]);
            assert_eq!(unverified(&away).next(), warned.then_some(("db", mode)), "{mode}");
            let here = servers(&[&format!("postgres://localhost/x?sslmode={mode}")]);
            assert_eq!(unverified(&here).next(), None, "{mode}");
        }
    }
}
