//! How `bench` reaches a server: the connection that is measured, with TLS where the address has it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use http::Uri;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::link::{Ledger, Link};
use crate::cli::client::{Client, read};
use crate::cli::problem::Problem;
use crate::cli::reach::{Named, Reach};

/// Connects.
///
/// # Errors
/// The server is not there, or the files of TLS cannot be used.
pub(super) async fn dial(client: &Client) -> Result<Ledger, Problem> {
    let uri = client.uri();
    let tls = match uri.scheme_str() {
        Some("https") => Some(tls(client.reach())?),
        Some(_) | None => None,
    };
    let link = client.connected(Box::pin(link(client, uri, tls))).await?;
    Ok(Ledger::with_origin(link, uri.clone()))
}

async fn link(client: &Client, uri: &Uri, tls: Option<ClientConfig>) -> io::Result<Link> {
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let (authorization, timeout) = (client.authorization(), client.reach().timeout);
    let link = if let Some(tls) = tls {
        let name = client.reach().tls_domain.as_deref().unwrap_or(host);
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await?;
        Link::over(stream, authorization, timeout).await
    } else {
        Link::over(stream, authorization, timeout).await
    };
    link.map_err(io::Error::other)
}

/// What the operators' connections say of TLS, too: the client's authorities, certificate and key.
fn tls(reach: &Reach) -> Result<ClientConfig, Problem> {
    let unusable =
        |why: &dyn std::fmt::Display| Problem::usage(format!("the TLS options cannot be used: {why}"));
    let mut roots = RootCertStore::empty();
    if let Some(file) = &reach.tls_ca {
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
    let mut tls = match (&reach.tls_cert, &reach.tls_key) {
        (Some(cert), Some(key)) => {
            let key = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|error| unusable(&error))?;
            tls.with_client_auth_cert(certificates(cert)?, key).map_err(|error| unusable(&error))?
        }
        _ => tls.with_no_client_auth(),
    };
    tls.alpn_protocols = vec![b"h2".to_vec()];
    Ok(tls)
}

fn certificates(file: &Named<PathBuf>) -> Result<Vec<CertificateDer<'static>>, Problem> {
    let wrong = |error| Problem::usage(format!("{}: {}: {error}", file.by, file.value.display()));
    CertificateDer::pem_slice_iter(&read(file)?).collect::<Result<_, _>>().map_err(wrong)
}
