//! Signals: the first one is passed on, the second one ends everything.

use idempotency_ledger::proto::EntryState;

use super::{Folder, PAY, deaf, once, start, state, until, until_state};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, TestServer};

on_both_stores!(
    a_first_signal_is_passed_on_and_the_end_is_settled,
    a_second_signal_ends_the_command_and_settles_nothing,
    signals_before_the_command_begin_nothing,
);

async fn a_first_signal_is_passed_on_and_the_end_is_settled(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let address = server.address().to_string();
    for (name, number) in [("HUP", 129), ("INT", 130), ("QUIT", 131), ("TERM", 143)] {
        let heeds =
            format!("trap 'echo late; exit 0' {name}; echo $$ >{name}.heeds; while :; do sleep 0.01; done");
        let run = start(&address, folder.0.path(), &[], &format!("{name}.heeds"), &heeds);
        folder.line(&format!("{name}.heeds")).await;
        run.signal(name);
        run.ran().await.is(0, "late\n");
        let dies = format!("echo $$ >{name}.dies; exec sleep 1000");
        let run = start(&address, folder.0.path(), &[], &format!("{name}.dies"), &dies);
        folder.line(&format!("{name}.dies")).await;
        run.signal(name);
        assert_eq!(run.ran().await.code, number, "{name}");
        let failed = Some(EntryState::FailedRetryable);
        assert_eq!(state(&server, &format!("{name}.dies")).await, failed, "{name}");
    }
    server.stop().await;
}

async fn a_second_signal_ends_the_command_and_settles_nothing(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let script = "trap 'echo got >got' TERM; echo $$ >began; while :; do sleep 0.01; done";
    let run = start(&server.address().to_string(), folder.0.path(), &[], "twice", script);
    let pid = folder.line("began").await;
    run.signal("TERM");
    folder.line("got").await;
    run.signal("INT");
    run.ran().await.says(130, &["second signal", "its lease runs out"]);
    until("the command is gone", || !std::path::Path::new(&format!("/proc/{pid}")).exists()).await;
    assert_eq!(state(&server, "twice").await, Some(EntryState::InProgress));
    server.stop().await;
}

async fn signals_before_the_command_begin_nothing(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let proxy = deaf::before(server.address(), b"claimed").await;
    let run = start(&proxy, folder.0.path(), &[], "claimed", PAY);
    until_state(&server, "claimed", EntryState::InProgress).await;
    run.signal("TERM");
    run.signal("INT");
    let code = run.ran().await.code;
    // Whichever of the two is received last ends it.
    assert!([130, 143].contains(&code), "{code}");
    assert_eq!(folder.lines("effects").len(), 0);
    once(&server, &folder, &[], "claimed", PAY).await.says(75, &["in_progress"]);
    server.stop().await;
}
