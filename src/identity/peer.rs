//! The peer of a connection.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;

/// The peer of a connection, as the connection itself shows it.
#[derive(Clone, Debug)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Its certificate and the intermediate ones; empty if it did not present a certificate.
    pub chain: Vec<CertificateDer<'static>>,
}

impl Peer {
    /// A peer without a certificate.
    #[must_use]
    pub fn at(address: IpAddr) -> Peer {
        Peer { address, chain: Vec::new() }
    }
}
