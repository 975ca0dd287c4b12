//! The other end of a connection.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;

/// The other end of a connection, as the connection itself shows it.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its certificate, and those between it and the authority's; empty: it showed none.
    pub chain: Vec<CertificateDer<'static>>,
}

impl Peer {
    /// One that showed no certificate.
    #[must_use]
    pub fn at(address: IpAddr) -> Peer {
        Peer { address, chain: Vec::new() }
    }
}
