//! Versions side by side over one Postgres, under load: servers are upgraded one by one, and rolled back again, while the
//! next schema comes, and clients of each version call servers of the other.
//!
//! A large run builds the commit whose schema this version's is, and so does each later small run know a real older program. Before
//! that both versions of a small run are this one, and the schema alone is of the next.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use idempotency_ledger::store::MigrationPace;
use idempotency_ledger::store::migrations::{POSTGRES, migration, postgres};

use super::replicas::BINARY;
use super::scene::{Live, Shape};
use crate::harness::postgres::Cluster;
use crate::harness::server::{migrate_postgres, postgres_store};
use crate::harness::signals::signal;
use crate::proof::run::Run;

/// The last commit that made the schema another one, by the file of which migrations begin.
const BASELINE: &str = "migrations/postgres/0007_key_format.sql";
const COLUMN: &str =
    "ALTER TABLE ledger.entries ADD COLUMN next_place bigint, ADD COLUMN next_word text DEFAULT 'x'";
/// A drain, and a start, on a slow machine too.
pub(super) const WITHIN: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versions_side_by_side_break_no_promise() {
    let run = Run::new("versions", 3);
    let large = std::env::var_os("LEDGER_PROOF_SIZE").is_some() && run.size > 3;
    let (present, mut calls) = (PathBuf::from(BINARY), 0);
    let older = tokio::task::block_in_place(|| {
        let commit = last_of(BASELINE);
        if large { Some(program_of(&commit)) } else { built_before(&commit) }
    });
    let (before, name) = older.unwrap_or((present.clone(), "itself".into()));
    let cluster = tokio::task::spawn_blocking(|| Cluster::start("")).await.unwrap();
    let url = cluster.url("postgres");
    // The one before has made the schema.
    runs(&before, &["migrate", "--database-url", &url]);
    migrate_postgres(&url).await;
    let mut live = Live::over(run, cluster, &url, Shape { observed: false, ..Shape::observed(16) }).await;
    for replica in &mut live.replicas {
        replica.kill();
        replica.binary.clone_from(&before);
        replica.start(None);
        replica.serves(WITHIN).await;
    }
    for number in 0..live.run.size {
        live.grants_again(WITHIN).await;
        if number == live.run.size / 2 {
            let next = postgres(POSTGRES.iter().cloned().chain([migration(9_001, "next", COLUMN)]).collect());
            let pace = MigrationPace { within: WITHIN, ..MigrationPace::default() };
            assert_eq!(postgres_store(&url).migrate_by(&next, pace).await.unwrap(), 1);
        }
        let which = number as usize % live.replicas.len();
        let replica = &mut live.replicas[which];
        signal("TERM", &[replica.pid()]);
        assert!(replica.dies(WITHIN).await && replica.ended_well(), "a replica does not drain");
        replica.binary.clone_from(if replica.binary == before { &present } else { &before });
        replica.start(None);
        replica.serves(WITHIN).await;
        // Clients of both versions, at servers of both.
        let pairs = [(&before, which), (&present, which), (&before, (which + 1) % 3)];
        for (client, other) in pairs.into_iter().take(if large { 3 } else { 1 }) {
            let address = live.replicas[other].address.to_string();
            tokio::task::block_in_place(|| {
                runs(client, &["try", "--server", &address]);
                if large {
                    runs(client, &["bench", "--server", &address, "--for", "300ms", "--warm-up", "0s"]);
                }
            });
            calls += 1;
        }
        live.run.progress(number + 1, "restarts");
    }
    let told = format!(
        "{} restarts between this version and {name}, the next schema amid them; {calls} times clients of either at \
         servers of either",
        live.run.size
    );
    live.end(told).await;
}

/// Runs a program to its end, which must be a good one.
pub(super) fn runs(program: &Path, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success(),
        "{} {arguments:?}: {}",
        program.display(),
        String::from_utf8_lossy(&text)
    );
}

/// The last commit that touched a file.
fn last_of(file: &str) -> String {
    format!("git log -1 --format=%h --abbrev=7 -- {file}")
}

/// The commit before the one that brought a file.
pub(super) fn ahead_of(file: &str) -> String {
    format!("git rev-parse --short=7 \"$(git log --diff-filter=A --format=%h -- {file} | tail -n 1)^\"")
}

/// Runs a script in the folder of the sources; what it prints.
fn shell(script: &str) -> String {
    let root = env!("CARGO_MANIFEST_DIR");
    let output = Command::new("sh").args(["-ec", script]).current_dir(root).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{script}: {text}");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Where the programs of older commits are built.
fn versions() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/versions")
}

const PROGRAM: &str = "build/debug/idempotency-ledger";

/// The program of the commit that a command of Git names, if an earlier run has built it, and what to call it.
fn built_before(commit: &str) -> Option<(PathBuf, String)> {
    if !versions().is_dir() {
        return None;
    }
    let commit = shell(commit);
    let program = versions().join(&commit).join(PROGRAM);
    (!commit.is_empty() && program.exists()).then_some((program, commit))
}

/// The program of the commit that a command of Git names, built once, and what to call it.
pub(super) fn program_of(commit: &str) -> (PathBuf, String) {
    let commit = shell(commit);
    assert!(!commit.is_empty(), "more of the history is needed: this is a shallow clone");
    let folder = versions().join(&commit);
    let program = folder.join(PROGRAM);
    if !program.exists() {
        println!("building {commit}, once");
        let folder = folder.display();
        shell(&format!("mkdir -p '{folder}/src' && git archive {commit} | tar x -C '{folder}/src'"));
        shell(&format!(
            "cd '{folder}/src' && cargo build --locked --bin idempotency-ledger --profile test --target-dir ../build"
        ));
    }
    (program, commit)
}
