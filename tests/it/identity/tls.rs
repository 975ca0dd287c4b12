//! TLS of the server, and clients that are known by their certificates.

use std::sync::Arc;

use idempotency_ledger::identity::{ClientAuthority, Guard, OwnCertificate, Proxies, Rights, Tls, Trust};
use idempotency_ledger::proto::ledger_service_client::LedgerServiceClient;
use idempotency_ledger::proto::{self, admin_service_client::AdminServiceClient};
use rcgen::date_time_ymd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tonic::Request;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::{People, why, with};
use crate::harness::details::{claim, key};
use crate::harness::pki::Pki;
use crate::harness::server::{Kind, Served, Setup, TestStore};

const UNKNOWN: &str = "UNAUTHENTICATED";
const NO_CONNECTION: &str = "no connection";

/// Everybody whom the authority may name here has a right.
pub(crate) const RIGHTS: &str =
    "[[rights]]\nprincipal = \"*\"\nconsumers = [\"c\"]\nmay = [\"claim\", \"read\"]\n";

/// TLS of a server that asks for certificates of this authority, without those that are revoked.
pub(super) fn tls(pki: &Pki, revoked: Option<&[u64]>) -> Arc<Tls> {
    let (certificate, key) = pki.signed("localhost");
    let own = OwnCertificate::read(certificate.as_bytes(), key.as_bytes()).unwrap();
    let revoked = revoked.map(|serials| pki.revoked(serials).into_bytes());
    let clients = ClientAuthority::read(pki.issuer.pem().as_bytes(), revoked.as_deref()).unwrap();
    Arc::new(Tls::new(&own, Some(&clients)).unwrap())
}

/// A way to a server that shows a certificate of this authority.
pub(crate) fn way(pki: &Pki, port: u16, own: Option<&(String, String)>) -> Endpoint {
    let authority = Certificate::from_pem(pki.issuer.pem());
    let mut tls = ClientTlsConfig::new().ca_certificate(authority).domain_name("localhost");
    if let Some((certificate, key)) = own {
        tls = tls.identity(Identity::from_pem(certificate, key));
    }
    Endpoint::from_shared(format!("https://127.0.0.1:{port}")).unwrap().tls_config(tls).unwrap()
}

/// A server that speaks TLS; the harness' own client would not.
pub(crate) struct Secured {
    served: Served,
    _store: TestStore,
}

impl Secured {
    pub(crate) async fn start(trust: Trust) -> Secured {
        let store = TestStore::new(Kind::Sqlite).await;
        let setup = Setup { guard: Guard::new(trust), ..Setup::default() };
        let served = Served::start(store.store.clone(), setup).await;
        Secured { served, _store: store }
    }

    pub(crate) fn port(&self) -> u16 {
        self.served.address.port()
    }

    pub(crate) fn http_port(&self) -> u16 {
        self.served.http_address.port()
    }

    pub(crate) async fn stop(self) {
        self.served.stop().await;
    }
}

/// Who claims on this connection, with these headers; or why nobody does.
pub(crate) async fn caller(channel: Option<Channel>, id: &str, headers: &[(&'static str, &str)]) -> String {
    let Some(channel) = channel else { return NO_CONNECTION.to_owned() };
    let present = |mut request: Request<proto::ClaimRequest>| {
        for (name, value) in headers {
            request = with(request, name, value);
        }
        request
    };
    let mut ledger = LedgerServiceClient::new(channel.clone());
    match ledger.claim(present(Request::new(claim("c", id)))).await {
        Ok(_) => {}
        // A handshake of TLS 1.3 is refused after the client thinks that it is done.
        Err(status) if !status.metadata().contains_key("idempotency-ledger-reason") => {
            return NO_CONNECTION.to_owned();
        }
        Err(status) => return why::<()>(Err(status)),
    }
    let mut looked = Request::new(proto::GetEntryRequest { key: key("c", id), key_hash: String::new() });
    for (name, value) in headers {
        looked = with(looked, name, value);
    }
    AdminServiceClient::new(channel).get_entry(looked).await.unwrap().into_inner().entry.unwrap().principal
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_is_known_by_its_certificate() {
    let (pki, other) = (Pki::new(), Pki::new());
    let people = People::new(&[("one", &[])]);
    let mut trust = people.trust();
    trust.rights = Rights::read(RIGHTS).unwrap().into();
    trust.tls = Some(tls(&pki, None));
    let server = Secured::start(trust).await;
    let token = format!("Bearer {}", people.token("one"));
    let (token, wrong) = (("authorization", token.as_str()), ("authorization", "Bearer x"));
    let pay = pki.issued(&["spiffe://shop/pay", "pay.shop"], 1, |_| {});
    let named = |names: &[&str]| pki.issued(names, 2, |_| {});
    let past = pki.issued(&["pay.shop"], 3, |params| params.not_after = date_time_ymd(2026, 1, 1));
    let future = pki.issued(&["pay.shop"], 4, |params| params.not_before = date_time_ymd(2099, 1, 1));
    let foreign = other.issued(&["spiffe://shop/pay"], 5, |_| {});
    let rows: &[(&str, Option<&(String, String)>, &[(&'static str, &str)], &str)] = &[
        ("a SPIFFE id", Some(&pay), &[], "spiffe://shop/pay"),
        ("a DNS name", Some(&named(&["pay.shop", "pay"])), &[], "dns:pay.shop"),
        ("two SPIFFE ids", Some(&named(&["spiffe://shop/a", "spiffe://shop/b"])), &[], UNKNOWN),
        (
            "two SPIFFE ids, and a token",
            Some(&named(&["spiffe://shop/a", "spiffe://shop/b"])),
            &[token],
            "token:one",
        ),
        ("no name", Some(&named(&[])), &[], UNKNOWN),
        ("none", None, &[], UNKNOWN),
        ("none, and a token", None, &[token], "token:one"),
        ("a token comes first", Some(&pay), &[token], "token:one"),
        ("a wrong token is not made good", Some(&pay), &[wrong], UNKNOWN),
        ("expired", Some(&past), &[], NO_CONNECTION),
        ("not yet valid", Some(&future), &[], NO_CONNECTION),
        ("another authority", Some(&foreign), &[], NO_CONNECTION),
        ("another authority, and a token", Some(&foreign), &[token], NO_CONNECTION),
        (
            "forwarded by nobody's proxy",
            Some(&pay),
            &[("x-forwarded-client-cert", "URI=spiffe://evil/x")],
            "spiffe://shop/pay",
        ),
    ];
    for (what, certificate, headers, expected) in rows {
        let channel = way(&pki, server.port(), *certificate).connect().await.ok();
        assert_eq!(caller(channel, what, headers).await, *expected, "{what}");
    }
    // Who speaks without TLS is not answered at all.
    let mut plain = tokio::net::TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    plain.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.unwrap();
    let mut said = Vec::new();
    let _ended = plain.read_to_end(&mut said).await;
    assert!(!said.starts_with(b"\0\0"), "no frame of HTTP/2: {said:?}");
    server.stop().await;
}

/// A gateway is known by its certificate: whom it names is the principal, and it is nobody itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_is_trusted_by_its_certificate() {
    let pki = Pki::new();
    let trust = Trust {
        tls: Some(tls(&pki, None)),
        proxies: Proxies::read(["spiffe://mesh/gateway", "dns:edge.mesh"]).unwrap().into(),
        rights: Rights::read(RIGHTS).unwrap().into(),
        ..Trust::default()
    };
    let server = Secured::start(trust).await;
    let header = [("x-forwarded-client-cert", "URI=spiffe://shop/pay")];
    for (names, headers, expected) in [
        (&["spiffe://mesh/gateway"][..], &header[..], "spiffe://shop/pay"),
        (&["edge.mesh"], &header, "spiffe://shop/pay"),
        (&["spiffe://mesh/gateway"], &[], UNKNOWN),
        (&["spiffe://mesh/other"], &header, "spiffe://mesh/other"),
        (&["gateway.mesh"], &header, "dns:gateway.mesh"),
    ] {
        let own = pki.issued(names, 1, |_| {});
        let channel = way(&pki, server.port(), Some(&own)).connect().await.ok();
        let id = format!("{names:?}{}", headers.len());
        assert_eq!(caller(channel, &id, headers).await, expected, "{id}");
    }
    server.stop().await;
}

/// What a revocation list names is refused at the handshake, and on connections that were there before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_certificate_is_refused_on_open_connections_too() {
    let pki = Pki::new();
    let revoking = |serials: &[u64]| Trust {
        tls: Some(tls(&pki, Some(serials))),
        rights: Rights::read(RIGHTS).unwrap().into(),
        ..Trust::default()
    };
    let guard = Guard::new(revoking(&[7]));
    let store = TestStore::new(Kind::Sqlite).await;
    let setup = Setup { guard: guard.clone(), ..Setup::default() };
    let served = Served::start(store.store.clone(), setup).await;
    let port = served.address.port();
    let (good, bad, early) = (
        pki.issued(&["good.shop"], 1, |_| {}),
        pki.issued(&["bad.shop"], 2, |_| {}),
        pki.issued(&["early.shop"], 7, |_| {}),
    );
    assert_eq!(caller(way(&pki, port, Some(&early)).connect().await.ok(), "0", &[]).await, NO_CONNECTION);
    let good = way(&pki, port, Some(&good)).connect().await.unwrap();
    let open = way(&pki, port, Some(&bad)).connect().await.unwrap();
    assert_eq!(caller(Some(good.clone()), "1", &[]).await, "dns:good.shop");
    assert_eq!(caller(Some(open.clone()), "2", &[]).await, "dns:bad.shop");
    guard.replace(revoking(&[2, 7]));
    assert_eq!(caller(Some(open), "3", &[]).await, UNKNOWN);
    assert_eq!(caller(Some(good), "4", &[]).await, "dns:good.shop");
    assert_eq!(caller(way(&pki, port, Some(&bad)).connect().await.ok(), "5", &[]).await, NO_CONNECTION);
    served.stop().await;
}

/// The texts of files that do not fit each other are told with the file's word, and without a key's content.
#[test]
fn what_is_wrong_with_a_file_is_told_by_its_name() {
    let (pki, other) = (Pki::new(), Pki::new());
    let ((certificate, key), foreign) = (pki.signed("localhost"), other.signed("localhost").1);
    let authority = pki.issuer.pem();
    let own = |certificate: &str, key: &str| {
        OwnCertificate::read(certificate.as_bytes(), key.as_bytes()).map(drop).unwrap_err()
    };
    let clients = |authority: &str, revoked: &str| {
        ClientAuthority::read(authority.as_bytes(), Some(revoked.as_bytes())).map(drop).unwrap_err()
    };
    // What stands behind the mark would do by itself.
    let marked = |text: &str| format!("\u{feff}{text}{text}");
    for ((word, text), which, says) in [
        (own(&marked(&certificate), &key), "cert", "begins with a byte order mark"),
        (own(&certificate, &marked(&key)), "key", "begins with a byte order mark"),
        (clients(&marked(&authority), &pki.revoked(&[])), "client_ca", "begins with a byte order mark"),
        (clients(&authority, &marked(&pki.revoked(&[]))), "client_crl", "begins with a byte order mark"),
        (own("", &key), "cert", "has no certificate"),
        (own(&key, &key), "cert", "has no certificate"),
        (own(&certificate, ""), "key", "has no private key"),
        (own(&certificate, &certificate), "key", "has no private key"),
        (own(&certificate, &foreign), "key", "does not fit the certificate"),
        (clients("", &pki.revoked(&[])), "client_ca", "has no certificate"),
        (clients(&authority, ""), "client_crl", "has no revocation list"),
        (clients(&authority, &authority), "client_crl", "has no revocation list"),
    ] {
        assert_eq!(word, which, "{text}");
        assert!(text.contains(says), "{says}: {text}");
        assert!(!text.contains("PRIVATE"), "{text}");
    }
}
