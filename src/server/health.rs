//! The command `health`: asks a server whether it serves; and the hint for it at the start of a server.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::timeout;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use crate::common::program::program;
use crate::identity::Tls;

const NO_TLS: &str = "https:// is for a server that speaks TLS";

/// The server and the service to ask about. The variables of the operators' commands may name another server, and are not used
/// here.
#[derive(clap::Args)]
pub struct HealthArgs {
    /// The server: HOST:PORT, or https://HOST:PORT where it speaks TLS
    #[arg(long, env = "IDEMPOTENCY_LEDGER_LISTEN", default_value = "127.0.0.1:50051")]
    #[allow(rustdoc::bare_urls, reason = "it is also the flag's help")]
    address: String,
    /// The authority that signed the server's certificate, as PEM [default: the system's, and Mozilla's]
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// The name that the server's certificate must have [default: the address' host]
    #[arg(long, value_name = "NAME")]
    tls_domain: Option<String>,
    /// A service's name; empty: the whole server
    #[arg(long, default_value = "")]
    service: String,
}

/// The command that asks the server at this address, for people to paste. Only they know the certificate's authority.
pub(super) fn command(address: &str, tls: Option<&Tls>) -> String {
    let program = program();
    match tls {
        None => format!("{program} health --address {address}"),
        Some(tls) => {
            let domain = tls.name.as_ref().map_or_else(String::new, |name| format!(" --tls-domain {name}"));
            format!("{program} health --address https://{address}{domain} --tls-ca CA_FILE")
        }
    }
}

/// Asks a server whether it serves.
///
/// # Errors
/// The server does not serve, or does not answer.
pub(super) async fn health(args: &HealthArgs, within: Duration) -> Result<(), String> {
    let (address, endpoint) = (&args.address, args.endpoint()?);
    let asked = async {
        let channel = endpoint.connect().await.map_err(|error| unreachable(address, &error))?;
        let mut client = HealthClient::new(channel);
        let request = HealthCheckRequest { service: args.service.clone() };
        client.check(request).await.map_err(|status| match status.source() {
            // The status was not sent by the server: the connection broke.
            Some(_) => format!("{address}: {}; {NO_TLS}", status.message()),
            None => format!("{address}: {}", status.message()),
        })
    };
    let answer =
        timeout(within, asked).await.map_err(|_| format!("{address}: no answer within {within:?}"))??;
    let status = answer.into_inner().status();
    drop(writeln!(std::io::stdout(), "{}", status.as_str_name()));
    if status == ServingStatus::Serving { Ok(()) } else { Err(format!("{address}: not serving")) }
}

impl HealthArgs {
    fn endpoint(&self) -> Result<Endpoint, String> {
        let wants_tls = self.tls_ca.is_some() || self.tls_domain.is_some();
        let url = match (self.address.contains("://"), wants_tls) {
            (true, _) => self.address.clone(),
            (false, true) => format!("https://{}", self.address),
            (false, false) => format!("http://{}", self.address),
        };
        let endpoint = Endpoint::from_shared(url).map_err(|error| format!("address: {error}"))?;
        match endpoint.uri().scheme_str() {
            Some("https") => endpoint
                .tls_config(self.tls()?)
                .map_err(|error| format!("the TLS flags cannot be used: {}", chain(&error))),
            Some("http") if wants_tls => Err(format!(
                "{}: is http://, without TLS; --tls-ca and --tls-domain need https://",
                self.address
            )),
            Some("http") => Ok(endpoint),
            Some(_) | None => {
                Err(format!("{}: is none of HOST:PORT, http://HOST:PORT, https://HOST:PORT", self.address))
            }
        }
    }

    fn tls(&self) -> Result<ClientTlsConfig, String> {
        let tls = match &self.tls_ca {
            Some(file) => {
                let pem = std::fs::read(file);
                let pem = pem.map_err(|error| format!("--tls-ca: {}: {error}", file.display()))?;
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
            }
            None => ClientTlsConfig::new().with_enabled_roots(),
        };
        Ok(match &self.tls_domain {
            Some(name) => tls.domain_name(name),
            None => tls,
        })
    }
}

fn unreachable(address: &str, error: &dyn Error) -> String {
    let said = chain(error);
    if said.contains("certificate") {
        let next =
            "name the authority of the server's certificate with --tls-ca, or its name with --tls-domain";
        return format!("{address}: {said}; {next}");
    }
    format!("{address}: {said}; is the server running? Name another with --address; {NO_TLS}")
}

/// An error with its causes.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = inner.source();
    }
    text
}
