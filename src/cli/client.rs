//! The connection to a server, and the options that all commands share.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use super::problem::{Exit, Problem, chain};
use super::screen::{Color, Screen};
use super::text::clean;
use crate::duration_arg::DurationArg;
use crate::rpc::proto::admin_service_client::AdminServiceClient;
use crate::rpc::proto::ledger_service_client::LedgerServiceClient;

const USUAL: &str = "http://127.0.0.1:50051";
const CONNECT_MAX: Duration = Duration::from_secs(10);
const ALIVE_EVERY: Duration = Duration::from_secs(20);
/// More than a page of entries ever has.
const BYTES_MAX: usize = 16 << 20;

/// How to reach the server, and how to answer.
#[derive(Args, Clone)]
#[group(skip)]
pub(super) struct Options {
    /// The server: http://HOST:PORT, https://HOST:PORT, or HOST:PORT [default: http://127.0.0.1:50051; `bench` starts
    /// one of its own]
    #[arg(
        long,
        visible_alias = "server",
        global = true,
        env = "IDEMPOTENCY_LEDGER_ENDPOINT",
        value_name = "URL",
        help_heading = "Server"
    )]
    #[allow(clippy::doc_markdown, rustdoc::bare_urls, reason = "it is also the option's help")]
    pub(super) endpoint: Option<String>,
    /// The authority that signed the server's certificate, as PEM [default: the system's, and Mozilla's]
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TLS_CA",
        value_name = "FILE",
        help_heading = "Server"
    )]
    tls_ca: Option<PathBuf>,
    /// Your own certificate, as PEM, where the server asks for one
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TLS_CERT",
        value_name = "FILE",
        help_heading = "Server"
    )]
    tls_cert: Option<PathBuf>,
    /// Its private key, as PEM
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TLS_KEY",
        value_name = "FILE",
        help_heading = "Server"
    )]
    tls_key: Option<PathBuf>,
    /// The name that the server's certificate must have [default: the endpoint's host]
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TLS_DOMAIN",
        value_name = "NAME",
        help_heading = "Server"
    )]
    tls_domain: Option<String>,
    /// The token that says who you are; others on this machine may see it: rather use the two other ways
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Server"
    )]
    token: Option<String>,
    /// A file with the token
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TOKEN_FILE",
        value_name = "FILE",
        help_heading = "Server"
    )]
    token_file: Option<PathBuf>,
    /// How long to wait for each answer
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_TIMEOUT",
        default_value = "30s",
        value_name = "DURATION",
        help_heading = "Server"
    )]
    timeout: DurationArg,
    /// Answer as canonical proto3 JSON: one document, or one a line where there are many
    #[arg(long, global = true, env = "IDEMPOTENCY_LEDGER_JSON", help_heading = "Output")]
    pub(super) json: bool,
    /// Tables as wide as they get; else long names are shortened to fit the terminal
    #[arg(long, global = true, help_heading = "Output")]
    pub(super) wide: bool,
    /// Colours; `auto` has them on a terminal unless `NO_COLOR` is set
    #[arg(
        long,
        global = true,
        env = "IDEMPOTENCY_LEDGER_COLOR",
        default_value = "auto",
        value_name = "WHEN",
        help_heading = "Output"
    )]
    pub(super) color: Color,
}

/// Says who calls.
#[derive(Clone)]
pub(super) struct Caller(Option<MetadataValue<Ascii>>);

impl Interceptor for Caller {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// The operators' service.
pub(super) type Admin = AdminServiceClient<InterceptedService<Channel, Caller>>;

/// The consumers' service.
pub(super) type Ledger = LedgerServiceClient<InterceptedService<Channel, Caller>>;

/// A server, not called yet.
#[derive(Clone)]
pub(super) struct Client {
    endpoint: Endpoint,
    caller: Caller,
    timeout: Duration,
    pub(super) screen: Screen,
}

impl Client {
    pub(super) fn new(options: &Options, screen: Screen) -> Result<Client, Problem> {
        let token = token(options)?;
        let url = url(options);
        let uri = http::Uri::from_str(&url)
            .map_err(|error| Problem::usage(format!("--endpoint: {}: {error}", clean(&url))))?;
        let mut endpoint = Endpoint::from_shared(url.clone())
            .map_err(|error| Problem::usage(format!("--endpoint: {}: {}", clean(&url), chain(&error))))?
            .connect_timeout(CONNECT_MAX)
            .http2_keep_alive_interval(ALIVE_EVERY)
            .keep_alive_while_idle(false);
        match uri.scheme_str() {
            Some("https") => {
                let error =
                    |error| Problem::usage(format!("the TLS options cannot be used: {}", chain(&error)));
                endpoint = endpoint.tls_config(tls(options)?).map_err(error)?;
            }
            Some("http") if options.wants_tls() => {
                return Err(Problem::usage("--endpoint: is http://, without TLS; --tls-… needs https://"));
            }
            Some("http") => {}
            Some(_) | None => {
                return Err(Problem::usage(format!(
                    "--endpoint: {} is none of http://HOST:PORT, https://HOST:PORT and HOST:PORT",
                    clean(&url)
                )));
            }
        }
        Ok(Client { endpoint, caller: Caller(token), timeout: options.timeout.into(), screen })
    }

    /// The operators' service of the server.
    pub(super) async fn connect(&self) -> Result<Admin, Problem> {
        let channel = self.channel().await?;
        Ok(AdminServiceClient::with_interceptor(channel, self.caller.clone())
            .max_decoding_message_size(BYTES_MAX))
    }

    /// The consumers' service of the server.
    pub(super) async fn connect_ledger(&self) -> Result<Ledger, Problem> {
        Ok(LedgerServiceClient::with_interceptor(self.channel().await?, self.caller.clone()))
    }

    /// Connects, so that a server that is not there is told from one that does not answer.
    async fn channel(&self) -> Result<Channel, Problem> {
        let connected = tokio::time::timeout(self.timeout, self.endpoint.connect()).await;
        let unreachable = |said: String| {
            let text = format!("{}: {said}", clean(&self.endpoint.uri().to_string()));
            let next = if said.contains("certificate") {
                "name the authority of the server's certificate with --tls-ca, or its name with --tls-domain"
            } else {
                "is the server running? Name another with --endpoint"
            };
            Problem::new(Exit::Unavailable, text).next(next)
        };
        connected
            .map_err(|_| unreachable(format!("no connection within {:?}", self.timeout)))?
            .map_err(|error| unreachable(chain(&error)))
    }

    /// The server, for people: without what may stand before an `@`.
    pub(super) fn server(&self) -> String {
        let uri = self.endpoint.uri();
        let authority = uri.authority().map_or("", http::uri::Authority::as_str);
        let host = authority.rsplit('@').next().unwrap_or_default();
        clean(&format!("{}://{host}", uri.scheme_str().unwrap_or_default()))
    }

    /// Whether the server's address is one of this machine's own.
    pub(super) fn is_local(&self) -> bool {
        let host = self.endpoint.uri().host().unwrap_or_default();
        let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
        address.map_or(host.eq_ignore_ascii_case("localhost"), |address| address.is_loopback())
    }

    /// A request that is answered in time, or not at all.
    pub(super) fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.timeout);
        request
    }
}

impl Options {
    fn wants_tls(&self) -> bool {
        self.tls_ca.is_some()
            || self.tls_cert.is_some()
            || self.tls_key.is_some()
            || self.tls_domain.is_some()
    }
}

fn url(options: &Options) -> String {
    let named = options.endpoint.as_deref().unwrap_or(USUAL);
    if named.contains("://") {
        return named.to_owned();
    }
    let scheme = if options.wants_tls() { "https" } else { "http" };
    format!("{scheme}://{named}")
}

fn token(options: &Options) -> Result<Option<MetadataValue<Ascii>>, Problem> {
    let token = match (&options.token, &options.token_file) {
        (Some(_), Some(_)) => return Err(Problem::usage("--token and --token-file: name one of them")),
        (Some(token), None) => token.clone(),
        (None, Some(file)) => String::from_utf8_lossy(&read("--token-file", file)?).trim().to_owned(),
        (None, None) => return Ok(None),
    };
    let refused = |_| Problem::usage("the token has a character that no token has");
    let mut value = MetadataValue::try_from(format!("Bearer {token}")).map_err(refused)?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn tls(options: &Options) -> Result<ClientTlsConfig, Problem> {
    let mut tls = ClientTlsConfig::new();
    tls = match &options.tls_ca {
        Some(file) => tls.ca_certificate(Certificate::from_pem(read("--tls-ca", file)?)),
        None => tls.with_enabled_roots(),
    };
    tls = match (&options.tls_cert, &options.tls_key) {
        (Some(cert), Some(key)) => {
            tls.identity(Identity::from_pem(read("--tls-cert", cert)?, read("--tls-key", key)?))
        }
        (None, None) => tls,
        (Some(_), None) | (None, Some(_)) => {
            return Err(Problem::usage("--tls-cert and --tls-key: one is of no use without the other"));
        }
    };
    Ok(match &options.tls_domain {
        Some(name) => tls.domain_name(name),
        None => tls,
    })
}

fn read(flag: &str, file: &Path) -> Result<Vec<u8>, Problem> {
    std::fs::read(file).map_err(|error| Problem::usage(format!("{flag}: {}: {error}", file.display())))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Typed {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn a_server_on_this_machine_is_known_by_its_address() {
        for (endpoint, local) in [
            ("127.0.0.1:1", true),
            ("http://127.9.9.9:1", true),
            ("http://[::1]:50051", true),
            ("http://localhost:50051", true),
            ("http://LocalHost", true),
            ("10.0.0.1:50051", false),
            ("http://[2001:db8::1]:50051", false),
            ("http://ledger.example:50051", false),
            ("http://localhost.example", false),
            ("http://127.0.0.1@ledger.example", false),
        ] {
            let Typed { options } = Typed::parse_from(["it", "--endpoint", endpoint]);
            let client = Client::new(&options, Screen::plain()).unwrap();
            assert_eq!(client.is_local(), local, "{endpoint}");
        }
    }
}
