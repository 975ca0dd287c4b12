//! Credentials: what is presented, and who is known by it. Certificates have a page of their own.

use idempotency_ledger::identity::{Guard, Proxies, Rights, Trust};
use idempotency_ledger::proto;
use tonic::Request;

use super::{People, why, with};
use crate::harness::details::{claim, key};
use crate::harness::server::{Kind, Setup, TestServer};

const UNKNOWN: &str = "UNAUTHENTICATED";
const XFCC: &str = "x-forwarded-client-cert";

/// Everybody here may claim and read for the consumer `c`; `spiffe://shop/…` too.
fn people() -> People {
    let mut people = People::new(&[("one", &[("c", "claim read")]), ("two", &[("c", "claim read")])]);
    people.rights_file +=
        "[[rights]]\nprincipal = \"spiffe://shop/*\"\nconsumers = [\"c\"]\nmay = [\"claim\", \"read\"]\n";
    people
}

/// Who claimed, or why it was refused.
async fn caller(server: &mut TestServer, id: &str, headers: &[(&'static str, &str)]) -> String {
    let present = |mut request| {
        for (name, value) in headers {
            request = with(request, name, value);
        }
        request
    };
    let answer = server.client.claim(present(Request::new(claim("c", id)))).await;
    if answer.is_err() {
        return why(answer);
    }
    let looked = with(
        Request::new(proto::GetEntryRequest { key: key("c", id), key_hash: String::new() }),
        headers[0].0,
        headers[0].1,
    );
    server.admin.get_entry(looked).await.unwrap().into_inner().entry.unwrap().principal
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_stands_for_the_name_that_the_file_gives_it() {
    let people = people();
    let setup = Setup { guard: Guard::new(people.trust()), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    let (one, two) = (people.token("one"), people.token("two"));
    let bearer = |token: &str| format!("Bearer {token}");
    let rows: &[(&str, &[String], &str)] = &[
        ("one", &[bearer(one)], "token:one"),
        ("another", &[bearer(two)], "token:two"),
        ("the scheme in small letters", &[format!("bearer {one}")], "token:one"),
        ("missing", &[], UNKNOWN),
        ("empty", &[String::new()], UNKNOWN),
        ("the scheme alone", &["Bearer".into()], UNKNOWN),
        ("no token", &["Bearer ".into()], UNKNOWN),
        ("another scheme", &[format!("Basic {one}")], UNKNOWN),
        ("no scheme", &[one.to_owned()], UNKNOWN),
        ("unknown", &[bearer("ilt_0000000000000000000000000000000000000000000")], UNKNOWN),
        ("its hash", &[bearer(&people.tokens[0].1.hash)], UNKNOWN),
        ("cut", &[bearer(&one[..one.len() - 1])], UNKNOWN),
        ("longer", &[format!("Bearer {one}x")], UNKNOWN),
        ("two blanks", &[format!("Bearer  {one}")], UNKNOWN),
        ("twice", &[bearer(one), bearer(one)], UNKNOWN),
        ("two people", &[bearer(one), bearer(two)], UNKNOWN),
        ("after a wrong one", &[bearer("x"), bearer(one)], UNKNOWN),
    ];
    for (what, values, expected) in rows {
        let headers: Vec<_> = values.iter().map(|value| ("authorization", value.as_str())).collect();
        assert_eq!(caller(&mut server, what, &headers).await, *expected, "{what}");
    }
    // Nobody is asked for a client certificate, and nobody forwards one.
    assert_eq!(caller(&mut server, "forged", &[(XFCC, "URI=spiffe://shop/pay")]).await, UNKNOWN);
    // Each refusal is counted once: those of the rows, and the last one.
    let refused = rows.iter().filter(|(_, _, expected)| *expected == UNKNOWN).count() + 1;
    let counted = server.metric("idempotency_ledger_refusals_total{reason=\"UNAUTHENTICATED\"}");
    assert_eq!(counted, u32::try_from(refused).ok().map(f64::from));
    server.stop().await;
}

/// The peer of these tests is on this machine: it is trusted where its address is listed, and only there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_forwarding_header_counts_from_a_trusted_proxy_alone() {
    let people = people();
    let one = format!("Bearer {}", people.token("one"));
    let trust = |entries: &[&str]| Trust {
        proxies: Proxies::read(entries.iter().copied()).unwrap().into(),
        ..people.trust()
    };
    let pay = (XFCC, "By=spiffe://mesh/ledger;URI=spiffe://shop/pay");
    let token = ("authorization", one.as_str());
    let rows: &[(&str, &[&str], &[(&'static str, &str)], &str)] = &[
        ("listed", &["127.0.0.0/8"], &[pay], "spiffe://shop/pay"),
        ("not listed", &["10.0.0.0/8"], &[pay], UNKNOWN),
        ("not listed, with a token", &["10.0.0.0/8"], &[token, pay], "token:one"),
        ("not listed, twice, with a token", &["10.0.0.0/8"], &[token, pay, pay], "token:one"),
        ("a token comes first", &["127.0.0.1"], &[token, pay], "token:one"),
        ("a wrong token is not made good", &["127.0.0.1"], &[("authorization", "Bearer x"), pay], UNKNOWN),
        ("a wrong header is not made good", &["127.0.0.1"], &[token, (XFCC, "Hash=1")], UNKNOWN),
        ("twice", &["127.0.0.1"], &[pay, pay], UNKNOWN),
        ("two ids", &["127.0.0.1"], &[(XFCC, "URI=spiffe://shop/a;URI=spiffe://shop/b")], UNKNOWN),
        ("no id in the last element", &["127.0.0.1"], &[(XFCC, "URI=spiffe://shop/a,Hash=1")], UNKNOWN),
        (
            "the last element",
            &["127.0.0.1"],
            &[(XFCC, "URI=spiffe://evil/x,URI=spiffe://shop/a")],
            "spiffe://shop/a",
        ),
        ("nothing", &["127.0.0.1"], &[], UNKNOWN),
        ("without a right", &["127.0.0.1"], &[(XFCC, "URI=spiffe://shop2/a")], "CONSUMER_NOT_ALLOWED"),
    ];
    for (what, proxies, headers, expected) in rows {
        let setup = Setup { guard: Guard::new(trust(proxies)), ..Setup::default() };
        let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
        assert_eq!(caller(&mut server, what, headers).await, *expected, "{what}");
        server.stop().await;
    }
}

/// Where nobody can be known, everybody is `anonymous` and may do everything; what they present is not looked at.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_source_of_identity_everybody_is_anonymous() {
    let trust = Trust { rights: Rights::default().into(), ..Trust::default() };
    let setup = Setup { guard: Guard::new(trust), ..Setup::default() };
    let mut server = TestServer::start_with(Kind::Sqlite, setup).await;
    for (what, header) in [
        ("a token", ("authorization", "Bearer x")),
        ("another scheme", ("authorization", "Basic x")),
        ("a forwarded name", (XFCC, "URI=spiffe://shop/pay")),
    ] {
        assert_eq!(caller(&mut server, what, &[header]).await, "anonymous", "{what}");
    }
    server.stop().await;
}
