//! A copy under load, and its way back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use idempotency_ledger::proto::{self, ledger_service_client::LedgerServiceClient};
use tokio::sync::Notify;
use tonic::transport::Channel;

use super::{Logged, complete};
use crate::harness::details::{acquired, claim, completed, key};
use crate::process::{BINARY, sqlite};

/// How many completions are acknowledged before the backup begins.
const BEFORE: usize = 200;

fn run(command: &str, folder: &Path, arguments: &[&str]) -> Output {
    let mut all = Command::new("timeout");
    all.args(["30", BINARY, command, "--database-url", &sqlite(folder)]).args(arguments).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn done(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

fn refused(output: &Output, says: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for word in says {
        assert!(text.contains(word), "{word:?}: {text}");
    }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// What was acknowledged, by all consumers together.
#[derive(Default)]
struct Acknowledged {
    ids: Mutex<Vec<String>>,
    grows: Notify,
}

impl Acknowledged {
    async fn reaches(&self, count: usize) -> Vec<String> {
        loop {
            let grows = self.grows.notified();
            let ids = self.ids.lock().unwrap().clone();
            if ids.len() >= count {
                return ids;
            }
            grows.await;
        }
    }
}

/// Claims and completes until the server dies.
async fn load(mut client: LedgerServiceClient<Channel>, worker: usize, all: Arc<Acknowledged>) {
    for number in 0.. {
        let id = format!("{worker}-{number}");
        let Ok(answer) = client.claim(claim("c", &id)).await else { return };
        let token = acquired(&answer.into_inner()).token;
        let request = proto::CompleteRequest { key: key("c", &id), token, ..Default::default() };
        if client.complete(request).await.is_err() {
            return;
        }
        all.ids.lock().unwrap().push(id);
        all.grows.notify_waiters();
    }
}

/// While claims and completions go on a copy is made; the server is killed, the copy is put in place, and knows every
/// completion that was acknowledged before it was begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_under_load_has_all_that_was_acknowledged_before_it() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let copy = elsewhere.path().join("copy.db");
    let logged = Logged::start(folder.path(), &[]).await;
    let all = Arc::new(Acknowledged::default());
    let mut workers = Vec::new();
    for worker in 0..8 {
        workers.push(tokio::spawn(load(logged.server.client().await, worker, Arc::clone(&all))));
    }
    let before = all.reaches(BEFORE).await;
    let (at, to) = (folder.path().to_owned(), copy.clone());
    let backup = tokio::task::spawn_blocking(move || run("backup", &at, &[text(&to)])).await.unwrap();
    done(&backup);
    // The server went on, and goes on.
    let after = all.reaches(before.len() + BEFORE).await.len();
    assert!(after >= before.len() + BEFORE);
    assert_eq!(mode(&copy), 0o600);
    let log = logged.kill();
    assert!(!log.contains("ERROR"), "{log}");
    for worker in workers {
        worker.await.unwrap();
    }
    assert!(folder.path().join("ledger.db-wal").exists(), "a WAL is left, which is not that of the backup");
    done(&run("restore", folder.path(), &[text(&copy), "--accept-loss"]));
    assert!(!folder.path().join("ledger.db-wal").exists());
    let logged = Logged::start(folder.path(), &[]).await;
    let mut client = logged.server.client().await;
    for id in before {
        completed(&client.claim(claim("c", &id)).await.unwrap().into_inner());
    }
    // The loss was accepted by the restore: grants do not wait.
    acquired(&client.claim(claim("c", "new")).await.unwrap().into_inner());
    complete(&mut client, 0..5).await;
    let log = logged.kill();
    assert!(!log.contains("ERROR") && !log.contains("--accept-loss"), "{log}");
}

#[tokio::test]
async fn a_backup_is_served_after_a_restore_alone() {
    let (folder, copied, fresh) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let logged = Logged::start(folder.path(), &[]).await;
    complete(&mut logged.server.client().await, 0..5).await;
    let copy = folder.path().join("copy.db");
    done(&run("backup", folder.path(), &[text(&copy)]));
    refused(&run("backup", folder.path(), &[text(&copy)]), &["backup", "is there already", "--replace"]);
    done(&run("backup", folder.path(), &[text(&copy), "--replace"]));
    for own in ["ledger.db", "ledger.db-wal", "ledger.db-shm", "ledger.db.lock", "ledger.db.count"] {
        let own = folder.path().join(own);
        refused(&run("backup", folder.path(), &[text(&own), "--replace"]), &["the ledger's own"]);
    }
    // As `cp` puts it in place.
    std::fs::copy(&copy, copied.path().join("ledger.db")).unwrap();
    let served = ["--listen", "127.0.0.1:0"];
    refused(&run("serve", copied.path(), &served), &["database_url", "is a backup", "restore"]);
    refused(&run("migrate", copied.path(), &[]), &["database_url", "is a backup", "restore"]);
    let accepted = [text(&copy), "--accept-loss"];
    refused(&run("restore", folder.path(), &accepted), &["in use by another"]);
    refused(&run("restore", fresh.path(), &[text(&copy)]), &["--accept-loss", "nothing was changed"]);
    assert_eq!(std::fs::read_dir(fresh.path()).unwrap().count(), 0);
    done(&run("restore", fresh.path(), &accepted));
    logged.kill();
    // A backup that was killed leaves no file.
    let live = folder.path().join("ledger.db");
    refused(&run("restore", fresh.path(), &[text(&live), "--accept-loss"]), &["is not a backup"]);
    std::fs::write(copied.path().join("text"), "no ledger".repeat(1_000)).unwrap();
    let wrong = copied.path().join("text");
    refused(&run("restore", fresh.path(), &[text(&wrong), "--accept-loss"]), &["restore", "text"]);
    refused(&run("backup", copied.path(), &["other.db"]), &["is a backup"]);
    let logged = Logged::start(fresh.path(), &[]).await;
    let mut client = logged.server.client().await;
    for number in 0..5 {
        completed(&client.claim(claim("c", &number.to_string())).await.unwrap().into_inner());
    }
    complete(&mut client, 5..10).await;
}

/// A backup is worth what its pages are: a damaged one replaces no ledger, and what is not a ledger makes no backup.
#[tokio::test]
async fn a_damaged_backup_and_a_file_without_tables_are_refused() {
    let (folder, fresh) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let logged = Logged::start(folder.path(), &[]).await;
    complete(&mut logged.server.client().await, 0..20).await;
    let copy = folder.path().join("copy.db");
    done(&run("backup", folder.path(), &[text(&copy)]));
    logged.kill();
    let whole = std::fs::read(&copy).unwrap();
    // The last page is a leaf of a table or an index.
    let mut damaged = whole.clone();
    let last = damaged.len() - 4_096;
    damaged[last..].fill(0xff);
    std::fs::write(&copy, damaged).unwrap();
    refused(
        &run("restore", fresh.path(), &[text(&copy), "--accept-loss"]),
        &["restore", "copy.db", "damaged"],
    );
    assert_eq!(std::fs::read_dir(fresh.path()).unwrap().count(), 1, "the lock alone");
    std::fs::write(&copy, whole).unwrap();
    done(&run("restore", fresh.path(), &[text(&copy), "--accept-loss"]));
    let empty = tempfile::tempdir().unwrap();
    std::fs::write(empty.path().join("ledger.db"), "").unwrap();
    let to = empty.path().join("copy.db");
    refused(&run("backup", empty.path(), &[text(&to)]), &["is not a ledger", "ledger.db"]);
    assert!(!to.exists());
}

/// An administrator restores; the server's user opens what was put in place.
#[tokio::test]
async fn what_is_restored_belongs_to_the_owner_of_what_was_there() {
    use std::os::unix::fs::{MetadataExt as _, chown};
    let folder = tempfile::tempdir().unwrap();
    drop(Logged::start(folder.path(), &[]).await);
    let file = |end: &str| -> PathBuf { folder.path().join(format!("ledger.db{end}")) };
    let copy = folder.path().join("copy.db");
    done(&run("backup", folder.path(), &[text(&copy)]));
    std::fs::set_permissions(file(""), std::fs::Permissions::from_mode(0o640)).unwrap();
    let user =
        if crate::harness::postgres::is_root() { 65_534 } else { std::fs::metadata(file("")).unwrap().uid() };
    chown(file(""), Some(user), None).unwrap();
    std::fs::remove_file(file(".lock")).unwrap();
    done(&run("restore", folder.path(), &[text(&copy), "--accept-loss"]));
    for end in ["", ".count", ".lock"] {
        assert_eq!(std::fs::metadata(file(end)).unwrap().uid(), user, "{end}");
        assert_eq!(mode(&file(end)), 0o640, "{end}");
    }
}

/// A new volume may belong to another user than the one who restores, as that of a Kubernetes pod with a group of its own does.
#[tokio::test]
async fn a_backup_is_restored_into_a_folder_of_another_owner() {
    let folder = tempfile::Builder::new().prefix("ledger-restored-").tempdir_in("/tmp").unwrap();
    let [program, copy, data] = ["ledger", "copy.db", "data"].map(|name| folder.path().join(name));
    std::fs::copy(BINARY, &program).unwrap();
    std::fs::create_dir(&data).unwrap();
    drop(Logged::start(folder.path(), &[]).await);
    done(&run("backup", folder.path(), &[text(&copy)]));
    for (path, mode) in [(folder.path(), 0o755), (&program, 0o755), (&copy, 0o644), (&data, 0o2777)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let mut command = crate::secrets::memory::as_somebody(text(&program));
    command.args(["restore", "--database-url", &sqlite(&data), text(&copy), "--accept-loss"]);
    done(&command.output().unwrap());
    let ledger = data.join("ledger.db");
    assert_eq!(mode(&ledger), 0o600);
    if crate::harness::postgres::is_root() {
        // Now it belongs to the server's user, which could not open what another user puts in its place.
        std::os::unix::fs::chown(&ledger, Some(0), None).unwrap();
        std::fs::remove_file(data.join("ledger.db.lock")).unwrap();
        let says = ["belongs to the user 65534", "to 0: do this as that user, or as root"];
        refused(&command.output().unwrap(), &says);
    }
}

/// What an interrupted run has left is replaced by the next one, and does not stay.
#[tokio::test]
async fn leftovers_of_interrupted_copies_do_not_add_up() {
    let folder = tempfile::tempdir().unwrap();
    drop(Logged::start(folder.path(), &[]).await);
    let copy = folder.path().join("copy.db");
    for left in ["copy.db.unfinished", "ledger.db.restore"] {
        for end in ["", "-wal", "-shm", "-journal"] {
            std::fs::write(folder.path().join(format!("{left}{end}")), "half".repeat(10_000)).unwrap();
        }
    }
    done(&run("backup", folder.path(), &[text(&copy)]));
    // One that is refused leaves nothing either.
    let wrong = folder.path().join("wrong");
    std::fs::copy(folder.path().join("ledger.db"), &wrong).unwrap();
    refused(&run("restore", folder.path(), &[text(&wrong), "--accept-loss"]), &["is not a backup"]);
    done(&run("restore", folder.path(), &[text(&copy), "--accept-loss"]));
    let names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    names.retain(|name| !name.starts_with("log-") && name != "wrong");
    names.sort();
    assert_eq!(names, ["copy.db", "ledger.db", "ledger.db.count", "ledger.db.lock"]);
    // Two at a time do not write the same copy.
    let part = std::fs::File::create(folder.path().join("copy.db.unfinished")).unwrap();
    part.lock().unwrap();
    let second = run("backup", folder.path(), &[text(&copy), "--replace"]);
    refused(&second, &["copy.db.unfinished is being written by another process"]);
}

/// It stays as it was, whatever stops the copy.
#[tokio::test]
async fn a_backup_that_fails_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    drop(Logged::start(folder.path(), &[]).await);
    let target = folder.path().join("backups");
    std::fs::create_dir(&target).unwrap();
    let disk = crate::harness::disk::SmallDisk::new(&target);
    let listed = format!(
        "'{BINARY}' backup --database-url {} '{}/copy.db'; echo exit $?; ls -A '{1}'",
        sqlite(folder.path()),
        target.display()
    );
    let mut command = disk.command("16k");
    let output = command.args(["sh", "-c", &listed]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "exit 1\n", "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("full"), "{output:?}");
}
