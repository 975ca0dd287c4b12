//! What a server logs of the inbox.

use std::fs::File;
use std::process::{Command, Stdio};

use idempotency_ledger::proto::admin_service_client::AdminServiceClient;
use idempotency_ledger::proto::{self, Advice};

use super::{answered, message, next};
use crate::harness::details::key;
use crate::harness::log_file;
use crate::harness::postgres as pg;
use crate::process::{Server, sqlite};

/// An answer to a Store that is good, and the work on its message, are no bug of the server.
async fn logs_no_error(database_url: &str) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let file = Stdio::from(File::create(&log).unwrap());
    let server = Server::with(Command::new(crate::process::BINARY), database_url, &[], file).await;
    let mut admin = AdminServiceClient::new(server.channel().await.unwrap());
    let request = proto::SetPolicyRequest {
        consumer: "c".into(),
        request_id: "on".into(),
        reason: "slow handlers".into(),
        policy: Some(proto::Policy { inbox: Some(true), ..Default::default() }),
        ..Default::default()
    };
    admin.set_policy(request).await.unwrap();
    let mut client = server.client().await;
    for expected in ["stored RECEIVED", "already_stored RECEIVED"] {
        let one = client.store(message("1")).await.unwrap().into_inner();
        assert_eq!(answered(&one), (expected.to_owned(), Advice::Ack));
        let requests = vec![message("2"), message("3")];
        let batch = client.batch_store(proto::BatchStoreRequest { requests }).await.unwrap().into_inner();
        assert!(batch.responses.iter().all(|one| answered(one).0 == expected));
    }
    let handed = client.claim_next(next(9)).await.unwrap().into_inner();
    assert_eq!(handed.messages.len(), 3);
    for (id, token) in super::ids(&handed) {
        let request = proto::CompleteRequest { key: key("c", &id), token, ..Default::default() };
        client.complete(request).await.unwrap();
    }
    assert!(client.claim_next(next(9)).await.unwrap().into_inner().messages.is_empty());
    let text = log_file::settled(&log);
    assert!(text.contains("INFO"), "{text}");
    let bad: Vec<&str> =
        text.lines().filter(|line| line.contains("ERROR") || line.contains("a bug of")).collect();
    assert!(bad.is_empty(), "{bad:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_that_is_good_logs_no_error_on_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    logs_no_error(&sqlite(folder.path())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_that_is_good_logs_no_error_on_postgres() {
    let database = pg::database().await;
    logs_no_error(&pg::shared().url(&database)).await;
}
