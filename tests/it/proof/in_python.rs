//! Suites that are written in Python, as users' programs are: how one is started, and how its words are taken.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::run::Run;
use crate::harness::postgres::Cluster;

const INSTALL: &str = "no Python with the packages of tests/python/requirements.txt was found; `tests/run tools` makes it in \
                       target/venv; or name one in IDEMPOTENCY_LEDGER_TEST_PYTHON";
const BINARY: &str = env!("CARGO_BIN_EXE_idempotency-ledger");
const FOUND: &str = "FOUND ";

/// The interpreter: the one that is named, else that of the checks' own environment.
fn python() -> PathBuf {
    if let Some(named) = std::env::var_os("IDEMPOTENCY_LEDGER_TEST_PYTHON") {
        return named.into();
    }
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/venv/bin/python");
    assert!(ours.exists(), "{INSTALL}");
    ours
}

/// Runs `script` on a new Postgres; its last line, which begins with FOUND, becomes the summary.
pub(super) fn run(run: &Run, script: &str) {
    let cluster = Cluster::start("");
    let mut suite = Command::new(python())
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(script))
        .args(["--binary", BINARY, "--database-url", &cluster.url("postgres")])
        .args(["--size", &run.size.to_string(), "--seed", &run.seed.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect(INSTALL);
    let mut lines = Vec::new();
    for line in BufReader::new(suite.stdout.take().unwrap()).lines() {
        lines.push(line.unwrap());
        if !lines.last().unwrap().starts_with(FOUND) {
            println!("{}", lines.last().unwrap());
        }
    }
    let ended = suite.wait().unwrap();
    let found = lines.iter().find_map(|line| line.strip_prefix(FOUND));
    let Some(found) = found.filter(|_| ended.success()) else {
        let told = lines.join("\n");
        run.fail(format!("the suite ended with {ended}; it said:\n{told}"), &[("output", told.clone())]);
    };
    run.summary(found);
}
