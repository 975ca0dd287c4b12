//! Certificates of Postgres as its own manual has them made, and what the ledger says of them.

use std::path::Path;
use std::process::Command;

use super::{cluster, migrated};
use crate::harness::postgres::Cluster;

/// Runs a script in a folder.
pub(super) fn sh(folder: &Path, script: &str) {
    let output = Command::new("sh").args(["-e", "-c", script]).current_dir(folder).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Has Postgres show this certificate from now on.
async fn shows(cluster: &Cluster, folder: &Path, certificate: &str, key: &str) {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    cluster.write("server.crt", &read(certificate));
    cluster.write("server.key", &read(key));
    cluster.execute("postgres", "ALTER SYSTEM SET ssl = on").await;
    cluster.reload().await;
}

/// The commands of an error, for this host and in a folder with its files.
fn commands(text: &str) -> String {
    let (_, rest) = text.split_once("openssl req").expect(text);
    let (commands, _) = rest.split_once("-out server.crt").expect(text);
    format!("openssl req{commands}-out server.crt").replace("HOST", "localhost")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_postgres_manual_is_named_with_the_commands_that_mend_it() {
    let cluster = cluster("fsync = off").await;
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let url = |options: &str| {
        format!(
            "postgres://postgres@localhost:{}/postgres?{}",
            cluster.port,
            options.replace("AT", &at.display().to_string())
        )
    };
    // By a single command: the certificate is that of an authority.
    sh(
        at,
        "openssl req -new -x509 -days 365 -nodes -subj /CN=localhost -out root.crt -keyout root.key 2>/dev/null",
    );
    shows(&cluster, at, "root.crt", "root.key").await;
    for connects in ["sslmode=prefer", "sslmode=require", "ssl=true"] {
        migrated(&url(connects)).await.expect(connects);
    }
    // As libpq does, `require` verifies where an authority is named.
    for mode in ["require", "verify-ca", "verify-full"] {
        let text = migrated(&url(&format!("sslmode={mode}&sslrootcert=AT/root.crt"))).await.expect_err(mode);
        assert!(text.contains("that of an authority") && text.contains("openssl x509"), "{mode}: {text}");
    }
    // By the recipe with an authority: a certificate of version 1, without a name that counts.
    sh(
        at,
        "openssl req -new -nodes -subj /CN=localhost -out server.csr -keyout server.key 2>/dev/null
         openssl x509 -req -in server.csr -days 365 -CA root.crt -CAkey root.key -CAcreateserial -out server.crt 2>/dev/null
         openssl x509 -in server.crt -noout -text | grep -q 'Version: 1 '",
    );
    shows(&cluster, at, "server.crt", "server.key").await;
    for options in ["sslmode=prefer", "sslmode=require", "sslmode=verify-full&sslrootcert=AT/root.crt"] {
        let text = migrated(&url(options)).await.expect_err(options);
        assert!(text.contains("X.509 version 1") && text.contains("subjectAltName"), "{options}: {text}");
        sh(at, &format!("({}) 2>/dev/null", commands(&text)));
    }
    shows(&cluster, at, "server.crt", "server.key").await;
    for options in [
        "sslmode=require",
        "sslmode=verify-ca&sslrootcert=AT/root.crt",
        "sslmode=verify-full&sslrootcert=AT/root.crt",
    ] {
        migrated(&url(options)).await.expect(options);
    }
    // The same recipe for a client.
    let client = "&sslcert=AT/client.crt&sslkey=AT/client.key";
    sh(
        at,
        "openssl req -new -nodes -subj /CN=postgres -out client.csr -keyout client.key 2>/dev/null
         openssl x509 -req -in client.csr -CA root.crt -CAkey root.key -CAcreateserial -out client.crt 2>/dev/null",
    );
    let text = migrated(&url(&format!("sslmode=require{client}"))).await.unwrap_err();
    assert!(text.contains("the certificate of sslcert is X.509 version 1"), "{text}");
    assert!(!text.contains("the server's certificate"), "{text}");
    sh(
        at,
        "openssl req -new -key client.key -subj /CN=postgres -addext keyUsage=digitalSignature -out client.csr 2>/dev/null
         openssl x509 -req -in client.csr -copy_extensions copy -days 365 -CA root.crt -CAkey root.key -out client.crt 2>/dev/null",
    );
    migrated(&url(&format!("sslmode=require{client}"))).await.unwrap();
    // Of version 3, and without a subjectAltName.
    sh(
        at,
        "printf basicConstraints=CA:FALSE > extensions
         openssl x509 -req -in server.csr -extfile extensions -CA root.crt -CAkey root.key -CAcreateserial -out nameless.crt 2>/dev/null",
    );
    shows(&cluster, at, "nameless.crt", "server.key").await;
    migrated(&url("sslmode=verify-ca&sslrootcert=AT/root.crt")).await.unwrap();
    let text = migrated(&url("sslmode=verify-full&sslrootcert=AT/root.crt")).await.unwrap_err();
    assert!(text.contains("has no subjectAltName") && text.contains("openssl x509"), "{text}");
}
