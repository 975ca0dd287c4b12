//! `health`: whether a server serves.

use std::io::Write as _;
use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

/// Asks a server whether it serves.
///
/// # Errors
/// It does not, or does not answer.
pub(super) async fn health(address: &str, service: &str, within: Duration) -> Result<(), String> {
    let url = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let asked = async {
        let endpoint = Endpoint::from_shared(url).map_err(|error| format!("address: {error}"))?;
        let channel = endpoint.connect().await.map_err(|error| {
            format!("{address}: {error}; is the server running? Name another with --address")
        })?;
        let mut client = HealthClient::new(channel);
        let request = HealthCheckRequest { service: service.to_owned() };
        client.check(request).await.map_err(|status| format!("{address}: {}", status.message()))
    };
    let answer =
        timeout(within, asked).await.map_err(|_| format!("{address}: no answer within {within:?}"))??;
    let status = answer.into_inner().status();
    drop(writeln!(std::io::stdout(), "{}", status.as_str_name()));
    if status == ServingStatus::Serving { Ok(()) } else { Err(format!("{address}: not serving")) }
}
