//! Headers of calls: bearer tokens and forwarding headers, odd and many, at the door of a connection.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use http::{HeaderMap, HeaderValue};
use idempotency_ledger::identity::{
    Authenticator, Guard, NewToken, Peer, Proxies, Rights, Tokens, Trust, mangled,
};

use super::{SECONDS, bounded, naive, text};
use crate::harness::random::Random;
use crate::proof::fuzz::{mutate, until};
use crate::proof::run::Run;
use crate::proof::steps::pick;

const PROXIES: [&str; 3] = ["10.1.0.0/16", "192.0.2.7", "198.51.100.128/25"];
const FORWARDED: [&str; 8] = [
    "URI=spiffe://shop/pay",
    "By=spiffe://mesh/ledger;Hash=468ed33be74eee6556d90c0149c1309e9ba61d6425303443c0748a02dd8de688;\
     Subject=\"CN=pay,O=\\\"b;c\\\"\";URI=spiffe://shop/pay;DNS=pay.shop",
    "URI=spiffe://a/b,By=spiffe://mesh/x;Subject=\"\";URI=spiffe://shop/pay",
    "uri=\"spiffe://shop/a\\\\b\";Hash=1",
    "Hash=1;Cert=\"-----BEGIN%20CERTIFICATE-----%0AMIIB\";URI=https://shop/a;URI=spiffe://shop/a",
    "URI=spiffe://shop/a;URI=spiffe://shop/b",
    "Subject=\"a,URI=spiffe://forged/x",
    ", ;=\"\\",
];

/// Bytes that a header can have.
fn value(bytes: &[u8]) -> Option<HeaderValue> {
    HeaderValue::from_bytes(bytes).ok()
}

fn guard(people: &[NewToken]) -> Guard {
    let lines: String =
        people.iter().enumerate().map(|(at, one)| format!("p{at} = [{:?}]\n", one.hash)).collect();
    Guard::new(Trust {
        tokens: Some(Tokens::read(&format!("[tokens]\n{lines}")).unwrap().into()),
        proxies: Proxies::read(PROXIES).unwrap().into(),
        rights: Rights::default().into(),
        ..Trust::default()
    })
}

/// Whom these headers may stand for, from this address.
fn expected(headers: &HeaderMap, address: Ipv4Addr, people: &[NewToken]) -> Option<String> {
    let all = |name: &str| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect::<Vec<_>>();
    let mut known = None;
    if naive::listed(&PROXIES, address) {
        match all("x-forwarded-client-cert")[..] {
            [] => {}
            [one] => match &naive::forwarded(std::str::from_utf8(one).ok()?)[..] {
                [id] => known = Some(id.clone()),
                _ => return None,
            },
            _ => return None,
        }
    }
    match all("authorization")[..] {
        [] => known,
        [one] => {
            let token = naive::bearer(one)?;
            let at = people.iter().position(|person| person.token.as_bytes() == token)?;
            Some(format!("token:p{at}"))
        }
        _ => None,
    }
}

#[test]
fn mangled_headers_at_the_door() {
    let mut run = Run::new("fuzz-headers", SECONDS);
    let mut random = Random::new(run.seed);
    let people: Vec<NewToken> = (0..3).map(|at| NewToken::make(&format!("p{at}")).unwrap()).collect();
    let guard = guard(&people);
    let addresses: [Ipv4Addr; 6] =
        ["10.1.2.3", "10.2.0.0", "192.0.2.7", "192.0.2.8", "198.51.100.127", "198.51.100.128"]
            .map(|a| a.parse().unwrap());
    let doors = addresses.map(|address| {
        let mapped = IpAddr::V6(address.to_ipv6_mapped());
        [IpAddr::V4(address), mapped].map(|address| Authenticator::new(guard.clone(), Peer::at(address)))
    });
    let forwarded = FORWARDED.map(|header| header.as_bytes().to_vec());
    let mut bearers: Vec<Vec<u8>> =
        vec![b"Basic cDA6cDA=".to_vec(), b"Bearer".to_vec(), b"Bearer ilt_x, Bearer ilt_y".to_vec()];
    bearers.extend(people.iter().map(|one| format!("Bearer {}", one.token).into_bytes()));
    bearers.extend(people.iter().map(|one| format!("bEARER {}", one.hash).into_bytes()));
    let (end, mut calls, mut known) = (until(&run), 0_u64, 0_u64);
    while Instant::now() < end {
        let mut headers = HeaderMap::new();
        for (name, seeds) in [("authorization", &bearers[..]), ("x-forwarded-client-cert", &forwarded[..])] {
            for _ in 0..*pick(&mut random, &[0, 0, 1, 1, 1, 1, 1, 2]) {
                let bytes = if random.percent(50) {
                    pick(&mut random, seeds).clone()
                } else {
                    mutate(&mut random, seeds)
                };
                headers.extend(value(&bytes).map(|value| (http::HeaderName::from_static(name), value)));
            }
        }
        let at = random.below(addresses.len() as u64) as usize;
        let door = pick(&mut random, &doors[at]);
        let shown = format!("{headers:?} from {}", addresses[at]);
        let found = bounded(&run, "a door", shown.as_bytes(), || door.caller(&headers));
        if let Ok(identity) = found {
            known += 1;
            let expected = expected(&headers, addresses[at], &people);
            if expected.as_deref() != Some(&identity.principal) {
                run.fail(
                    format!("{} is known, and not {expected:?}", identity.principal),
                    &[("headers", shown)],
                );
            }
        }
        calls += 1;
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{calls} calls"));
    }
    assert!(known > 0 && known < calls);
    run.summary(format!("{calls} calls with mangled headers, {known} of them by somebody who is known"));
}

/// Whatever a client sends, and however its certificate's subject is written: what an honest proxy adds behind it counts,
/// or nothing does.
#[test]
fn forged_elements_before_an_honest_one() {
    let mut run = Run::new("fuzz-forwarded", SECONDS);
    let mut random = Random::new(run.seed);
    let forwarded = FORWARDED.map(|header| header.as_bytes().to_vec());
    let pieces = ["\"", "\\", ",", ";", "=", "URI=spiffe://forged/x", "Subject=\"", "a", " ", "By=", "é"];
    let (end, mut tried, mut accepted) = (until(&run), 0_u64, 0_u64);
    while Instant::now() < end {
        let forged = if random.percent(50) {
            text(&mutate(&mut random, &forwarded))
        } else {
            (0..random.below(9)).map(|_| *pick(&mut random, &pieces)).collect()
        };
        // As RFC 2253 writes a name: quotes and backslashes stand behind a backslash.
        let subject: String = (0..random.below(6)).map(|_| *pick(&mut random, &pieces)).collect();
        let subject = match subject.replace('\\', "\\\\").replace('"', "\\\"") {
            name if name.is_empty() || random.percent(10) => String::new(),
            name => format!("CN={name}"),
        };
        let between = pick(&mut random, &[",", ", ", " ,"]);
        let honest = format!("By=spiffe://mesh/ledger;Hash=1;Subject=\"{subject}\";URI=spiffe://honest/x");
        let header = format!("{forged}{between}{honest}");
        let found = bounded(&run, "a header", header.as_bytes(), || mangled::forwarded(header.as_bytes()));
        if let Ok(id) = &found {
            accepted += 1;
            if id != "spiffe://honest/x" {
                run.fail(format!("{id} is known"), &[("header", header.clone())]);
            }
        }
        if forged.is_empty() && found.is_ok() {
            run.fail("an empty element was taken", &[("header", header)]);
        }
        tried += 1;
        let elapsed = run.elapsed().as_secs();
        run.progress(elapsed, format!("{tried} headers"));
    }
    assert!(accepted > 0 && accepted < tried);
    run.summary(format!("{tried} forged forwarding headers, {accepted} of them read as the honest one"));
}
