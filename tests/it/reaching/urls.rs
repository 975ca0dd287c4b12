//! URLs in each form of libpq's manual, tried by `psql` and by the ledger.

use std::process::Command;

use super::migrated;
use crate::harness::postgres::{Cluster, free_port};

const PASSWORD: &str = "a/b?c#d@e:f%g&h+i j='\"\\";
const ENCODED: &str = "a%2Fb%3Fc%23d%40e%3Af%25g%26h%2Bi%20j%3D%27%22%5C";

/// Whether `psql` connects, where nothing but the URL says how.
fn psql(cluster: &Cluster, url: &str) -> bool {
    let mut command = Command::new(cluster.bin().join("psql"));
    let variables = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG"));
    for (name, _) in variables {
        command.env_remove(name);
    }
    command.env("HOME", "/nonexistent").args([url, "-X", "-w", "-A", "-t", "-c", "SELECT 1"]);
    command.output().unwrap().status.success()
}

/// What the ledger does with a URL: it connects, or says this.
type Ours = Result<(), &'static str>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_form_of_url_connects_as_psql_does_or_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), all).unwrap();
    let sockets = folder.path().display().to_string();
    let settings =
        format!("fsync = off\nlisten_addresses = '127.0.0.1, ::1'\nunix_socket_directories = '{sockets}'");
    let cluster = tokio::task::spawn_blocking(move || Cluster::start(&settings)).await.unwrap();
    let literal = PASSWORD.replace('\'', "''");
    for statement in [
        &format!("CREATE ROLE \"some one\" LOGIN PASSWORD '{literal}'"),
        "CREATE DATABASE \"my db#1\" OWNER \"some one\"",
        "CREATE DATABASE plain OWNER \"some one\"",
    ] {
        cluster.execute("postgres", statement).await;
    }
    cluster
        .admit(
            "local all all scram-sha-256\nhost all all 127.0.0.1/32 scram-sha-256\n\
             host all all ::1/128 scram-sha-256",
        )
        .await;
    let (port, down) = (cluster.port, free_port());
    let folder = sockets.replace('/', "%2F");
    let login = format!("some%20one:{ENCODED}");
    let options = format!("user=some%20one&password={ENCODED}");
    let here = format!("postgres://{login}@127.0.0.1:{port}/plain");
    let rows: Vec<(String, bool, Ours)> = vec![
        // Hosts, addresses and sockets.
        (here.clone(), true, Ok(())),
        (format!("postgresql://{login}@localhost:{port}/my%20db%231"), true, Ok(())),
        (format!("postgresql://{login}@localhost:{port}/my%20db#1"), true, Ok(())),
        (format!("postgresql://{login}@[::1]:{port}/plain"), true, Ok(())),
        (format!("postgresql://{login}@/plain?host=::1&port={port}"), true, Ok(())),
        (format!("postgresql://{login}@{folder}:{port}/plain"), true, Ok(())),
        (format!("postgresql://{login}@/plain?host={sockets}&port={port}"), true, Ok(())),
        (format!("postgresql://{login}@:{port}/plain?host={folder}"), true, Ok(())),
        (format!("postgresql:///plain?host={sockets}&port={port}&{options}"), true, Ok(())),
        (format!("postgresql://?host={sockets}&port={port}&dbname=plain&{options}"), true, Ok(())),
        // TLS is not spoken behind a socket, whatever the mode is.
        (format!("postgresql:///plain?host={sockets}&port={port}&{options}&sslmode=require"), true, Ok(())),
        (format!("postgresql:///plain?hostaddr=127.0.0.1&port={port}&{options}"), true, Ok(())),
        (
            format!("postgresql:///plain?host=localhost&hostaddr=127.0.0.1&port={port}&{options}"),
            true,
            Ok(()),
        ),
        (
            format!(
                "postgresql:///plain?host=localhost&hostaddr=127.0.0.1&port={port}&{options}&sslmode=verify-full"
            ),
            false,
            Err("hostaddr: with sslmode=verify-full the certificate is verified for the name"),
        ),
        // Options of libpq behind a password, and with an @.
        (
            format!("postgresql:///plain?host=localhost&port={port}&{options}&connect_timeout=10"),
            true,
            Ok(()),
        ),
        (format!("postgresql:///plain?host=localhost&port={port}&{options}&keepalives=1"), true, Ok(())),
        (
            format!("postgresql://localhost:{port}/plain?{options}&fallback_application_name=me@corp"),
            true,
            Ok(()),
        ),
        (
            format!("postgresql://localhost:{port}/plain?{options}&channel_binding=require"),
            false,
            Err("channel_binding asks for"),
        ),
        (format!("{here}?connect_timeout"), false, Err("connect_timeout: has no value")),
        (format!("{here}?sslcertmode=disable"), false, Ok(())),
        (format!("{here}?statement-cache-capacity=abc"), false, Err("statement-cache-capacity: must be")),
        // Several servers.
        (format!("postgresql://{login}@127.0.0.1:{down},127.0.0.1:{port}/plain"), true, Ok(())),
        (
            format!(
                "postgresql://{login}@[::1]:{down},{folder}:{port},localhost/plain?target_session_attrs=read-write"
            ),
            true,
            Ok(()),
        ),
        (format!("postgresql:///plain?host=127.0.0.1,127.0.0.1&port={down},{port}&{options}"), true, Ok(())),
        (format!("postgresql:///plain?host=localhost,::1&port={port}&{options}"), true, Ok(())),
        (format!("postgresql:///plain?hostaddr=::1,127.0.0.1&port={down},{port}&{options}"), true, Ok(())),
        (
            format!("postgresql:///plain?host=localhost,localhost,localhost&port={down},{port}&{options}"),
            false,
            Err("2 ports for 3 servers"),
        ),
        (format!("{here}?target_session_attrs=any"), true, Err("read-write or primary")),
        // Passwords.
        (format!("postgres://some%20one:{}@localhost:{port}/plain", "wrong"), false, Err("authentication")),
        (
            format!("postgres://some%20one:a/b?c%23d%40e%3Af%25g%26h%2Bi%20j@localhost:{port}/plain"),
            false,
            Err("%2F"),
        ),
        (
            format!(
                "postgres:///plain?host=localhost&port={port}&user=some%20one&password={}",
                ENCODED.replace("%2B", "+").replace("%2F", "/").replace("%3F", "?")
            ),
            true,
            Ok(()),
        ),
        // Options that ask for safety.
        (format!("{here}?sslmode=disable"), true, Ok(())),
        (format!("{here}?sslmode=prefer"), true, Ok(())),
        (format!("{here}?sslmode=require"), false, Err("does not support TLS")),
        (format!("{here}?ssl=true"), false, Err("does not support TLS")),
        (format!("{here}?sslmode=always"), false, Err("sslmode: must be one of")),
        (format!("{here}?channel_binding=require"), false, Err("channel_binding asks for")),
        (format!("{here}?channel_binding=prefer"), true, Ok(())),
        (format!("{here}?sslnegotiation=direct"), false, Err("sslnegotiation asks for")),
        (format!("{here}?require_auth=none"), false, Err("require_auth asks for")),
        (format!("{here}?sslcertmode=require"), false, Err("sslcertmode asks for")),
        (format!("{here}?requirepeer=postgres"), true, Err("requirepeer asks for")),
        (format!("{here}?gssencmode=require"), false, Err("gssencmode asks for")),
        (format!("{here}?ssl_min_protocol_version=TLSv1.3"), true, Err("ssl_min_protocol_version asks")),
        (format!("{here}?sslpassword=hidden"), true, Err("sslpassword asks for")),
        (format!("{here}?passfile=/none"), true, Err("passfile asks for")),
        (format!("{here}?service=none"), false, Err("service asks for")),
        // What the ledger decides by itself is left out, with a warning.
        (format!("{here}?connect_timeout=10&keepalives=1&fallback_application_name=x"), true, Ok(())),
        (format!("{here}?application_name=x&options=-c%20geqo%3Doff&client_encoding=UTF8"), true, Ok(())),
    ];
    for (url, psql_connects, ours) in rows {
        assert_eq!(psql(&cluster, &url), psql_connects, "psql {url}");
        let found = migrated(&url).await;
        match (&found, ours) {
            (Ok(()), Ok(())) => {}
            (Err(text), Err(says)) => {
                assert!(text.contains(says), "{url}: {text}");
                for part in ["a/b", "c#d", "d@e", "%3Af", "hidden", "wrong"] {
                    assert!(!text.contains(part), "{url}: a part of the password stands in {text}");
                }
            }
            _ => panic!("{url}: {found:?}, not {ours:?}"),
        }
    }
    for database in ["plain", "my db#1"] {
        let mut connection = cluster.connect(&database.replace('#', "%23").replace(' ', "%20")).await;
        let there: bool = sqlx::query_scalar("SELECT to_regclass('ledger.meta') IS NOT NULL")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert!(there, "{database}");
    }
}
