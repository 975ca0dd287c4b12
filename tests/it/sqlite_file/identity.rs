//! Path, open file, WAL and lock belong together, or nothing is answered.

use std::path::Path;
use std::process::{Command, Output};

use idempotency_ledger::proto;
use tonic_health::pb::health_check_response::ServingStatus;

use super::{Logged, complete, unavailable};
use crate::harness::details::{acquired, claim, completed, key};
use crate::process::{BINARY, Server, sqlite};

fn migrated(folder: &Path) -> String {
    let url = sqlite(folder);
    assert!(Command::new(BINARY).args(["migrate", "--database-url", &url]).status().unwrap().success());
    url
}

fn serve(url: &str) -> [&str; 5] {
    ["serve", "--listen", "127.0.0.1:0", "--database-url", url]
}

/// A server does not start, and says all of this.
fn fails(arguments: &[&str], says: &[&str]) {
    let output = Command::new("timeout").args(["20", BINARY]).args(arguments).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for word in says {
        assert!(text.contains(word), "{arguments:?} must say {word:?}: {text}");
    }
}

/// Runs a program in its own mount namespace, after a script of a shell has mounted something.
fn within_mounts(script: &str, program: &[&str]) -> Output {
    let mut command = Command::new("unshare");
    if !crate::harness::postgres::is_root() {
        command.arg("--map-root-user");
    }
    let script = format!("{script} && exec \"$@\"");
    command.args(["--mount", "sh", "-c", &script, "sh"]).args(program).output().unwrap()
}

#[test]
fn a_file_that_is_mounted_by_itself_is_refused() {
    let (host, container) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    migrated(host.path());
    let url = sqlite(container.path());
    let [from, to] = [&host, &container].map(|folder| folder.path().join("ledger.db"));
    for end in ["", "-wal"] {
        let mount = format!(
            "touch '{0}{end}' '{1}{end}' && mount --bind '{0}{end}' '{1}{end}'",
            from.display(),
            to.display()
        );
        let mut program = vec!["timeout", "10", BINARY];
        program.extend(serve(&url));
        let output = within_mounts(&mount, &program);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{text}");
        for word in ["database_url", "is mounted by itself", "mount its folder"] {
            assert!(text.contains(word), "{word:?}: {text}");
        }
        for file in [&from, &to] {
            let _absent = std::fs::remove_file(format!("{}-wal", file.display()));
        }
    }
    // Its folder may be mounted.
    let mount = format!("mount --bind '{}' '{}'", host.path().display(), container.path().display());
    let output = within_mounts(&mount, &[BINARY, "migrate", "--database-url", &url]);
    assert!(output.status.success(), "{output:?}");
}

#[tokio::test]
async fn a_file_with_another_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let url = migrated(folder.path());
    let file = folder.path().join("ledger.db");
    let other = folder.path().join("other.db");
    std::fs::hard_link(&file, &other).unwrap();
    for path in [&file, &other] {
        let url = format!("sqlite://{}", path.display());
        fails(&serve(&url), &["database_url", "has 2 names", "hard link"]);
    }
    std::fs::remove_file(&other).unwrap();
    // A symbolic link is resolved: the lock is that of the file.
    let away = tempfile::tempdir().unwrap();
    let link = away.path().join("link.db");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let linked = format!("sqlite://{}", link.display());
    let server = Server::start(&linked).await;
    fails(&serve(&url), &["database_url", "in use by another"]);
    drop(server);
    assert!(!away.path().join("link.db-wal").exists());
    drop(Server::start(&url).await);
}

/// A link whose file is not there yet names the file that is created, and its lock.
#[tokio::test]
async fn a_link_to_a_new_file_has_the_lock_of_the_file() {
    let (folder, away) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = away.path().join("link.db");
    std::os::unix::fs::symlink(folder.path().join("ledger.db"), &link).unwrap();
    let server = Server::start(&format!("sqlite://{}", link.display())).await;
    fails(&serve(&sqlite(folder.path())), &["database_url", "in use by another"]);
    drop(server);
}

/// What a person does to the files of a running server.
async fn torn_apart(tear: fn(&Path), says: &str) {
    let folder = tempfile::tempdir().unwrap();
    let logged = Logged::start(folder.path(), &[]).await;
    let mut client = logged.server.client().await;
    complete(&mut client, 0..5).await;
    let held = acquired(&client.claim(claim("c", "held")).await.unwrap().into_inner());
    tear(folder.path());
    unavailable(&client.claim(claim("c", "new")).await.unwrap_err());
    let request = proto::CompleteRequest { key: key("c", "held"), token: held.token, ..Default::default() };
    unavailable(&client.complete(request).await.unwrap_err());
    // Even what is only read could be forgotten by a restart.
    unavailable(&client.claim(claim("c", "1")).await.unwrap_err());
    logged.server.becomes(ServingStatus::NotServing).await;
    let text = logged.kill();
    let told: Vec<&str> = text.lines().filter(|line| line.contains("ERROR") && line.contains(says)).collect();
    assert_eq!(told.len(), 1, "{text}");
}

/// As a backup is put in the place of the file.
#[tokio::test]
async fn a_file_that_is_replaced_while_it_is_served_is_noticed() {
    torn_apart(
        |folder| {
            std::fs::copy(folder.join("ledger.db"), folder.join("copy")).unwrap();
            std::fs::rename(folder.join("copy"), folder.join("ledger.db")).unwrap();
        },
        "ledger.db is another file",
    )
    .await;
}

#[tokio::test]
async fn a_file_that_is_removed_while_it_is_served_is_noticed() {
    torn_apart(|folder| std::fs::remove_file(folder.join("ledger.db")).unwrap(), "ledger.db is gone").await;
}

#[tokio::test]
async fn a_wal_that_is_removed_while_it_is_served_is_noticed() {
    torn_apart(|folder| std::fs::remove_file(folder.join("ledger.db-wal")).unwrap(), "ledger.db-wal is gone")
        .await;
}

/// Another program would make a new one, and not see where the server reads and writes.
#[tokio::test]
async fn an_index_of_the_wal_that_is_removed_while_it_is_served_is_noticed() {
    torn_apart(|folder| std::fs::remove_file(folder.join("ledger.db-shm")).unwrap(), "ledger.db-shm is gone")
        .await;
}

/// A second server could lock a new one.
#[tokio::test]
async fn a_lock_that_is_removed_while_it_is_held_is_noticed() {
    torn_apart(
        |folder| std::fs::remove_file(folder.join("ledger.db.lock")).unwrap(),
        "ledger.db.lock is gone",
    )
    .await;
}

#[tokio::test]
async fn readers_and_backups_beside_a_server_are_allowed() {
    use sqlx::{Connection as _, Row as _};
    let folder = tempfile::tempdir().unwrap();
    let logged = Logged::start(folder.path(), &[]).await;
    let mut client = logged.server.client().await;
    complete(&mut client, 0..5).await;
    for _ in 0..3 {
        let mut reader = sqlx::SqliteConnection::connect(&sqlite(folder.path())).await.unwrap();
        let row = sqlx::query("SELECT count(*) FROM entries").fetch_one(&mut reader).await.unwrap();
        assert!(row.get::<i64, _>(0) >= 5);
        reader.close().await.unwrap();
        completed(&client.claim(claim("c", "1")).await.unwrap().into_inner());
    }
    complete(&mut client, 5..10).await;
    assert!(!logged.kill().contains("ERROR"));
}

#[test]
fn a_folder_is_refused_as_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite://{}", folder.path().display());
    fails(&serve(&url), &["database_url", "is a folder", "/ledger.db"]);
    let mount = format!("mount -t tmpfs tmpfs '{}'", folder.path().display());
    let mut program = vec!["timeout", "10", BINARY];
    program.extend(serve(&url));
    let output = within_mounts(&mount, &program);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && text.contains("is a folder"), "{text}");
}
