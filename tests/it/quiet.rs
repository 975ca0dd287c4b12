//! What a failing store writes to the log: a line a second of each kind, not one for each batch.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use tonic::transport::Endpoint;

use crate::harness::details::{claim, refusal};
use crate::harness::postgres as pg;

/// Ends the server with the test.
struct Killed(std::process::Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _ended = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_refuses_every_statement_makes_a_line_a_second_of_each_kind() {
    let database = pg::database().await;
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let address = format!("127.0.0.1:{}", pg::free_port());
    let child = Command::new(env!("CARGO_BIN_EXE_idempotency-ledger"))
        .args(["serve", "--listen", &address, "--database-url", &pg::shared().url(&database)])
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let _server = Killed(child);
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = loop {
        match endpoint.connect().await {
            Ok(channel) => break LedgerServiceClient::new(channel),
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    client.claim(claim("c", "before")).await.unwrap();
    // A full disk, as the server says it: sessions can be opened, and every insert is refused.
    let full = "CREATE FUNCTION ledger.full() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = '53100'; END $$;
        CREATE TRIGGER full_disk BEFORE INSERT ON ledger.entries EXECUTE FUNCTION ledger.full()";
    pg::shared().execute(&database, full).await;
    let (began, mut refused) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(2) || refused < 100 {
        let calls = (0..4).map(|number| {
            let (mut client, id) = (client.clone(), format!("{refused} {number}"));
            async move { client.claim(claim("c", &id)).await.unwrap_err() }
        });
        for status in futures_util::future::join_all(calls).await {
            assert_eq!(refusal(&status).reason, "STORE_UNAVAILABLE");
            refused += 1;
        }
    }
    let seconds = began.elapsed().as_secs() + 1;
    let text = crate::harness::log_file::settled(&log);
    let warned: Vec<&str> = text.lines().filter(|line| line.contains("WARN")).collect();
    let of_the_store: Vec<_> =
        warned.iter().filter(|line| line.contains("the store refuses a statement")).collect();
    println!("{} refused in {seconds} s: {} lines", refused, warned.len());
    assert!((1..=seconds as usize + 1).contains(&of_the_store.len()), "{of_the_store:#?}");
    // No more than a few kinds, each once a second.
    assert!(warned.len() as u64 <= 4 * seconds, "{warned:#?}");
    assert!(of_the_store.iter().any(|line| line.contains("held_back")), "{of_the_store:#?}");
}
