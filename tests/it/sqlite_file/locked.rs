//! Another process writes the file.

use std::time::Duration;

use futures_util::future::join_all;
use idempotency_ledger::proto;
use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use sqlx::{Connection as _, Executor as _, SqliteConnection};

use super::{Logged, complete, unavailable};
use crate::harness::details::{claim, refusal};
use crate::harness::timer::Timer;
use crate::holds::hold;
use crate::process::sqlite;

/// How long a call may wait, whatever its deadline is: the two seconds that the server waits, and some time for the answer.
const REFUSED_WITHIN: Duration = Duration::from_millis(2_900);
/// How long six changes may wait together: a tenth of a second each, since the foreign writer is known by then. Two seconds each
/// would be twelve.
const CHANGES_WITHIN: Duration = Duration::from_secs(6);
/// In which time the server works again after the foreign writer has let go.
const RECOVERS_WITHIN: Duration = Duration::from_secs(10);
/// How long the machine must have delayed a call whose statement is given up before the file's lock is: after three seconds, not
/// two.
const GIVEN_UP: Duration = Duration::from_secs(1);

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
            let (timer, mut request) =
                (Timer::start(), tonic::Request::new(claim("c", &format!("new-{number}"))));
            request.set_timeout(Duration::from_secs(20));
            let refused = client.claim(request).await.unwrap_err();
            timer.within(REFUSED_WITHIN, "a refusal");
            (timer.delayed(), refused)
        })
    });
    let mut said = 0;
    for wait in waits.collect::<Vec<_>>() {
        let (delayed, refused) = wait.await.unwrap();
        if delayed >= GIVEN_UP && refusal(&refused).reason == "OUTCOME_UNKNOWN" {
            continue;
        }
        unavailable(&refused);
        assert!(refused.message().contains("nothing was changed"), "{refused:?}");
        said += 1;
    }
    assert!(said > 0, "no call was refused in time");
    // Changes wait for the one writer one after the other: once the other process is known, each of them waits briefly.
    let timer = Timer::start();
    let changes = (0..6).map(|number| {
        let mut admin = admin.clone();
        async move { admin.hold_consumers(hold(&format!("held-{number}"))).await.unwrap_err() }
    });
    for refused in join_all(changes).await {
        unavailable(&refused);
    }
    timer.within(CHANGES_WITHIN, "six changes");
    foreign.execute("ROLLBACK").await.unwrap();
    let timer = Timer::start();
    while client.claim(claim("c", "after")).await.is_err() {
        timer.within(RECOVERS_WITHIN, "the server's recovery");
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
