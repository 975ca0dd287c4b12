//! A bare server for `tests/prove speed`: the ledger's messages on tonic as it comes, and nothing behind them. It says
//! where it listens, and ends when its standard input is closed.

mod service;

use std::io::{Read as _, Write as _};

use idempotency_ledger::proto::ledger_service_server::LedgerServiceServer;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use self::service::Echo;

/// The allocator of packages.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    std::thread::spawn(|| {
        let _closed = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "echo listens on {}", listener.local_addr()?)?;
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    let service = LedgerServiceServer::new(Echo::default());
    Server::builder().add_service(service).serve_with_incoming(incoming).await?;
    Ok(())
}
