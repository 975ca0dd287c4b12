//! How the servers are reached: the endpoint, TLS, and the bearer token.

use std::{
    env, io,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
};

use http::Uri;

use crate::error::InvalidField;

const DEFAULT_ENDPOINT: &str = "127.0.0.1:50051";

/// The options of a connection. An option that is not given is taken from its variable of the environment.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Connection {
    endpoint: Option<String>,
    token_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
    client: Option<(PathBuf, PathBuf)>,
}

impl Connection {
    /// To this endpoint: `HOST:PORT`, `http://HOST:PORT`, `https://HOST:PORT`, `dns:///HOST:PORT`, or several servers as
    /// `ipv4:A:PORT,B:PORT` or `ipv6:[A]:PORT,[B]:PORT`. Of a name all addresses get calls in turn. Variable:
    /// `LEDGER_ENDPOINT`; default: `127.0.0.1:50051`.
    pub fn to(endpoint: impl Into<String>) -> Self {
        Self { endpoint: Some(endpoint.into()), ..Self::default() }
    }

    /// A file with a bearer token, read again when it changes; it is sent by TLS alone. Variable: `LEDGER_TOKEN_FILE`.
    pub fn token_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.token_file = Some(path.into());
        self
    }

    /// A PEM file with the authorities of the servers' certificates; it asks for TLS. Without it the system's are trusted.
    /// It is read again for each connection. Variable: `LEDGER_CA_FILE`.
    pub fn ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(path.into());
        self
    }

    /// PEM files with the client's certificate (and those between it and its authority's), and with its private key. They
    /// are read again for each connection.
    pub fn client_cert_files(mut self, certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        self.client = Some((certificate.into(), key.into()));
        self
    }

    /// What all of this comes to. An error where the parts contradict each other, or a file cannot be read.
    pub(crate) fn target(&self) -> Result<Target, InvalidField> {
        let variable = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let file =
            |given: &Option<PathBuf>, name: &str| given.clone().or_else(|| variable(name).map(PathBuf::from));
        let endpoint = self.endpoint.clone().or_else(|| variable("LEDGER_ENDPOINT"));
        let endpoint = endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned());
        let (token_file, ca_file) =
            (file(&self.token_file, "LEDGER_TOKEN_FILE"), file(&self.ca_file, "LEDGER_CA_FILE"));
        let (secure, rest) = match (endpoint.strip_prefix("https://"), endpoint.strip_prefix("http://")) {
            (Some(rest), _) => (true, rest),
            (None, Some(_)) if ca_file.is_some() => {
                let bound = format!("{endpoint} is reached without TLS, but a ca_file is given");
                return Err(InvalidField::new("endpoint", bound));
            }
            (None, Some(rest)) => (false, rest),
            (None, None) => (ca_file.is_some(), endpoint.as_str()),
        };
        let (places, authority) = Places::parse(rest.trim_end_matches('/'))?;
        if secure && matches!(places, Places::Listed(_)) && authority == LISTED {
            let bound =
                format!("no certificate is for the list {rest}; use https://NAME:PORT of all servers");
            return Err(InvalidField::new("endpoint", bound));
        }
        if token_file.is_some() && !secure {
            let bound = format!("the token would be sent in the clear to {endpoint}; use https://");
            return Err(InvalidField::new("token_file", bound));
        }
        if self.client.is_some() && !secure {
            let bound = format!("{endpoint} is reached without TLS; use https://");
            return Err(InvalidField::new("client_cert_file", bound));
        }
        if secure && cfg!(not(feature = "tls")) {
            return Err(InvalidField::new("endpoint", "the feature `tls` of this package is switched off"));
        }
        let uri = format!("{}://{authority}", if secure { "https" } else { "http" });
        let uri =
            uri.parse().map_err(|error| InvalidField::new("endpoint", format!("{endpoint}: {error}")))?;
        let files = secure.then(|| Files { ca: ca_file, client: self.client.clone() });
        let target = Target { endpoint, places, uri, files, token_file };
        target.readable()?;
        Ok(target)
    }
}

/// The name that is sent to the servers of a list: the list itself is not one.
const LISTED: &str = "ledger";

/// Where the servers are.
#[derive(Clone, Debug)]
pub(crate) enum Places {
    Listed(Vec<SocketAddr>),
    /// A name with a port, behind which several addresses may be.
    Named(String),
}

impl Places {
    /// The places of an endpoint without its scheme of HTTP, and the name that is sent to the servers.
    fn parse(rest: &str) -> Result<(Self, String), InvalidField> {
        let wrong = || {
            let bound = format!(
                "{rest:?} is not HOST:PORT, http(s)://HOST:PORT, dns:///HOST:PORT or ipv4:A:PORT,B:PORT"
            );
            InvalidField::new("endpoint", bound)
        };
        if let Some(list) = rest.strip_prefix("ipv4:").or_else(|| rest.strip_prefix("ipv6:")) {
            let found: Result<Vec<SocketAddr>, _> = list.split(',').map(str::parse).collect();
            return found.map(|found| (Self::Listed(found), LISTED.to_owned())).map_err(|_| wrong());
        }
        let name = rest.strip_prefix("dns:///").or_else(|| rest.strip_prefix("dns:")).unwrap_or(rest);
        if let Ok(address) = name.parse::<SocketAddr>() {
            return Ok((Self::Listed(vec![address]), name.to_owned()));
        }
        let (host, port) = name.rsplit_once(':').ok_or_else(wrong)?;
        let bare = !host.is_empty() && !host.contains(['/', ':', ',', '@']);
        if !bare
            || port.parse::<u16>().is_err()
            || host.parse::<IpAddr>().is_ok_and(|address| address.is_ipv6())
        {
            return Err(wrong());
        }
        Ok((Self::Named(name.to_owned()), name.to_owned()))
    }
}

/// The files of TLS.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    ca: Option<PathBuf>,
    client: Option<(PathBuf, PathBuf)>,
}

/// A connection's options, checked.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The endpoint as the option or the variable names it, for people.
    pub(crate) endpoint: String,
    pub(crate) places: Places,
    pub(crate) uri: Uri,
    files: Option<Files>,
    pub(crate) token_file: Option<PathBuf>,
}

impl Target {
    fn readable(&self) -> Result<(), InvalidField> {
        let files = self.files.as_ref();
        let client = files.and_then(|files| files.client.as_ref());
        for (field, path) in [
            ("token_file", self.token_file.as_ref()),
            ("ca_file", files.and_then(|files| files.ca.as_ref())),
            ("client_cert_file", client.map(|(certificate, _)| certificate)),
            ("client_key_file", client.map(|(_, key)| key)),
        ] {
            path.map_or(Ok(()), |path| read(path).map(drop))
                .map_err(|error| InvalidField::new(field, error.to_string()))?;
        }
        Ok(())
    }

    /// The TLS of a new connection. `None` without it.
    #[cfg(feature = "tls")]
    pub(crate) fn tls(&self) -> io::Result<Option<tonic::transport::ClientTlsConfig>> {
        use tonic::transport::{Certificate, ClientTlsConfig, Identity};
        let Some(files) = &self.files else { return Ok(None) };
        let mut config = match &files.ca {
            Some(path) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(path)?)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let Some((certificate, key)) = &files.client {
            config = config.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        Ok(Some(config))
    }
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{} cannot be read: {error}", path.display())))
}
