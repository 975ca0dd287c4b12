//! Client certificates × RPCs.

use idempotency_ledger::identity::Trust;
use rcgen::date_time_ymd;

use super::credentials::{each_is_known_or_refused, each_is_known_or_refused_at, people};
use super::door::{Door, unary};
use super::presented::Presented;
use super::requests::{Asked, request};
use super::rpcs::{Way, ours};
use super::wire::{Headers, call};
use crate::harness::pki::Pki;
use crate::identity::tls::{Secured, tls, way};

/// What the other end of a connection shows.
enum Shown {
    /// Known by this name.
    As(&'static str),
    /// Connected, and `UNAUTHENTICATED`.
    Nameless,
    /// There is no connection on which a call is answered.
    NotConnected,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_certificate_is_known_or_refused_at_each_rpc() {
    use Shown::{As, Nameless, NotConnected};
    let (pki, other, people) = (Pki::new(), Pki::new(), people());
    let server = Secured::start(Trust { tls: Some(tls(&pki, Some(&[66]))), ..people.trust() }).await;
    let named = |names: &[&str]| Some(pki.issued(names, 1, |_| {}));
    let token: Headers = vec![("authorization", format!("Bearer {}", people.token("one")).into_bytes())];
    let wrong: Headers = vec![("authorization", b"Bearer x".to_vec())];
    let forged: Headers = vec![("x-forwarded-client-cert", b"URI=spiffe://evil/x".to_vec())];
    let pay = ["spiffe://shop/pay", "pay.shop"];
    let rows: Vec<(&str, Option<(String, String)>, Headers, Shown)> = vec![
        ("a SPIFFE id", named(&pay), vec![], As("spiffe://shop/pay")),
        ("a DNS name", named(&["pay.shop", "pay"]), vec![], As("dns:pay.shop")),
        ("another URI and a DNS name", named(&["https://shop/pay", "pay.shop"]), vec![], As("dns:pay.shop")),
        ("two SPIFFE ids", named(&["spiffe://shop/a", "spiffe://shop/b"]), vec![], Nameless),
        (
            "two SPIFFE ids and a DNS name",
            named(&["spiffe://shop/a", "spiffe://shop/b", "pay.shop"]),
            vec![],
            Nameless,
        ),
        (
            "two SPIFFE ids, and a token",
            named(&["spiffe://shop/a", "spiffe://shop/b"]),
            token.clone(),
            As("token:one"),
        ),
        ("no name", named(&[]), vec![], Nameless),
        ("no certificate", None, vec![], Nameless),
        ("no certificate, and a token", None, token.clone(), As("token:one")),
        ("no certificate, and a forwarded name", None, forged.clone(), Nameless),
        ("a certificate, and a token", named(&pay), token.clone(), As("token:one")),
        ("a certificate, and a wrong token", named(&pay), wrong, Nameless),
        ("a certificate, and a forwarded name", named(&pay), forged, As("spiffe://shop/pay")),
        (
            "ended",
            Some(pki.issued(&pay, 2, |params| params.not_after = date_time_ymd(2026, 1, 1))),
            vec![],
            NotConnected,
        ),
        (
            "ended, and a token",
            Some(pki.issued(&pay, 2, |params| params.not_after = date_time_ymd(2026, 1, 1))),
            token.clone(),
            NotConnected,
        ),
        (
            "not yet valid",
            Some(pki.issued(&pay, 3, |params| params.not_before = date_time_ymd(2099, 1, 1))),
            vec![],
            NotConnected,
        ),
        ("another authority", Some(other.issued(&pay, 4, |_| {})), vec![], NotConnected),
        ("another authority, and a token", Some(other.issued(&pay, 4, |_| {})), token, NotConnected),
        ("revoked", Some(pki.issued(&pay, 66, |_| {})), vec![], NotConnected),
    ];
    for (what, certificate, headers, shown) in rows {
        let channel = way(&pki, server.port(), certificate.as_ref()).connect_lazy();
        let door = Door::secured(&pki, server.http_port(), certificate.as_ref());
        let known = match shown {
            As(name) => Some(name.to_owned()),
            Nameless => None,
            NotConnected => {
                let method = &ours()[0];
                let message = request(method, &Asked::new("c", "there", Way::Usual));
                assert!(!door.answers(method, &headers, message.clone()).await, "{what}, by HTTP");
                let answer = call(&channel, method, &headers, message).await;
                let status = answer.status.unwrap_or_else(|| panic!("{what} was answered"));
                assert!(!status.metadata().contains_key("idempotency-ledger-reason"), "{what}: {status:?}");
                continue;
            }
        };
        let presented = [Presented { what: what.to_owned(), headers, known }];
        each_is_known_or_refused(&channel, &presented).await;
        each_is_known_or_refused_at(&door, &presented, &unary(), &[]).await;
    }
    server.stop().await;
}
