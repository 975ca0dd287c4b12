//! The connection to a server.

use std::path::PathBuf;
use std::time::Duration;

use http::{HeaderValue, Uri};
use tonic::metadata::{Ascii, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status};

use super::connect_options::{self, ConnectOptions, SourcedValue, Token};
use super::contexts;
use super::options::Options;
use super::output::Output;
use super::problem::{Exit, Problem, chain};
use super::text::{clean, quoted};
use crate::common::program::program;
use crate::proto::admin_service_client::AdminServiceClient;
use crate::proto::ledger_service_client::LedgerServiceClient;

/// What rustls reports of an answer that is not TLS.
const NOT_TLS: &str = "InvalidContentType";
const CONNECT_MAX: Duration = Duration::from_secs(10);
const ALIVE_EVERY: Duration = Duration::from_secs(20);
/// Larger than any page of entries.
const BYTES_MAX: usize = 16 << 20;

/// Adds the caller's credential to each request.
#[derive(Clone)]
pub(crate) struct CredentialInterceptor(Option<MetadataValue<Ascii>>);

impl Interceptor for CredentialInterceptor {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("authorization", token.clone());
        }
        Ok(request)
    }
}

/// The operators' service.
pub(crate) type Admin = AdminServiceClient<InterceptedService<Channel, CredentialInterceptor>>;

/// The consumers' service.
pub(crate) type ConsumerClient = LedgerServiceClient<InterceptedService<Channel, CredentialInterceptor>>;

/// A client of one server, not connected yet.
#[derive(Clone)]
pub(crate) struct Client {
    endpoint: Endpoint,
    caller: CredentialInterceptor,
    connect: ConnectOptions,
    contexts_file: Option<PathBuf>,
    pub(crate) output: Output,
}

impl Client {
    pub(crate) fn new(options: &Options, output: Output) -> Result<Client, Problem> {
        let connect = contexts::connect_options(options)?;
        // Checked before any file is read: a file whose content must not be sent is not even opened.
        let uri = connect.check()?;
        let token = token(&connect)?;
        let by = &connect.endpoint.by;
        let mut endpoint = Endpoint::from_shared(connect.url())
            .map_err(|error| Problem::usage(format!("{by}: {}: {}", clean(&connect.url()), chain(&error))))?
            .connect_timeout(CONNECT_MAX)
            .http2_keep_alive_interval(ALIVE_EVERY)
            .keep_alive_while_idle(false);
        if uri.scheme_str() == Some("https") {
            let error = |error| Problem::usage(format!("the TLS options cannot be used: {}", chain(&error)));
            endpoint = endpoint.tls_config(tls(&connect)?).map_err(error)?;
        }
        let contexts_file = options.contexts.contexts_file.clone();
        Ok(Client { endpoint, caller: CredentialInterceptor(token), connect, contexts_file, output })
    }

    /// The operators' service of the server.
    pub(crate) async fn connect(&self) -> Result<Admin, Problem> {
        let channel = self.channel().await?;
        Ok(AdminServiceClient::with_interceptor(channel, self.caller.clone())
            .max_decoding_message_size(BYTES_MAX))
    }

    /// The consumers' service of the server.
    pub(crate) async fn connect_ledger(&self) -> Result<ConsumerClient, Problem> {
        Ok(LedgerServiceClient::with_interceptor(self.channel().await?, self.caller.clone()))
    }

    /// Connects separately, so that a server that cannot be reached is distinguished from one that does not
    /// answer.
    async fn channel(&self) -> Result<Channel, Problem> {
        let connected = tokio::time::timeout(self.connect.timeout, self.endpoint.connect()).await;
        connected
            .map_err(|_| self.unreachable(&format!("no connection within {:?}", self.connect.timeout)))?
            .map_err(|error| self.unreachable(&chain(&error)))
    }

    /// The problem of a connection that was not made.
    pub(crate) fn unreachable(&self, said: &str) -> Problem {
        let text = format!("{}: {said}", self.in_context(&clean(&self.uri().to_string())));
        let next = if said.contains("certificate") {
            "name the authority of the server's certificate with --tls-ca, or its name with --tls-domain"
        } else if said.contains(NOT_TLS) {
            "the server has no TLS at this port: name it with http:// instead of https://"
        } else {
            "is the server running? Name another with --endpoint or --context"
        };
        Problem::new(Exit::Unavailable, text).next(next)
    }

    /// The connect options of the server.
    pub(crate) fn connect_options(&self) -> &ConnectOptions {
        &self.connect
    }

    /// The `authorization` header with the caller's credential.
    pub(crate) fn authorization(&self) -> Option<HeaderValue> {
        let token = self.caller.0.as_ref()?;
        let mut header = HeaderValue::from_bytes(token.as_bytes()).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    /// The server's name for people, with its context.
    pub(crate) fn server(&self) -> String {
        self.in_context(&connect_options::place(self.uri()))
    }

    fn in_context(&self, server: &str) -> String {
        self.connect
            .context
            .as_ref()
            .map_or_else(|| server.to_owned(), |context| format!("{context}: {server}"))
    }

    /// The context that is in use.
    pub(crate) fn context(&self) -> Option<&str> {
        self.connect.context.as_deref()
    }

    /// This program, as it begins a command that people paste: the command uses the same server, whichever
    /// context is then the current one.
    pub(crate) fn program(&self) -> String {
        let mut words = vec![program()];
        if let Some(context) = &self.connect.context {
            if let Some(file) = &self.contexts_file {
                words.push(format!("--contexts-file {}", quoted(&file.display().to_string())));
            }
            words.push(format!("--context {}", quoted(context)));
        }
        words.join(" ")
    }

    /// Whether the server's address is on this machine.
    pub(crate) fn is_local(&self) -> bool {
        connect_options::is_local(self.uri())
    }

    pub(crate) fn uri(&self) -> &Uri {
        self.endpoint.uri()
    }

    /// A request with the timeout as its deadline.
    pub(crate) fn request<T>(&self, message: T) -> Request<T> {
        self.request_after(Duration::ZERO, message)
    }

    /// A request that may wait this long at the server before it is answered.
    pub(crate) fn request_after<T>(&self, wait: Duration, message: T) -> Request<T> {
        let mut request = Request::new(message);
        request.set_timeout(self.connect.timeout + wait);
        request
    }
}

fn token(connect: &ConnectOptions) -> Result<Option<MetadataValue<Ascii>>, Problem> {
    let token = match &connect.token {
        Some(Token::Typed(token)) => token.clone(),
        Some(Token::File(file)) => String::from_utf8_lossy(&read(file)?).trim().to_owned(),
        None => return Ok(None),
    };
    let refused = |_| Problem::usage("the token has a character that no token has");
    let mut value = MetadataValue::try_from(format!("Bearer {token}")).map_err(refused)?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn tls(connect: &ConnectOptions) -> Result<ClientTlsConfig, Problem> {
    let mut tls = ClientTlsConfig::new();
    tls = match &connect.tls_ca {
        Some(file) => tls.ca_certificate(Certificate::from_pem(read(file)?)),
        None => tls.with_enabled_roots(),
    };
    if let (Some(cert), Some(key)) = (&connect.tls_cert, &connect.tls_key) {
        tls = tls.identity(Identity::from_pem(read(cert)?, read(key)?));
    }
    Ok(match &connect.tls_domain {
        Some(name) => tls.domain_name(name),
        None => tls,
    })
}

pub(crate) fn read(file: &SourcedValue<PathBuf>) -> Result<Vec<u8>, Problem> {
    let SourcedValue { value: path, by } = file;
    std::fs::read(path).map_err(|error| Problem::usage(format!("{by}: {}: {error}", path.display())))
}
