//! Connects `bench` to a server: the connection that is measured, with TLS where the address has it.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::Uri;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::link::{CallSender, LedgerClient, Link, UnderWay, over};
use crate::cli::client::{Client, read};
use crate::cli::connect_options::{ConnectOptions, SourcedValue};
use crate::cli::problem::{Problem, chain};

/// The protocol's name in TLS (ALPN).
const HTTP2: &[u8] = b"h2";

/// Connects.
///
/// # Errors
/// The server cannot be reached, or the TLS files cannot be used.
pub(super) async fn dial(client: &Client) -> Result<LedgerClient, Problem> {
    let (uri, connect) = (client.uri(), client.connect_options());
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']').to_owned();
    let tls = match uri.scheme_str() {
        Some("https") => Some(TlsConnector::from(Arc::new(tls(connect)?))),
        Some(_) | None => None,
    };
    let to = To {
        port: uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 }),
        name: connect.tls_domain.clone().unwrap_or_else(|| host.clone()),
        host,
        tls,
        within: connect.timeout,
    };
    let dial = Box::new(move |under_way| Box::pin(to.clone().connected(under_way)) as BoxFuture<'static, _>);
    let link = Link::new(dial, client.authorization(), connect.timeout).await;
    let link = link.map_err(|error| client.unreachable(&chain(&*error)))?;
    let mut origin = Uri::builder().path_and_query("/");
    if let (Some(scheme), Some(authority)) = (uri.scheme(), uri.authority()) {
        origin = origin.scheme(scheme.clone()).authority(authority.clone());
    }
    let origin = origin.build().map_err(|error| Problem::usage(error.to_string()))?;
    Ok(LedgerClient::with_origin(link, origin))
}

/// The address of a server.
#[derive(Clone)]
struct To {
    host: String,
    port: u16,
    tls: Option<TlsConnector>,
    /// The name that its certificate must have.
    name: String,
    within: Duration,
}

impl To {
    async fn connected(self, under_way: UnderWay) -> Result<CallSender, Box<dyn Error + Send + Sync>> {
        let within = self.within;
        let connected = timeout(within, self.connect(under_way)).await;
        connected.unwrap_or_else(|_| Err(format!("no connection within {within:?}").into()))
    }

    async fn connect(self, under_way: UnderWay) -> Result<CallSender, Box<dyn Error + Send + Sync>> {
        let stream = TcpStream::connect((self.host, self.port)).await?;
        stream.set_nodelay(true)?;
        let Some(tls) = self.tls else { return Ok(over(stream, under_way).await?) };
        let stream = tls.connect(ServerName::try_from(self.name)?, stream).await?;
        if stream.get_ref().1.alpn_protocol() != Some(HTTP2) {
            return Err("the server does not speak HTTP/2 over TLS".into());
        }
        Ok(over(stream, under_way).await?)
    }
}

/// The TLS options, as for operators' connections: the authorities, and the client's certificate and key.
fn tls(connect: &ConnectOptions) -> Result<ClientConfig, Problem> {
    let unusable =
        |why: &dyn std::fmt::Display| Problem::usage(format!("the TLS options cannot be used: {why}"));
    let mut roots = RootCertStore::empty();
    if let Some(file) = &connect.tls_ca {
        roots.add_parsable_certificates(certificates(file)?);
    } else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .with_root_certificates(roots);
    let mut tls = match (&connect.tls_cert, &connect.tls_key) {
        (Some(cert), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| unusable(&error))?;
            tls.with_client_auth_cert(certificates(cert)?, key).map_err(|error| unusable(&error))?
        }
        _ => tls.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(tls)
}

fn certificates(file: &SourcedValue<PathBuf>) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let wrong = |error| Problem::usage(format!("{}: {}: {error}", file.by, file.value.display()));
    CertificateDer::pem_slice_iter(&read(file)?).collect::<Result<_, _>>().map_err(wrong)
}
