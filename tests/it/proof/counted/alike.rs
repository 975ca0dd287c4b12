//! Both stores answer alike. The same random walk over a SQLite store and a Postgres store; every few steps each read of a session
//! must have the same answer from both.

use std::collections::BTreeSet;
use std::path::Path;

use super::reads;
use super::walk::Walk;
use crate::harness::server::Kind;
use crate::proof::run::Run;

/// The reads are compared after this number of steps.
const EVERY: u64 = 4;
/// The files of the traits of a session.
const TRAITS: [&str; 7] = ["entries", "holds", "inbox", "operators", "policies", "replays", "upkeep"];
/// The methods of these traits that write.
const WRITES: [&str; 28] = [
    "add_hold",
    "add_policy",
    "add_replay_run",
    "attach",
    "change",
    "close_replay_run",
    "complete",
    "end_purge_turn",
    "erase",
    "forget_handouts",
    "hand_out",
    "index_open_claims",
    "insert",
    "lift_hold",
    "purge",
    "purge_audit",
    "put_in_force",
    "raise_token_offset",
    "replace",
    "replace_until",
    "report_purge",
    "store_new",
    "sweep_empty_runs",
    "sweep_messages",
    "sweep_replay_run",
    "take_purge_turn",
    "write_entries",
    "write_heartbeat",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_stores_answer_each_read_alike() {
    let mut run = Run::new("counted", 48);
    let mut read = BTreeSet::new();
    let mut walks = [Walk::start(Kind::Sqlite, run.seed).await, Walk::start(Kind::Postgres, run.seed).await];
    for step in 0..run.size {
        let mut found = Vec::new();
        for walk in &mut walks {
            walk.step().await;
            if step % EVERY == EVERY - 1 {
                let keys = walk.stored_keys();
                found.push(reads::answers(&mut *walk.server.at.session().await, &keys).await.0);
            }
        }
        let [sqlite, postgres] = &found[..] else { continue };
        let questions =
            |answers: &[(String, String)]| answers.iter().map(|(asked, _)| asked.clone()).collect::<Vec<_>>();
        for ((asked, one), (_, other)) in sqlite.iter().zip(postgres) {
            read.extend(asked.split(' ').next().map(str::to_owned));
            if one != other {
                let problem = format!("step {step}, {asked}:\nSQLite   {one}\nPostgres {other}");
                run.fail(problem, &[("steps", walks[0].log.join("\n"))]);
            }
        }
        assert_eq!(questions(sqlite), questions(postgres), "both are asked the same");
        run.progress(step + 1, format!("{} reads", sqlite.len()));
    }
    let asked = BTreeSet::from(reads::ASKED.map(str::to_owned));
    assert!(run.size < EVERY || read == asked, "{read:?} are asked");
    for walk in walks {
        walk.server.stop().await;
    }
}

#[test]
fn each_method_of_a_session_is_asked_or_writes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store");
    let mut methods = BTreeSet::new();
    for name in TRAITS {
        let text = std::fs::read_to_string(root.join(format!("{name}.rs"))).unwrap();
        let named = text
            .lines()
            .filter_map(|line| Some(line.trim().strip_prefix("async fn ")?.split_once('(')?.0.to_owned()));
        methods.extend(named);
    }
    let known = reads::ASKED.iter().chain(&reads::LEFT_OUT).chain(&WRITES).map(|name| (*name).to_owned());
    assert_eq!(methods, known.collect());
}
