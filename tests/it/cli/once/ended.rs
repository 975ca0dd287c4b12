//! How a run exits, and what the ledger holds then.

use idempotency_ledger::domain::Span;
use idempotency_ledger::proto::{self, EntryState};

use super::{Folder, PAY, once, start, state};
use crate::cli::take;
use crate::harness::details::key;
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(each_end_has_its_code_and_its_state, an_announced_effect_is_parked_and_not_repeated);

async fn each_end_has_its_code_and_its_state(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let (failed, parked) = (EntryState::FailedRetryable, EntryState::Parked);
    for (id, options, script, code, expected, again) in [
        ("zero", &[][..], "true", 0, EntryState::Completed, 0),
        ("three", &[], "exit 3", 3, failed, 75),
        ("later", &[], "exit 75", 1, failed, 75),
        ("data", &[], "exit 65", 1, failed, 75),
        ("named", &["--park-on", "7", "--park-on", "9"], "exit 9", 9, parked, 65),
        ("unnamed", &["--park-on", "7"], "exit 8", 8, failed, 75),
        ("killed", &[], "kill -KILL $$", 137, failed, 75),
        ("ended", &[], "kill -TERM $$", 143, failed, 75),
    ] {
        let ran = once(&server, &folder, options, id, script).await;
        assert_eq!((ran.code, state(&server, id).await), (code, Some(expected)), "{id}: {ran:?}");
        let ran = once(&server, &folder, options, id, PAY).await;
        assert_eq!(ran.code, again, "{id}, again: {ran:?}");
        let told = match expected {
            EntryState::Parked => "parked (CONSUMER): exit code 9",
            EntryState::FailedRetryable => "backoff: the last error is: ",
            _ => "",
        };
        assert!(ran.err.contains(told), "{id}, again: {ran:?}");
    }
    assert_eq!(folder.lines("effects").len(), 0, "nothing ran twice");
    for (program, code) in [("no-such-program", 127), ("/", 126)] {
        let mut run = super::command(&["once", "c", "tests", program, "--", program]);
        let run = run.env("IDEMPOTENCY_LEDGER_ENDPOINT", server.address().to_string());
        super::ended(run.output().unwrap()).says(code, &[program, "nothing was done"]);
        assert_eq!(state(&server, program).await, Some(EntryState::Received), "{program}");
    }
    once(&server, &folder, &[], "", PAY).await.says(2, &["INVALID_FIELD", "key.id"]);
    let nowhere = |endpoint: &str| start(endpoint, folder.0.path(), &[], "nowhere", PAY);
    nowhere("127.0.0.1:1").ran().await.says(75, &["127.0.0.1:1"]);
    nowhere("ftp://127.0.0.1:1").ran().await.says(2, &["none of http://"]);
    assert_eq!(folder.lines("effects").len(), 0);
    server.stop().await;
}

async fn an_announced_effect_is_parked_and_not_repeated(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    for (id, options, code, expected, effects) in [
        ("announced", &[][..], 65, EntryState::Parked, 0),
        ("repeated", &["--repeat-announced"], 0, EntryState::Completed, 1),
    ] {
        let token = take(&server, id).await;
        let request =
            proto::RenewRequest { key: key("c", id), token, effect_started: true, ..Default::default() };
        server.client.clone().renew(request).await.unwrap();
        server.advance(Span(40_000_000)).await;
        let ran = once(&server, &folder, options, id, PAY).await;
        assert_eq!((ran.code, state(&server, id).await), (code, Some(expected)), "{id}: {ran:?}");
        assert_eq!(folder.lines("effects").len(), effects, "{id}");
    }
    server.stop().await;
}
