//! The SQLite file as a file: what tears it apart is refused or reported, and what it has lost is not granted again
//! without a person.

mod backups;
mod identity;
mod locked;
mod losses;
mod others;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use idempotency_ledger::proto::{self, ledger_service_client::LedgerServiceClient};
use tonic::Code;
use tonic::transport::Channel;

use crate::harness::details::{Refusal, acquired, claim, key, refusal};
use crate::process::{BINARY, Server, sqlite};

/// A server on the file of a folder, and what it logs.
struct Logged {
    server: Server,
    log: PathBuf,
}

impl Logged {
    /// With flags of the test's own.
    async fn start(folder: &Path, flags: &[&str]) -> Logged {
        let log = folder.join(format!("log-{}", std::fs::read_dir(folder).unwrap().count()));
        let to = Stdio::from(std::fs::File::create(&log).unwrap());
        let server = Server::with(Command::new(BINARY), &sqlite(folder), flags, to).await;
        Logged { server, log }
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// SIGKILL; gives back what it had logged.
    fn kill(mut self) -> String {
        self.server.child.kill().unwrap();
        self.server.child.wait().unwrap();
        self.text()
    }
}

/// Claims and completes messages of these numbers.
async fn complete(client: &mut LedgerServiceClient<Channel>, numbers: std::ops::Range<usize>) {
    for number in numbers {
        let id = number.to_string();
        let token = acquired(&client.claim(claim("c", &id)).await.unwrap().into_inner()).token;
        let request = proto::CompleteRequest { key: key("c", &id), token, ..Default::default() };
        client.complete(request).await.unwrap();
    }
}

/// A refusal that says that the store is unavailable, and that nothing was changed.
fn unavailable(status: &tonic::Status) -> Refusal {
    let refused = refusal(status);
    assert_eq!(
        (refused.code, refused.reason.as_str()),
        (Code::Unavailable, "STORE_UNAVAILABLE"),
        "{status:?}"
    );
    refused
}
