//! Classifies errors of the driver: whether the statement was applied, and what to do next.

use sqlx::migrate::MigrateError;
use sqlx::postgres::{PgDatabaseError, PgSeverity};

use self::Means::{Conflict, Locked, Permanent, Schema, Stale, TimedOut, Unavailable, Unknown};
use crate::store::{Fault, StoreError};

/// What an error of the server means for its statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// Not applied; the session is unusable, a new one works.
    Stale,
    /// Not applied; it conflicts with another statement.
    Conflict,
    /// Not applied; another session holds a row.
    Locked,
    /// Not applied; it took too long.
    TimedOut,
    /// Not applied, and no other write would be applied at this moment: no row is at fault.
    Unavailable,
    /// Not applied, and no write will be applied until a person has changed the database.
    Schema,
    /// Not applied: a row of it is at fault, or the error is unknown.
    Permanent,
    /// Perhaps applied.
    Unknown,
}

/// By SQLSTATE: the first line with the code or the class of the error applies. All other errors are [`Permanent`]: only errors
/// that a row can cause may be permanent, since the batch is then split until that row is alone.
const CODES: &[(&str, Means)] = &[
    // The connection is lost. A pooler's error may hide a commit.
    ("08", Unknown),
    // Not supported: by a pooler, or by a database that only resembles Postgres.
    ("0A", Schema),
    // The role lacks a membership or property.
    ("0L", Schema),
    ("0P", Schema),
    // Idle in a transaction for too long.
    ("25P03", Stale),
    // `transaction_timeout` may hit between a commit and its answer.
    ("25P04", Unknown),
    // Read-only: a standby, a full disk of a managed service.
    ("25006", Unavailable),
    // The transaction is not in the state that the session assumes.
    ("25", Stale),
    // A prepared statement is gone: DEALLOCATE, DISCARD, a pooler's other connection.
    ("26", Stale),
    // Wrong password, no such database, no such schema.
    ("28", Schema),
    ("3D", Schema),
    ("3F", Schema),
    // A deferred constraint: a row's fault.
    ("40002", Permanent),
    // The server itself does not know whether the statement completed.
    ("40003", Unknown),
    // Deadlock, serialization failure.
    ("40", Conflict),
    // Missing tables or rights; a managed service may revoke rights when a quota is exceeded.
    ("42", Schema),
    // Out of disk, memory, connections.
    ("53", Unavailable),
    // Lock timeout.
    ("55P03", Locked),
    // A table that is published without a replica identity refuses updates.
    ("55", Unavailable),
    // Statement timeout.
    ("57014", TimedOut),
    // Starting up, shutting down.
    ("57P03", Unavailable),
    // Idle session timeout: the server has read nothing since.
    ("57P05", Stale),
    // A shutdown may hit a statement whose commit only waits for a standby.
    ("57", Unknown),
    // Disk and system.
    ("58", Unavailable),
    // A snapshot that is too old.
    ("72", Conflict),
    // A wrong configuration file.
    ("F0", Unavailable),
];

/// Routines of the server that refuse all writes because transaction ids are used up, with the same code as a limit that a row
/// exceeds. Messages are translated into the server's language, names of routines are not.
const WRAPAROUND: [&str; 2] = ["GetNewTransactionId", "GetNewMultiXactId"];

/// Codes that end a session before it begins: the server has executed nothing.
const NOT_CONNECTED: [&str; 2] = ["53300", "57P03"];

fn means(code: &str, routine: Option<&str>, ends: bool) -> Means {
    match (code, routine) {
        // The cached plan is outdated, since the table changed: the routine distinguishes this from other unsupported features.
        ("0A000", Some("RevalidateCachedQuery")) => return Stale,
        ("54000", Some(routine)) if WRAPAROUND.contains(&routine) => return Unavailable,
        _ => {}
    }
    let means = CODES.iter().find(|(head, _)| code.starts_with(head)).map_or(Permanent, |(_, means)| *means);
    // A faulty row does not end a session: a pooler does, or a server that panics because it cannot write or flush its WAL.
    // Recovery may replay what the WAL holds by then.
    let is_certain = !matches!(means, Permanent | Unavailable) || NOT_CONNECTED.contains(&code);
    if ends && !is_certain { Unknown } else { means }
}

/// The text of an error, without the line that the driver adds: a line number of Postgres' own source, which looks like one of
/// the statement.
pub(super) fn said(error: &sqlx::Error) -> String {
    match error.as_database_error() {
        Some(database) => format!("error returned from database: {}", database.message()),
        None => error.to_string(),
    }
}

/// The text of an error of a migration, without the line that the driver adds.
pub(super) fn said_of_migration(error: &MigrateError) -> String {
    #[allow(clippy::wildcard_enum_match_arm, reason = "the library's list of errors is open")]
    match error {
        MigrateError::Execute(error) => format!("while executing migrations: {}", said(error)),
        MigrateError::ExecuteMigration(error, version) => {
            format!("while executing migration {version}: {}", said(error))
        }
        _ => error.to_string(),
    }
}

/// Classifies an error of a statement that may have been sent.
#[allow(clippy::needless_pass_by_value, reason = "it is what `map_err` hands over")]
pub(super) fn of_sqlx(error: sqlx::Error) -> StoreError {
    if let sqlx::Error::AnyDriverError(ours) = error {
        return ours.downcast().map_or_else(|other| StoreError::Unknown(other.to_string()), |ours| *ours);
    }
    let text = said(&error);
    let Some(database) = error.as_database_error() else {
        let never_sent = matches!(error, sqlx::Error::Encode(_) | sqlx::Error::InvalidArgument(_));
        return if never_sent {
            StoreError::NotApplied(Fault::Permanent(text))
        } else {
            StoreError::Unknown(text)
        };
    };
    let postgres = database.try_downcast_ref::<PgDatabaseError>();
    let routine = postgres.and_then(PgDatabaseError::routine);
    let code = database.code().unwrap_or_default();
    StoreError::NotApplied(match means(&code, routine, postgres.is_some_and(ends)) {
        Stale => Fault::Stale(text),
        Conflict => Fault::Conflict(text),
        Locked => Fault::Locked(text),
        TimedOut => Fault::TimedOut(text),
        Unavailable => Fault::Unavailable(text),
        Schema => Fault::Schema(text),
        Permanent => Fault::Permanent(text),
        Unknown => return StoreError::Unknown(text),
    })
}

/// Whether an error ends its session.
fn ends(error: &PgDatabaseError) -> bool {
    error.severity() != PgSeverity::Error
}

/// Classifies an error of a `COMMIT`. The connection may have been ended by a pooler, which does not know the outcome: only a
/// transaction that ended before is certainly not applied.
pub(super) fn of_commit(error: sqlx::Error) -> StoreError {
    let postgres = error.as_database_error().and_then(|error| error.try_downcast_ref::<PgDatabaseError>());
    let ends = postgres.is_some_and(ends);
    match of_sqlx(error) {
        error @ (StoreError::NotApplied(Fault::Stale(_)) | StoreError::Unknown(_)) => error,
        StoreError::NotApplied(fault) if ends => StoreError::Unknown(fault.to_string()),
        error @ StoreError::NotApplied(_) => error,
    }
}

/// How to replace a server certificate that was made by the recipe of Postgres' manual, or by a single `openssl req`.
const MEND: &str = "; sign one with its name: openssl req -new -key server.key -subj /CN=HOST -addext \
                    subjectAltName=DNS:HOST -out server.csr && openssl x509 -req -in server.csr -copy_extensions copy \
                    -days 365 -CA root.crt -CAkey root.key -CAcreateserial -out server.crt; name root.crt by sslrootcert \
                    (the root of a self-signed certificate is that certificate)";

/// Why the server's certificate is not accepted, if the library's message does not name the reason; else `None`.
fn certificate(text: &str) -> Option<&'static str> {
    let by_words = [
        // The handshake cannot be verified with such a certificate, even if the mode verifies nothing.
        (
            "UnsupportedCertVersion",
            ": the server's certificate is X.509 version 1, which no sslmode with TLS can use",
        ),
        (
            "CaUsedAsEndEntity",
            ": the server's certificate is that of an authority (basicConstraints CA:TRUE), which cannot be verified as a \
             server's",
        ),
        (
            "not valid for any names",
            ": the server's certificate has no subjectAltName, and the name in its subject does not count",
        ),
    ];
    by_words.iter().find(|(word, _)| text.contains(word)).map(|(_, why)| *why)
}

/// Classifies an error that occurred before anything was sent.
pub(super) fn of_connect(error: &sqlx::Error) -> StoreError {
    let mut text = said(error);
    if text.ends_with("UnknownIssuer") {
        text.push_str(
            ": no trusted authority has signed the server's certificate; name its authority by sslrootcert",
        );
    }
    if matches!(error, sqlx::Error::Tls(_)) && text.contains("UnsupportedCertVersion") {
        // Before the handshake: this server's own certificate, for `hostssl … cert`.
        text.push_str(
            ": the certificate of sslcert is X.509 version 1, which the driver does not send; sign one of version 3: \
             openssl x509 -req -in client.csr -copy_extensions copy -days 365 -CA root.crt -CAkey root.key -out client.crt, \
             for a request with an extension (openssl req -new -key client.key -subj /CN=USER -addext \
             keyUsage=digitalSignature -out client.csr)",
        );
    } else if let Some(why) = certificate(&text) {
        text.push_str(why);
        text.push_str(MEND);
    }
    let wrong = error
        .as_database_error()
        .and_then(sqlx::error::DatabaseError::code)
        .is_some_and(|code| code.starts_with("28") || code.starts_with("3D") || code.starts_with("42"));
    StoreError::NotApplied(if wrong { Fault::Schema(text) } else { Fault::Unavailable(text) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::for_tests::refused;

    #[test]
    fn means_follows_code_and_class() {
        for (code, routine, ends, expected) in [
            ("53100", None, false, Unavailable),
            ("53200", None, false, Unavailable),
            ("53300", None, true, Unavailable),
            ("58030", None, false, Unavailable),
            ("53100", None, true, Unknown),
            ("58030", None, true, Unknown),
            ("25006", None, false, Unavailable),
            ("55000", None, false, Unavailable),
            ("57P03", None, true, Unavailable),
            ("54000", Some("GetNewTransactionId"), false, Unavailable),
            ("54000", Some("GetNewMultiXactId"), false, Unavailable),
            ("54000", Some("_bt_check_third_page"), false, Permanent),
            ("54000", None, false, Permanent),
            ("42501", None, false, Schema),
            ("42P01", None, false, Schema),
            ("3D000", None, true, Schema),
            ("0A000", None, false, Schema),
            ("0A000", Some("RevalidateCachedQuery"), false, Stale),
            ("26000", None, false, Stale),
            ("25P02", None, false, Stale),
            ("25P03", None, true, Stale),
            ("57P05", None, true, Stale),
            ("25P04", None, true, Unknown),
            ("57P01", None, true, Unknown),
            ("08006", None, false, Unknown),
            ("40003", None, false, Unknown),
            ("40001", None, false, Conflict),
            ("40P01", None, false, Conflict),
            ("55P03", None, false, Locked),
            ("57014", None, false, TimedOut),
            ("40002", None, false, Permanent),
            ("22021", None, false, Permanent),
            ("23514", None, false, Permanent),
            ("XX001", None, false, Permanent),
            ("XX000", None, true, Unknown),
            ("", None, true, Unknown),
        ] {
            assert_eq!(means(code, routine, ends), expected, "{code} {routine:?} {ends}");
        }
    }

    /// "Unknown" is the safe answer: a command that is called not applied is tried again.
    #[test]
    fn of_sqlx_and_of_commit_say_not_applied_only_if_the_server_said_so() {
        let fault = |error| match error {
            StoreError::NotApplied(Fault::Stale(_)) => "stale",
            StoreError::NotApplied(Fault::Conflict(_)) => "conflict",
            StoreError::NotApplied(Fault::Permanent(_)) => "permanent",
            StoreError::NotApplied(Fault::Unavailable(_)) => "unavailable",
            StoreError::NotApplied(fault) => panic!("{fault}"),
            StoreError::Unknown(_) => "unknown",
        };
        let never_sent = || sqlx::Error::Encode("a text with a zero byte".into());
        let ours =
            || sqlx::Error::AnyDriverError(Box::new(StoreError::NotApplied(Fault::Conflict("ours".into()))));
        let other = || sqlx::Error::AnyDriverError("another driver's".into());
        let cases: [(&dyn Fn() -> sqlx::Error, &str); 9] = [
            (&|| refused("40001"), "conflict"),
            (&|| refused("26000"), "stale"),
            (&|| refused("23514"), "permanent"),
            (&|| refused("53100"), "unavailable"),
            (&|| refused("57P01"), "unknown"),
            (&never_sent, "permanent"),
            (&|| sqlx::Error::PoolTimedOut, "unknown"),
            (&ours, "conflict"),
            (&other, "unknown"),
        ];
        for (error, expected) in cases {
            assert_eq!(fault(of_sqlx(error())), expected, "{:?}", error());
            assert_eq!(fault(of_commit(error())), expected, "{:?}", error());
        }
    }
}
