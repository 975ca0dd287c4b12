//! The HTTP door: what clients without gRPC are answered.

mod calls;
pub(crate) mod client;
mod middleware;
mod page;
mod safety;
mod smuggling;

use std::net::SocketAddr;

use self::client::Reply;

const LEDGER: &str = "/idempotency.ledger.v1.LedgerService";
const ADMIN: &str = "/idempotency.ledger.v1.AdminService";

/// Calls in one of the two protocols of HTTP.
async fn call(http: u8, to: SocketAddr, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    match http {
        1 => client::http1(to, path, headers, body).await,
        2 => client::http2(to, path, headers, body).await,
        _ => panic!("HTTP/{http}"),
    }
}

/// The JSON of a claim.
fn claim(id: &str) -> String {
    format!(r#"{{"key":{{"consumer":"c","source":"s","id":"{id}"}},"owner":"o"}}"#)
}
