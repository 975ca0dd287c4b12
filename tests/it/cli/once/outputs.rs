//! What a command prints, and what is stored of it.

use idempotency_ledger::rpc::Limits;

use super::{Folder, deaf, once, start};
use crate::harness::on_both_stores;
use crate::harness::server::{Kind, Setup, TestServer};

on_both_stores!(an_output_beyond_the_bound_is_passed_on_and_not_stored, an_unconfirmed_complete_is_told);

async fn an_output_beyond_the_bound_is_passed_on_and_not_stored(kind: Kind) {
    // So that the server refuses a request with the largest output, and drops the result of a smaller one.
    let limits = Limits { batch_bytes: 65_536, ..Limits::default() };
    let setup = Setup { limits, ..Setup::default() };
    let (server, folder) = (TestServer::start_with(kind, setup).await, Folder::new());
    for (id, options, bytes, stored) in [
        ("empty", &[][..], 0, true),
        ("bound", &[], 16_384, true),
        ("beyond", &[], 16_385, false),
        ("large", &[], 5_000_000, false),
        ("dropped", &["--output-max", "1048576"], 20_000, false),
        ("refused", &["--output-max", "1048576"], 1_000_000, false),
        ("nothing", &["--output-max", "0"], 1, false),
    ] {
        let script = format!("echo x >>effects-{id}; head -c {bytes} /dev/zero | tr '\\0' 'a'");
        let ran = once(&server, &folder, options, id, &script).await;
        assert_eq!((ran.code, ran.out.len()), (0, bytes), "{id}: {}", ran.err);
        assert_eq!(ran.err.contains("was not stored"), !stored, "{id}: {}", ran.err);
        let again = once(&server, &folder, options, id, &script).await;
        assert_eq!((again.code, again.out.len()), (0, if stored { bytes } else { 0 }), "{id}: {}", again.err);
        assert_eq!(again.err.contains("too long to be stored"), !stored, "{id}, again: {}", again.err);
        assert_eq!(folder.lines(&format!("effects-{id}")).len(), 1, "{id}");
    }
    server.stop().await;
}

async fn an_unconfirmed_complete_is_told(kind: Kind) {
    let (server, folder) = (TestServer::start(kind).await, Folder::new());
    let proxy = deaf::before(server.address(), b"receipt").await;
    let run = start(&proxy, folder.0.path(), &["--confirm-within", "300ms"], "told", "echo receipt");
    run.ran().await.says(75, &["has not confirmed", "run it again"]);
    // It was stored all the same.
    once(&server, &folder, &[], "told", "echo twice").await.is(0, "receipt\n");
    server.stop().await;
}
