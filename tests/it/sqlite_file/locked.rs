//! Another process writes the file.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use sqlx::{Connection as _, Executor as _, SqliteConnection};

use super::{Logged, complete, unavailable};
use crate::harness::details::{claim, refusal};
use crate::holds::hold;
use crate::process::sqlite;

/// How long a call may wait, whatever its deadline is: the two seconds that the server waits, and what a busy machine adds. One
/// after the other the calls would wait for longer.
const REFUSED_WITHIN: Duration = Duration::from_secs(9);
/// How long six changes may wait together: a tenth of a second each, which is two seconds each for a process that is not known,
/// and what a busy machine adds.
const CHANGES_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_writer_is_refused_to_callers_within_two_seconds() {
    let folder = tempfile::tempdir().unwrap();
    let logged = Logged::start(folder.path(), &[]).await;
    let mut client = logged.server.client().await;
    complete(&mut client, 0..5).await;
    let mut admin = AdminServiceClient::connect(format!("http://{}", logged.server.address)).await.unwrap();
    admin.list_holds(proto::ListHoldsRequest::default()).await.unwrap();
    let mut foreign = SqliteConnection::connect(&sqlite(folder.path())).await.unwrap();
    foreign.execute("BEGIN IMMEDIATE").await.unwrap();
    let waits = (0..12).map(|number| {
        let mut client = client.clone();
        tokio::spawn(async move {
            // Some come while the others, or the heartbeat, wait already.
            tokio::time::sleep(Duration::from_millis(300 * number)).await;
            let (begun, mut request) =
                (Instant::now(), tonic::Request::new(claim("c", &format!("new-{number}"))));
            request.set_timeout(Duration::from_secs(20));
            let refused = client.claim(request).await.unwrap_err();
            (begun.elapsed(), refused)
        })
    });
    let mut said = 0;
    for wait in waits.collect::<Vec<_>>() {
        let (waited, refused) = wait.await.unwrap();
        assert!(waited < REFUSED_WITHIN, "{waited:?}");
        // On a busy machine a statement may be given up before the file's lock is.
        if refusal(&refused).reason == "OUTCOME_UNKNOWN" {
            continue;
        }
        unavailable(&refused);
        assert!(refused.message().contains("nothing was changed"), "{refused:?}");
        said += 1;
    }
    assert!(said > 0, "no call was refused in time");
    // Changes wait for the one writer one after the other: once the other process is known, each of them waits briefly.
    let begun = Instant::now();
    let changes = (0..6).map(|number| {
        let mut admin = admin.clone();
        async move { admin.hold_consumers(hold(&format!("held-{number}"))).await.unwrap_err() }
    });
    for refused in join_all(changes).await {
        unavailable(&refused);
    }
    assert!(begun.elapsed() < CHANGES_WITHIN, "{:?}", begun.elapsed());
    foreign.execute("ROLLBACK").await.unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while client.claim(claim("c", "after")).await.is_err() {
        assert!(Instant::now() < until, "the server does not recover");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // Nothing of what was refused was applied.
    complete(&mut client, 5..10).await;
    for number in 0..12 {
        let id = format!("new-{number}");
        let answer = client.claim(claim("c", &id)).await.unwrap().into_inner();
        crate::harness::details::acquired(&answer);
    }
    let text = logged.kill();
    assert!(text.contains("another process writes the file"), "{text}");
}
