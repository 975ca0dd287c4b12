//! Certificates of clients: whom one names, and that none counts of which a single bit is another.

use std::time::Instant;

use http::HeaderMap;
use idempotency_ledger::identity::{
    Authenticator, ClientAuthority, Guard, OwnCertificate, Peer, Rights, Tls, Trust, mangled,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::{SECONDS, bounded, naive};
use crate::harness::pki::Pki;
use crate::harness::random::Random;
use crate::proof::fuzz::{mutate, until};
use crate::proof::run::Run;

const URI: u8 = 0x86;
const DNS: u8 = 0x82;

fn der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

#[test]
fn mangled_certificates() {
    let mut run = Run::new("fuzz-certificates", SECONDS);
    let mut random = Random::new(run.seed);
    let pki = Pki::new();
    let names: [&[&str]; 5] = [
        &["spiffe://shop/pay"],
        &["pay.shop", "pay"],
        &["https://shop/pay", "spiffe://shop/pay", "pay.shop"],
        &["spiffe://shop/a", "spiffe://shop/b"],
        &[],
    ];
    let seeds: Vec<Vec<u8>> =
        (1..).zip(names).map(|(serial, names)| der(&pki.issued(names, serial, |_| {}).0)).collect();
    let (certificate, key) = pki.signed("localhost");
    let own = OwnCertificate::read(certificate.as_bytes(), key.as_bytes()).unwrap();
    let clients = ClientAuthority::read(pki.issuer.pem().as_bytes(), None).unwrap();
    let guard = Guard::new(Trust {
        tls: Some(Tls::new(&own, Some(&clients)).unwrap().into()),
        rights: Rights::default().into(),
        ..Trust::default()
    });
    let (mut tried, mut named, mut known) = (0_u64, 0_u64, 0_u64);
    let end = until(&run);
    while Instant::now() < end {
        let bytes = mutate(&mut random, &seeds);
        let evidence = || [("certificate", hex::encode(&bytes))];
        let found = bounded(&run, "a certificate", &bytes, || mangled::certified(&bytes));
        if let Ok(principal) = &found {
            named += 1;
            let (tag, name) =
                principal.strip_prefix("dns:").map_or((URI, principal.as_str()), |name| (DNS, name));
            if !naive::holds(&bytes, tag, name) || tag == URI && !name.starts_with("spiffe://") {
                run.fail(format!("{principal} does not stand in it"), &evidence());
            }
        }
        let peer = Peer {
            chain: vec![CertificateDer::from(bytes.clone())],
            ..Peer::at("192.0.2.1".parse().unwrap())
        };
        let door = Authenticator::new(guard.clone(), peer);
        if let Ok(identity) = bounded(&run, "a door", &bytes, || door.caller(&HeaderMap::new())) {
            known += 1;
            if !seeds.contains(&bytes) || found.as_deref() != Ok(&*identity.principal) {
                run.fail(format!("{} is known by a mangled certificate", identity.principal), &evidence());
            }
        }
        tried += 1;
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{tried} certificates"));
    }
    assert!(named > 0 && named < tried);
    run.summary(format!(
        "{tried} certificates, {named} of them with a name, {known} of them unchanged and known"
    ));
}
