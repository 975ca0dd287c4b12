//! A disk that is full under the store.

use std::process::Command;
use std::time::Duration;

use idempotency_ledger::proto::{self, claim_response::Verdict};
use tonic::Code;

use super::{BINARY, Server, sqlite};
use crate::harness::details::{claim, refusal};
use crate::harness::disk::SmallDisk;
use crate::harness::postgres::Cluster;
use crate::harness::timer::Timer;
use crate::waiting::secs;

/// Claims fill the disk, are then refused clearly, and what was acknowledged is there when there is
/// room again.
async fn fill_the_disk(server: &Server, make_room: impl AsyncFnOnce()) {
    let mut client = server.client().await;
    let (mut acknowledged, mut refused) = (Vec::new(), None);
    for number in 0..20_000 {
        let id = format!("{number}-{}", "x".repeat(480));
        // The longest lease of the default policy: the last look must come before its end.
        let request = proto::ClaimRequest { lease: secs(900), ..claim("c", &id) };
        match client.claim(request).await {
            Ok(_) => acknowledged.push(id),
            Err(status) => {
                refused = Some(refusal(&status));
                break;
            }
        }
    }
    let refused = refused.expect("the disk never became full");
    assert_eq!((refused.code, refused.reason.as_str()), (Code::Unavailable, "STORE_UNAVAILABLE"));
    assert!(acknowledged.len() > 20, "only {}", acknowledged.len());
    make_room().await;
    let timer = Timer::start();
    while client.claim(claim("c", "room again")).await.is_err() {
        timer.within(Duration::from_secs(20), "the recovery of the server");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for id in acknowledged {
        let answer = client.claim(claim("c", &id)).await.unwrap().into_inner();
        assert!(matches!(answer.verdict, Some(Verdict::InProgress(_))), "{id} is lost: {answer:?}");
    }
}

#[tokio::test]
async fn a_full_disk_is_a_clear_refusal_and_loses_nothing_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::create_dir(&data).unwrap();
    let disk = SmallDisk::new(&data);
    let mut command = disk.command("1m");
    let ballast = format!("head -c 200000 /dev/zero > '{}/ballast' && exec \"$@\"", data.display());
    command.args(["sh", "-c", &ballast, "sh", BINARY]);
    let server = Server::spawn(command, &sqlite(&data)).await;
    // Seen through the server's own view of the file system.
    let ballast = format!("/proc/{}/root{}/ballast", server.child.id(), data.display());
    fill_the_disk(&server, async || std::fs::remove_file(ballast).unwrap()).await;
}

/// The tables are on the small disk, the log of changes is not: without room for that one Postgres
/// stops, which is the case of a database that goes away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_a_clear_refusal_and_loses_nothing_on_postgres() {
    let cluster = Cluster::start_on_a_small_disk("64m");
    let url = cluster.url("postgres");
    assert!(Command::new(BINARY).args(["migrate", "--database-url", &url]).status().unwrap().success());
    let server = Server::start(&url).await;
    // Postgres runs the program, and sees its own file system. COPY fails if the program ends before it has read its input.
    let run = async |program: &str| {
        let statement = format!("COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; {program}'");
        cluster.execute("postgres", &statement).await;
    };
    run("head -c $(($(df --output=avail -B1 base | tail -1) - 400000)) /dev/zero > base/ballast").await;
    let make_room = async || run("rm base/ballast").await;
    fill_the_disk(&server, make_room).await;
}
