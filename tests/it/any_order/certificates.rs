//! The files of TLS that are lists, in any order: the server's certificates, the authorities of clients, and their revocation
//! lists. Each order has a server and real handshakes.

use std::sync::Arc;

use idempotency_ledger::identity::{ClientAuthority, OwnCertificate, Rights, Tls, Trust};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tokio::runtime::Handle;

use super::orders::each_counts_in_any_order;
use crate::harness::pki::Pki;
use crate::identity::tls::{RIGHTS, Secured, caller, way};

const AUTHORITIES: usize = 5;

/// The principals of clients with these certificates, or why they have none, at a server with this certificate and key. The clients
/// trust this root alone.
fn principals(
    root: &Pki,
    (certificate, key): &(String, String),
    clients: Option<&ClientAuthority>,
    certificates: &[Option<(String, String)>],
) -> Vec<String> {
    let own = OwnCertificate::read(certificate.as_bytes(), key.as_bytes()).unwrap();
    let trust = Trust {
        rights: Rights::read(RIGHTS).unwrap().into(),
        tls: Some(Arc::new(Tls::new(&own, clients).unwrap())),
        ..Trust::default()
    };
    let asked = async {
        let server = Secured::start(trust).await;
        let mut found = Vec::new();
        for (number, certificate) in certificates.iter().enumerate() {
            let channel = way(root, server.port(), certificate.as_ref()).connect().await.ok();
            found.push(caller(channel, &number.to_string(), &[]).await);
        }
        server.stop().await;
        found
    };
    tokio::task::block_in_place(|| Handle::current().block_on(asked))
}

/// Authorities of clients, and certificates that they signed: a good one of each, and one that its list revokes.
fn signed() -> (Vec<Pki>, Vec<Option<(String, String)>>) {
    let authorities: Vec<Pki> = (0..AUTHORITIES).map(|_| Pki::new()).collect();
    let certificate = |(number, authority): (usize, &Pki)| {
        [1, 2].map(|serial| {
            Some(authority.issued(&[&format!("spiffe://shop/{number}-{serial}")], serial, |_| {}))
        })
    };
    let certificates = authorities.iter().enumerate().flat_map(certificate).collect();
    (authorities, certificates)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_of_clients_count_in_any_order() {
    let (root, (authorities, certificates)) = (Pki::new(), signed());
    let own = root.signed("localhost");
    let files: Vec<String> = authorities.iter().map(|authority| authority.issuer.pem()).collect();
    each_counts_in_any_order("the authorities of clients", &files, |files| {
        let clients = ClientAuthority::read(files.concat().as_bytes(), None).unwrap();
        principals(&root, &own, Some(&clients), &certificates)
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revocation_lists_count_in_any_order() {
    let (root, (authorities, certificates)) = (Pki::new(), signed());
    let own = root.signed("localhost");
    let trusted = authorities.iter().map(|authority| authority.issuer.pem()).collect::<String>();
    let lists: Vec<String> = authorities.iter().map(|authority| authority.revoked(&[2])).collect();
    let meaning = |lists: &[String]| {
        let lists = lists.concat();
        let clients = ClientAuthority::read(trusted.as_bytes(), Some(lists.as_bytes())).unwrap();
        principals(&root, &own, Some(&clients), &certificates)
    };
    let known = |(number, name): (usize, String)| (number % 2 == 0) == name.starts_with("spiffe://shop/");
    assert!(meaning(&lists).into_iter().enumerate().all(known), "the first of each authority's two");
    each_counts_in_any_order("the revocation lists", &lists, meaning);
}

/// The server's own certificate comes first; those between it and the root have no order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_up_to_the_root_count_in_any_order() {
    let root = Pki::new();
    let issuer = |name: &str, above: &CertifiedIssuer<'static, KeyPair>| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        CertifiedIssuer::signed_by(params, KeyPair::generate().unwrap(), above).unwrap()
    };
    let first = issuer("first", &root.issuer);
    let second = issuer("second", &first);
    let third = issuer("third", &second);
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let leaf = params.signed_by(&key, &third).unwrap().pem();
    let between = [third.pem(), second.pem(), first.pem()];
    let meaning = |between: &[String]| {
        let own = (leaf.clone() + &between.concat(), key.serialize_pem());
        principals(&root, &own, None, &[None])
    };
    assert_eq!(meaning(&between), ["anonymous"], "a client connects");
    each_counts_in_any_order("the certificates up to the root", &between, meaning);
}
